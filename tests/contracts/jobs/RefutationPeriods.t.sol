// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Refuters} from "../support/Refuters.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {IJobs, JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice What a lost refutation leaves: a period in which the root can be refuted again, and nothing else.
contract RefutationPeriodsTest is Refuters {
    using Views for Jobs;

    /// @dev The liar's own ally refutes first, in the challenge phase, and is silent. Who has found the same lie waits for
    /// it, and has a challenge period, beyond the end of the challenge phase.
    function test_aLostRefutationProvesNothing() public {
        uint256 job = claimed(8);
        pass(PERIOD - 2);
        refute(job, 2, 8, 7);
        commitRefutation(job, person(3), 8, 7);
        winByDefault(job, 8);
        inPhase(job, JobPhase.Closing);
        uint256 until = currentSecond() + PERIOD;
        eq(groupOf(job, 8).refutableUntil, until, "it can be refuted");
        eq(groupOf(job, 8).until, 0, "but no data requested, and nobody claims it again");
        eq(jobs.jobOf(job).reclaimEnd, until, "so the job waits");
        refuteAt(job, 3, until - 1);
        vm.expectRevert(abi.encodeWithSelector(IJobs.MatchesOpen.selector, job, 1));
        jobs.finalize(job);
        refutationWins(job, 8, 7);
        credited(person(3), STAKE / 2, "the prize");
        inPhase(job, JobPhase.Challenge);
        vm.warp(jobs.jobOf(job).challengeEnd + PERIOD);
        finalize(job);
        inPhase(job, JobPhase.Unclaimed);
    }

    /// @dev Again and again: each one that is lost opens a period, in whose last second the next can begin.
    function test_aPeriodFollowsEachLostRefutation() public {
        uint256 job = claimed(7);
        uint256 burned_;
        for (uint160 n = 0; n < 4; ++n) {
            if (n > 0) vm.warp(groupOf(job, 7).refutableUntil - 2);
            eq(refute(job, 2 + n, 7, 8), STAKE << n, "each costs twice the one before");
            winByDefault(job, 7);
            eq(groupOf(job, 7).refutableUntil, currentSecond() + PERIOD, "another period");
            burned_ += (STAKE << n) / 2;
            eq(burned(), burned_, "half of each is burned");
            credited(person(1), burned_, "and half is the claimant's");
        }
        uint256 until = groupOf(job, 7).refutableUntil;
        vm.warp(until - 1);
        vm.expectRevert(abi.encodeWithSelector(IJobs.ReclaimsOpen.selector, until));
        jobs.finalize(job);
        commitRefutation(job, person(9), 7, 8); // a second passes
        refuteRefused(job, 9, told(7, 8), 99 * STAKE, IJobs.RootClosed.selector);
        finalize(job);
        eq(jobs.jobOf(job).acceptedRoot, root(7), "the right root is accepted");
        credited(person(1), burned_ + STAKE + REWARD, "and its claimant has lost nothing");
    }

    /// @dev Where both are wrong and the root has another claim, the next spokesman can be refuted for a period, too.
    function test_aRefutationThatLosesWithTheSpokesmanOpensAPeriod() public {
        uint256 job = claimed(8, 8);
        pass(PERIOD - 2);
        refute(job, 3, 8, 9);
        commitRefutation(job, person(4), 8, 7);
        uint256 id = matchOf(job, 8);
        pass(CLOCK + 1);
        referee.timeout(id);
        inPhase(job, JobPhase.Closing);
        eq(spokesman(job, 8), person(2), "the next speaks");
        eq(groupOf(job, 8).refutableUntil, currentSecond() + PERIOD, "and its root can be refuted");
        refuteAt(job, 4, currentSecond() + PERIOD - 1);
        refutationWins(job, 8, 7);
        yes(!isClaimed(job, 8), "nobody is left");
    }

    /// @dev A right refutation does not open a period: its author plays the next spokesman at once.
    function test_aRefutationThatWinsOpensNoPeriod() public {
        uint256 job = claimed(8, 8);
        refute(job, 3, 8, 7);
        winByDefault(job, 7);
        eq(groupOf(job, 8).refutableUntil, 0, "none");
        yes(matchOf(job, 8) != 0, "it plays on");
        winByDefault(job, 8);
        eq(groupOf(job, 8).refutableUntil, currentSecond() + PERIOD, "until it gives up");
    }

    /// @dev In the second challenge period of a job, and after it.
    function test_aPeriodFollowsInTheSecondChallengePeriodToo() public {
        uint256 job = claimed(8);
        refute(job, 2, 8, 7);
        winByDefault(job, 7);
        uint256 end = jobs.jobOf(job).reopened;
        vm.warp(end - 2);
        challenge(job, person(3), 9);
        refute(job, 4, 9, 6);
        winByDefault(job, 9);
        inPhase(job, JobPhase.Closing);
        uint256 until = groupOf(job, 9).refutableUntil;
        eq(until, currentSecond() + PERIOD, "a period");
        vm.warp(until - 2);
        refute(job, 5, 9, 7);
        refutationWins(job, 9, 7);
        eq(jobs.jobOf(job).reopened, end, "but no third challenge period");
        toTheEnd(job);
        finalize(job);
        inPhase(job, JobPhase.Unclaimed);
    }

    function test_whereLogsAreWithheldALostRefutationOpensNothing() public {
        uint256 job = claimed(8);
        refute(job, 2, 8, 7);
        vm.prank(address(dataAvailability));
        jobs.forfeit(job, 0, true, person(5));
        uint256 id = lastGroup(job).matchId;
        submit(id, 8, 7);
        rule(id, 8);
        eq(groupOf(job, 8).refutableUntil, 0, "nothing is accepted");
        eq(jobs.jobOf(job).reclaimEnd, 0, "and nothing waits");
    }

    /// @dev The period is for refutations alone: a root's data cannot be requested for longer because it is refuted.
    function test_aLostRefutationOpensNoRequests() public {
        uint256 job = claimed(8);
        pass(PERIOD - 2);
        refute(job, 2, 8, 7);
        winByDefault(job, 8);
        yes(currentSecond() < groupOf(job, 8).refutableUntil, "it can be refuted");
        (bytes32 refuted, uint64 now_) = (root(8), uint64(currentSecond()));
        vm.prank(address(dataAvailability));
        refuses(IJobs.WrongPhase.selector);
        jobs.extend(job, refuted, 0, now_);
    }
}
