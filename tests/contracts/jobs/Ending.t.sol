// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Claim, IJobs, Job, JobPhase, Terms} from "contracts/interfaces/IJobs.sol";

/// @notice Claims after the challenge phase, their end, and the payments of a job.
contract EndingTest is Market {
    using Views for Jobs;

    uint160 private _next = 50;

    /// @dev A new challenger, who sends more than enough, is refused.
    function _refused(uint256 job, uint256 output) private {
        address who = person(++_next);
        commitChallenge(job, who, output);
        Claim memory c = claim(output);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IJobs.RootClosed.selector, c.root));
        jobs.challenge{value: 50 * STAKE}(job, c, bytes32(output));
    }

    /// @dev A new challenger claims at that second.
    function _claimAt(uint256 job, uint256 output, uint256 instant) private returns (address who) {
        who = person(++_next);
        commitChallenge(job, who, output);
        Claim memory c = claim(output);
        uint256 price = priceOf(job, output);
        vm.warp(instant);
        vm.prank(who);
        jobs.challenge{value: price}(job, c, bytes32(output));
    }

    /// @dev Claims the second root in the last second of the challenge phase, and ends the phase.
    function _besieged(uint256[] memory outputs, uint256 lie) private returns (uint256 job) {
        job = claimed(outputs);
        uint256 end = jobs.jobOf(job).challengeEnd;
        _claimAt(job, lie, end - 1);
        vm.warp(end);
        inPhase(job, JobPhase.Closing);
    }

    function _besieged(uint256 truth, uint256 lie) private returns (uint256) {
        uint256[] memory outputs = new uint256[](1);
        outputs[0] = truth;
        return _besieged(outputs, lie);
    }

    // ------------------------------------------------------------------ closed roots

    /// @dev The last second of the challenge phase, and the first one after it.
    function test_newRootsComeInTheChallengePhaseOnly() public {
        uint256 job = claimed(7);
        _claimAt(job, 8, jobs.jobOf(job).challengeEnd - 1);
        eq(jobs.jobOf(job).founded, 1, "in the last second");
        job = claimed(7);
        address who = person(40);
        commitChallenge(job, who, 8);
        vm.warp(jobs.jobOf(job).challengeEnd);
        challengeRefused(job, who, 8, 50 * STAKE, IJobs.RootClosed.selector);
        _refused(job, 9);
        eq(jobs.jobOf(job).founded, 0, "not in the next");
    }

    /// @dev A root that has not lost a claim needs no further spokesman.
    function test_aRootThatHasLostNothingIsClosed() public {
        uint256 waiting = claimed(7);
        uint256 job = _besieged(7, 8);
        _refused(job, 7); // plays
        _refused(job, 8);
        _refused(waiting, 7); // waits
        winByDefault(job, 7);
        _refused(job, 7); // has won
        _claimAt(job, 8, time.time() + 5); // has lost
    }

    /// @dev A root that has lost a claim can be claimed as long as another claim of it stands.
    function test_aRootThatHasLostAClaimIsOpenWhileAnotherStands() public {
        uint256[] memory outputs = new uint256[](2);
        (outputs[0], outputs[1]) = (7, 7);
        uint256 job = _besieged(outputs, 8);
        _refused(job, 7);
        winByDefault(job, 8);
        yes(isClaimed(job, 7), "the second speaks");
        pass(5 * PERIOD); // for any time
        address who = _claimAt(job, 7, time.time() + 5);
        eq(groupOf(job, 7).members.length, 3, "a third stands behind it");
        _refused(job, 8);
        uint256 id = matchOf(job, 7);
        referee.timeout(id); // both have been silent
        eq(spokesman(job, 7), who, "and speaks");
        yes(!isClaimed(job, 8), "the lie is dead");
        eq(jobs.jobOf(job).waiting, 1, "it waits");
        _claimAt(job, 7, time.time() + 5); // NOTE: useless and harmless
        toTheEnd(job);
        finalize(job);
        eq(jobs.jobOf(job).acceptedRoot, root(7), "accepted");
    }

    /// @dev In the last second before `until` a dead root can be claimed and the job not finalized; then the reverse.
    function test_aDeadRootIsOpenUntilItsInstant() public {
        for (uint256 late = 0; late < 2; ++late) {
            uint256 job = _besieged(7, 8);
            winByDefault(job, 8);
            uint256 until = groupOf(job, 7).until;
            eq(until, time.time() + PERIOD, "a challenge period from its death");
            eq(jobs.jobOf(job).reclaimEnd, until, "the job waits as long");
            address who = person(++_next);
            commitChallenge(job, who, 7);
            vm.warp(until - 1);
            vm.expectRevert(abi.encodeWithSelector(IJobs.ReclaimsOpen.selector, until));
            jobs.finalize(job);
            if (late == 1) {
                vm.warp(until);
                challengeRefused(job, who, 7, 50 * STAKE, IJobs.RootClosed.selector);
                finalize(job);
                eq(jobs.jobOf(job).acceptedRoot, root(8), "what is left is accepted");
                continue;
            }
            Claim memory c = claim(7);
            vm.prank(who);
            jobs.challenge{value: 2 * STAKE}(job, c, bytes32(uint256(7)));
            yes(matchOf(job, 7) != 0, "it plays again");
            vm.warp(until);
            vm.expectRevert(abi.encodeWithSelector(IJobs.MatchesOpen.selector, job, 1));
            jobs.finalize(job);
            winByDefault(job, 7);
            eq(groupOf(job, 7).deaths, 1, "one death");
            eq(groupOf(job, 8).deaths, 1, "of each");
            eq(jobs.jobOf(job).reclaimEnd, time.time() + PERIOD, "now the other can be claimed");
        }
    }

    /// @dev A root that dies while others still reveal: a challenge period later the challenge phase still runs.
    function test_aRootThatDiedLongBeforeTheEndIsClosedAfterIt() public {
        uint256 job = post(3);
        for (uint160 n = 1; n < 4; ++n) {
            join(job, person(n));
            commit(job, person(n), 6 + n);
        }
        reveal(job, person(1), 7);
        reveal(job, person(2), 8);
        winByDefault(job, 7);
        Job memory j = jobs.jobOf(job);
        uint256 until = groupOf(job, 8).until;
        yes(until == j.reclaimEnd && until < j.challengeEnd, "long before the end");
        vm.warp(until);
        inPhase(job, JobPhase.Challenge);
        address who = person(40);
        commitChallenge(job, who, 8);
        vm.warp(j.challengeEnd);
        challengeRefused(job, who, 8, 50 * STAKE, IJobs.RootClosed.selector);
        vm.warp(j.challengeEnd - 1); // NOTE: time goes back, so the test covers both seconds
        Claim memory c = claim(8);
        vm.prank(who);
        jobs.challenge{value: 2 * STAKE}(job, c, bytes32(uint256(8)));
    }

    function test_aRootDiesAsOftenAsItIsClaimed() public {
        uint256 job = claimed(7);
        challenge(job, person(2), 8);
        winByDefault(job, 7); // 8 dies
        uint256 until = groupOf(job, 8).until;
        uint256 end = jobs.jobOf(job).challengeEnd;
        yes(until > end, "not long before");
        _claimAt(job, 8, end - 1); // any root, in the challenge phase
        winByDefault(job, 7);
        yes(groupOf(job, 8).until > until && groupOf(job, 8).deaths == 2, "another death");
        _claimAt(job, 8, groupOf(job, 8).until - 1);
        winByDefault(job, 7);
        vm.warp(groupOf(job, 8).until);
        _refused(job, 8);
        finalize(job);
        credited(person(1), STAKE + REWARD + STAKE / 2 + 2 * STAKE / 2 + 4 * STAKE / 2, "all prizes");
    }

    /// @dev The job waits for the root that died last; that gives no other root more time.
    function test_eachDeadRootHasItsOwnInstant() public {
        uint256 job = claimed(1, 2, 7); // 1 against 2; 7 waits
        winByDefault(job, 1); // 2 dies; 1 meets 7
        uint256 first = groupOf(job, 2).until;
        pass(50);
        winByDefault(job, 7);
        uint256 second = groupOf(job, 1).until;
        yes(second > first && jobs.jobOf(job).reclaimEnd == second, "the job waits for the last");
        vm.warp(first);
        _refused(job, 2);
        _claimAt(job, 1, second - 1);
    }

    // ------------------------------------------------------------------ payments

    function test_onlyWhatIsNotLostIsCollectedOnceAndAtTheEnd() public {
        uint256 job = claimed(7, 8);
        winByDefault(job, 7);
        vm.expectRevert(abi.encodeWithSelector(IJobs.JobRuns.selector, job));
        jobs.collect(job, 0);
        pass(PERIOD);
        vm.expectRevert(abi.encodeWithSelector(IJobs.JobRuns.selector, job));
        jobs.collect(job, 0);
        vm.expectRevert(abi.encodeWithSelector(IJobs.JobRuns.selector, job + 1));
        jobs.collect(job + 1, 0);
        jobs.finalize(job);
        uint256 prize = jobs.credit(person(1));
        eq(prize, STAKE / 2, "the end itself pays no claim");
        vm.expectRevert(abi.encodeWithSelector(IJobs.LostClaim.selector, job, 1));
        jobs.collect(job, 1);
        vm.expectRevert(abi.encodeWithSelector(IJobs.NoSuchClaim.selector, job, 2));
        jobs.collect(job, 2);
        yes(!jobs.claimsOf(job)[0].collected, "not yet");
        jobs.collect(job, 0); // anybody may
        yes(jobs.claimsOf(job)[0].collected, "shown");
        credited(person(1), prize + STAKE + REWARD, "the claim's owner");
        vm.expectRevert(abi.encodeWithSelector(IJobs.AlreadyCollected.selector, job, 0));
        jobs.collect(job, 0);
        credited(person(1), prize + STAKE + REWARD, "once");
        credited(address(this), 0, "not who collects for him");
        eq(address(jobs).balance, prize + STAKE + REWARD + burned(), "nothing else is there");
    }

    /// @dev A job without a result returns the stakes and pays nothing else.
    function test_ofAJobWithoutAResultTheClientHasTheReward() public {
        uint256 job = claimed(7, 8);
        uint256 id = matchOf(job, 7);
        pass(CLOCK + 1);
        referee.timeout(id);
        vm.warp(jobs.jobOf(job).reclaimEnd - 1);
        refuses(IJobs.ReclaimsOpen.selector);
        jobs.finalize(job);
        pass(1);
        jobs.finalize(job);
        inPhase(job, JobPhase.Unclaimed);
        credited(CLIENT, REWARD, "at once");
        for (uint32 i = 0; i < 2; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IJobs.LostClaim.selector, job, i));
            jobs.collect(job, i);
        }
    }

    /// @dev Three trainers, of whom the first loses, and a challenger behind them. Anybody may collect, in any order.
    function test_theRewardIsSharedByTheSlotsThatHaveNotLost() public {
        Terms memory t = terms(4);
        vm.prank(CLIENT);
        uint256 job = jobs.post{value: 101}(t);
        for (uint160 n = 1; n < 5; ++n) {
            join(job, person(n));
            commit(job, person(n), n < 4 ? 7 : 8);
        }
        for (uint160 n = 1; n < 5; ++n) {
            reveal(job, person(n), n < 4 ? 7 : 8);
        }
        uint256 price = challenge(job, person(5), 7);
        winByDefault(job, 8); // person 1 is silent
        winByDefault(job, 7);
        toTheEnd(job);
        jobs.finalize(job);
        jobs.collect(job, 4);
        credited(person(5), price, "who holds no slot has its stake");
        jobs.collect(job, 2);
        credited(person(3), STAKE + 50, "half of the reward");
        jobs.collect(job, 1);
        credited(person(2), STAKE + STAKE / 2 + 51, "half, what is left over, and a prize");
        credited(person(4), STAKE / 2, "half of what the first has lost");
        eq(address(jobs).balance, _sum(5) + burned(), "all is paid");
    }

    /// @dev With no slot left the spokesman gets the reward, and those behind it get their stakes.
    function test_withoutASlotTheSpokesmanHasTheReward() public {
        uint256 job = claimed(7, 8);
        challenge(job, person(3), 7);
        challenge(job, person(4), 7);
        challenge(job, person(5), 7);
        winByDefault(job, 8); // the slot
        winByDefault(job, 8); // the first challenger
        winByDefault(job, 7);
        toTheEnd(job);
        jobs.finalize(job);
        jobs.collect(job, 4);
        credited(person(5), 8 * STAKE, "behind the spokesman");
        jobs.collect(job, 3);
        credited(person(4), 4 * STAKE + STAKE / 2 + REWARD, "the spokesman");
        eq(address(jobs).balance, _sum(5) + burned(), "all is paid");
    }

    /// @dev The slots are before all others; as long as one of them stands it gets the reward.
    function test_theLastSlotHasAllOfIt() public {
        uint256 job = claimed(7, 7, 8);
        challenge(job, person(4), 7);
        winByDefault(job, 8); // the first slot
        winByDefault(job, 7);
        toTheEnd(job);
        finalize(job);
        credited(person(2), STAKE + STAKE / 2 + REWARD, "the second slot");
        credited(person(4), 2 * STAKE, "no challenger");
        eq(address(jobs).balance, _sum(4) + burned(), "all is paid");
    }

    /// @dev A trainer reveals a root that has died meanwhile.
    function test_aSlotBehindLostOnesHasTheReward() public {
        uint256 job = post(3);
        for (uint160 n = 1; n < 4; ++n) {
            join(job, person(n));
            commit(job, person(n), n == 2 ? 8 : 7);
        }
        reveal(job, person(1), 7);
        reveal(job, person(2), 8);
        winByDefault(job, 8);
        yes(!isClaimed(job, 7), "dead before the reveals are over");
        inPhase(job, JobPhase.Reveal);
        reveal(job, person(3), 7);
        eq(groupOf(job, 7).slots, 2, "slots");
        winByDefault(job, 7);
        toTheEnd(job);
        finalize(job);
        credited(person(3), STAKE + STAKE / 2 + REWARD, "the one that stands");
        credited(person(1), 0, "the one that has lost");
    }

    function _sum(uint160 people) private returns (uint256 sum) {
        for (uint160 n = 1; n <= people; ++n) {
            sum += jobs.credit(person(n));
        }
    }

    /// @dev The slot holders have given the right root away: its last spokesman gets the whole reward.
    function test_aSpokesmanBehindSlotsThatHaveLostHasTheReward() public {
        uint256 job = claimed(7);
        uint256 lie = challenge(job, person(2), 8);
        uint256 own = challenge(job, person(3), 7);
        winByDefault(job, 8);
        credited(person(2), STAKE / 2, "half of the trainer's");
        winByDefault(job, 7);
        toTheEnd(job);
        finalize(job);
        credited(person(3), lie / 2 + own + REWARD, "half of the liar's, its own stake, and the reward");
        credited(person(1), 0, "who has given it away");
    }
}
