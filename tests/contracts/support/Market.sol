// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Claimed} from "./Claimed.sol";
import {Positions} from "./Positions.sol";
import {Statements} from "./Statements.sol";
import {Views} from "./Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {LogBlock} from "contracts/commit/Logs.sol";
import {Dispute, TrialPosition, TrialTerms} from "contracts/interfaces/ICourt.sol";
import {Inputs, Opening} from "contracts/interfaces/IExaminer.sol";
import {Group, Job, JobPhase, StakedClaim} from "contracts/interfaces/IJobs.sol";
import {Hearing, HearingPhase, Submission} from "contracts/interfaces/IPanel.sol";
import {Exhibit, Match, MatchTerms, Position, Record} from "contracts/interfaces/IReferee.sol";

/// @title Market
/// @notice The matches, hearings and trials of the claims of Claimed.
abstract contract Market is Claimed {
    using Views for Jobs;

    mapping(uint256 id => MatchTerms) private _matchTerms;

    // ------------------------------------------------------------------ matches

    /// @dev Returns the match that the group of this output is in.
    function matchOf(uint256 job, uint256 output) internal view returns (uint256) {
        return groupOf(job, output).matchId;
    }

    function groupOf(uint256 job, uint256 output) internal view returns (Group memory) {
        (Group[] memory groups, bytes32 wanted) = (jobs.groupsOf(job), root(output));
        for (uint256 i = 0; i < groups.length; ++i) {
            if (groups[i].root == wanted) return groups[i];
        }
        revert NotSo("there is such a group");
    }

    function spokesman(uint256 job, uint256 output) internal view returns (address) {
        Group memory group = groupOf(job, output);
        return jobs.claimsFrom(job, group.members[group.spokesman])[0].owner;
    }

    /// @dev Reads them from the job while the match runs; later they are known only if an operator was submitted.
    function matchTerms(uint256 id) internal view returns (MatchTerms memory d) {
        if (_matchTerms[id].number != 0) return _matchTerms[id];
        uint256 job = referee.getMatch(id).jobId;
        (, uint32 group0, uint32 group1) = jobs.pairOf(job, id);
        (d.roots[0], d.players[0]) = this.speaking(job, group0);
        (d.roots[1], d.players[1]) = this.speaking(job, group1);
        (d.clock, d.program, d.number) = (CLOCK, jobs.jobOf(job).terms.program, uint48(id));
    }

    /// @dev Returns the root of a group, and its spokesman. NOTE: a call, so that its memory is freed.
    function speaking(uint256 job, uint256 number) external view returns (bytes32, address) {
        Group memory group = jobs.groupsFrom(job, number)[0];
        return (group.root, jobs.claimsFrom(job, group.members[group.spokesman])[0].owner);
    }

    /// @dev NOTE: a match of these jobs stays at its first position.
    function here(uint256 id) internal view returns (Position memory) {
        return Positions.opened(matchTerms(id));
    }

    /// @dev Lets the side of this output win, while the other side is silent.
    function winByDefault(uint256 job, uint256 output) internal {
        uint256 id = matchOf(job, output);
        uint8 side = matchTerms(id).roots[0] == root(output) ? 0 : 1;
        referee.openRecord(id, here(id), side, record(output));
        vm.warp(referee.deadline(id) + 1);
        referee.timeout(id);
    }

    function submit(uint256 id, uint256 output0, uint256 output1) internal {
        Exhibit memory e;
        (e.record0, e.record1, e.structure) = (record(output0), record(output1), STRUCTURE);
        _matchTerms[id] = matchTerms(id);
        referee.submit(id, matchTerms(id), here(id), e);
    }

    // ------------------------------------------------------------------ hearings

    function hearingOf(uint256 id) internal view returns (uint256) {
        return panel.hearingOf(address(referee), id);
    }

    function disputeOf(uint256 id) internal view returns (Dispute memory d) {
        bytes32[2] memory roots = matchTerms(id).roots;
        (d.records[0], d.records[1]) = (record(outputOf(roots[0])), record(outputOf(roots[1])));
        (d.structure, d.mode) = (STRUCTURE, 1);
    }

    /// @dev Returns the referee's submission of a match.
    function submissionOf(uint256 id) internal view returns (Submission memory) {
        Match memory m = referee.getMatch(id);
        return Submission({
            matchId: id,
            jobs: m.jobs,
            jobId: m.jobId,
            step: 1,
            node: 0,
            players: matchTerms(id).players,
            records: matchTerms(id).roots,
            dispute: keccak256(abi.encode(disputeOf(id)))
        });
    }

    /// @dev The `i`-th verifier votes for this output.
    function vote(uint256 id, uint256 i, uint256 output) internal {
        uint256 hearingId = hearingOf(id);
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(keys[i], panel.verdictDigest(hearingId, 1, 0, root(output)));
        panel.attest(hearingId, submissionOf(id), root(output), abi.encodePacked(r, s, v));
    }

    /// @dev Two verifiers vote for this output.
    function decide(uint256 id, uint256 output) internal {
        vote(id, 0, output);
        vote(id, 1, output);
    }

    /// @dev Two verifiers vote for this output, and nobody appeals.
    function rule(uint256 id, uint256 output) internal {
        decide(id, output);
        pass(PERIOD);
        proceed(id);
    }

    /// @dev Draws the conclusion from silence.
    function proceed(uint256 id) internal {
        panel.proceed(hearingOf(id), submissionOf(id));
    }

    function phaseOf(uint256 id) internal view returns (HearingPhase) {
        return panel.getHearing(hearingOf(id)).phase;
    }

    function appeal(uint256 id, address who) internal {
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id), disputeOf(id));
        vm.prank(who);
        panel.appeal{value: STAKE}(hearingId, s, d);
    }

    function escalate(uint256 id) internal {
        panel.escalate(hearingOf(id), submissionOf(id), disputeOf(id));
    }

    /// @dev The `i`-th verifier stands by the verdict for this output.
    function stand(uint256 id, uint256 i, uint256 output) internal {
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id), disputeOf(id));
        Record memory defended = record(output);
        vm.prank(verifier(i));
        panel.stand(hearingId, s, d, defended);
    }

    // ------------------------------------------------------------------ trials

    /// @dev Returns the terms of the hearing's present trial, about this dispute.
    function trialTermsOf(uint256 id, Dispute memory d) internal view returns (TrialTerms memory trialTerms) {
        uint256 hearingId = hearingOf(id);
        Hearing memory h = panel.getHearing(hearingId);
        trialTerms = TrialTerms(
            address(panel), hearingId | h.trials, matchTerms(id).players, keccak256(abi.encode(d))
        );
        if (h.phase == HearingPhase.Stand) trialTerms.players[1 - h.side] = h.defendant;
    }

    function _between(uint256 id, uint256 output0, uint256 output1) private view returns (Dispute memory d) {
        d = disputeOf(id);
        (d.records[0], d.records[1]) = (record(output0), record(output1));
    }

    /// @dev Plays a trial between these outputs to its end: a side whose output is not the one of `full` loses.
    function tryHonestly(uint256 id, uint256 output0, uint256 output1) internal {
        Dispute memory d = _between(id, output0, output1);
        TrialTerms memory trialTerms = trialTermsOf(id, d);
        Inputs memory none;
        TrialPosition memory position;
        bytes32[2] memory roots = [dataRoot(output0), dataRoot(output1)];
        court.showOutputs(trialTerms, d, position, roots);
        position.nodes = roots;
        LogBlock memory log;
        court.compare(trialTerms, d, position, leaf(output0), leaf(output1), none, log);
        bytes memory first = new bytes(8);
        position = Statements.found([uint64(output0), uint64(output1)], first);
        court.judge(trialTerms, d, position, none, first, new Opening[](0));
    }

    /// @dev Plays a trial in which only this side moves.
    function tryAlone(uint256 id, uint8 side, uint256 output0, uint256 output1) internal {
        Dispute memory d = _between(id, output0, output1);
        TrialTerms memory trialTerms = trialTermsOf(id, d);
        TrialPosition memory nothing;
        bytes32 root_ = dataRoot(side == 0 ? output0 : output1);
        court.showOutputs(trialTerms, d, nothing, Statements.only(side, root_));
        vm.warp(court.deadline(court.trialOf(trialTerms)) + 1);
        court.timeout(trialTerms);
    }

    // ------------------------------------------------------------------ the end

    /// @dev Goes to the first second in which a job without an open match can be finalized.
    function toTheEnd(uint256 job) internal {
        Job memory j = jobs.jobOf(job);
        vm.warp(j.reclaimEnd > j.challengeEnd ? j.reclaimEnd : j.challengeEnd);
    }

    /// @dev Ends the job, and collects every claim that is not lost.
    function finalize(uint256 job) internal {
        jobs.finalize(job);
        StakedClaim[] memory claims = jobs.claimsOf(job);
        for (uint32 i = 0; i < claims.length; ++i) {
            if (!claims[i].lost) jobs.collect(job, i);
        }
    }

    // ------------------------------------------------------------------ checks

    function inPhase(uint256 job, JobPhase want) internal view {
        eq(uint256(jobs.phaseOf(job)), uint256(want), "phase");
    }

    function credited(address account, uint256 want, string memory what) internal view {
        eq(jobs.credit(account), want, what);
    }

    function burned() internal view returns (uint256) {
        return jobs.credit(jobs.BURNED());
    }
}
