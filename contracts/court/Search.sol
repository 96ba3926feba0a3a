// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Hash} from "../commit/Hash.sol";
import {LogBlock, Logs} from "../commit/Logs.sol";
import {Merkle} from "../commit/Merkle.sol";
import {Structures} from "../commit/Structures.sol";
import {Tensors} from "../commit/Tensors.sol";
import {IOpset} from "../element/IOpset.sol";
import {Case, Entry, IRule, Shape} from "../element/IRule.sol";
import {Dispute, Stage, Tensor, Trial} from "../interfaces/ICourt.sol";
import {CourtBase} from "./CourtBase.sol";

/// @title Search
/// @notice From two records to the first element in which an output differs.
///
///     Outputs ──both data roots──▶ Walk ──leaf──▶ Leaf ──both leaves──▶ element
abstract contract Search is CourtBase {
    // ------------------------------------------------------------------ storage

    /// @dev Levels published at once: 16 children are 512 bytes of calldata and 15 hashes.
    uint8 private constant REVEAL_LEVELS = 4;

    IOpset public immutable OPSET;

    // ------------------------------------------------------------------ constructor

    constructor(IOpset opset) {
        OPSET = opset;
    }

    // ------------------------------------------------------------------ moves

    function showOutput(
        uint256 trialId,
        address[2] calldata players,
        Dispute calldata dispute,
        uint8 side,
        bytes32 root
    ) external {
        Trial storage t = _begin(trialId, Stage.Outputs);
        _show(t, trialId, side);
        _checkFile(t, players, dispute);
        Shape memory shape = _shape(dispute, t.output);
        bytes32 have = Tensors.hash(shape, root);
        bytes32 want = dispute.records[side].outputs[t.output];
        if (have != want) revert AnotherHash(have, want);

        t.said[side] = root;
        emit OutputShown(trialId, side, t.output, root);
        if (t.posted != BOTH) return;
        t.posted = 0;
        t.stage = Stage.Walk;
        t.height = Merkle.depth(Tensors.leaves(Tensors.size(shape)));
        if (t.height == 0) _atLeaf(t, trialId, shape);
    }

    function reveal(uint256 trialId, uint8 side, bytes32[] calldata children) external {
        Trial storage t = _begin(trialId, Stage.Walk);
        _show(t, trialId, side);
        bytes32 have = Merkle.foldLevel(Hash.DATA_TREE, children, _levels(t.height));
        if (have != t.said[side]) revert AnotherHash(have, t.said[side]);

        emit NodesRevealed(trialId, side, t.height, t.index, children);
    }

    function descend(
        uint256 trialId,
        address[2] calldata players,
        Dispute calldata dispute,
        uint64 child,
        bytes32 node0,
        bytes32[] calldata path0,
        bytes32 node1,
        bytes32[] calldata path1
    ) external {
        Trial storage t = _begin(trialId, Stage.Walk);
        _checkFile(t, players, dispute);
        uint256 levels = path0.length;
        uint8 height = t.height;
        if (levels != path1.length) revert PathsDiffer(levels, path1.length);
        if (levels < _levels(height) || levels > height) revert BadDescent(levels, height);
        if (child >> levels != 0) revert ChildOutOfRange(child, levels);
        if (node0 == node1) revert NoDifference(node0);
        _checkPath(t.said[0], child, node0, path0);
        _checkPath(t.said[1], child, node1, path1);
        for (uint256 level = 0; level < levels; ++level) {
            if ((child >> level) & 1 == 1 && path0[level] != path1[level]) revert EarlierDifference(level);
        }

        // SAFETY: a data tree has at most 2^33 leaves, so an index fits in 40 bits.
        t.height = height - uint8(levels);
        t.index = uint40((uint256(t.index) << levels) + child);
        t.posted = 0;
        t.said = [node0, node1];
        emit NodesDescended(trialId, t.height, t.index, node0, node1);
        if (t.height == 0) _atLeaf(t, trialId, _shape(dispute, t.output));
    }

    function showLeaf(uint256 trialId, uint8 side, bytes calldata leaf) external {
        Trial storage t = _begin(trialId, Stage.Leaf);
        _show(t, trialId, side);
        _checkLeaf(t, side, leaf);

        emit LeafShown(trialId, side, leaf);
    }

    function compare(
        uint256 trialId,
        address[2] calldata players,
        Dispute calldata dispute,
        bytes calldata leaf0,
        bytes calldata leaf1,
        Tensor[] calldata inputs,
        LogBlock calldata log
    ) external {
        Trial storage t = _begin(trialId, Stage.Leaf);
        _checkFile(t, players, dispute);
        _checkLeaf(t, 0, leaf0);
        _checkLeaf(t, 1, leaf1);
        Shape memory shape = _shape(dispute, t.output);
        uint256 size = Tensors.size(shape);
        uint256 want = size - uint256(t.index) * Tensors.LEAF_BYTES;
        if (want > Tensors.LEAF_BYTES) want = Tensors.LEAF_BYTES;
        uint8 losers = (leaf0.length != want ? SIDE0 : 0) | (leaf1.length != want ? SIDE1 : 0);
        if (losers != 0) return _decide(t, trialId, losers, false);

        uint256 item = Tensors.itemSize(shape.dtype);
        uint256 offset = 0;
        // INVARIANT: the leaves have different hashes and one length, so both loops end inside of them.
        while (
            offset + 32 <= want && bytes32(leaf0[offset:offset + 32]) == bytes32(leaf1[offset:offset + 32])
        ) {
            offset += 32;
        }
        while (Tensors.read(leaf0, offset, item) == Tensors.read(leaf1, offset, item)) offset += item;
        (t.value0, t.value1) = (Tensors.read(leaf0, offset, item), Tensors.read(leaf1, offset, item));
        // SAFETY: a tensor has fewer than 2^40 elements.
        t.element = uint40((uint256(t.index) * Tensors.LEAF_BYTES + offset) / item);
        bytes32 agreed = dispute.records[0].log;
        Entry memory entry = Entry({kind: Logs.NOTHING, written: 0});
        if (agreed != 0) entry = Logs.entryOf(agreed, size / item, t.element, log);
        (t.kind, t.written) = (entry.kind, entry.written);
        _enterChain(t, trialId, _case(t, dispute, inputs));
    }

    /// @dev What follows when the element is known.
    function _enterChain(Trial storage t, uint256 trialId, Case memory which) internal virtual;

    // ------------------------------------------------------------------ steps

    /// @dev Beyond the last leaf only the empty leaf is right.
    function _atLeaf(Trial storage t, uint256 trialId, Shape memory shape) private {
        if (t.index < Tensors.leaves(Tensors.size(shape))) {
            t.stage = Stage.Leaf;
            return;
        }
        bytes32 empty = Hash.empty(Hash.DATA_TREE);
        uint8 losers = (t.said[0] != empty ? SIDE0 : 0) | (t.said[1] != empty ? SIDE1 : 0);
        _decide(t, trialId, losers, false);
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

    function _levels(uint8 height) private pure returns (uint8) {
        return height < REVEAL_LEVELS ? height : REVEAL_LEVELS;
    }

    function _checkPath(bytes32 want, uint64 child, bytes32 node, bytes32[] calldata path) private view {
        bytes32 have = Merkle.fold(Hash.DATA_TREE, node, child, path);
        if (have != want) revert AnotherHash(have, want);
    }

    function _checkLeaf(Trial storage t, uint8 side, bytes calldata leaf) private view {
        if (leaf.length > Tensors.LEAF_BYTES) revert LeafTooLong(leaf.length);
        bytes32 have = Tensors.leafHash(leaf);
        if (have != t.said[side]) revert AnotherHash(have, t.said[side]);
    }
}
