// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Types} from "./Types.sol";

/// @notice The source of a node's input.
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
    /// @notice The encoding is shorter than its header announces.
    error StructureTruncated(uint256 length, uint256 need);
    /// @notice The node has no such input.
    error NoSuchInput(uint256 input, uint256 count);

    /// @notice Returns the operator, the number of inputs and the number of outputs.
    /// @dev Checks that the operands are in bounds.
    function header(bytes calldata encoding) internal pure returns (uint16 op, uint8 nin, uint8 nout) {
        if (encoding.length > MAX_BYTES) revert StructureTooLong(encoding.length);
        if (encoding.length < HEADER_BYTES) revert StructureTruncated(encoding.length, HEADER_BYTES);
        op = uint16(bytes2(encoding[0:2]));
        nin = uint8(encoding[2]);
        nout = uint8(encoding[3]);
        uint256 need = HEADER_BYTES + OPERAND_BYTES * nin;
        if (encoding.length < need) revert StructureTruncated(encoding.length, need);
    }

    /// @notice Returns input `i` of the node.
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

    /// @notice Returns the types of all outputs (packed: see Types), and the attributes as they are encoded.
    function outputs(bytes calldata encoding)
        internal
        pure
        returns (bytes calldata types, bytes calldata attributes)
    {
        (, uint8 nin, uint8 nout) = header(encoding);
        uint256 from = HEADER_BYTES + OPERAND_BYTES * nin;
        uint256 to = Types.skip(encoding, from, nout);
        return (encoding[from:to], encoding[to:]);
    }

    /// @notice Returns the type of output `i`. NOTE: the caller checks that the node has it.
    function output(bytes calldata encoding, uint256 i) internal pure returns (bytes calldata) {
        (, uint8 nin,) = header(encoding);
        uint256 from = Types.skip(encoding, HEADER_BYTES + OPERAND_BYTES * nin, i);
        return encoding[from:Types.end(encoding, from)];
    }
}
