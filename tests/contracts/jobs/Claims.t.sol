// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Run, Runs} from "../support/Runs.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Merkle} from "contracts/commit/Merkle.sol";
import {
    Claim,
    Group,
    IJobs,
    Job,
    JobPhase,
    StakedClaim,
    Terms,
    Trainer
} from "contracts/interfaces/IJobs.sol";

/// @notice From posting to the last claim.
contract ClaimsTest is Market {
    using Views for Jobs;

    using Trees for Tree;
    using Runs for Run;

    // ------------------------------------------------------------------ training

    function test_aWrongStakeRevertsAndChangesNothing() public {
        uint256 job = post(2);
        address who = person(1);
        uint256 before = who.balance;
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IJobs.WrongStake.selector, STAKE - 1, STAKE));
        jobs.join{value: STAKE - 1}(job);
        eq(who.balance, before, "nothing was taken");
        eq(jobs.trainersOf(job).length, 0, "no slot was taken");
        eq(address(jobs).balance, REWARD, "balance");
        vm.prank(who);
        jobs.join{value: STAKE + 5}(job);
        credited(who, 5, "what is more is credited");
        eq(jobs.trainersOf(job)[0].stake, STAKE, "the rest is at risk");
    }

    function test_aSlotIsTakenOnceAndThereAreNoMore() public {
        uint256 job = post(2);
        join(job, person(1));
        vm.prank(person(1));
        refuses(IJobs.AlreadyJoined.selector);
        jobs.join{value: STAKE}(job);
        join(job, person(2));
        vm.prank(person(3));
        refuses(IJobs.NoFreeSlot.selector);
        jobs.join{value: STAKE}(job);
    }

    function test_aLateJoinReverts() public {
        uint256 job = post(2);
        pass(PERIOD - 1);
        join(job, person(1));
        pass(1);
        inPhase(job, JobPhase.Reveal);
        vm.prank(person(2));
        refuses(IJobs.WrongPhase.selector);
        jobs.join{value: STAKE}(job);
    }

    function test_aCommitmentIsMadeOnceByASlotHolder() public {
        uint256 job = post(2);
        vm.prank(person(1));
        refuses(IJobs.NotTrainer.selector);
        jobs.commit(job, bytes32(uint256(1)));
        join(job, person(1));
        vm.prank(person(1));
        refuses(IJobs.EmptyCommitment.selector);
        jobs.commit(job, 0);
        commit(job, person(1), 7);
        vm.prank(person(1));
        refuses(IJobs.AlreadyCommitted.selector);
        jobs.commit(job, bytes32(uint256(1)));
    }

    function test_theLastCommitmentEndsTraining() public {
        uint256 job = post(2);
        join(job, person(1));
        join(job, person(2));
        commit(job, person(1), 7);
        pass(10);
        inPhase(job, JobPhase.Training);
        commit(job, person(2), 7);
        inPhase(job, JobPhase.Reveal);
        Job memory j = jobs.jobOf(job);
        eq(j.commitEnd, block.timestamp, "commitEnd");
        eq(j.revealEnd, block.timestamp + PERIOD, "revealEnd follows");
        eq(j.challengeEnd, block.timestamp + 2 * PERIOD, "challengeEnd follows");
    }

    // ------------------------------------------------------------------ reveal

    function test_theLastRevealEndsThePhase() public {
        uint256 job = claimed(7, 7);
        inPhase(job, JobPhase.Challenge);
        Job memory j = jobs.jobOf(job);
        eq(j.revealEnd, block.timestamp, "revealEnd");
        eq(j.challengeEnd, block.timestamp + PERIOD, "challengeEnd follows");
        StakedClaim[] memory claims = jobs.claimsOf(job);
        eq(claims.length, 2, "claims");
        yes(claims[0].slot && !claims[0].lost && claims[0].owner == person(1), "first claim");
        eq(jobs.groupsOf(job).length, 1, "equal roots are one group");
    }

    function test_aCommitmentCannotBeCopied() public {
        uint256 job = post(2);
        join(job, person(1));
        join(job, person(2));
        bytes32 commitment = jobs.commitmentOf(job, person(1), root(7), root(7), 0, bytes32(uint256(7)));
        vm.prank(person(2));
        jobs.commit(job, commitment);
        commit(job, person(1), 7);
        reveal(job, person(1), 7);
        revealRefused(job, person(2), 7, 7, IJobs.WrongCommitment.selector);
    }

    function test_onlyWhatWasCommittedCanBeRevealedAndOnce() public {
        uint256 job = post(3);
        for (uint160 n = 1; n < 4; ++n) {
            join(job, person(n));
        }
        commit(job, person(1), 7);
        commit(job, person(2), 8);
        revealRefused(job, person(1), 7, 7, IJobs.WrongPhase.selector);
        pass(PERIOD);
        revealRefused(job, person(1), 8, 7, IJobs.WrongCommitment.selector);
        reveal(job, person(1), 7);
        revealRefused(job, person(1), 7, 7, IJobs.AlreadyClaimed.selector);
        revealRefused(job, person(3), 7, 7, IJobs.NothingCommitted.selector);
        revealRefused(job, person(4), 7, 7, IJobs.NotTrainer.selector);
        reveal(job, person(2), 8);
        inPhase(job, JobPhase.Challenge);
    }

    function test_theLastCheckpointMustBeTheLastLeaf() public {
        Terms memory t = terms(1);
        t.program = Runs.program();
        uint256 job = post(t);
        Run memory run = Runs.right();
        Tree memory tree = run.runTree(4, 0, 10);
        Claim memory c;
        (c.root, c.last, c.lastPath) = (tree.root(), run.checkpoint[10], tree.path(2));
        join(job, person(2));
        bytes32 commitment = jobs.commitmentOf(job, person(2), c.root, c.last, 0, "salt");
        vm.prank(person(2));
        jobs.commit(job, commitment);
        vm.prank(person(2));
        jobs.reveal(job, c, 0, "salt");
        eq(jobs.groupsOf(job)[0].last, run.checkpoint[10], "last checkpoint");
        (c.last, c.lastPath) = (run.checkpoint[8], tree.path(1));
        _challengeRefused(job, c, Merkle.PathMismatch.selector);
        (c.last, c.lastPath) = (tree.levels[0][3], tree.path(3)); // the padding leaf
        _challengeRefused(job, c, Merkle.PathMismatch.selector);
        (c.last, c.lastPath) = (tree.levels[1][1], new bytes32[](1)); // an inner node
        c.lastPath[0] = tree.levels[1][0];
        _challengeRefused(job, c, Merkle.WrongPathLength.selector);
    }

    /// @dev Whatever the claim, person 1 has committed to it.
    function _commitTo(uint256 job, Claim memory c) private {
        bytes32 commitment = jobs.commitmentOf(job, person(1), c.root, c.last, 0, "salt");
        vm.prank(person(1));
        jobs.commitChallenge(job, commitment);
        pass(1);
    }

    function _challengeRefused(uint256 job, Claim memory c, bytes4 selector) private {
        _commitTo(job, c);
        vm.prank(person(1));
        refuses(selector);
        jobs.challenge{value: STAKE}(job, c, "salt");
    }

    // ------------------------------------------------------------------ rounding logs

    /// @dev The first person has committed to the output 7 and these logs; now in the reveal phase.
    function _committed(Terms memory t, bytes32 logs) private returns (uint256 job) {
        job = post(t);
        join(job, person(1));
        bytes32 commitment = jobs.commitmentOf(job, person(1), root(7), root(7), logs, bytes32(uint256(7)));
        vm.prank(person(1));
        jobs.commit(job, commitment);
    }

    function _reveal(uint256 job, bytes32 logs) private {
        Claim memory c = claim(7);
        vm.prank(person(1));
        jobs.reveal(job, c, logs, bytes32(uint256(7)));
    }

    function _revealRefused(uint256 job, bytes32 logs, bytes memory reason) private {
        Claim memory c = claim(7);
        vm.prank(person(1));
        vm.expectRevert(reason);
        jobs.reveal(job, c, logs, bytes32(uint256(7)));
    }

    function test_theLogsAreCommittedToAndKeptWithTheJob() public {
        bytes32 logs = keccak256("logs");
        uint256 job = _committed(roundedTerms(), logs);
        eq(jobs.logsOf(job), 0, "nothing is known before the reveal");
        bytes32 wrong = jobs.commitmentOf(job, person(1), root(7), root(7), 0, bytes32(uint256(7)));
        bytes32 right = jobs.commitmentOf(job, person(1), root(7), root(7), logs, bytes32(uint256(7)));
        _revealRefused(job, 0, abi.encodeWithSelector(IJobs.WrongCommitment.selector, wrong, right));
        _reveal(job, logs);
        eq(jobs.logsOf(job), logs, "logs");
        eq(jobs.jobOf(job).logs, logs, "logs in the whole view");
        challenge(job, person(2), 8);
        pass(PERIOD);
        eq(jobs.logsOf(job), logs, "a challenge has none and changes none");
    }

    function test_aModeWithoutLogsTakesNone() public {
        bytes32 logs = keccak256("logs");
        uint256 job = _committed(terms(1), logs);
        _revealRefused(job, logs, abi.encodeWithSelector(IJobs.UnexpectedLogs.selector, logs));
        eq(jobs.logsOf(job), 0, "logs");
    }

    function test_zeroIsARootOfLogsToo() public {
        // One node, one step, no log: the tree is its leaf.
        uint256 job = _committed(roundedTerms(), 0);
        _reveal(job, 0);
        challenge(job, person(2), 8);
        eq(jobs.claimsOf(job).length, 2, "claims");
    }

    function test_beforeTheLogsAreKnownNobodyCanClaim() public {
        uint256 job = _committed(roundedTerms(), keccak256("logs"));
        pass(PERIOD); // nothing was revealed
        Claim memory c = claim(8);
        vm.prank(person(2));
        vm.expectRevert(abi.encodeWithSelector(IJobs.NothingRevealed.selector, job));
        jobs.challenge{value: STAKE}(job, c, 0);
        pass(PERIOD);
        finalize(job);
        inPhase(job, JobPhase.Unclaimed);
        credited(CLIENT, REWARD, "the client");
    }

    // ------------------------------------------------------------------ challenge

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
        (bytes32 kept, uint64 at) = jobs.challengeOf(job, person(2));
        yes(kept == commitment && at == block.timestamp, "what was committed to, and when");
        vm.expectRevert(abi.encodeWithSelector(IJobs.TooSoon.selector, block.timestamp + 1));
        this.challengeAs(job, person(2), 8);
        pass(1);
        // Somebody sees the claim before it is in a block: he can only commit to it, too late.
        vm.prank(person(3));
        jobs.commitChallenge(job, commitment); // of another sender, so it is not his
        bytes32 own = jobs.commitmentOf(job, person(3), root(8), root(8), 0, bytes32(uint256(8)));
        vm.prank(person(3));
        jobs.commitChallenge(job, own);
        refuses(IJobs.TooSoon.selector);
        this.challengeAs(job, person(3), 8);
        this.challengeAs(job, person(2), 8);
        pass(1);
        challengeRefused(job, person(3), 8, STAKE, IJobs.WrongStake.selector); // it would come second
        challengeRefused(job, person(3), 9, STAKE, IJobs.WrongCommitment.selector);
    }

    /// @dev On a chain of blocks of 12 seconds, where commitments are to be four of them old.
    function _aged(uint32 age) private {
        jobs = Jobs(deploy("Jobs.sol:Jobs", abi.encode(notary, demands, age)));
    }

    /// @dev Whoever sees a claim that has missed a block has to commit to it, and to wait: the claim has three more blocks.
    function test_aChallengeThatMissesBlocksCannotBeCopied() public {
        _aged(48);
        uint256 job = claimed(7);
        commitChallenge(job, person(2), 8);
        (, uint64 committed) = jobs.challengeOf(job, person(2));
        vm.warp(committed + 48); // from here on his claim could be in a block, and all can see it; but the block leaves it out
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

    /// @dev Who replaces its commitment waits again.
    function test_aCommitmentIsAsOldAsItsLastWord() public {
        _aged(48);
        uint256 job = claimed(7);
        commitChallenge(job, person(2), 9);
        pass(46);
        refuses(IJobs.TooSoon.selector);
        this.challengeAs(job, person(2), 9);
        commitChallenge(job, person(2), 8);
        pass(46);
        refuses(IJobs.TooSoon.selector);
        this.challengeAs(job, person(2), 8);
        pass(1);
        this.challengeAs(job, person(2), 8);
    }

    /// @dev The last second in which a commitment is of use, and the first in which it is not.
    function test_theLastCommitmentThatGrowsOldInTime() public {
        _aged(48);
        uint256 job = claimed(7);
        pass(PERIOD - 49);
        commitChallenge(job, person(2), 8); // a second goes by
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

    /// @dev Whoever is ready when a claim is lost does not wait for his commitment to grow old.
    function test_aCommitmentToChallengeIsMadeAtAnyTime() public {
        uint256 job = jobs.jobCount() + 1;
        commitChallenge(job, person(2), 8); // nobody has posted it yet
        eq(claimed(7), job, "the job");
        refuses(IJobs.EmptyCommitment.selector);
        jobs.commitChallenge(job, 0);
        this.challengeAs(job, person(2), 8);
        eq(jobs.claimsOf(job).length, 2, "one that is older than the job");
        winByDefault(job, 7);
        toTheEnd(job);
        finalize(job);
        commitChallenge(job, person(3), 9); // of no use, and no harm
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

    /// @dev Who claims a root that waits changes nothing for it.
    function test_whoFollowsAGroupThatWaitsDoesNotEnter() public {
        uint256 job = claimed(7);
        challenge(job, person(2), 7);
        Job memory j = jobs.jobOf(job);
        yes(j.waiting == 1 && j.openMatches == 0 && j.groups == 1, "the group still waits");
        challenge(job, person(3), 8);
        yes(matchOf(job, 7) != 0 && spokesman(job, 7) == person(1), "and its first member plays");
    }

    /// @dev The next speaks, for what it has staked.
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
