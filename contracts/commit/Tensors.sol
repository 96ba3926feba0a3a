// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Hash} from "./Hash.sol";

/// @title Tensors
/// @notice The one tensor whose value the contract knows: the step number.
library Tensors {
    uint8 internal constant I64 = 2;

    /// @notice TENSOR hash of step `t` as an i64 of rank 0: one leaf of eight little-endian bytes.
    function step(uint64 t) internal view returns (bytes32) {
        bytes32 leaf = Hash.sha(abi.encodePacked(Hash.LEAF, _littleEndian(t)));
        return Hash.sha(abi.encodePacked(Hash.TENSOR, I64, uint8(0), leaf));
    }

    function _littleEndian(uint64 x) private pure returns (uint64) {
        x = ((x & 0xFF00FF00FF00FF00) >> 8) | ((x & 0x00FF00FF00FF00FF) << 8);
        x = ((x & 0xFFFF0000FFFF0000) >> 16) | ((x & 0x0000FFFF0000FFFF) << 16);
        return (x >> 32) | (x << 32);
    }
}
