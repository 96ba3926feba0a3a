// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Claim, Group, IJobs, Job} from "contracts/interfaces/IJobs.sol";

/// @notice Challengers' claims: time, price, commitment, and the spokesman of a root with several claims.
contract ChallengesTest is Market {
    using Views for Jobs;

    function test_aDoubleClaimReverts() public {
        uint256 job = claimed(7);
        challengeRefused(job, person(1), 8, STAKE, IJobs.AlreadyClaimed.selector);
        challenge(job, person(2), 8);
        challengeRefused(job, person(2), 9, STAKE, IJobs.AlreadyClaimed.selector);
    }

    function test_aChallengeIsInTimeAndFullyStaked() public {
        uint256 job = claimed(7);
        commitChallenge(job, person(2), 8);
        challengeRefused(job, person(2), 8, STAKE - 1, IJobs.WrongStake.selector);
        Claim memory c = claim(8);
        c.uri = string(new bytes(513));
        vm.prank(person(2));
        refuses(IJobs.UriTooLong.selector);
        jobs.challenge{value: STAKE}(job, c, bytes32(uint256(8)));
        pass(PERIOD - 3);
        challenge(job, person(2), 8);
        pass(1);
        commitChallenge(job, person(3), 9);
        challengeRefused(job, person(3), 9, 2 * STAKE, IJobs.RootClosed.selector);
    }

    function test_aChallengeCannotBeCopiedOnItsWay() public {
        uint256 job = claimed(7);
        challengeRefused(job, person(2), 8, STAKE, IJobs.NothingCommitted.selector);
        bytes32 commitment = jobs.commitmentOf(job, person(2), root(8), root(8), 0, bytes32(uint256(8)));
        vm.prank(person(2));
        jobs.commitChallenge(job, commitment);
        eq(jobs.committedAt(job, commitment), block.timestamp, "when it was committed to");
        vm.expectRevert(abi.encodeWithSelector(IJobs.TooSoon.selector, block.timestamp + 1));
        this.challengeAs(job, person(2), 8);
        pass(1);
        // A stranger sees the claim before it is in a block, but can only commit to it, too late.
        vm.prank(person(3));
        jobs.commitChallenge(job, commitment); // of another sender, so of no use to this one
        bytes32 own = jobs.commitmentOf(job, person(3), root(8), root(8), 0, bytes32(uint256(8)));
        vm.prank(person(3));
        jobs.commitChallenge(job, own);
        refuses(IJobs.TooSoon.selector);
        this.challengeAs(job, person(3), 8);
        this.challengeAs(job, person(2), 8);
        pass(1);
        challengeRefused(job, person(3), 8, STAKE, IJobs.WrongStake.selector); // person 3 would come second
        challengeRefused(job, person(3), 9, STAKE, IJobs.NothingCommitted.selector);
    }

    /// @dev Sets up a chain with blocks of 12 seconds, on which commitments must be four blocks old.
    function _aged(uint32 age) private {
        jobs = Jobs(deploy("Jobs.sol:Jobs", abi.encode(notary, dataAvailability, age)));
    }

    /// @dev An attacker that sees a claim miss a block has to commit to it and wait: the claim has three more blocks.
    function test_aChallengeThatMissesBlocksCannotBeCopied() public {
        _aged(48);
        uint256 job = claimed(7);
        commitChallenge(job, person(2), 8);
        uint256 committed = currentSecond() - 1;
        vm.warp(committed + 48); // the claim could be in a block now, and all can see it; but the block leaves it out
        commitChallenge(job, person(3), 8);
        for (uint256 blocks = 1; blocks < 4; ++blocks) {
            vm.warp(committed + 48 + 12 * blocks);
            vm.expectRevert(abi.encodeWithSelector(IJobs.TooSoon.selector, committed + 96));
            this.challengeAs(job, person(3), 8);
        }
        this.challengeAs(job, person(2), 8);
        vm.warp(committed + 96);
        challengeRefused(job, person(3), 8, STAKE, IJobs.WrongStake.selector);
        uint256 price = priceOf(job, 8);
        eq(price, 2 * STAKE, "the copy costs twice as much");
        vm.deal(person(3), price);
        Claim memory c = claim(8);
        vm.prank(person(3));
        jobs.challenge{value: price}(job, c, bytes32(uint256(8)));
        eq(spokesman(job, 8), person(2), "and comes second");
    }

    /// @dev Each commitment of an account has an age of its own, and none replaces another.
    function test_commitmentsStandSideBySide() public {
        _aged(48);
        uint256 job = claimed(7);
        commitChallenge(job, person(2), 9);
        commitChallenge(job, person(2), 8);
        pass(45);
        refuses(IJobs.TooSoon.selector);
        this.challengeAs(job, person(2), 9);
        pass(1);
        refuses(IJobs.TooSoon.selector);
        this.challengeAs(job, person(2), 8);
        this.challengeAs(job, person(2), 9);
        eq(spokesman(job, 9), person(2), "the older one is ripe, though it is not the last");
    }

    /// @dev Neither its author nor a stranger makes a commitment younger by making it again.
    function test_theFirstTimeOfACommitmentCounts() public {
        _aged(48);
        uint256 job = claimed(7);
        bytes32 commitment = jobs.commitmentOf(job, person(2), root(8), root(8), 0, bytes32(uint256(8)));
        commitTo(job, person(2), 8);
        uint256 first = currentSecond();
        pass(47);
        vm.prank(person(3));
        vm.recordLogs();
        jobs.commitChallenge(job, commitment);
        eq(vm.getRecordedLogs().length, 0, "nothing has happened");
        commitTo(job, person(2), 8);
        eq(jobs.committedAt(job, commitment), first, "as old as before");
        eq(jobs.committedAt(job + 1, commitment), 0, "in this job");
        pass(1);
        this.challengeAs(job, person(2), 8);
    }

    /// @dev A stranger that makes another's commitment first does its work, and has nothing of it.
    function test_aCommitmentOfAStrangerServesItsAuthorAlone() public {
        uint256 job = claimed(7);
        bytes32 commitment = jobs.commitmentOf(job, person(2), root(8), root(8), 0, bytes32(uint256(8)));
        vm.prank(person(3));
        jobs.commitChallenge(job, commitment);
        pass(1);
        challengeRefused(job, person(3), 8, STAKE, IJobs.NothingCommitted.selector);
        this.challengeAs(job, person(2), 8);
        eq(spokesman(job, 8), person(2), "its author claims");
    }

    /// @dev The last second at which a commitment is of use, and the first at which it is not.
    function test_theLastCommitmentThatGrowsOldInTime() public {
        _aged(48);
        uint256 job = claimed(7);
        pass(PERIOD - 49);
        commitChallenge(job, person(2), 8); // a second passes
        commitChallenge(job, person(3), 9);
        pass(46);
        refuses(IJobs.TooSoon.selector);
        this.challengeAs(job, person(3), 9);
        this.challengeAs(job, person(2), 8);
        pass(1);
        challengeRefused(job, person(3), 9, 2 * STAKE, IJobs.RootClosed.selector);
    }

    function challengeAs(uint256 job, address who, uint256 output) external {
        Claim memory c = claim(output);
        vm.prank(who);
        jobs.challenge{value: STAKE}(job, c, bytes32(output));
    }

    /// @dev A challenger that commits early does not have to wait when a claim is lost.
    function test_aCommitmentToChallengeIsMadeAtAnyTime() public {
        uint256 job = jobs.jobCount() + 1;
        commitChallenge(job, person(2), 8); // the root is not claimed yet
        eq(claimed(7), job, "the job");
        refuses(IJobs.EmptyCommitment.selector);
        jobs.commitChallenge(job, 0);
        this.challengeAs(job, person(2), 8);
        eq(jobs.claimsOf(job).length, 2, "one that is older than the job");
        winByDefault(job, 7);
        toTheEnd(job);
        finalize(job);
        commitChallenge(job, person(3), 9); // useless and harmless
        challengeRefused(job, person(3), 9, STAKE, IJobs.WrongPhase.selector);
    }

    function test_aRootIsClaimedByAsManyAsLike() public {
        uint256 job = claimed(7);
        challenge(job, person(2), 7);
        challenge(job, person(3), 8);
        challenge(job, person(4), 8);
        challenge(job, person(5), 7);
        Group memory right = groupOf(job, 7);
        yes(
            right.members.length == 3 && right.members[0] == 0 && right.members[1] == 1, "in order of arrival"
        );
        yes(right.members[2] == 4 && right.spokesman == 0 && right.slots == 1, "the first speaks");
        yes(groupOf(job, 8).members.length == 2, "the other root");
        yes(jobs.jobOf(job).openMatches == 1 && jobs.jobOf(job).waiting == 0, "who follows plays no match");
        eq(jobs.claimsOf(job).length, 5, "claims");
    }

    /// @dev A claim of a root that waits changes nothing for its group.
    function test_whoFollowsAGroupThatWaitsDoesNotEnter() public {
        uint256 job = claimed(7);
        challenge(job, person(2), 7);
        Job memory j = jobs.jobOf(job);
        yes(j.waiting == 1 && j.openMatches == 0 && j.groups == 1, "the group still waits");
        challenge(job, person(3), 8);
        yes(matchOf(job, 7) != 0 && spokesman(job, 7) == person(1), "and its first member plays");
    }

    /// @dev The next claimant speaks, at the risk of its own stake.
    function test_whoFollowsSpeaksWhenThoseBeforeHaveLost() public {
        uint256 job = claimed(8);
        uint256 first = challenge(job, person(2), 7);
        uint256 second = challenge(job, person(3), 7);
        winByDefault(job, 8);
        credited(person(1), first / 2, "half of the first stake");
        eq(spokesman(job, 7), person(3), "the next");
        winByDefault(job, 7);
        credited(person(3), STAKE / 2, "half of the trainer's");
        pass(PERIOD);
        finalize(job);
        credited(person(3), STAKE / 2 + second + REWARD, "its own stake, and the reward");
        credited(person(2), 0, "who was silent");
    }
}
