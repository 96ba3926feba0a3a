// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Refuters} from "../support/Refuters.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Merkle} from "contracts/commit/Merkle.sol";
import {Group, IJobs, JobPhase, MAX_URI, Refutation} from "contracts/interfaces/IJobs.sol";
import {Phase} from "contracts/interfaces/IReferee.sol";

/// @notice Refutations: who may refute what and when, what it costs, in which order they play, and what follows.
contract RefutationsTest is Refuters {
    using Views for Jobs;

    // ------------------------------------------------------------------ results

    function test_aRightRefutationTakesTheClaimAndOpensTheJobAgainOnce() public {
        uint256 job = claimed(8);
        pass(PERIOD - 2);
        eq(refute(job, 2, 8, 7), STAKE, "the first costs a stake");
        uint256 id = matchOf(job, 8);
        eq(matchTerms(id).roots[0], root(8), "the claim is side 0");
        eq(matchTerms(id).players[1], person(2), "the refuter is side 1");
        submit(id, 8, 7);
        rule(id, 7);
        inPhase(job, JobPhase.Challenge);
        eq(jobs.jobOf(job).reopened, block.timestamp + PERIOD, "a new challenge period");
        eq(jobs.jobOf(job).challengeEnd, jobs.jobOf(job).reopened, "for everybody");
        credited(person(2), STAKE / 2 - STAKE / 10, "the prize, less what the verifiers get");
        uint256 end = jobs.jobOf(job).challengeEnd;

        challenge(job, person(3), 9);
        // NOTE: 9 is silent, so it loses to whatever is stated.
        refute(job, 4, 9, 6);
        winByDefault(job, 6);
        eq(jobs.jobOf(job).challengeEnd, end, "but only one");
        vm.warp(end + 2 * PERIOD);
        finalize(job);
        inPhase(job, JobPhase.Unclaimed);
        credited(CLIENT, REWARD, "the client has its reward");
        credited(person(2), 2 * STAKE - STAKE / 2 - STAKE / 10, "and the refuter its stake");
    }

    function test_theRightRootIsClaimedInTheNewPeriodAndGetsTheReward() public {
        uint256 job = claimed(8);
        refute(job, 2, 8, 7);
        winByDefault(job, 7);
        challenge(job, person(3), 7);
        eq(matchOf(job, 7), 0, "it plays nobody: a refutation is not a claim of its root");
        vm.warp(jobs.jobOf(job).challengeEnd + PERIOD);
        finalize(job);
        eq(jobs.jobOf(job).acceptedRoot, root(7), "the right root");
        credited(person(3), STAKE * 17 / 16 - STAKE / 16 + REWARD, "the reward is the claimant's");
        credited(person(2), STAKE + STAKE / 2, "the refuter has its stake and the prize");
    }

    function test_aWrongRefutationLosesAndHalfIsBurned() public {
        uint256 job = claimed(7);
        refute(job, 2, 7, 8);
        winByDefault(job, 7);
        credited(person(1), STAKE / 2, "half");
        eq(burned(), STAKE / 2, "and half");
        eq(jobs.jobOf(job).reopened, 0, "no new period");
        pass(PERIOD);
        finalize(job);
        eq(jobs.jobOf(job).acceptedRoot, root(7), "the claim stands");
        credited(person(2), 0, "the refuter has nothing");
    }

    function test_whereBothAreWrongBothLose() public {
        uint256 job = claimed(8);
        refute(job, 2, 8, 9);
        uint256 id = matchOf(job, 8);
        pass(CLOCK + 1);
        referee.timeout(id);
        eq(burned(), 2 * STAKE, "both stakes");
        eq(jobs.jobOf(job).reopened, block.timestamp + PERIOD, "and nobody is left");
    }

    function test_aWinnerPlaysTheNextSpokesmanFirst() public {
        uint256 job = claimed(8, 8);
        refute(job, 3, 8, 7);
        refute(job, 4, 8, 9);
        eq(lastGroup(job).matchId, 0, "the second one waits for the first");
        winByDefault(job, 7);
        uint256 id = matchOf(job, 8);
        eq(matchTerms(id).players[0], person(2), "the next spokesman");
        eq(matchTerms(id).players[1], person(3), "meets the winner");
        winByDefault(job, 7);
        credited(person(3), STAKE, "two prizes");
        eq(groupOf(job, 8).matchId, 0, "nobody is left to play");
        yes(jobs.jobOf(job).reopened != 0, "nor to claim");
        // The root is claimed again: the winner plays it at once, and is not asked twice.
        challenge(job, person(5), 8);
        eq(matchTerms(matchOf(job, 8)).players[1], person(3), "he has not given up");
        winByDefault(job, 8);
        eq(matchTerms(matchOf(job, 8)).players[1], person(4), "then comes who has waited");
    }

    function test_aRefutationWaitsForTheMatchOfAClaim() public {
        uint256 job = claimed(7, 8);
        uint256 id = matchOf(job, 7);
        refute(job, 3, 7, 9);
        refute(job, 4, 8, 9);
        eq(lastGroup(job).matchId, 0, "both wait");
        submit(id, 7, 8);
        rule(id, 7);
        id = matchOf(job, 7);
        eq(matchTerms(id).players[1], person(3), "the winner plays its refutation");
        eq(lastGroup(job).matchId, 0, "that of the dead one has no opponent");
        winByDefault(job, 7);
        pass(2 * PERIOD);
        finalize(job);
        eq(jobs.jobOf(job).acceptedRoot, root(7), "accepted");
        credited(person(4), STAKE, "who has not played has its stake");
        credited(person(3), 0, "who has lost has not");
    }

    function test_aRefutationIsNoClaimOfItsRoot() public {
        uint256 job = claimed(8);
        refute(job, 2, 8, 7);
        (, bool alive) = jobs.standing(job, root(7));
        yes(!alive, "nobody can request data of it");
        eq(jobs.priceOf(job, root(7)), STAKE, "and it is not dearer to claim");
        Group memory group = lastGroup(job);
        yes(group.refutes == 1 && group.root == root(7), "a group of its own");
    }

    function test_losingToOneselfCostsHalfAStake() public {
        uint256 job = claimed(8);
        refute(job, 2, 8, 7);
        winByDefault(job, 7);
        vm.warp(jobs.jobOf(job).challengeEnd + PERIOD);
        finalize(job);
        uint256 back = jobs.credit(person(1)) + jobs.credit(person(2));
        eq(back, 2 * STAKE - STAKE / 2, "of two stakes half of one is burned");
    }

    // ------------------------------------------------------------------ many of one account

    /// @dev One account refutes every wrong root, has a claim, and refutes one root twice.
    function test_anAccountRefutesAsOftenAsItPays() public {
        uint256 job = claimed(7, 8, 9);
        commitRefutation(job, person(1), 8, 7);
        commitRefutation(job, person(1), 9, 7);
        uint256 start = currentSecond();
        refute(job, 1, 8, 7);
        refute(job, 1, 9, 7);
        eq(refute(job, 1, 9, 6), 2 * STAKE, "the second of a root costs twice as much");
        eq(jobs.groupsOf(job).length, 6, "three claims and three refutations");
        bytes32 c = jobs.commitmentOf(job, person(1), root(7), root(7), root(8), "salt");
        yes(jobs.committedAt(job, c) < start, "each commitment is as old as it was");
        challengeRefused(job, person(1), 7, STAKE, IJobs.AlreadyClaimed.selector);
        winByDefault(job, 7);
        refutationWins(job, 9, 7);
        toTheEnd(job);
        finalize(job);
        eq(jobs.jobOf(job).acceptedRoot, root(7), "the right root");
        eq(jobs.credit(person(1)), 5 * STAKE + REWARD + STAKE, "five stakes, the reward and two prizes");
    }

    /// @dev Who has refuted can claim a root, once.
    function test_aRefuterCanClaim() public {
        uint256 job = claimed(8);
        refute(job, 2, 8, 9);
        challenge(job, person(2), 7);
        challengeRefused(job, person(2), 6, 2 * STAKE, IJobs.AlreadyClaimed.selector);
        eq(spokesman(job, 7), person(2), "it speaks for its claim");
    }

    /// @dev An account that refutes its own claim is both players, and loses half a stake, as with two accounts.
    function test_aMatchOfAnAccountWithItself() public {
        uint256 job = claimed(8);
        refute(job, 1, 8, 7);
        uint256 id = matchOf(job, 8);
        yes(matchTerms(id).players[0] == matchTerms(id).players[1], "both");
        submit(id, 8, 7);
        decide(id, 8);
        appeal(id, person(1));
        eq(panel.getHearing(hearingOf(id)).appellant, 1, "for the root that the verdict is against");
        tryHonestly(id, 8, 7);
        pass(PERIOD + 1);
        proceed(id);
        yes(!isClaimed(job, 8), "the wrong side has lost");
        vm.warp(jobs.jobOf(job).challengeEnd + PERIOD);
        finalize(job);
        credited(person(1), 2 * STAKE - STAKE / 2, "half of a stake is burned");
    }

    // ------------------------------------------------------------------ prices and refusals

    function test_eachRefutationOfARootCostsTwiceTheOneBefore() public {
        uint256 job = claimed(7, 8);
        for (uint160 n = 0; n < 4; ++n) {
            eq(refute(job, 3 + n, 7, 20 + n), STAKE << n, "twice");
        }
        eq(jobs.refutationPriceOf(job, root(8)), STAKE, "but not of another root");
        eq(jobs.refutationPriceOf(job, root(99)), STAKE, "nor of one that nobody has claimed");
    }

    function test_refusals() public {
        uint256 job = claimed(8);
        Refutation memory r = told(8, 7);
        refuteRefused(job, 2, r, STAKE, IJobs.NothingCommitted.selector);
        commitChallenge(job, person(2), 7);
        refuteRefused(job, 2, r, STAKE, IJobs.NothingCommitted.selector);
        commitRefutation(job, person(2), 8, 7);
        vm.warp(currentSecond() - 1);
        refuteRefused(job, 2, r, STAKE, IJobs.TooSoon.selector);
        pass(1);
        refuteRefused(job, 1, r, STAKE, IJobs.NothingCommitted.selector);
        refuteRefused(job, 2, r, STAKE - 1, IJobs.WrongStake.selector);
        refuteRefused(job, 2, told(9, 7), STAKE, IJobs.NothingToRefute.selector);
        refuteRefused(job, 2, told(8, 8), STAKE, IJobs.SameCheckpoint.selector);
        refuteRefused(99, 2, r, STAKE, IJobs.WrongPhase.selector);
        r.interval = 1;
        refuteRefused(job, 2, r, STAKE, IJobs.NoSuchInterval.selector);
        r.interval = type(uint64).max;
        refuteRefused(job, 2, r, STAKE, IJobs.NoSuchInterval.selector);
        r.interval = 0;
        r.path = new bytes32[](1);
        refuteRefused(job, 2, r, STAKE, Merkle.WrongPathLength.selector);
        r = told(8, 7);
        r.claimed = root(6);
        refuteRefused(job, 2, r, STAKE, Merkle.PathMismatch.selector);
        r = told(8, 7);
        r.uri = string(new bytes(MAX_URI + 1));
        refuteRefused(job, 2, r, STAKE, IJobs.UriTooLong.selector);

        refute(job, 2, 8, 7);
        winByDefault(job, 7);
        commitRefutation(job, person(3), 8, 7);
        refuteRefused(job, 3, told(8, 7), 2 * STAKE, IJobs.NothingToRefute.selector);
    }

    function test_whenARootCanBeRefuted() public {
        uint256 job = post(1);
        join(job, person(1));
        commit(job, person(1), 8);
        commitRefutation(job, person(2), 8, 7);
        refuteRefused(job, 2, told(8, 7), STAKE, IJobs.WrongPhase.selector);
        reveal(job, person(1), 8);
        pass(PERIOD - 2);
        challenge(job, person(3), 9);
        winByDefault(job, 9);
        inPhase(job, JobPhase.Closing);
        // The challenger's root can be refuted for a challenge period from its claim, the trainer's is dead.
        uint256 until = groupOf(job, 9).until;
        commitRefutation(job, person(4), 9, 7);
        vm.warp(until);
        refuteRefused(job, 4, told(9, 7), STAKE, IJobs.RootClosed.selector);
        vm.warp(until - 1);
        Refutation memory r = told(9, 7);
        vm.deal(person(4), STAKE);
        vm.prank(person(4));
        jobs.refute{value: STAKE}(job, r, "salt");
        yes(matchOf(job, 9) != 0, "in the last second");
    }

    function test_whereLogsAreWithheldNothingIsRefuted() public {
        uint256 job = claimed(8);
        commitRefutation(job, person(2), 8, 7);
        // NOTE: the finder is set by the contract of data requests alone.
        vm.prank(address(dataAvailability));
        jobs.forfeit(job, 0, true, person(5));
        refuteRefused(job, 2, told(8, 7), STAKE, IJobs.NothingToRefute.selector);
    }

    function test_theExcessIsCredited() public {
        uint256 job = claimed(8);
        commitRefutation(job, person(2), 8, 7);
        vm.deal(person(2), 3 * STAKE);
        Refutation memory r = told(8, 7);
        vm.prank(person(2));
        jobs.refute{value: 3 * STAKE}(job, r, "salt");
        credited(person(2), 2 * STAKE, "what is more than the price");
    }

    // ------------------------------------------------------------------ gas

    function test_gas() public {
        uint256 job = claimed(8);
        commitRefutation(job, person(2), 8, 7);
        Refutation memory r = told(8, 7);
        vm.deal(person(2), STAKE);
        vm.prank(person(2));
        jobs.refute{value: STAKE}(job, r, "salt");
        vm.snapshotGasLastCall("jobs", "refute");
        yes(referee.getMatch(matchOf(job, 8)).phase == Phase.Open, "the match is open");
    }
}
