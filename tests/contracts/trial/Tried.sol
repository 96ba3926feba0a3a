// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Statements} from "../support/Statements.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Court} from "contracts/Court.sol";
import {Timekeeper} from "contracts/Timekeeper.sol";
import {Descent} from "contracts/commit/Descents.sol";
import {LogBlock} from "contracts/commit/Logs.sol";
import {
    Dispute,
    ITrialClient,
    Stage,
    Trial,
    TrialPosition,
    TrialTerms
} from "contracts/interfaces/ICourt.sol";
import {Inputs, Opening} from "contracts/interfaces/IExaminer.sol";
import {Record} from "contracts/interfaces/IReferee.sol";

/// @title Tried
/// @notice A test that opens trials of two operators on i64 tensors of 600 elements, in five leaves, and receives the
/// results.
///
///     0 add    [600] + [600] -> [600]
///     1 sum    [600] -> a number, in 600 steps
abstract contract Tried is Base, ITrialClient {
    using Statements for TrialPosition;
    using Trees for Tree;

    uint256 internal constant COUNT = 600;
    uint32 internal constant CLOCK = 100;
    bytes internal constant ADD = hex"0001020102000000000002000000010002010000000000000258";
    bytes internal constant SUM = hex"0028010102000000000002000100000000000000000000000000000000";

    address internal constant GUARDIAN = address(0x60A4D);
    uint64 internal constant PAUSES = 1000;
    Timekeeper internal time = Timekeeper(deploy("Timekeeper.sol:Timekeeper", abi.encode(GUARDIAN, PAUSES)));
    Court internal court = Court(deploy("Court.sol:Court", abi.encode(_examiner(), time)));
    address internal alice = address(0xA11CE); // side 0
    address internal bob = address(0xB0B); // side 1
    uint256 internal trialId;
    /// @dev The trial terms that the moves show.
    TrialTerms internal trialTerms;
    TrialPosition internal position;
    uint256 private _opened;
    uint8 internal losers;
    bool internal late;

    constructor() {
        vm.warp(1_700_000_000);
    }

    function _examiner() private returns (address) {
        address[10] memory rules;
        rules[0] = deploy("Elementwise.sol:Elementwise", "");
        rules[4] = deploy("Reductions.sol:Reductions", "");
        address opset = deploy("Opset1.sol:Opset1", abi.encode(rules, rules, rules, rules));
        return deploy("Examiner.sol:Examiner", abi.encode(opset));
    }

    function onTrialDecided(uint256 id, uint8 losers_, bool late_) external {
        yes(msg.sender == address(court) && id == _opened, "the court tells of this trial");
        yes(losers == 0, "once");
        (losers, late) = (losers_, late_);
    }

    // ------------------------------------------------------------------ tensors

    function a() internal pure returns (uint64[] memory values) {
        values = new uint64[](COUNT);
        for (uint64 i = 0; i < COUNT; ++i) {
            values[i] = i * i + 1;
        }
    }

    function b() internal pure returns (uint64[] memory values) {
        values = new uint64[](COUNT);
        for (uint64 i = 0; i < COUNT; ++i) {
            values[i] = type(uint64).max - 7 * i; // -1 - 7i
        }
    }

    function added() internal pure returns (uint64[] memory values) {
        (uint64[] memory x, uint64[] memory y) = (a(), b());
        values = new uint64[](COUNT);
        for (uint256 i = 0; i < COUNT; ++i) {
            unchecked {
                values[i] = x[i] + y[i];
            }
        }
    }

    function single(uint64 value) internal pure returns (uint64[] memory values) {
        values = new uint64[](1);
        values[0] = value;
    }

    /// @dev Returns the `index`-th leaf, little-endian.
    function leafOf(uint64[] memory values, uint256 index) internal pure returns (bytes memory leaf) {
        uint256 first = index * 128;
        uint256 count = values.length - first < 128 ? values.length - first : 128;
        leaf = new bytes(8 * count);
        for (uint256 i = 0; i < 8 * count; ++i) {
            leaf[i] = bytes1(uint8(values[first + i / 8] >> (8 * (i % 8))));
        }
    }

    function treeOf(uint64[] memory values) internal pure returns (Tree memory) {
        bytes32[] memory leaves = new bytes32[]((values.length + 127) / 128);
        for (uint256 i = 0; i < leaves.length; ++i) {
            leaves[i] = sha256(abi.encodePacked(uint8(0x01), leafOf(values, i)));
        }
        return Trees.build(0x10, leaves);
    }

    function typeOf(uint64[] memory values) internal pure returns (bytes memory) {
        return values.length == 1 ? bytes(hex"0200") : abi.encodePacked(hex"0201", uint64(values.length));
    }

    function hashOf(uint64[] memory values) internal pure returns (bytes32) {
        return hashOf(values, treeOf(values).root());
    }

    /// @dev Returns the hash of a tensor of the same type under another root.
    function hashOf(uint64[] memory values, bytes32 root) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(uint8(0x02), typeOf(values), root));
    }

    function opening(uint8 input, uint64[] memory values, uint64 element)
        internal
        pure
        returns (Opening memory)
    {
        return Opening(input, element, leafOf(values, element / 128), treeOf(values).path(element / 128));
    }

    // ------------------------------------------------------------------ trials

    /// @dev Returns a dispute about `add`, between these outputs.
    function disputeOfAdd(bytes32 root0, bytes32 root1) internal pure returns (Dispute memory d) {
        for (uint256 side = 0; side < 2; ++side) {
            Record memory r = d.records[side];
            r.structure = sha256(abi.encodePacked(uint8(0x03), ADD));
            (r.inputs, r.outputs) = (new bytes32[](2), new bytes32[](1));
            (r.inputs[0], r.inputs[1]) = (hashOf(a()), hashOf(b()));
            r.outputs[0] = hashOf(a(), side == 0 ? root0 : root1);
        }
        (d.structure, d.mode) = (ADD, 1);
    }

    /// @dev Returns a dispute about `sum`, between these values.
    function disputeOfSum(uint64 value0, uint64 value1) internal pure returns (Dispute memory d) {
        for (uint256 side = 0; side < 2; ++side) {
            Record memory r = d.records[side];
            r.structure = sha256(abi.encodePacked(uint8(0x03), SUM));
            (r.inputs, r.outputs) = (new bytes32[](1), new bytes32[](1));
            r.inputs[0] = hashOf(a());
            r.outputs[0] = hashOf(single(side == 0 ? value0 : value1));
        }
        (d.structure, d.mode) = (SUM, 1);
    }

    function open(Dispute memory d) internal {
        trialId = court.open(++_opened, [alice, bob], CLOCK, d);
        trialTerms = TrialTerms(address(this), _opened, [alice, bob], keccak256(abi.encode(d)));
        delete position;
        (losers, late) = (0, false);
    }

    function inputsOfAdd() internal pure returns (Inputs memory inputs) {
        (inputs.types, inputs.roots) = (abi.encodePacked(typeOf(a()), typeOf(b())), new bytes32[](2));
        (inputs.roots[0], inputs.roots[1]) = (treeOf(a()).root(), treeOf(b()).root());
    }

    function inputsOfSum() internal pure returns (Inputs memory inputs) {
        (inputs.types, inputs.roots) = (typeOf(a()), new bytes32[](1));
        inputs.roots[0] = treeOf(a()).root();
    }

    function noLog() internal pure returns (LogBlock memory log) {}

    // ------------------------------------------------------------------ moves

    function showOutput(Dispute memory d, uint8 side, bytes32 root) internal {
        court.showOutputs(trialTerms, d, position, Statements.only(side, root));
        _moved(position.shown(side, root));
    }

    function reveal(uint8 side, bytes32[] memory children) internal {
        court.reveal(trialTerms, position, side, children);
    }

    function descend(Dispute memory d, Descent memory way) internal {
        court.descend(trialTerms, d, position, way);
        _moved(position.walked(way));
    }

    function showLeaf(uint8 side, bytes memory leaf) internal {
        court.showLeaf(trialTerms, position, side, leaf);
    }

    function compare(
        Dispute memory d,
        bytes memory leaf0,
        bytes memory leaf1,
        Inputs memory inputs,
        LogBlock memory log
    ) internal {
        court.compare(trialTerms, d, position, leaf0, leaf1, inputs, log);
        Trial memory t = court.getTrial(trialId);
        if (t.stage != Stage.Post && t.stage != Stage.Step) return;
        // NOTE: both operators begin with a state of eight zeros.
        uint64[2] memory values = [_read(leaf0, t.element % 128), _read(leaf1, t.element % 128)];
        _moved(Statements.found(values, new bytes(8)));
    }

    function post(bytes memory states) internal {
        court.post(trialTerms, position, states);
        _moved(position.posted(states));
    }

    function answer(bytes memory states, uint256 place, bytes memory own) internal {
        court.answer(trialTerms, position, states, place, own);
        if (court.getTrial(trialId).stage != Stage.Answer) _moved(position.answered(states, 8, place, own));
    }

    function judge(Dispute memory d, Inputs memory inputs, bytes memory agreed, Opening[] memory openings)
        internal
    {
        court.judge(trialTerms, d, position, inputs, agreed, openings);
    }

    /// @dev NOTE: a move that a test expects to be refused returns, too; then the trial is where it was.
    function _moved(TrialPosition memory now_) private {
        if (court.getTrial(trialId).position == now_.hash()) position = now_;
    }

    function _read(bytes memory leaf, uint256 i) private pure returns (uint64 value) {
        for (uint256 place = 0; place < 8; ++place) {
            value |= uint64(uint8(leaf[8 * i + place])) << uint64(8 * place);
        }
    }

    // ------------------------------------------------------------------ checks

    function inStage(Stage want) internal view {
        eq(uint256(court.getTrial(trialId).stage), uint256(want), "stage");
    }

    function decided(uint8 want) internal view {
        inStage(Stage.Done);
        eq(losers, want, "losers");
        yes(!late, "by what is right, not by the clock");
        eq(court.getTrial(trialId).losers, want, "kept");
    }
}
