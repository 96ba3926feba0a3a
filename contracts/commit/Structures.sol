// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Shape} from "../element/IRule.sol";

/// @notice Where an input of a node comes from.
struct Operand {
    uint8 kind;
    uint32 index;
    uint8 output;
}

/// @title Structures
/// @notice Reads the encoding of a node's structure. Nothing is read past its end.
///
///     op u16be ‖ nin u8 ‖ nout u8 ‖ nin × ( kind u8 ‖ index u32be ‖ output u8 )
///     ‖ nout × ( dtype u8 ‖ rank u8 ‖ dims u64be × rank ) ‖ attributes
library Structures {
    // Kinds of operands.
    uint8 internal constant NODE = 0;
    uint8 internal constant STATE_SLOT = 1;
    uint8 internal constant CONSTANT = 2;
    uint8 internal constant STEP = 3;

    uint256 internal constant MAX_BYTES = 8192;
    uint256 private constant HEADER_BYTES = 4;
    uint256 private constant OPERAND_BYTES = 6;

    /// @notice The encoding is longer than any structure may be.
    error StructureTooLong(uint256 length);
    /// @notice The encoding ends before what its header announces.
    error StructureTruncated(uint256 length, uint256 need);
    /// @notice The node has no such input.
    error NoSuchInput(uint256 input, uint256 count);

    /// @notice Operator, number of inputs and number of outputs.
    /// @dev The operands are in bounds once this has returned.
    function header(bytes calldata encoding) internal pure returns (uint16 op, uint8 nin, uint8 nout) {
        if (encoding.length > MAX_BYTES) revert StructureTooLong(encoding.length);
        if (encoding.length < HEADER_BYTES) revert StructureTruncated(encoding.length, HEADER_BYTES);
        op = uint16(bytes2(encoding[0:2]));
        nin = uint8(encoding[2]);
        nout = uint8(encoding[3]);
        uint256 need = HEADER_BYTES + OPERAND_BYTES * nin;
        if (encoding.length < need) revert StructureTruncated(encoding.length, need);
    }

    /// @notice Input `i` of the node.
    function operand(bytes calldata encoding, uint256 i) internal pure returns (Operand memory) {
        (, uint8 nin,) = header(encoding);
        if (i >= nin) revert NoSuchInput(i, nin);
        uint256 from = HEADER_BYTES + OPERAND_BYTES * i;
        return Operand({
            kind: uint8(encoding[from]),
            index: uint32(bytes4(encoding[from + 1:from + 5])),
            output: uint8(encoding[from + 5])
        });
    }

    /// @notice Types of all outputs, and the attributes as they are encoded.
    function outputs(bytes calldata encoding)
        internal
        pure
        returns (Shape[] memory shapes, bytes calldata attributes)
    {
        (, uint8 nin, uint8 nout) = header(encoding);
        shapes = new Shape[](nout);
        uint256 at = HEADER_BYTES + OPERAND_BYTES * nin;
        for (uint256 i = 0; i < nout; ++i) {
            _need(encoding, at + 2);
            uint256 rank = uint8(encoding[at + 1]);
            uint64[] memory dims = new uint64[](rank);
            shapes[i] = Shape({dtype: uint8(encoding[at]), dims: dims});
            at += 2;
            _need(encoding, at + 8 * rank);
            for (uint256 d = 0; d < rank; ++d) {
                dims[d] = uint64(bytes8(encoding[at:at + 8]));
                at += 8;
            }
        }
        attributes = encoding[at:];
    }

    function _need(bytes calldata encoding, uint256 length) private pure {
        if (encoding.length < length) revert StructureTruncated(encoding.length, length);
    }
}
