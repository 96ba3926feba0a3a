// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Requested} from "../availability/Requested.sol";
import {Heard} from "../support/Heard.sol";
import {Statements} from "../support/Statements.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Dispute, ICourt, TrialPosition, TrialTerms} from "contracts/interfaces/ICourt.sol";
import {IDataAvailability, Subject} from "contracts/interfaces/IDataAvailability.sol";
import {IJobs, JobPhase} from "contracts/interfaces/IJobs.sol";
import {HearingPhase, IPanel} from "contracts/interfaces/IPanel.sol";
import {IReferee, Match, Reason} from "contracts/interfaces/IReferee.sol";

/// @notice A pause stops every clock and period of all contracts, for as long as it lasts and no longer; moves go on.
contract PauseTest is Heard, Requested {
    using Views for Jobs;

    function _pause() private {
        vm.prank(GUARDIAN);
        time.pause();
    }

    function _resume() private {
        vm.prank(GUARDIAN);
        time.resume();
    }

    // ------------------------------------------------------------------ jobs

    function test_thePhasesOfAJobWait() public {
        uint256 posted = post(1);
        pass(PERIOD - 1);
        _pause();
        pass(PAUSES / 2);
        inPhase(posted, JobPhase.Training);
        join(posted, person(1));
        commit(posted, person(1), 7);
        inPhase(posted, JobPhase.Reveal);
        eq(jobs.jobOf(posted).revealEnd, time.time() + PERIOD, "the next begins now, by the time that stands");
        _resume();
        pass(PERIOD - 1);
        reveal(posted, person(1), 7);
        pass(PERIOD - 1);
        inPhase(posted, JobPhase.Challenge);
        pass(1);
        jobs.finalize(posted);
        inPhase(posted, JobPhase.Accepted);
    }

    /// @dev Blocks follow each other in a pause, and a commitment is opened in a later one.
    function test_aClaimCanBeChallengedInAPause() public {
        uint256 posted = claimed(8);
        _pause();
        challenge(posted, person(2), 7);
        yes(matchOf(posted, 7) != 0, "they meet");
    }

    function test_moneyIsDrawnInAPause() public {
        uint256 posted = claimed(7);
        pass(PERIOD);
        jobs.finalize(posted);
        _pause();
        jobs.collect(posted, 0);
        uint256 before = person(1).balance;
        vm.prank(person(1));
        jobs.withdraw();
        eq(person(1).balance, before + STAKE + REWARD, "all of it");
    }

    // ------------------------------------------------------------------ matches

    function test_theClocksOfAMatchWait() public {
        uint256 posted = claimed(8);
        challenge(posted, person(2), 7);
        uint256 match_ = matchOf(posted, 7);
        uint256 deadline = referee.deadline(match_);
        pass(10);
        _pause();
        pass(5 * CLOCK);
        eq(referee.deadline(match_), deadline, "the same");
        (bool late0, bool late1) = referee.late(match_);
        yes(!late0 && !late1, "nobody is late");
        refuses(IReferee.NotLate.selector);
        referee.timeout(match_);
        referee.openRecord(match_, here(match_), 1, record(7));
        Match memory m = referee.getMatch(match_);
        yes(m.clock0 == CLOCK - 10 && m.clock1 == CLOCK - 10, "charged for what was before the pause");
        _resume();
        pass(CLOCK - 10);
        refuses(IReferee.NotLate.selector);
        referee.timeout(match_);
        pass(1);
        referee.timeout(match_);
        eq(referee.getMatch(match_).losers, 1, "who has not moved");
    }

    /// @dev Nobody needs to resume: the guardian can delay a match by the budget only.
    function test_aMatchEndsThoughTheGuardianIsGone() public {
        uint256 posted = claimed(8);
        challenge(posted, person(2), 7);
        _pause();
        pass(PAUSES + CLOCK);
        uint256 match_ = matchOf(posted, 7);
        refuses(IReferee.NotLate.selector);
        referee.timeout(match_);
        pass(1);
        referee.timeout(match_);
        eq(uint256(referee.getMatch(match_).reason), uint256(Reason.Timeout), "reason");
    }

    // ------------------------------------------------------------------ hearings and trials

    function test_thePeriodsOfAHearingWait() public {
        _hear(7, 8);
        pass(PERIOD - 1);
        _pause();
        pass(PAUSES / 2);
        refuses(IPanel.PeriodRunning.selector);
        this.escalated();
        decide(id, 8);
        _in(HearingPhase.Ruled);
        eq(panel.getHearing(hearingOf(id)).until, time.time() + PERIOD, "counted by the time that stands");
        _resume();
        pass(PERIOD - 1);
        appeal(id, person(1));
        _in(HearingPhase.Trial);
    }

    function escalated() external {
        escalate(id);
    }

    function test_theClocksOfATrialWait() public {
        _hearInCourt(7, 8);
        Dispute memory d = disputeOf(id);
        TrialTerms memory trialTerms = trialTermsOf(id, d);
        uint256 trial = court.trialOf(trialTerms);
        uint256 deadline = court.deadline(trial);
        _pause();
        pass(5 * CLOCK);
        eq(court.deadline(trial), deadline, "the same");
        refuses(ICourt.NotTooLate.selector);
        court.timeout(trialTerms);
        TrialPosition memory nothing;
        court.showOutputs(trialTerms, d, nothing, Statements.only(0, dataRoot(7)));
        eq(court.getTrial(trial).clock0, CLOCK, "nothing charged");
        _resume();
        pass(CLOCK + 1);
        court.timeout(trialTerms);
        _decided(2, Reason.Timeout);
    }

    // ------------------------------------------------------------------ requests

    function test_aRequestWaits() public {
        uint256 posted = runClaimed();
        Subject memory s = ofLogs(posted);
        request(s, digests(1));
        uint256 until = dataAvailability.requestOf(s, digests(1)).until;
        eq(until, time.time() + PERIOD, "until");
        pass(PERIOD);
        _pause();
        pass(PAUSES / 2);
        refuses(IDataAvailability.NotLate.selector);
        dataAvailability.close(s, digests(1));
        answer(s, digests(1)); // in the last second, which lasts
        request(s, digests(2));
        _resume();
        pass(PERIOD + 1);
        dataAvailability.close(s, digests(2));
        eq(jobs.jobOf(posted).finder, AUDITOR, "withheld");
        refuses(IJobs.WrongPhase.selector);
        jobs.finalize(posted);
    }
}
