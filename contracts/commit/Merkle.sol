// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Hash} from "./Hash.sol";
import {clz} from "clz/Clz.sol";

/// @title Merkle
/// @notice Perfect binary trees: depth, paths bound to their index, and the fold of a whole level.
///
///     height 2             node
///                      0 /      \ 1          bit l of the index says whether the sibling at height l
///     height 1        n          n           is on the left (1) or on the right (0)
///                  0 / \ 1    0 / \ 1
///     height 0      0   1      2   3
library Merkle {
    /// @notice A path must have one sibling for each level of the tree.
    error WrongPathLength(uint256 have, uint256 want);
    /// @notice A path's index must be below `2^depth`.
    error IndexOutOfTree(uint256 index, uint256 depth);
    /// @notice A level must have this number of nodes.
    error WrongChildCount(uint256 have, uint256 want);
    /// @notice The path does not lead to the committed root.
    error PathMismatch(bytes32 have, bytes32 want);

    /// @notice Returns the depth of a tree of `count` leaves: `ceil(log2(max(count, 1)))`.
    function depth(uint256 count) internal pure returns (uint8 levels) {
        if (count < 2) return 0;
        unchecked {
            uint256 zeros = clz(count - 1);
            assembly ("memory-safe") {
                levels := sub(256, zeros)
            }
        }
    }

    /// @notice Reverts unless `leaf` is leaf `index` of the tree of this root and depth.
    function check(
        uint8 tag,
        bytes32 root,
        bytes32 leaf,
        uint256 index,
        uint256 levels,
        bytes32[] calldata path
    ) internal view {
        bytes32 have = rootOf(tag, leaf, index, levels, path);
        if (have != root) revert PathMismatch(have, root);
    }

    /// @notice Returns the root of the tree of this depth in which `leaf` is leaf `index`.
    function rootOf(uint8 tag, bytes32 leaf, uint256 index, uint256 levels, bytes32[] calldata path)
        internal
        view
        returns (bytes32)
    {
        if (path.length != levels) revert WrongPathLength(path.length, levels);
        if (index >> levels != 0) revert IndexOutOfTree(index, levels);
        return fold(tag, leaf, index, path);
    }

    /// @notice Returns the node to which a path leads. NOTE: the caller bounds the index and the length.
    function fold(uint8 tag, bytes32 leaf, uint256 index, bytes32[] calldata path)
        internal
        view
        returns (bytes32 node)
    {
        assembly ("memory-safe") {
            // One 65-byte preimage, tag ‖ left ‖ right, at 0x1f. Bit 5 of `turns` says whether the node goes to 0x20 or
            // 0x40, and each hash is written where the next one reads it. Two levels an iteration, because the loop
            // itself costs gas.
            let free := mload(0x40)
            mstore8(0x1f, tag)
            let turns := shl(5, index)
            let item := path.offset
            let end := add(item, shl(5, path.length))
            let at := add(0x20, and(turns, 0x20))
            mstore(at, leaf)
            if and(path.length, 1) {
                mstore(xor(at, 0x60), calldataload(item))
                turns := shr(1, turns)
                at := add(0x20, and(turns, 0x20))
                item := add(item, shl(5, staticcall(gas(), 2, 0x1f, 65, at, 0x20)))
            }
            // SAFETY: see Hash.sha. A call fails only for lack of gas; then `item` does not advance, and the loop or
            // the code after it runs out of gas as well.
            for {} xor(item, end) {} {
                mstore(xor(at, 0x60), calldataload(item))
                at := add(0x20, and(shr(1, turns), 0x20))
                item := add(item, shl(5, staticcall(gas(), 2, 0x1f, 65, at, 0x20)))
                mstore(xor(at, 0x60), calldataload(item))
                turns := shr(2, turns)
                at := add(0x20, and(turns, 0x20))
                item := add(item, shl(5, staticcall(gas(), 2, 0x1f, 65, at, 0x20)))
            }
            node := mload(at)
            mstore(0x40, free)
            if iszero(or(iszero(path.length), eq(returndatasize(), 0x20))) {
                mstore(0x00, 0x84e81692) // PrecompileFailed()
                revert(0x1c, 0x04)
            }
        }
    }

    /// @notice Returns the ancestor of `2^levels` neighbouring nodes.
    function foldLevel(uint8 tag, bytes32[] calldata nodes, uint256 levels)
        internal
        view
        returns (bytes32 node)
    {
        if (nodes.length != 1 << levels) revert WrongChildCount(nodes.length, 1 << levels);
        assembly ("memory-safe") {
            let count := nodes.length
            let buffer := add(mload(0x40), 0x20)
            calldatacopy(buffer, nodes.offset, shl(5, count))
            for {} gt(count, 1) {} {
                count := shr(1, count)
                for { let i := 0 } lt(i, count) { i := add(i, 1) } {
                    // SAFETY: the tag goes into the byte before the pair. For i = 0 that byte is spare; for i > 0 it
                    // is the last byte of child 2i - 1, already hashed, and behind every result written so far.
                    let preimage := sub(add(buffer, shl(6, i)), 1)
                    mstore8(preimage, tag)
                    if iszero(
                        and(
                            eq(returndatasize(), 0x20),
                            staticcall(gas(), 2, preimage, 65, add(buffer, shl(5, i)), 0x20)
                        )
                    ) {
                        mstore(0x00, 0x84e81692) // PrecompileFailed()
                        revert(0x1c, 0x04)
                    }
                }
            }
            node := mload(buffer)
        }
    }
}
