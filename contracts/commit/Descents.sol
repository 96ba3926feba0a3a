// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Merkle} from "./Merkle.sol";

/// @notice The way down two trees, from a node of each to a descendant of each.
struct Descent {
    /// @dev Number of the descendant, counted from the left at its height.
    uint64 child;
    bytes32 node0;
    bytes32[] path0;
    bytes32 node1;
    bytes32[] path1;
}

/// @title Descents
/// @notice Walks down two trees whose roots differ, to the first difference.
///
///     Siblings to the left of the way are equal in both trees, so everything to the left of the place is equal.
library Descents {
    /// @notice Levels published at once: 16 children are 512 bytes of calldata and 15 hashes.
    uint8 private constant REVEAL_LEVELS = 4;

    /// @notice The path does not lead to the side's node.
    error WrongNode(uint8 side, bytes32 have, bytes32 want);
    /// @notice A descent must go down at least `min(height, 4)` levels and at most `height`.
    error BadDescent(uint256 levels, uint256 height);
    error PathsDiffer(uint256 length0, uint256 length1);
    error ChildOutOfRange(uint256 child, uint256 levels);
    error NoDifference(bytes32 node);
    /// @notice The trees differ to the left of this child already.
    error EarlierDifference(uint256 level);

    /// @notice Returns the number of levels that a reveal at this height shows.
    function shown(uint8 height) internal pure returns (uint8) {
        return height < REVEAL_LEVELS ? height : REVEAL_LEVELS;
    }

    /// @notice Reverts unless `children` are the descendants of a side's node of this height.
    function checkChildren(uint8 tag, uint8 side, bytes32 node, uint8 height, bytes32[] calldata children)
        internal
        view
    {
        bytes32 have = Merkle.foldLevel(tag, children, shown(height));
        if (have != node) revert WrongNode(side, have, node);
    }

    /// @notice Reverts unless the way leads from the sides' nodes of this height to the first descendant that differs.
    /// @return levels The length of the way.
    function check(uint8 tag, bytes32[2] calldata nodes, uint8 height, Descent calldata way)
        internal
        view
        returns (uint8 levels)
    {
        if (way.path0.length != way.path1.length) revert PathsDiffer(way.path0.length, way.path1.length);
        if (way.path0.length < shown(height) || way.path0.length > height) {
            revert BadDescent(way.path0.length, height);
        }
        levels = uint8(way.path0.length);
        uint64 child = way.child;
        if (child >> levels != 0) revert ChildOutOfRange(child, levels);
        if (way.node0 == way.node1) revert NoDifference(way.node0);
        _checkPath(tag, 0, nodes[0], child, way.node0, way.path0);
        _checkPath(tag, 1, nodes[1], child, way.node1, way.path1);
        _checkLeft(child, way.path0, way.path1);
    }

    /// @dev Reverts unless the siblings to the left of the way are equal in both paths, which have one length.
    function _checkLeft(uint64 child, bytes32[] calldata path0, bytes32[] calldata path1) private pure {
        uint256 level;
        bool differs;
        assembly ("memory-safe") {
            for {} lt(level, path0.length) { level := add(level, 1) } {
                if and(shr(level, child), 1) {
                    let at := shl(5, level)
                    differs := iszero(
                        eq(calldataload(add(path0.offset, at)), calldataload(add(path1.offset, at)))
                    )
                    if differs { break }
                }
            }
        }
        if (differs) revert EarlierDifference(level);
    }

    function _checkPath(
        uint8 tag,
        uint8 side,
        bytes32 want,
        uint64 child,
        bytes32 node,
        bytes32[] calldata path
    ) private view {
        bytes32 have = Merkle.fold(tag, node, child, path);
        if (have != want) revert WrongNode(side, have, want);
    }
}
