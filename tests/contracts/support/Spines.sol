// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

/// @notice Two trees that differ in one leaf, as far as a walk down to this leaf shows them.
struct Spine {
    uint8 tag;
    uint8 depth;
    uint256 index;
    /// @dev Each side's node of height `h` on the way from the leaf to the root.
    bytes32[][2] nodes;
    /// @dev The siblings on the way, the same in both trees.
    bytes32[] siblings;
}

/// @title Spines
/// @notice Trees too large to build: the way to one leaf, and the nodes beside it that a reveal of four levels shows.
library Spines {
    function make(uint8 tag, bytes32 leaf0, bytes32 leaf1, uint256 index, uint8 depth)
        internal
        pure
        returns (Spine memory spine)
    {
        (spine.tag, spine.depth, spine.index) = (tag, depth, index);
        spine.siblings = new bytes32[](depth);
        spine.nodes = [new bytes32[](depth + 1), new bytes32[](depth + 1)];
        (spine.nodes[0][0], spine.nodes[1][0]) = (leaf0, leaf1);
        for (uint256 h = 0; h < depth; ++h) {
            bytes32 sibling = _beside(tag, _base(depth, h), h, (index >> h) ^ 1);
            spine.siblings[h] = sibling;
            for (uint256 side = 0; side < 2; ++side) {
                bytes32 node = spine.nodes[side][h];
                spine.nodes[side][h + 1] =
                    (index >> h) & 1 == 1 ? _pair(tag, sibling, node) : _pair(tag, node, sibling);
            }
        }
    }

    function root(Spine memory spine, uint256 side) internal pure returns (bytes32) {
        return spine.nodes[side][spine.depth];
    }

    /// @notice Returns a side's descendants, `levels` further down, of the node of this height on the way.
    function children(Spine memory spine, uint256 side, uint256 height, uint256 levels)
        internal
        pure
        returns (bytes32[] memory nodes)
    {
        nodes = new bytes32[](1 << levels);
        uint256 base = height - levels;
        uint256 first = spine.index >> height << levels;
        for (uint256 i = 0; i < nodes.length; ++i) {
            bool onTheWay = first + i == spine.index >> base;
            nodes[i] = onTheWay ? spine.nodes[side][base] : _beside(spine.tag, base, base, first + i);
        }
    }

    /// @notice Returns the siblings from height `from` up to height `to`.
    function path(Spine memory spine, uint256 from, uint256 to)
        internal
        pure
        returns (bytes32[] memory part)
    {
        part = new bytes32[](to - from);
        for (uint256 h = from; h < to; ++h) {
            part[h - from] = spine.siblings[h];
        }
    }

    /// @dev Returns the lowest height that the reveal passing height `h` shows.
    function _base(uint256 depth, uint256 h) private pure returns (uint256) {
        uint256 down = (depth - h + 3) / 4 * 4;
        return down > depth ? 0 : depth - down;
    }

    /// @dev Returns a node beside the way: any value at the base, hashes above it.
    function _beside(uint8 tag, uint256 base, uint256 h, uint256 index) private pure returns (bytes32) {
        if (h == base) return keccak256(abi.encode(tag, h, index));
        return _pair(tag, _beside(tag, base, h - 1, 2 * index), _beside(tag, base, h - 1, 2 * index + 1));
    }

    function _pair(uint8 tag, bytes32 left, bytes32 right) private pure returns (bytes32) {
        return sha256(abi.encodePacked(tag, left, right));
    }
}
