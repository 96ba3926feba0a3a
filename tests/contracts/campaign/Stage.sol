// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Tiny} from "./Tiny.sol";
import {Court} from "contracts/Court.sol";
import {Demands} from "contracts/Demands.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Panel} from "contracts/Panel.sol";
import {Referee} from "contracts/Referee.sol";
import {VerifierRegistry} from "contracts/VerifierRegistry.sol";
import {LogBlock} from "contracts/commit/Logs.sol";
import {Dispute, Opening, Stage as TrialStage, Tensor, Trial} from "contracts/interfaces/ICourt.sol";
import {Piece, Place, RecordPiece, Subject, TensorPiece} from "contracts/interfaces/IDemands.sol";
import {HearingPhase, Submission} from "contracts/interfaces/IPanel.sol";
import {Match, Phase} from "contracts/interfaces/IReferee.sol";

/// @title Stage
/// @notice All contracts, and every move of a match, a hearing or a trial as whoever makes it would, from the runs that the
/// two spokesmen have.
abstract contract Stage is Tiny {
    uint32 internal constant CLOCK = 100;
    uint32 internal constant PERIOD = 200;
    uint256 internal constant STAKE = 1 ether;
    /// @dev Wei a gas of an answer.
    uint256 internal constant PRICE = 1 gwei;
    uint256 internal constant BOND = 2 ether;

    VerifierRegistry internal registry =
        VerifierRegistry(deploy("VerifierRegistry.sol:VerifierRegistry", abi.encode(BOND, 7 days)));
    Court internal court = Court(deploy("Court.sol:Court", abi.encode(_opset())));
    Panel internal panel = Panel(payable(deploy("Panel.sol:Panel", abi.encode(court, registry))));
    Referee internal referee = Referee(deploy("Referee.sol:Referee", abi.encode(panel)));
    Demands internal demands = Demands(deploy("Demands.sol:Demands", abi.encode(PRICE)));
    Jobs internal jobs = Jobs(deploy("Jobs.sol:Jobs", abi.encode(registry, demands, 0.1 ether, 60)));

    /// @dev What each account has computed, by job.
    mapping(uint256 job => mapping(address who => uint16)) internal runOf;

    function _opset() private returns (address) {
        address[10] memory rules;
        rules[9] = deploy("Sources.sol:Sources", "");
        return deploy("Opset1.sol:Opset1", abi.encode(rules, rules));
    }

    // ------------------------------------------------------------------ matches

    function runsOf(Match memory m) internal view returns (uint16 run0, uint16 run1) {
        return (runOf[m.jobId][m.players[0]], runOf[m.jobId][m.players[1]]);
    }

    /// @dev What a side can do by itself, once.
    function publish(uint256 id, Match memory m, uint8 side) internal {
        uint16 run = runOf[m.jobId][m.players[side]];
        if (m.phase == Phase.Walk) {
            referee.reveal(id, side, childrenOf(run, m));
        } else if (m.phase == Phase.Refine) {
            (bytes32 root, bytes32[] memory path) = refinementOf(run, m);
            vm.prank(m.players[side]);
            referee.refine(id, side, root, path);
        } else {
            referee.openRecord(id, side, recordOf(valueOf(run, m.end, m.index)));
        }
    }

    /// @dev What anybody can do who knows both runs.
    function conclude(uint256 id, Match memory m) internal {
        (uint16 run0, uint16 run1) = runsOf(m);
        if (m.phase == Phase.Open) return referee.submit(id, exhibitOf(run0, run1, m));
        bytes32[] memory nodes0 = childrenOf(run0, m);
        bytes32[] memory nodes1 = childrenOf(run1, m);
        uint64 child = nodes0[0] == nodes1[0] ? 1 : 0;
        bytes32[] memory path0 = _single(nodes0[1 - child]);
        bytes32[] memory path1 = _single(nodes1[1 - child]);
        bool needed = m.level < 2 && child == 1;
        referee.descend(
            id,
            child,
            nodes0[child],
            path0,
            nodes1[child],
            path1,
            needed ? nodes0[0] : bytes32(0),
            needed ? _single(nodes0[1]) : new bytes32[](0)
        );
    }

    function _single(bytes32 node) private pure returns (bytes32[] memory list) {
        list = new bytes32[](1);
        list[0] = node;
    }

    // ------------------------------------------------------------------ hearings

    function hearingOf(uint256 id) internal view returns (uint256) {
        return panel.hearingOf(address(referee), id);
    }

    function valuesOf(Match memory m) internal view returns (uint256 value0, uint256 value1) {
        (uint16 run0, uint16 run1) = runsOf(m);
        return (valueOf(run0, m.end, m.index), valueOf(run1, m.end, m.index));
    }

    function dispute(uint256 value0, uint256 value1) internal view returns (Dispute memory d) {
        (d.records[0], d.records[1]) = (recordOf(value0), recordOf(value1));
        (d.structure, d.mode) = (STRUCTURE, 1);
    }

    function disputeOf(Match memory m) internal view returns (Dispute memory) {
        (uint256 value0, uint256 value1) = valuesOf(m);
        return dispute(value0, value1);
    }

    function submissionOf(uint256 id, Match memory m) internal view returns (Submission memory) {
        return Submission({
            matchId: id,
            jobs: m.jobs,
            jobId: m.jobId,
            step: m.end,
            node: uint32(m.index),
            players: m.players,
            records: m.node,
            dispute: keccak256(abi.encode(disputeOf(m)))
        });
    }

    function vote(uint256 id, Match memory m, uint256 key, uint256 value) internal {
        uint256 hearingId = hearingOf(id);
        (uint8 v, bytes32 r, bytes32 s) =
            vm.sign(key, panel.verdictDigest(hearingId, m.end, uint32(m.index), recordHash(value)));
        panel.attest(hearingId, submissionOf(id, m), recordHash(value), abi.encodePacked(r, s, v));
    }

    function appeal(uint256 id, Match memory m, address who) internal {
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id, m), disputeOf(m));
        vm.prank(who);
        panel.appeal{value: STAKE}(hearingId, s, d);
    }

    function stand(uint256 id, Match memory m, address who, uint256 value) internal {
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id, m), disputeOf(m));
        vm.prank(who);
        panel.stand(hearingId, s, d, recordOf(value));
    }

    /// @dev Whatever follows from time alone, whoever says it; false if nothing does.
    function poke(uint256 id, Match memory m) internal returns (bool) {
        if (m.phase != Phase.Hearing && m.phase != Phase.Done) {
            return _try(address(referee), abi.encodeCall(referee.timeout, (id)));
        }
        uint256 hearingId = hearingOf(id);
        HearingPhase phase = panel.getHearing(hearingId).phase;
        if (phase == HearingPhase.Trial || phase == HearingPhase.Stand) {
            return _try(address(court), abi.encodeCall(court.timeout, (trialOf(hearingId))));
        }
        Submission memory s = submissionOf(id, m);
        return _try(address(panel), abi.encodeCall(panel.proceed, (hearingId, s)))
            || _try(address(panel), abi.encodeCall(panel.escalate, (hearingId, s, disputeOf(m))));
    }

    function _try(address target, bytes memory move) private returns (bool ok) {
        (ok,) = target.call(move);
    }

    // ------------------------------------------------------------------ trials

    /// @dev The hearing's trial of now.
    function trialOf(uint256 hearingId) internal view returns (uint256) {
        return panel.trialOf(hearingId, panel.getHearing(hearingId).trials);
    }

    /// @dev Shows a side's output; then, with both outputs known, compares and computes.
    function playTrial(uint256 trialId, uint8 side, uint256 value0, uint256 value1) internal {
        Trial memory t = court.getTrial(trialId);
        Dispute memory d = dispute(value0, value1);
        Tensor[] memory none = new Tensor[](0);
        if (t.stage == TrialStage.Outputs && t.posted & (1 << side) == 0) {
            court.showOutput(trialId, side, d, dataRoot(side == 0 ? value0 : value1));
        } else if (t.stage == TrialStage.Leaf) {
            LogBlock memory log;
            court.compare(trialId, d, leafOf(value0), leafOf(value1), none, log);
        } else if (t.stage == TrialStage.Step) {
            court.judge(trialId, d, none, new bytes(8), new Opening[](0));
        }
    }

    // ------------------------------------------------------------------ demands

    function demand(address who, Subject memory s, Place memory place) internal {
        Place[] memory places = new Place[](1);
        places[0] = place;
        uint256 deposit = demands.depositOf(place.piece);
        vm.prank(who);
        demands.demand{value: deposit}(s, places);
    }

    /// @dev As anybody can who has the run.
    function answerDemand(address who, Subject memory s, Place memory place, uint16 run) internal {
        uint64 step = 2 * (place.tree + 1);
        uint256 value = valueOf(run, step, place.node);
        RecordPiece memory r;
        r.record = recordOf(value);
        r.recordPath = _single(recordHash(valueOf(run, step, 1 - place.node)));
        (r.checkpoint, r.checkpointPath) = (checkpoint(run, step), _single(checkpoint(run, 6 - step)));
        if (place.piece == Piece.Record) {
            vm.prank(who);
            return demands.answerRecord(s, place, r);
        }
        TensorPiece memory t;
        t.shape.dtype = 1;
        (t.root, t.leaf) = (dataRoot(value), leafOf(value));
        vm.prank(who);
        demands.answerLeaf(s, place, r, t);
    }
}
