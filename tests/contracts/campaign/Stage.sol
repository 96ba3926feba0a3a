// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Positions, Step} from "../support/Positions.sol";
import {Statements} from "../support/Statements.sol";
import {Tiny} from "./Tiny.sol";
import {Court} from "contracts/Court.sol";
import {DataAvailability} from "contracts/DataAvailability.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Panel} from "contracts/Panel.sol";
import {Referee} from "contracts/Referee.sol";
import {Timekeeper} from "contracts/Timekeeper.sol";
import {VerifierRegistry} from "contracts/VerifierRegistry.sol";
import {Descent} from "contracts/commit/Descents.sol";
import {LogBlock} from "contracts/commit/Logs.sol";
import {
    Dispute,
    Stage as TrialStage,
    Trial,
    TrialPosition,
    TrialTerms
} from "contracts/interfaces/ICourt.sol";
import {
    LogPiece,
    Piece,
    Place,
    RecordPiece,
    StepProof,
    Subject,
    TensorPiece
} from "contracts/interfaces/IDataAvailability.sol";
import {Inputs, Opening} from "contracts/interfaces/IExaminer.sol";
import {Group, StakedClaim} from "contracts/interfaces/IJobs.sol";
import {Hearing, HearingPhase, Submission} from "contracts/interfaces/IPanel.sol";
import {Match, MatchTerms, Phase, Position} from "contracts/interfaces/IReferee.sol";
import {MatchIds} from "contracts/match/MatchIds.sol";

/// @title Stage
/// @notice All contracts, and every move of a match, a hearing or a trial, made from the runs of the two spokesmen.
abstract contract Stage is Tiny {
    using Positions for Position;

    uint32 internal constant CLOCK = 100;
    uint32 internal constant PERIOD = 200;
    uint256 internal constant STAKE = 1 ether;
    /// @dev In seconds: these chains have a block each second.
    uint32 internal constant COMMIT_AGE = 1;
    uint256 internal constant BOND = 2 ether;
    address internal constant GUARDIAN = address(0x60A4D);
    /// @dev Seconds that all pauses together may last.
    uint64 internal constant PAUSES = 1000;

    Timekeeper internal time = Timekeeper(deploy("Timekeeper.sol:Timekeeper", abi.encode(GUARDIAN, PAUSES)));
    VerifierRegistry internal registry =
        VerifierRegistry(deploy("VerifierRegistry.sol:VerifierRegistry", abi.encode(BOND, 7 days, time)));
    Court internal court = Court(deploy("Court.sol:Court", abi.encode(_examiner(), time)));
    Panel internal panel = Panel(payable(deploy("Panel.sol:Panel", abi.encode(court, registry))));
    Referee internal referee =
        Referee(deploy("Referee.sol:Referee", abi.encode(deploy("Judge.sol:Judge", ""), panel)));
    DataAvailability internal dataAvailability =
        DataAvailability(deploy("DataAvailability.sol:DataAvailability", abi.encode(time)));
    address internal notary = deploy("Notary.sol:Notary", abi.encode(registry, 100_000_000, 1 gwei, 60));
    Jobs internal jobs = Jobs(deploy("Jobs.sol:Jobs", abi.encode(notary, dataAvailability, COMMIT_AGE)));

    /// @dev The run that each slot holder has computed, by job.
    mapping(uint256 job => mapping(address who => uint16)) internal runOf;
    /// @dev One more than the run with which each person has claimed a root, or refuted another with it; zero for none.
    mapping(uint256 job => mapping(bytes32 root => mapping(address who => uint32))) private _runBehind;
    /// @dev Whether the job's mode has logs, and then the trainer that has the slot.
    mapping(uint256 job => bool) internal rounded;
    mapping(uint256 job => address) internal trainerOf;
    /// @dev All matches so far.
    uint256[] internal met;
    mapping(uint256 id => MatchTerms) private _matchTerms;
    mapping(uint256 id => Position) private _positions;
    /// @dev The position of a match one move earlier; empty if it has not moved.
    mapping(uint256 id => Position) private _earlier;

    function _examiner() private returns (address) {
        address[10] memory rules;
        rules[9] = deploy("Sources.sol:Sources", "");
        address opset = deploy("Opset1.sol:Opset1", abi.encode(rules, rules, rules, rules));
        return deploy("Examiner.sol:Examiner", abi.encode(opset));
    }

    // ------------------------------------------------------------------ runs

    /// @dev Records what a person claims or refutes with. NOTE: runs may share a root; who claims it again keeps its run.
    function plays(uint256 job, address who, uint16 run) internal {
        mapping(address => uint32) storage runs = _runBehind[job][rootOf(run)];
        if (runs[who] == 0) runs[who] = uint32(run) + 1;
    }

    function runBehind(uint256 job, bytes32 root, address who) internal view returns (uint16) {
        return uint16(_runBehind[job][root][who] - 1);
    }

    // ------------------------------------------------------------------ matches

    /// @dev Records a match that has just been opened, between these groups of the job.
    function meet(uint256 id, uint256 job, Group[] memory groups, StakedClaim[] memory claims) internal {
        (, uint32 group0, uint32 group1) = jobs.pairOf(job, id);
        MatchTerms memory d;
        for (uint256 side = 0; side < 2; ++side) {
            Group memory group = groups[side == 0 ? group0 : group1];
            (d.roots[side], d.players[side]) = (group.root, claims[group.members[group.spokesman]].owner);
        }
        (d.clock, d.program, d.number) = (CLOCK, program(rounded[job]), uint48(id));
        eq(MatchIds.idOf(address(jobs), job, d), id, "the match that was opened");
        (_matchTerms[id], _positions[id]) = (d, Positions.opened(d));
        met.push(id);
    }

    function matchTerms(uint256 id) internal view returns (MatchTerms memory) {
        return _matchTerms[id];
    }

    function here(uint256 id) internal view returns (Position memory) {
        return _positions[id];
    }

    function earlier(uint256 id) internal view returns (Position memory) {
        return _earlier[id];
    }

    function _moved(uint256 id, Position memory to) private {
        (_earlier[id], _positions[id]) = (_positions[id], to);
    }

    function playerOf(uint256 id, uint256 side) internal view returns (address) {
        return _matchTerms[id].players[side];
    }

    function _runOf(uint256 id, Match memory m, uint256 side) private view returns (uint16) {
        return runBehind(m.jobId, _matchTerms[id].roots[side], playerOf(id, side));
    }

    /// @dev Makes the move that a side can make by itself, once.
    function publish(uint256 id, Match memory m, uint8 side, MatchTerms memory d, Position memory at)
        internal
    {
        uint16 run = _runOf(id, m, side);
        if (m.phase == Phase.Walk) {
            referee.reveal(id, at, side, childrenOf(run, m));
        } else if (m.phase == Phase.Refine) {
            (bytes32 root, bytes32[] memory path) = refinementOf(run, m);
            vm.prank(playerOf(id, side));
            referee.refine(id, d, at, side, root, path);
            _moved(id, at.refined(referee.getMatch(id), side, root));
        } else {
            referee.openRecord(id, at, side, recordOf(valueOf(run, m.end, m.index)));
        }
    }

    function publish(uint256 id, Match memory m, uint8 side) internal {
        publish(id, m, side, matchTerms(id), here(id));
    }

    /// @dev Makes the move of anybody who knows both runs.
    function conclude(uint256 id, Match memory m, MatchTerms memory d, Position memory at) internal {
        (uint16 run0, uint16 run1) = (_runOf(id, m, 0), _runOf(id, m, 1));
        if (m.phase == Phase.Open) return referee.submit(id, d, at, exhibitOf(run0, run1, m));
        bytes32[] memory nodes0 = childrenOf(run0, m);
        bytes32[] memory nodes1 = childrenOf(run1, m);
        uint64 child = nodes0[0] == nodes1[0] ? 1 : 0;
        Step memory step;
        step.way = Descent(
            child, nodes0[child], _single(nodes0[1 - child]), nodes1[child], _single(nodes1[1 - child])
        );
        if (m.level < 2 && child == 1) (step.previous, step.previousPath) = (nodes0[0], _single(nodes0[1]));
        referee.descend(id, d, at, step.way, step.previous, step.previousPath);
        _moved(id, at.descended(d, referee.getMatch(id), step));
    }

    function conclude(uint256 id, Match memory m) internal {
        conclude(id, m, matchTerms(id), here(id));
    }

    function _single(bytes32 node) private pure returns (bytes32[] memory list) {
        list = new bytes32[](1);
        list[0] = node;
    }

    // ------------------------------------------------------------------ hearings

    function hearingOf(uint256 id) internal view returns (uint256) {
        return panel.hearingOf(address(referee), id);
    }

    function valuesOf(uint256 id, Match memory m) internal view returns (uint256 value0, uint256 value1) {
        return (valueOf(_runOf(id, m, 0), m.end, m.index), valueOf(_runOf(id, m, 1), m.end, m.index));
    }

    function dispute(uint256 job, uint256 value0, uint256 value1) internal view returns (Dispute memory d) {
        (d.records[0], d.records[1]) = (recordOf(value0), recordOf(value1));
        (d.structure, d.mode) = (STRUCTURE, mode(rounded[job]));
    }

    function disputeOf(uint256 id, Match memory m) internal view returns (Dispute memory) {
        (uint256 value0, uint256 value1) = valuesOf(id, m);
        return dispute(m.jobId, value0, value1);
    }

    function submissionOf(uint256 id, Match memory m) internal view returns (Submission memory) {
        return Submission({
            matchId: id,
            jobs: m.jobs,
            jobId: m.jobId,
            step: m.end,
            node: uint32(m.index),
            players: _matchTerms[id].players,
            records: _positions[id].node,
            dispute: keccak256(abi.encode(disputeOf(id, m)))
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
            (hearingOf(id), submissionOf(id, m), disputeOf(id, m));
        uint256 bond = jobs.stakeOf(m.jobId);
        vm.prank(who);
        panel.appeal{value: bond}(hearingId, s, d);
    }

    function stand(uint256 id, Match memory m, address who, uint256 value) internal {
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id, m), disputeOf(id, m));
        vm.prank(who);
        panel.stand(hearingId, s, d, recordOf(value));
    }

    /// @dev Makes a move that follows from time alone, which anybody may make; returns false if there is none.
    function poke(uint256 id, Match memory m) internal returns (bool) {
        if (m.phase != Phase.Hearing && m.phase != Phase.Done) {
            return _try(address(referee), abi.encodeCall(referee.timeout, (id)));
        }
        uint256 hearingId = hearingOf(id);
        HearingPhase phase = panel.getHearing(hearingId).phase;
        if (phase == HearingPhase.Trial || phase == HearingPhase.Stand) {
            return _try(address(court), abi.encodeCall(court.timeout, (_trialTermsOf(id, m))));
        }
        Submission memory s = submissionOf(id, m);
        return _try(address(panel), abi.encodeCall(panel.proceed, (hearingId, s)))
            || _try(address(panel), abi.encodeCall(panel.escalate, (hearingId, s, disputeOf(id, m))));
    }

    function _try(address target, bytes memory move) private returns (bool ok) {
        (ok,) = target.call(move);
    }

    // ------------------------------------------------------------------ trials

    /// @dev Returns the values that the sides state in the hearing's present trial.
    function triedOf(uint256 id, Match memory m) internal view returns (uint256 value0, uint256 value1) {
        Hearing memory h = panel.getHearing(hearingOf(id));
        (value0, value1) = valuesOf(id, m);
        if (h.phase != HearingPhase.Stand) return (value0, value1);
        return h.side == 0 ? (value0, _valueOf(h.verdict)) : (_valueOf(h.verdict), value1);
    }

    function _trialTermsOf(uint256 id, Match memory m) private view returns (TrialTerms memory trialTerms) {
        uint256 hearingId = hearingOf(id);
        Hearing memory h = panel.getHearing(hearingId);
        (uint256 value0, uint256 value1) = triedOf(id, m);
        bytes32 hash = keccak256(abi.encode(dispute(m.jobId, value0, value1)));
        trialTerms = TrialTerms(address(panel), hearingId | h.trials, _matchTerms[id].players, hash);
        if (h.phase == HearingPhase.Stand) trialTerms.players[1 - h.side] = h.defendant;
    }

    function _valueOf(bytes32 record) internal view returns (uint256 value) {
        while (recordHash(value) != record) ++value;
    }

    function trialOf(uint256 id, Match memory m) internal view returns (Trial memory) {
        return court.getTrial(court.trialOf(_trialTermsOf(id, m)));
    }

    /// @dev Shows a side's output; once both outputs are known, compares and computes.
    function playTrial(uint256 id, Match memory m, uint8 side) internal {
        Trial memory t = trialOf(id, m);
        TrialTerms memory trialTerms = _trialTermsOf(id, m);
        uint256[2] memory values;
        (values[0], values[1]) = triedOf(id, m);
        Dispute memory d = dispute(m.jobId, values[0], values[1]);
        Inputs memory none;
        TrialPosition memory position;
        if (t.stage == TrialStage.Outputs && t.posted & (1 << side) == 0) {
            if (t.posted != 0) position.nodes[1 - side] = dataRoot(values[1 - side]);
            court.showOutputs(trialTerms, d, position, Statements.only(side, dataRoot(values[side])));
        } else if (t.stage == TrialStage.Leaf) {
            LogBlock memory log;
            position.nodes = [dataRoot(values[0]), dataRoot(values[1])];
            court.compare(trialTerms, d, position, leafOf(values[0]), leafOf(values[1]), none, log);
        } else if (t.stage == TrialStage.Step) {
            bytes memory first = new bytes(8);
            position = Statements.found([uint64(values[0]), uint64(values[1])], first);
            court.judge(trialTerms, d, position, none, first, new Opening[](0));
        }
    }

    // ------------------------------------------------------------------ requests

    function request(address who, Subject memory s, Place[] memory places) internal {
        (uint256 open, uint256 others) = dataAvailability.openOf(s, places[0]);
        uint256 price = (jobs.feeOf(s.jobId) + 999) / 1_000 * 1_000;
        uint256 deposit;
        for (uint256 i = 0; i < places.length; ++i) {
            deposit += dataAvailability.depositAt(
                places[i].piece, others + (open + i) / dataAvailability.STEP(), price
            );
        }
        vm.prank(who);
        dataAvailability.request{value: deposit}(s, places);
    }

    /// @dev Answers a request, as anybody can who has the run.
    function answerRequest(address who, Subject memory s, Place memory place, uint16 run) internal {
        if (place.piece == Piece.Digests) {
            StepProof memory step = stepProof();
            vm.prank(who);
            return dataAvailability.provideDigests(s, place, new bytes32[](2), new bytes32[](0), step);
        }
        if (place.piece == Piece.Blocks) {
            LogPiece memory none;
            (none.logPath, none.step) = (new bytes32[](1), stepProof());
            vm.prank(who);
            return dataAvailability.provideBlocks(s, place, none);
        }
        uint64 step = 2 * (place.tree + 1);
        uint256 value = valueOf(run, step, place.node);
        RecordPiece memory r;
        r.record = recordOf(value);
        r.recordPath = _single(recordHash(valueOf(run, step, 1 - place.node)));
        (r.checkpoint, r.checkpointPath) = (checkpoint(run, step), _single(checkpoint(run, 6 - step)));
        if (place.piece == Piece.Record) {
            vm.prank(who);
            return dataAvailability.provideRecord(s, place, r);
        }
        TensorPiece memory t;
        // NOTE: the one output has one leaf.
        if (place.tensor == 256) (t.shape.dtype, t.root) = (1, dataRoot(value));
        if (place.tensor == 256 && place.part == 0) t.leaf = leafOf(value);
        vm.prank(who);
        dataAvailability.provideLeaf(s, place, r, t);
    }
}
