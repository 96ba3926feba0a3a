// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Descent, Descents} from "../commit/Descents.sol";
import {Hash} from "../commit/Hash.sol";
import {Merkle} from "../commit/Merkle.sol";
import {Programs} from "../commit/Programs.sol";
import {Match, MatchTerms, Phase, Position, Reason} from "../interfaces/IReferee.sol";
import {Program} from "../interfaces/JobTypes.sol";
import {Agreed} from "./Agreed.sol";
import {MatchBase} from "./MatchBase.sol";

/// @title Walk
/// @notice The walk down two trees to the first leaf that differs, and the passage from tree to finer tree.
///
///     run tree ──leaf──▶ longer than a step? ──yes──▶ Refine ──both──▶ finer run tree
///                                │no
///                                ▼
///                            step tree ──leaf──▶ Open
abstract contract Walk is MatchBase {
    // ------------------------------------------------------------------ moves

    function reveal(uint256 matchId, Position calldata here, uint8 side, bytes32[] calldata children)
        external
    {
        Match storage m = _begin(matchId, here, Phase.Walk);
        _post(m, matchId, side);
        Descents.checkChildren(_tag(m), side, here.node[side], m.height, children);

        emit Revealed(matchId, side, m.height, m.index, children);
    }

    function descend(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        Descent calldata way,
        bytes32 previous,
        bytes32[] calldata previousPath
    ) external {
        Match storage m = _begin(matchId, matchTerms, here, Phase.Walk);
        uint8 height = m.height;
        uint8 levels = Descents.check(_tag(m), here.node, height, way);

        // SAFETY: an index of height h in a tree of depth d <= 48 is below 2^(d - h), so the sum fits in 48 bits.
        height -= levels;
        uint48 index = uint48((uint256(m.index) << levels) + way.child);
        m.height = height;
        m.index = index;
        m.posted = 0;
        Position memory to = here;
        to.node = [way.node0, way.node1];
        emit Descended(matchId, height, index, way.node0, way.node1);

        bool needsPrevious =
            height == 0 && _atLeaf(m, matchId, matchTerms.program, to, previous, previousPath);
        if (!needsPrevious && (previous != 0 || previousPath.length != 0)) revert PreviousNotNeeded();
        _keep(m, to);
    }

    function refine(
        uint256 matchId,
        MatchTerms calldata matchTerms,
        Position calldata here,
        uint8 side,
        bytes32 root,
        bytes32[] calldata lastPath
    ) external {
        Match storage m = _begin(matchId, matchTerms, here, Phase.Refine);
        _post(m, matchId, side);
        // SAFETY: a finer root is not bound by any hash but its last leaf, so only the side itself may post it.
        if (msg.sender != matchTerms.players[side]) {
            revert NotSpokesman(msg.sender, matchTerms.players[side]);
        }
        uint64 length = m.end - m.start;
        (uint8 level, uint64 count) = _finer(matchTerms.program.strides, length);
        Merkle.check(Hash.RUN_TREE, root, here.node[side], count - 1, Merkle.depth(count), lastPath);

        Position memory to = here;
        to.root[side] = root;
        emit Refined(matchId, side, level, root);
        if (m.posted == 3) _enter(m, matchId, to, level, Merkle.depth(count), to.root);
        _keep(m, to);
    }

    /// @dev The first tree of a match. A tree of one leaf is that leaf, so the walk may already be at its end.
    function _start(Match storage m, uint256 matchId, bytes32[2] calldata roots, Program calldata program)
        internal
    {
        // SAFETY: fewer than 2^48 steps, see Referee.open.
        m.end = uint48(program.steps);
        Position memory here;
        here.agreed = program.initialRoot;
        uint8 height = Merkle.depth(Programs.checkpoints(program.steps, program.strides[0]));
        _enter(m, matchId, here, 0, height, roots);
        if (height == 0) _toInterval(m, matchId, program, here, 0, m.end);
        _keep(m, here);
    }

    // ------------------------------------------------------------------ steps of the walk

    /// @dev What follows a descent to a leaf. Returns whether `previous` was used.
    function _atLeaf(
        Match storage m,
        uint256 matchId,
        Program calldata program,
        Position memory here,
        bytes32 previous,
        bytes32[] calldata previousPath
    ) private returns (bool) {
        if (m.level == program.strides.length) {
            if (m.index >= program.nodeCount) {
                _decidePadding(m, matchId, here, Hash.STEP_TREE);
            } else {
                _toRecord(m, matchId, here);
            }
            return false;
        }
        uint64 stride = program.strides[m.level];
        uint64 count = Programs.checkpoints(m.end - m.start, stride);
        uint64 index = m.index;
        if (index >= count) {
            _decidePadding(m, matchId, here, Hash.RUN_TREE);
            return false;
        }
        if (index > 0) {
            Agreed.check(here, Hash.RUN_TREE, previous, index - 1, Merkle.depth(count), previousPath);
            here.agreed = previous;
        }
        // SAFETY: `index < count = ceil((end - start) / stride)`, so `start + index * stride < end`; no overflow.
        uint48 start = uint48(m.start + index * stride);
        uint48 end = m.end - start > stride ? uint48(start + stride) : m.end;
        _toInterval(m, matchId, program, here, start, end);
        return index > 0;
    }

    /// @dev At a leaf of a run tree: the disputed interval is one step, or is refined.
    function _toInterval(
        Match storage m,
        uint256 matchId,
        Program calldata program,
        Position memory here,
        uint48 start,
        uint48 end
    ) private {
        m.start = start;
        m.end = end;
        if (end - start > 1) {
            m.phase = Phase.Refine;
            emit Entered(matchId, Phase.Refine, m.level, 0, start, end, here.agreed);
            return;
        }
        uint8 height = Merkle.depth(program.nodeCount);
        _enter(m, matchId, here, uint8(program.strides.length), height, here.node);
        if (height == 0) _toRecord(m, matchId, here);
    }

    /// @dev At the top of a tree.
    function _enter(
        Match storage m,
        uint256 matchId,
        Position memory here,
        uint8 level,
        uint8 height,
        bytes32[2] memory roots
    ) private {
        m.phase = Phase.Walk;
        m.posted = 0;
        m.level = level;
        m.height = height;
        m.index = 0;
        (here.root[0], here.root[1]) = (roots[0], roots[1]);
        (here.node[0], here.node[1]) = (roots[0], roots[1]);
        emit Entered(matchId, Phase.Walk, level, height, m.start, m.end, here.agreed);
    }

    /// @dev At a leaf of a step tree.
    function _toRecord(Match storage m, uint256 matchId, Position memory here) private {
        m.phase = Phase.Open;
        emit Entered(matchId, Phase.Open, m.level, 0, m.start, m.end, here.agreed);
    }

    /// @dev Beyond the last leaf only the empty leaf is right.
    function _decidePadding(Match storage m, uint256 matchId, Position memory here, uint8 tag) private {
        bytes32 empty = Hash.empty(tag);
        uint8 losers = (here.node[0] != empty ? 1 : 0) | (here.node[1] != empty ? 2 : 0);
        _decide(m, matchId, losers, Reason.Padding);
    }

    function _keep(Match storage m, Position memory here) private {
        m.position = keccak256(abi.encode(here));
    }

    // ------------------------------------------------------------------ views

    /// @dev NOTE: while walking, a tree over a single step is a step tree; a run tree of one leaf is left at once.
    function _tag(Match storage m) private view returns (uint8) {
        return m.end - m.start == 1 ? Hash.STEP_TREE : Hash.RUN_TREE;
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
