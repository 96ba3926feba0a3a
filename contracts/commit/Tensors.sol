// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Hash} from "./Hash.sol";

/// @notice Dtype (docs/protocol.md, section 2) and dimensions of a tensor.
struct Shape {
    uint8 dtype;
    uint64[] dims;
}

/// @title Tensors
/// @notice Tensor hashes: little-endian elements in leaves of 1,024 bytes, and the type (docs/protocol.md, section 2).
library Tensors {
    uint8 internal constant F32 = 1;
    uint8 internal constant I64 = 2;
    uint8 internal constant BOOL = 3;
    uint8 internal constant BF16 = 4;

    uint256 internal constant LEAF_BYTES = 1024;
    uint256 private constant MAX_RANK = 8;
    uint256 private constant MAX_ELEMENTS = 1 << 40; // exclusive

    error UnknownDtype(uint8 dtype);
    error RankTooHigh(uint256 rank);
    error TooManyElements(uint256 count);

    /// @notice Returns the TENSOR hash of step `t` as an i64 of rank 0: one leaf of eight little-endian bytes.
    function step(uint64 t) internal view returns (bytes32) {
        bytes32 leaf = Hash.sha(abi.encodePacked(Hash.LEAF, _reversed(t)));
        return Hash.sha(abi.encodePacked(Hash.TENSOR, I64, uint8(0), leaf));
    }

    /// @notice Returns the TENSOR hash of data of this type (packed: see Types) under this root.
    function hash(bytes memory spec, bytes32 root) internal view returns (bytes32) {
        return Hash.sha(abi.encodePacked(Hash.TENSOR, spec, root));
    }

    /// @notice Returns a type in packed form.
    function packed(Shape memory shape) internal pure returns (bytes memory spec) {
        uint256 rank = shape.dims.length;
        if (rank > MAX_RANK) revert RankTooHigh(rank);
        spec = abi.encodePacked(shape.dtype, uint8(rank));
        for (uint256 d = 0; d < rank; ++d) {
            spec = abi.encodePacked(spec, shape.dims[d]);
        }
    }

    /// @notice Returns the hash of a leaf of data.
    function leafHash(bytes calldata data) internal view returns (bytes32) {
        return Hash.sha(abi.encodePacked(Hash.LEAF, data));
    }

    /// @notice Returns the bytes of one element of this type.
    function itemSize(bytes memory spec) internal pure returns (uint256) {
        uint8 dtype = uint8(spec[0]);
        if (dtype == F32) return 4;
        if (dtype == I64) return 8;
        if (dtype == BOOL) return 1;
        if (dtype == BF16) return 2;
        revert UnknownDtype(dtype);
    }

    /// @notice Returns whether elements of this type are f32 or bf16.
    function isFloat(bytes memory spec) internal pure returns (bool) {
        uint8 dtype = uint8(spec[0]);
        return dtype == F32 || dtype == BF16;
    }

    /// @notice Returns the bytes of all elements of this type; 0 if one dimension is 0, whatever the others are.
    function size(bytes memory spec) internal pure returns (uint256) {
        unchecked {
            uint256 rank = uint8(spec[1]);
            if (rank > MAX_RANK) revert RankTooHigh(rank);
            uint256 count = 1;
            bool empty = false;
            for (uint256 d = 0; d < rank; ++d) {
                uint256 dim;
                assembly ("memory-safe") {
                    // SAFETY: a type has as many bytes as its rank requires (Types.end).
                    dim := shr(192, mload(add(add(spec, 0x22), shl(3, d))))
                }
                if (dim == 0) empty = true;
                // SAFETY: below 2^40 times 2^64, and nothing is multiplied further once it is too much.
                else if (count < MAX_ELEMENTS) count *= dim;
            }
            if (empty) count = 0;
            if (count >= MAX_ELEMENTS) revert TooManyElements(count);
            return count * itemSize(spec);
        }
    }

    /// @notice Returns the number of leaves of `bytes_` bytes.
    function leaves(uint256 bytes_) internal pure returns (uint256) {
        return (bytes_ + LEAF_BYTES - 1) / LEAF_BYTES;
    }

    /// @notice Returns the little-endian number of 1, 2, 4 or 8 bytes at an offset in a leaf, which is not checked.
    function read(bytes calldata data, uint256 from, uint256 bytes_) internal pure returns (uint64) {
        return _reversed(uint64(bytes8(data[from:from + bytes_])));
    }

    function _reversed(uint64 x) private pure returns (uint64) {
        x = ((x & 0xFF00FF00FF00FF00) >> 8) | ((x & 0x00FF00FF00FF00FF) << 8);
        x = ((x & 0xFFFF0000FFFF0000) >> 16) | ((x & 0x0000FFFF0000FFFF) << 16);
        return (x >> 32) | (x << 32);
    }
}
