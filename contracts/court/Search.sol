// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Descent, Descents} from "../commit/Descents.sol";
import {Hash} from "../commit/Hash.sol";
import {LogBlock, Logs} from "../commit/Logs.sol";
import {Merkle} from "../commit/Merkle.sol";
import {Structures} from "../commit/Structures.sol";
import {Tensors} from "../commit/Tensors.sol";
import {IOpset} from "../element/IOpset.sol";
import {Case, Entry, IRule, Shape} from "../element/IRule.sol";
import {Dispute, Said, Stage, Suit, Tensor, Trial} from "../interfaces/ICourt.sol";
import {CourtBase} from "./CourtBase.sol";

/// @title Search
/// @notice From two records to the first element in which an output differs.
///
///     Outputs ──both data roots──▶ Walk ──leaf──▶ Leaf ──both leaves──▶ element
abstract contract Search is CourtBase {
    // ------------------------------------------------------------------ storage

    IOpset public immutable OPSET;

    // ------------------------------------------------------------------ constructor

    constructor(IOpset opset) {
        OPSET = opset;
    }

    // ------------------------------------------------------------------ moves

    function showOutputs(
        Suit calldata suit,
        Dispute calldata dispute,
        Said calldata said,
        bytes32[2] calldata roots
    ) external {
        (Trial storage t, uint256 trialId) = _begin(suit, said, Stage.Outputs);
        _checkDispute(suit, dispute);
        uint8 output = t.output;
        Shape memory shape = _shape(dispute, output);
        if (roots[0] == 0 && roots[1] == 0) revert NothingShown();

        Said memory now_ = said;
        for (uint8 side = 0; side < 2; ++side) {
            if (roots[side] == 0) continue;
            _show(t, trialId, side);
            bytes32 have = Tensors.hash(shape, roots[side]);
            bytes32 want = dispute.records[side].outputs[output];
            if (have != want) revert AnotherHash(have, want);
            now_.nodes[side] = roots[side];
            emit OutputShown(trialId, side, output, roots[side]);
        }
        _keep(t, now_);
        if (t.posted != BOTH) return;
        t.posted = 0;
        t.stage = Stage.Walk;
        t.height = Merkle.depth(Tensors.leaves(Tensors.size(shape)));
        if (t.height == 0) _atLeaf(t, suit, trialId, shape, now_.nodes);
    }

    function reveal(Suit calldata suit, Said calldata said, uint8 side, bytes32[] calldata children)
        external
    {
        (Trial storage t, uint256 trialId) = _begin(suit, said, Stage.Walk);
        _show(t, trialId, side);
        Descents.checkChildren(Hash.DATA_TREE, side, said.nodes[side], t.height, children);

        emit NodesRevealed(trialId, side, t.height, t.index, children);
    }

    function descend(Suit calldata suit, Dispute calldata dispute, Said calldata said, Descent calldata way)
        external
    {
        (Trial storage t, uint256 trialId) = _begin(suit, said, Stage.Walk);
        _checkDispute(suit, dispute);
        uint8 levels = Descents.check(Hash.DATA_TREE, said.nodes, t.height, way);

        // SAFETY: a data tree has at most 2^33 leaves, so an index fits in 40 bits.
        t.height -= levels;
        t.index = uint40((uint256(t.index) << levels) + way.child);
        t.posted = 0;
        Said memory now_ = said;
        now_.nodes = [way.node0, way.node1];
        _keep(t, now_);
        emit NodesDescended(trialId, t.height, t.index, way.node0, way.node1);
        if (t.height == 0) _atLeaf(t, suit, trialId, _shape(dispute, t.output), now_.nodes);
    }

    function showLeaf(Suit calldata suit, Said calldata said, uint8 side, bytes calldata leaf) external {
        (Trial storage t, uint256 trialId) = _begin(suit, said, Stage.Leaf);
        _show(t, trialId, side);
        _checkLeaf(said, side, leaf);

        emit LeafShown(trialId, side, leaf);
    }

    function compare(
        Suit calldata suit,
        Dispute calldata dispute,
        Said calldata said,
        bytes calldata leaf0,
        bytes calldata leaf1,
        Tensor[] calldata inputs,
        LogBlock calldata log
    ) external {
        (Trial storage t, uint256 trialId) = _begin(suit, said, Stage.Leaf);
        _checkDispute(suit, dispute);
        _checkLeaf(said, 0, leaf0);
        _checkLeaf(said, 1, leaf1);
        Shape memory shape = _shape(dispute, t.output);
        uint256 size = Tensors.size(shape);
        uint256 want = size - uint256(t.index) * Tensors.LEAF_BYTES;
        if (want > Tensors.LEAF_BYTES) want = Tensors.LEAF_BYTES;
        uint8 losers = (leaf0.length != want ? SIDE0 : 0) | (leaf1.length != want ? SIDE1 : 0);
        if (losers != 0) return _decide(t, suit, trialId, losers, false);

        uint256 item = Tensors.itemSize(shape.dtype);
        uint256 offset = _firstDifference(leaf0, leaf1, item);
        // SAFETY: a tensor has fewer than 2^40 elements.
        t.element = uint40((uint256(t.index) * Tensors.LEAF_BYTES + offset) / item);
        bytes32 agreed = dispute.records[0].log;
        Entry memory entry = Entry({kind: Logs.NOTHING, written: 0});
        // NOTE: only f32 is ever rounded. What a log has of another output says nothing, so nobody has to show it.
        if (agreed != 0 && shape.dtype == Tensors.F32) {
            entry = Logs.entryOf(agreed, size / item, t.element, log);
        }
        (t.kind, t.written) = (entry.kind, entry.written);
        uint64[2] memory values = [Tensors.read(leaf0, offset, item), Tensors.read(leaf1, offset, item)];
        _enterChain(t, suit, trialId, _case(t, dispute, inputs), values);
    }

    /// @dev What follows when the element is known.
    function _enterChain(
        Trial storage t,
        Suit calldata suit,
        uint256 trialId,
        Case memory which,
        uint64[2] memory values
    ) internal virtual;

    // ------------------------------------------------------------------ steps

    /// @dev Beyond the last leaf only the empty leaf is right.
    function _atLeaf(
        Trial storage t,
        Suit calldata suit,
        uint256 trialId,
        Shape memory shape,
        bytes32[2] memory nodes
    ) private {
        if (t.index < Tensors.leaves(Tensors.size(shape))) {
            t.stage = Stage.Leaf;
            return;
        }
        bytes32 empty = Hash.empty(Hash.DATA_TREE);
        uint8 losers = (nodes[0] != empty ? SIDE0 : 0) | (nodes[1] != empty ? SIDE1 : 0);
        _decide(t, suit, trialId, losers, false);
    }

    // ------------------------------------------------------------------ views

    /// @dev The disputed element as a case, on inputs whose hashes are the agreed ones.
    function _case(Trial storage t, Dispute calldata dispute, Tensor[] calldata inputs)
        internal
        view
        returns (Case memory which)
    {
        bytes32[] calldata hashes = dispute.records[0].inputs;
        if (inputs.length != hashes.length) revert WrongInputCount(inputs.length, hashes.length);
        Shape[] memory shapes = new Shape[](inputs.length);
        for (uint256 i = 0; i < inputs.length; ++i) {
            shapes[i] = inputs[i].shape;
            bytes32 have = Tensors.hash(shapes[i], inputs[i].root);
            if (have != hashes[i]) revert AnotherHash(have, hashes[i]);
        }
        (uint16 op,,) = Structures.header(dispute.structure);
        (Shape[] memory outputs, bytes calldata attributes) = Structures.outputs(dispute.structure);
        which = Case({
            op: op,
            mode: dispute.mode,
            output: t.output,
            element: t.element,
            inputs: shapes,
            outputs: outputs,
            attributes: attributes
        });
    }

    function _rule(Case memory which) internal view returns (IRule) {
        return OPSET.rule(which.op, which.mode);
    }

    function _shape(Dispute calldata dispute, uint8 output) private pure returns (Shape memory) {
        (Shape[] memory outputs,) = Structures.outputs(dispute.structure);
        return outputs[output];
    }

    /// @dev Where the first element begins in which the leaves differ.
    /// INVARIANT: the leaves have different hashes and one length, so they differ in a word that begins inside of them.
    function _firstDifference(bytes calldata leaf0, bytes calldata leaf1, uint256 item)
        private
        pure
        returns (uint256 offset)
    {
        assembly ("memory-safe") {
            // NOTE: what lies behind the last element can only differ behind it.
            for {} eq(calldataload(add(leaf0.offset, offset)), calldataload(add(leaf1.offset, offset))) {} {
                offset := add(offset, 32)
            }
        }
        while (Tensors.read(leaf0, offset, item) == Tensors.read(leaf1, offset, item)) offset += item;
    }

    function _checkLeaf(Said calldata said, uint8 side, bytes calldata leaf) private view {
        if (leaf.length > Tensors.LEAF_BYTES) revert LeafTooLong(leaf.length);
        bytes32 have = Tensors.leafHash(leaf);
        if (have != said.nodes[side]) revert AnotherHash(have, said.nodes[side]);
    }
}
