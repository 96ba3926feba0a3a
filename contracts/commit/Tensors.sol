// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Shape} from "../element/IRule.sol";
import {Hash} from "./Hash.sol";

/// @title Tensors
/// @notice Tensor hashes: little-endian elements in leaves of 1,024 bytes, and the type (docs/protocol.md, section 2).
library Tensors {
    uint8 internal constant F32 = 1;
    uint8 internal constant I64 = 2;
    uint8 internal constant BOOL = 3;

    uint256 internal constant LEAF_BYTES = 1024;
    uint256 private constant MAX_RANK = 8;
    uint256 private constant MAX_ELEMENTS = 1 << 40; // exclusive

    error UnknownDtype(uint8 dtype);
    error RankTooHigh(uint256 rank);
    error TooManyElements(uint256 count);

    /// @notice TENSOR hash of step `t` as an i64 of rank 0: one leaf of eight little-endian bytes.
    function step(uint64 t) internal view returns (bytes32) {
        bytes32 leaf = Hash.sha(abi.encodePacked(Hash.LEAF, _reversed(t)));
        return Hash.sha(abi.encodePacked(Hash.TENSOR, I64, uint8(0), leaf));
    }

    /// @notice TENSOR hash of data of this type under this root.
    function hash(Shape memory shape, bytes32 root) internal view returns (bytes32) {
        uint256 rank = shape.dims.length;
        if (rank > MAX_RANK) revert RankTooHigh(rank);
        bytes memory dims;
        for (uint256 d = 0; d < rank; ++d) {
            dims = abi.encodePacked(dims, shape.dims[d]);
        }
        return Hash.sha(abi.encodePacked(Hash.TENSOR, shape.dtype, uint8(rank), dims, root));
    }

    /// @notice Hash of a leaf of data.
    function leafHash(bytes calldata data) internal view returns (bytes32) {
        return Hash.sha(abi.encodePacked(Hash.LEAF, data));
    }

    /// @notice Bytes of an element.
    function itemSize(uint8 dtype) internal pure returns (uint256) {
        if (dtype == F32) return 4;
        if (dtype == I64) return 8;
        if (dtype == BOOL) return 1;
        revert UnknownDtype(dtype);
    }

    /// @notice Bytes of all elements.
    function size(Shape memory shape) internal pure returns (uint256 count) {
        count = 1;
        for (uint256 d = 0; d < shape.dims.length; ++d) {
            // SAFETY: at most 2^40 times 2^64, so nothing overflows before it is refused.
            count *= shape.dims[d];
            if (count >= MAX_ELEMENTS) revert TooManyElements(count);
        }
        count *= itemSize(shape.dtype);
    }

    /// @notice Number of leaves of so many bytes.
    function leaves(uint256 bytes_) internal pure returns (uint256) {
        return (bytes_ + LEAF_BYTES - 1) / LEAF_BYTES;
    }

    /// @notice The little-endian number of 1, 4 or 8 bytes at a place of a leaf. NOTE: the caller bounds the place.
    function read(bytes calldata data, uint256 from, uint256 bytes_) internal pure returns (uint64) {
        return _reversed(uint64(bytes8(data[from:from + bytes_])));
    }

    function _reversed(uint64 x) private pure returns (uint64) {
        x = ((x & 0xFF00FF00FF00FF00) >> 8) | ((x & 0x00FF00FF00FF00FF) << 8);
        x = ((x & 0xFFFF0000FFFF0000) >> 16) | ((x & 0x0000FFFF0000FFFF) << 16);
        return (x >> 32) | (x << 32);
    }
}
