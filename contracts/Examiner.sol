// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Hash} from "./commit/Hash.sol";
import {LogBlock, Logs} from "./commit/Logs.sol";
import {Merkle} from "./commit/Merkle.sol";
import {Structures} from "./commit/Structures.sol";
import {Tensors} from "./commit/Tensors.sol";
import {Types} from "./commit/Types.sol";
import {IOpset} from "./element/IOpset.sol";
import {Case, IRule, Opened} from "./element/IRule.sol";
import {Dispute} from "./interfaces/ICourt.sol";
import {Element, Found, IExaminer, Inputs, Opening, Question} from "./interfaces/IExaminer.sol";

/// @title Examiner
/// @notice See IExaminer.
contract Examiner is IExaminer {
    // ------------------------------------------------------------------ storage

    IOpset public immutable OPSET;

    // ------------------------------------------------------------------ constructor

    constructor(IOpset opset) {
        OPSET = opset;
    }

    // ------------------------------------------------------------------ views

    function disputed(Dispute calldata dispute) external pure returns (uint8 differs, bytes32 hash) {
        bytes32[] calldata outputs0 = dispute.records[0].outputs;
        bytes32[] calldata outputs1 = dispute.records[1].outputs;
        (,, uint8 nout) = Structures.header(dispute.structure);
        if (
            outputs0.length != nout || outputs1.length != nout
                || dispute.records[0].structure != dispute.records[1].structure
                || dispute.records[0].log != dispute.records[1].log
                || keccak256(abi.encode(dispute.records[0].inputs))
                    != keccak256(abi.encode(dispute.records[1].inputs))
        ) revert RecordsDiffer();
        while (differs < nout && outputs0[differs] == outputs1[differs]) ++differs;
        if (differs == nout) revert OutputsEqual();
        // SAFETY: encoded again, whatever its form in calldata, because later hashes are compared with this one.
        hash = keccak256(abi.encode(dispute));
    }

    function output(bytes calldata structure, uint8 number, bytes32[2] calldata roots)
        external
        view
        returns (bytes32[2] memory hashes, uint64 leaves)
    {
        bytes memory spec = Structures.output(structure, number);
        hashes = [Tensors.hash(spec, roots[0]), Tensors.hash(spec, roots[1])];
        // SAFETY: a tensor has fewer than 2^43 bytes.
        leaves = uint64(Tensors.leaves(Tensors.size(spec)));
    }

    function find(
        Question calldata question,
        uint64 index,
        bytes calldata leaf0,
        bytes calldata leaf1,
        Inputs calldata inputs,
        LogBlock calldata log
    ) external view returns (Found memory found) {
        bytes memory spec = Structures.output(question.structure, question.output);
        uint256 size = Tensors.size(spec);
        uint256 want = size - uint256(index) * Tensors.LEAF_BYTES;
        if (want > Tensors.LEAF_BYTES) want = Tensors.LEAF_BYTES;
        found.losers = (leaf0.length != want ? 1 : 0) | (leaf1.length != want ? 2 : 0);
        if (found.losers != 0) return found;

        uint256 item = Tensors.itemSize(spec);
        uint256 offset = _firstDifference(leaf0, leaf1, item);
        // SAFETY: a tensor has fewer than 2^40 elements.
        found.element.number = uint64((uint256(index) * Tensors.LEAF_BYTES + offset) / item);
        found.element.entry.kind = Logs.NOTHING;
        // NOTE: only f32 and bf16 are ever rounded: a log means nothing for another output, so nobody has to show it.
        if (question.log != 0 && Tensors.isFloat(spec)) {
            found.element.entry = Logs.entryOf(question.log, size / item, found.element.number, log);
        }
        found.values = [Tensors.read(leaf0, offset, item), Tensors.read(leaf1, offset, item)];
        (Case memory which, IRule rule) = _case(question, found.element.number, inputs);
        (found.steps, found.first) = rule.begin(which);
        if (found.steps == 0) found.bits = rule.finish(which, found.first, found.element.entry);
    }

    function step(
        Question calldata question,
        Element calldata element,
        Inputs calldata inputs,
        uint64 t,
        bool last,
        bytes calldata agreed,
        Opening[] calldata openings
    ) external view returns (bytes memory next, uint64 bits) {
        (Case memory which, IRule rule) = _case(question, element.number, inputs);
        next = rule.step(which, t, agreed, _open(inputs, openings));
        if (last) bits = rule.finish(which, next, element.entry);
    }

    /// @dev Returns the element as a case, on inputs whose hashes are the agreed ones, and its rule.
    function _case(Question calldata question, uint64 element, Inputs calldata inputs)
        private
        view
        returns (Case memory which, IRule rule)
    {
        uint256 count = inputs.roots.length;
        if (count != question.hashes.length) revert WrongInputCount(count, question.hashes.length);
        uint256 from = 0;
        for (uint256 i = 0; i < count; ++i) {
            uint256 to = Types.end(inputs.types, from);
            bytes32 have = Tensors.hash(inputs.types[from:to], inputs.roots[i]);
            if (have != question.hashes[i]) revert AnotherInput(i, have, question.hashes[i]);
            from = to;
        }
        if (from != inputs.types.length) revert TypesFollow(inputs.types.length, from);

        (which.op,,) = Structures.header(question.structure);
        (which.mode, which.output, which.element) = (question.mode, question.output, element);
        which.inputs = inputs.types;
        (which.outputs, which.attributes) = Structures.outputs(question.structure);
        rule = OPSET.rule(which.op, which.mode);
    }

    /// @dev Returns the elements that the openings show, each proven by its leaf under the input's data root.
    function _open(Inputs calldata inputs, Opening[] calldata openings)
        private
        view
        returns (Opened[] memory opened)
    {
        opened = new Opened[](openings.length);
        for (uint256 i = 0; i < openings.length; ++i) {
            Opening calldata shown = openings[i];
            if (shown.input >= inputs.roots.length) revert OutsideTensor(shown.input, shown.element);
            uint256 from = Types.skip(inputs.types, 0, shown.input);
            bytes memory spec = inputs.types[from:Types.end(inputs.types, from)];
            uint256 item = Tensors.itemSize(spec);
            uint256 size = Tensors.size(spec);
            uint256 offset = shown.element * item;
            if (offset >= size) revert OutsideTensor(shown.input, shown.element);
            // SAFETY: the path proves that the agreed input has this leaf, so the leaf is as long as it should be, or
            // the input is none that an honest side agrees to.
            Merkle.check(
                Hash.DATA_TREE,
                inputs.roots[shown.input],
                Tensors.leafHash(shown.leaf),
                offset / Tensors.LEAF_BYTES,
                Merkle.depth(Tensors.leaves(size)),
                shown.path
            );
            opened[i] = Opened({
                input: shown.input,
                element: shown.element,
                bits: Tensors.read(shown.leaf, offset % Tensors.LEAF_BYTES, item)
            });
        }
    }

    /// @dev Returns the offset of the first element in which the leaves differ.
    /// INVARIANT: the leaves have different hashes and one length, so they differ in a word that begins inside them.
    function _firstDifference(bytes calldata leaf0, bytes calldata leaf1, uint256 item)
        private
        pure
        returns (uint256 offset)
    {
        assembly ("memory-safe") {
            // NOTE: bytes beyond the leaves do no harm: the first difference comes before them.
            for {} eq(calldataload(add(leaf0.offset, offset)), calldataload(add(leaf1.offset, offset))) {} {
                offset := add(offset, 32)
            }
        }
        while (Tensors.read(leaf0, offset, item) == Tensors.read(leaf1, offset, item)) offset += item;
    }
}
