// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

struct Tree {
    uint8 tag;
    uint8 depth;
    /// @dev `levels[h][i]` is the `i`-th node of height `h`.
    bytes32[][] levels;
}

/// @title Trees
/// @notice Whole trees in memory, written independently of `contracts/commit/Merkle.sol`.
library Trees {
    function build(uint8 tag, bytes32[] memory leaves) internal pure returns (Tree memory tree) {
        tree.tag = tag;
        while (uint256(1) << tree.depth < leaves.length) ++tree.depth;
        tree.levels = new bytes32[][](tree.depth + 1);
        bytes32[] memory level = new bytes32[](1 << tree.depth);
        for (uint256 i = 0; i < level.length; ++i) {
            level[i] = i < leaves.length ? leaves[i] : sha256(abi.encodePacked(uint8(0x08), tag));
        }
        tree.levels[0] = level;
        for (uint256 h = 1; h <= tree.depth; ++h) {
            bytes32[] memory above = new bytes32[](level.length / 2);
            for (uint256 i = 0; i < above.length; ++i) {
                above[i] = sha256(abi.encodePacked(tag, level[2 * i], level[2 * i + 1]));
            }
            tree.levels[h] = above;
            level = above;
        }
    }

    function root(Tree memory tree) internal pure returns (bytes32) {
        return tree.levels[tree.depth][0];
    }

    /// @notice Returns the siblings of the `index`-th node of height `from`, up to the height `to`.
    function path(Tree memory tree, uint256 index, uint256 from, uint256 to)
        internal
        pure
        returns (bytes32[] memory siblings)
    {
        siblings = new bytes32[](to - from);
        for (uint256 h = from; h < to; ++h) {
            siblings[h - from] = tree.levels[h][index ^ 1];
            index >>= 1;
        }
    }

    function path(Tree memory tree, uint256 index) internal pure returns (bytes32[] memory) {
        return path(tree, index, 0, tree.depth);
    }

    /// @notice Returns the descendants, `levels` further down, of the `index`-th node of this height.
    function children(Tree memory tree, uint256 height, uint256 index, uint256 levels)
        internal
        pure
        returns (bytes32[] memory nodes)
    {
        nodes = new bytes32[](1 << levels);
        for (uint256 i = 0; i < nodes.length; ++i) {
            nodes[i] = tree.levels[height - levels][(index << levels) + i];
        }
    }

    /// @notice Returns the root to which a leaf and a path of any siblings lead.
    function climb(uint8 tag, bytes32 node, uint256 index, bytes32[] memory siblings)
        internal
        pure
        returns (bytes32)
    {
        for (uint256 l = 0; l < siblings.length; ++l) {
            node = (index >> l) & 1 == 1
                ? sha256(abi.encodePacked(tag, siblings[l], node))
                : sha256(abi.encodePacked(tag, node, siblings[l]));
        }
        return node;
    }
}
