// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Run, Runs} from "../support/Runs.sol";
import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Merkle} from "contracts/commit/Merkle.sol";
import {Claim, IJobs, Job, JobPhase, StakedClaim, Terms, Trainer} from "contracts/interfaces/IJobs.sol";

/// @notice A job from posting to the last claim.
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

    function test_whoResignsPaysAPartAndTheSlotIsFree() public {
        uint256 job = post(2);
        join(job, person(1));
        join(job, person(2));
        commit(job, person(2), 7);
        resign(job, person(1));
        credited(person(1), STAKE - STAKE / 32, "the stake comes back");
        eq(burned(), STAKE / 32, "but for a 32nd");
        Trainer[] memory trainers = jobs.trainersOf(job);
        eq(trainers.length, 1, "one slot is taken");
        yes(trainers[0].owner == person(2) && trainers[0].commitment != 0, "by the other, who has committed");
        eq(trainers[0].stake, STAKE, "with its stake");

        join(job, person(1));
        join(job = post(1), person(3));
        resign(job, person(3));
        eq(jobs.trainersOf(job).length, 0, "nobody is left");
        join(job, person(4));
        eq(address(jobs).balance, 2 * REWARD + 5 * STAKE, "nothing is paid out before it is drawn");
    }

    function test_whoHasComeAgainRevealsAndIsPaid() public {
        uint256 job = post(2);
        join(job, person(1));
        join(job, person(2));
        resign(job, person(1));
        join(job, person(1));
        commit(job, person(1), 7);
        commit(job, person(2), 7);
        reveal(job, person(1), 7);
        reveal(job, person(2), 7);
        StakedClaim[] memory claims = jobs.claimsOf(job);
        yes(claims[0].owner == person(1) && claims[1].owner == person(2), "in the order of their reveals");
        pass(PERIOD);
        jobs.finalize(job);
        jobs.collect(job, 0);
        jobs.collect(job, 1);
        credited(person(1), STAKE - STAKE / 32 + STAKE + REWARD / 2, "the stakes and half of the reward");
        credited(person(2), STAKE + REWARD / 2, "the stake and half of the reward");
    }

    function test_nobodyElseResignsNorLater() public {
        uint256 job = post(2);
        vm.prank(person(1));
        refuses(IJobs.NotTrainer.selector);
        jobs.resign(job);
        join(job, person(1));
        join(job, person(2));
        resign(job, person(2));
        vm.prank(person(2));
        refuses(IJobs.NotTrainer.selector);
        jobs.resign(job);
        commit(job, person(1), 7);
        vm.prank(person(1));
        refuses(IJobs.AlreadyCommitted.selector);
        jobs.resign(job);
        join(job, person(2));
        pass(PERIOD);
        vm.prank(person(2));
        refuses(IJobs.WrongPhase.selector);
        jobs.resign(job);
    }

    function resign(uint256 job, address who) private {
        vm.prank(who);
        jobs.resign(job);
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
        eq(jobs.groupsOf(job)[0].root, c.root, "root");
        (c.last, c.lastPath) = (run.checkpoint[8], tree.path(1));
        _challengeRefused(job, c, Merkle.PathMismatch.selector);
        (c.last, c.lastPath) = (tree.levels[0][3], tree.path(3)); // the padding leaf
        _challengeRefused(job, c, Merkle.PathMismatch.selector);
        (c.last, c.lastPath) = (tree.levels[1][1], new bytes32[](1)); // an inner node
        c.lastPath[0] = tree.levels[1][0];
        _challengeRefused(job, c, Merkle.WrongPathLength.selector);
    }

    /// @dev Commits person 1 to any claim.
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

    /// @dev Commits the first person to the output 7 and these logs, and enters the reveal phase.
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
}
