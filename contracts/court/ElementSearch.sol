// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {BOTH} from "../clock/Sides.sol";
import {Descent, Descents} from "../commit/Descents.sol";
import {Hash} from "../commit/Hash.sol";
import {LogBlock} from "../commit/Logs.sol";
import {Merkle} from "../commit/Merkle.sol";
import {Tensors} from "../commit/Tensors.sol";
import {Dispute, Stage, Trial, TrialPosition, TrialTerms} from "../interfaces/ICourt.sol";
import {Found, IExaminer, Inputs, Question} from "../interfaces/IExaminer.sol";
import {CourtBase} from "./CourtBase.sol";

/// @title ElementSearch
/// @notice From two records to the first element in which an output differs.
///
///     Outputs ──both data roots──▶ Walk ──leaf──▶ Leaf ──both leaves──▶ element
abstract contract ElementSearch is CourtBase {
    // ------------------------------------------------------------------ storage

    IExaminer public immutable EXAMINER;

    // ------------------------------------------------------------------ constructor

    constructor(IExaminer examiner) {
        EXAMINER = examiner;
    }

    // ------------------------------------------------------------------ moves

    function showOutputs(
        TrialTerms calldata trialTerms,
        Dispute calldata dispute,
        TrialPosition calldata position,
        bytes32[2] calldata roots
    ) external {
        (Trial storage t, uint256 trialId) = _begin(trialTerms, position, Stage.Outputs);
        _checkDispute(trialTerms, dispute);
        uint8 output = t.output;
        (bytes32[2] memory have, uint64 leaves) = EXAMINER.output(dispute.structure, output, roots);
        if (roots[0] == 0 && roots[1] == 0) revert NothingShown();

        TrialPosition memory now_ = position;
        for (uint8 side = 0; side < 2; ++side) {
            if (roots[side] == 0) continue;
            _show(t, trialId, side);
            bytes32 want = dispute.records[side].outputs[output];
            if (have[side] != want) revert AnotherHash(have[side], want);
            now_.nodes[side] = roots[side];
            emit OutputShown(trialId, side, output, roots[side]);
        }
        _keep(t, now_);
        if (t.posted != BOTH.bits()) return;
        t.posted = 0;
        t.stage = Stage.Walk;
        t.height = Merkle.depth(leaves);
        if (t.height == 0) _atLeaf(t, trialTerms, trialId, leaves, now_.nodes);
    }

    function reveal(
        TrialTerms calldata trialTerms,
        TrialPosition calldata position,
        uint8 side,
        bytes32[] calldata children
    ) external {
        (Trial storage t, uint256 trialId) = _begin(trialTerms, position, Stage.Walk);
        _show(t, trialId, side);
        Descents.checkChildren(Hash.DATA_TREE, side, position.nodes[side], t.height, children);

        emit NodesRevealed(trialId, side, t.height, t.index, children);
    }

    function descend(
        TrialTerms calldata trialTerms,
        Dispute calldata dispute,
        TrialPosition calldata position,
        Descent calldata way
    ) external {
        (Trial storage t, uint256 trialId) = _begin(trialTerms, position, Stage.Walk);
        _checkDispute(trialTerms, dispute);
        uint8 levels = Descents.check(Hash.DATA_TREE, position.nodes, t.height, way);

        // SAFETY: a data tree has at most 2^33 leaves, so an index fits in 40 bits.
        t.height -= levels;
        t.index = uint40((uint256(t.index) << levels) + way.child);
        t.posted = 0;
        TrialPosition memory now_ = position;
        now_.nodes = [way.node0, way.node1];
        _keep(t, now_);
        emit NodesDescended(trialId, t.height, t.index, way.node0, way.node1);
        if (t.height == 0) {
            (, uint64 leaves) = EXAMINER.output(dispute.structure, t.output, now_.nodes);
            _atLeaf(t, trialTerms, trialId, leaves, now_.nodes);
        }
    }

    function showLeaf(
        TrialTerms calldata trialTerms,
        TrialPosition calldata position,
        uint8 side,
        bytes calldata leaf
    ) external {
        (Trial storage t, uint256 trialId) = _begin(trialTerms, position, Stage.Leaf);
        _show(t, trialId, side);
        _checkLeaf(position, side, leaf);

        emit LeafShown(trialId, side, leaf);
    }

    function compare(
        TrialTerms calldata trialTerms,
        Dispute calldata dispute,
        TrialPosition calldata position,
        bytes calldata leaf0,
        bytes calldata leaf1,
        Inputs calldata inputs,
        LogBlock calldata log
    ) external {
        (Trial storage t, uint256 trialId) = _begin(trialTerms, position, Stage.Leaf);
        _checkDispute(trialTerms, dispute);
        _checkLeaf(position, 0, leaf0);
        _checkLeaf(position, 1, leaf1);
        Found memory found = EXAMINER.find(_question(t, dispute), t.index, leaf0, leaf1, inputs, log);
        if (found.losers != 0) return _decide(t, trialTerms, trialId, found.losers, false);

        _enterChain(t, trialTerms, trialId, found);
    }

    /// @dev What follows when the element is known.
    function _enterChain(Trial storage t, TrialTerms calldata trialTerms, uint256 trialId, Found memory found)
        internal
        virtual;

    // ------------------------------------------------------------------ steps

    /// @dev Beyond the last leaf only the empty leaf is right.
    function _atLeaf(
        Trial storage t,
        TrialTerms calldata trialTerms,
        uint256 trialId,
        uint64 leaves,
        bytes32[2] memory nodes
    ) private {
        if (t.index < leaves) {
            t.stage = Stage.Leaf;
            return;
        }
        bytes32 empty = Hash.empty(Hash.DATA_TREE);
        uint8 losers = (nodes[0] != empty ? 1 : 0) | (nodes[1] != empty ? 2 : 0);
        _decide(t, trialTerms, trialId, losers, false);
    }

    // ------------------------------------------------------------------ views

    /// @dev What the examiner is asked about. INVARIANT: both records have these inputs and this log.
    function _question(Trial storage t, Dispute calldata dispute) internal view returns (Question memory) {
        return Question({
            mode: dispute.mode,
            output: t.output,
            structure: dispute.structure,
            hashes: dispute.records[0].inputs,
            log: dispute.records[0].log
        });
    }

    function _checkLeaf(TrialPosition calldata position, uint8 side, bytes calldata leaf) private view {
        if (leaf.length > Tensors.LEAF_BYTES) revert LeafTooLong(leaf.length);
        bytes32 have = Tensors.leafHash(leaf);
        if (have != position.nodes[side]) revert AnotherHash(have, position.nodes[side]);
    }
}
