// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Hash} from "../commit/Hash.sol";
import {Merkle} from "../commit/Merkle.sol";
import {Programs} from "../commit/Programs.sol";
import {Program} from "../interfaces/IJobs.sol";
import {Docket, Match, Phase, Reason} from "../interfaces/IReferee.sol";
import {MatchBase} from "./MatchBase.sol";

/// @title Walk
/// @notice The walk down two trees to the first leaf that differs, and the passage from tree to finer tree.
///
///     run tree ──leaf──▶ longer than a step? ──yes──▶ Refine ──both──▶ finer run tree
///                                │no
///                                ▼
///                            step tree ──leaf──▶ Open
abstract contract Walk is MatchBase {
    // ------------------------------------------------------------------ storage

    /// @dev Levels published at once: 16 children are 512 bytes of calldata and 15 hashes.
    uint8 private constant REVEAL_LEVELS = 4;

    // ------------------------------------------------------------------ moves

    function reveal(uint256 matchId, uint8 side, bytes32[] calldata children) external {
        Match storage m = _begin(matchId, Phase.Walk);
        _post(m, matchId, side);
        bytes32 have = Merkle.foldLevel(_tag(m), children, _levels(m.height));
        if (have != m.node[side]) revert WrongNode(side, have, m.node[side]);

        emit Revealed(matchId, side, m.height, m.index, children);
    }

    function descend(
        uint256 matchId,
        Docket calldata docket,
        uint64 child,
        bytes32 node0,
        bytes32[] calldata path0,
        bytes32 node1,
        bytes32[] calldata path1,
        bytes32 previous,
        bytes32[] calldata previousPath
    ) external {
        Match storage m = _begin(matchId, docket, Phase.Walk);
        uint256 levels = path0.length;
        uint8 height = m.height;
        if (levels != path1.length) revert PathsDiffer(levels, path1.length);
        if (levels < _levels(height) || levels > height) revert BadDescent(levels, height);
        if (child >> levels != 0) revert ChildOutOfRange(child, levels);
        if (node0 == node1) revert NoDifference(node0);
        _checkPath(m, 0, child, node0, path0);
        _checkPath(m, 1, child, node1, path1);
        _checkFirst(child, path0, path1);

        // SAFETY: an index of height h in a tree of depth d <= 48 is below 2^(d - h), so the sum fits in 48 bits.
        height -= uint8(levels);
        uint48 index = uint48((uint256(m.index) << levels) + child);
        m.height = height;
        m.index = index;
        m.posted = 0;
        m.node = [node0, node1];
        emit Descended(matchId, height, index, node0, node1);

        bool needsPrevious = height == 0 && _atLeaf(m, matchId, docket.program, previous, previousPath);
        if (!needsPrevious && (previous != 0 || previousPath.length != 0)) revert PreviousNotNeeded();
    }

    function refine(
        uint256 matchId,
        Docket calldata docket,
        uint8 side,
        bytes32 root,
        bytes32[] calldata lastPath
    ) external {
        Match storage m = _begin(matchId, docket, Phase.Refine);
        _post(m, matchId, side);
        // SAFETY: a finer root is not bound by any hash but its last leaf, so only the side itself may post it.
        if (msg.sender != docket.players[side]) revert NotSpokesman(msg.sender, docket.players[side]);
        uint64 length = m.end - m.start;
        (uint8 level, uint64 count) = _finer(docket.program.strides, length);
        Merkle.check(Hash.RUN_TREE, root, m.node[side], count - 1, Merkle.depth(count), lastPath);

        m.root[side] = root;
        emit Refined(matchId, side, level, root);
        if (m.posted == 3) _enter(m, matchId, level, Merkle.depth(count), m.root[0], m.root[1]);
    }

    /// @dev The first tree of a match. A tree of one leaf is that leaf, so the walk may already be at its end.
    function _start(Match storage m, uint256 matchId, bytes32[2] calldata roots, Program calldata program)
        internal
    {
        m.end = uint48(program.steps);
        m.agreed = program.initialRoot;
        uint8 height = Merkle.depth(Programs.checkpoints(program.steps, program.strides[0]));
        _enter(m, matchId, 0, height, roots[0], roots[1]);
        if (height == 0) _toInterval(m, matchId, 0, m.end, program);
    }

    // ------------------------------------------------------------------ steps of the walk

    /// @dev What follows a descent to a leaf. Returns whether `previous` was used.
    function _atLeaf(
        Match storage m,
        uint256 matchId,
        Program calldata program,
        bytes32 previous,
        bytes32[] calldata previousPath
    ) private returns (bool) {
        if (m.level == program.strides.length) {
            if (m.index >= program.nodeCount) _decidePadding(m, matchId, Hash.STEP_TREE);
            else _toRecord(m, matchId);
            return false;
        }
        uint64 stride = program.strides[m.level];
        uint64 count = Programs.checkpoints(m.end - m.start, stride);
        uint64 index = m.index;
        if (index >= count) {
            _decidePadding(m, matchId, Hash.RUN_TREE);
            return false;
        }
        if (index > 0) {
            _checkAgreed(m, Hash.RUN_TREE, previous, index - 1, Merkle.depth(count), previousPath);
            m.agreed = previous;
        }
        // SAFETY: `index < count = ceil((end - start) / stride)`, so `start + index * stride < end`; no overflow.
        uint48 start = uint48(m.start + index * stride);
        uint48 end = m.end - start > stride ? uint48(start + stride) : m.end;
        _toInterval(m, matchId, start, end, program);
        return index > 0;
    }

    /// @dev At a leaf of a run tree: the disputed interval is one step, or is refined.
    function _toInterval(Match storage m, uint256 matchId, uint48 start, uint48 end, Program calldata program)
        private
    {
        m.start = start;
        m.end = end;
        if (end - start > 1) {
            m.phase = Phase.Refine;
            emit Entered(matchId, Phase.Refine, m.level, 0, start, end, m.agreed);
            return;
        }
        uint8 height = Merkle.depth(program.nodeCount);
        _enter(m, matchId, uint8(program.strides.length), height, m.node[0], m.node[1]);
        if (height == 0) _toRecord(m, matchId);
    }

    /// @dev At the top of a tree.
    function _enter(Match storage m, uint256 matchId, uint8 level, uint8 height, bytes32 root0, bytes32 root1)
        private
    {
        m.phase = Phase.Walk;
        m.posted = 0;
        m.level = level;
        m.height = height;
        m.index = 0;
        m.root = [root0, root1];
        m.node = [root0, root1];
        emit Entered(matchId, Phase.Walk, level, height, m.start, m.end, m.agreed);
    }

    /// @dev At a leaf of a step tree.
    function _toRecord(Match storage m, uint256 matchId) private {
        m.phase = Phase.Open;
        emit Entered(matchId, Phase.Open, m.level, 0, m.start, m.end, m.agreed);
    }

    /// @dev Beyond the last leaf only the empty leaf is right.
    function _decidePadding(Match storage m, uint256 matchId, uint8 tag) private {
        bytes32 empty = Hash.empty(tag);
        uint8 losers = (m.node[0] != empty ? 1 : 0) | (m.node[1] != empty ? 2 : 0);
        _decide(m, matchId, losers, Reason.Padding);
    }

    // ------------------------------------------------------------------ views

    /// @dev NOTE: while walking, a tree over a single step is a step tree; a run tree of one leaf is left at once.
    function _tag(Match storage m) private view returns (uint8) {
        return m.end - m.start == 1 ? Hash.STEP_TREE : Hash.RUN_TREE;
    }

    function _levels(uint8 height) private pure returns (uint8) {
        return height < REVEAL_LEVELS ? height : REVEAL_LEVELS;
    }

    function _checkPath(Match storage m, uint8 side, uint64 child, bytes32 node, bytes32[] calldata path)
        private
        view
    {
        bytes32 have = Merkle.fold(_tag(m), node, child, path);
        if (have != m.node[side]) revert WrongNode(side, have, m.node[side]);
    }

    /// @dev Wherever the path comes from the right, what is on its left must be equal.
    function _checkFirst(uint64 child, bytes32[] calldata path0, bytes32[] calldata path1) private pure {
        for (uint256 level = 0; level < path0.length; ++level) {
            if ((child >> level) & 1 == 1 && path0[level] != path1[level]) revert EarlierDifference(level);
        }
    }

    /// @dev The next stride below an interval of `length > 1` steps, and how many leaves the interval has there.
    function _finer(uint64[] calldata strides, uint64 length)
        private
        pure
        returns (uint8 level, uint64 count)
    {
        // SAFETY: the last stride is 1, so the loop ends.
        while (strides[level] >= length) ++level;
        count = Programs.checkpoints(length, strides[level]);
    }
}
