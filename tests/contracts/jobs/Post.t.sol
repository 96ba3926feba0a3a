// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Panel} from "contracts/Panel.sol";
import {Programs} from "contracts/commit/Programs.sol";
import {
    Claim,
    Group,
    IJobs,
    Job,
    JobPhase,
    Rules,
    StakedClaim,
    Terms,
    Trainer
} from "contracts/interfaces/IJobs.sol";
import {IReferee} from "contracts/interfaces/IReferee.sol";
import {SSTORE2} from "solady/utils/SSTORE2.sol";

/// @notice A job that is out of bounds cannot be posted.
contract PostTest is Market {
    using Views for Jobs;

    function test_aPostedJobCanBeReadBackWhole() public {
        Terms memory t = terms(2);
        uint256 id = post(t);
        Job memory job = jobs.jobOf(id);
        eq(keccak256(abi.encode(job.terms)), keccak256(abi.encode(t)), "terms");
        eq(job.client, CLIENT, "client");
        eq(job.reward, REWARD, "reward");
        eq(job.posted, block.timestamp, "posted");
        eq(job.commitEnd, block.timestamp + PERIOD, "commitEnd");
        eq(job.revealEnd, block.timestamp + 2 * PERIOD, "revealEnd");
        eq(job.challengeEnd, block.timestamp + 3 * PERIOD, "challengeEnd");
        eq(id, 1, "jobs are numbered from 1");
        eq(jobs.jobCount(), 1, "number of jobs");
        yes(jobs.isVerifier(id, verifier(2)) && !jobs.isVerifier(id, CLIENT), "verifiers");
        inPhase(id, JobPhase.Training);
        inPhase(id + 1, JobPhase.None);
    }

    function _refused(Terms memory t, bytes4 selector) private {
        vm.prank(CLIENT);
        refuses(selector);
        jobs.post{value: REWARD}(t);
    }

    function test_programsOutOfBoundsAreRefused() public {
        Terms memory t = terms(1);
        t.program.nodeCount = 0;
        _refused(t, Programs.BadNodeCount.selector);
        t.program.nodeCount = 1 << 24;
        _refused(t, Programs.BadNodeCount.selector);
        t = terms(1);
        t.program.slotCount = 1 << 20;
        _refused(t, Programs.BadSlotCount.selector);
        t = terms(1);
        t.program.constantCount = 1 << 20;
        _refused(t, Programs.BadConstantCount.selector);
        t = terms(1);
        t.program.steps = 0;
        _refused(t, Programs.BadSteps.selector);
        t.program.steps = 1 << 48;
        _refused(t, Programs.BadSteps.selector);
        t.program.steps = (1 << 48) - 1;
        post(t);
    }

    function test_stridesMustDivideDownToOne() public {
        _badStrides("", Programs.BadStrideCount.selector);
        _badStrides(hex"090807060504030201", Programs.BadStrideCount.selector);
        _badStrides(hex"0402", Programs.BadStride.selector); // does not end in 1
        _badStrides(hex"0403", Programs.BadStride.selector); // does not divide
        _badStrides(hex"040401", Programs.BadStride.selector); // does not fall
        _badStrides(hex"0100", Programs.BadStride.selector); // zero
        Terms memory t = terms(1);
        t.program.strides = _strides(hex"80402010080401");
        post(t);
    }

    function _badStrides(bytes memory list, bytes4 selector) private {
        Terms memory t = terms(1);
        t.program.strides = _strides(list);
        _refused(t, selector);
    }

    function _strides(bytes memory list) private pure returns (uint64[] memory strides) {
        strides = new uint64[](list.length);
        for (uint256 i = 0; i < list.length; ++i) {
            strides[i] = uint8(list[i]);
        }
    }

    function test_unknownOpsetsAndModesAreRefused() public {
        Terms memory t = terms(1);
        t.program.opsetVersion = 2;
        _refused(t, IReferee.UnknownOpset.selector);
        t = terms(1);
        t.referee = address(0xBEEF);
        _refused(t, IJobs.BadReferee.selector);
    }

    function test_onlyTheModesThatExistAreKnown() public {
        for (uint256 mode = 0; mode < 256; ++mode) {
            bool rounded = mode >= 0x80 && mode < 0xA0 && mode % 8 < 7; // 26 to 32 bits
            Terms memory t = terms(1);
            t.program.mode = uint8(mode);
            if (mode >= 1 && mode <= 3 || rounded) post(t);
            else _refused(t, IReferee.UnknownMode.selector);
        }
        eq(jobs.jobCount(), 3 + 28, "repops-f32, exact, tc16, and rounded-f64 with each of its parameters");
    }

    function test_aModeWithLogsHasOneSlot() public {
        Terms memory t = roundedTerms();
        t.slots = 2;
        vm.prank(CLIENT);
        vm.expectRevert(abi.encodeWithSelector(IJobs.OneSlotOnly.selector, 2));
        jobs.post{value: REWARD}(t);
        t.slots = 1;
        post(t);
    }

    function test_slotsStakeAndUriAreBounded() public {
        _refused(terms(0), IJobs.BadSlots.selector);
        _refused(terms(17), IJobs.BadSlots.selector);
        Terms memory t = terms(1);
        t.stake = 0.1 ether - 1;
        _refused(t, IJobs.StakeTooSmall.selector);
        t.stake = 2 ** 80 + 1;
        vm.prank(CLIENT);
        vm.expectRevert(abi.encodeWithSelector(IJobs.StakeTooLarge.selector, 2 ** 80 + 1, 2 ** 80));
        jobs.post{value: REWARD}(t);
        t.stake = 2 ** 80;
        post(t);
        t = terms(1);
        t.uri = string(new bytes(513));
        _refused(t, IJobs.UriTooLong.selector);
        t.uri = string(new bytes(512));
        post(t);
    }

    function test_everyPeriodIsBounded() public {
        for (uint256 which = 0; which < 6; ++which) {
            _refused(_withPeriod(which, 59), IJobs.BadPeriod.selector);
            _refused(_withPeriod(which, 365 days + 1), IJobs.BadPeriod.selector);
            post(_withPeriod(which, 365 days));
        }
    }

    function _withPeriod(uint256 which, uint32 period) private view returns (Terms memory t) {
        t = terms(1);
        if (which == 0) t.trainPeriod = period;
        if (which == 1) t.revealPeriod = period;
        if (which == 2) t.challengePeriod = period;
        if (which == 3) t.rules.clock = period;
        if (which == 4) t.rules.verdictPeriod = period;
        if (which == 5) t.rules.appealPeriod = period;
    }

    function test_verifiersAreRegisteredDistinctAndEnough() public {
        Terms memory t = terms(1);
        t.rules.threshold = 0;
        _refused(t, IJobs.BadThreshold.selector);
        t.rules.threshold = 4;
        _refused(t, IJobs.BadThreshold.selector);
        t = terms(1);
        t.verifiers[2] = t.verifiers[0];
        _refused(t, IJobs.VerifierTwice.selector);
        t.verifiers[2] = CLIENT;
        _refused(t, IJobs.VerifierNotRegistered.selector);
        t.verifiers = new address[](33);
        _refused(t, IJobs.BadVerifierCount.selector);

        Panel other = Panel(payable(deploy("Panel.sol:Panel", abi.encode(court, registry))));
        t = terms(1);
        t.referee = deploy("Referee.sol:Referee", abi.encode(referee.JUDGE(), other));
        _refused(t, IJobs.VerifierNotRegistered.selector); // their bonds answer to the panel of another referee

        vm.prank(verifier(1));
        registry.unregister();
        _refused(terms(1), IJobs.VerifierNotRegistered.selector);
    }

    function test_noThresholdMeansNoVerifiers() public {
        Terms memory t = terms(1);
        t.verifiers = new address[](0);
        t.rules.threshold = 1;
        _refused(t, IJobs.BadThreshold.selector);
        t.rules.threshold = 0;
        uint256 id = post(t);
        (Rules memory rules, uint256 stake) = jobs.rulesOf(id);
        eq(keccak256(abi.encode(rules, stake)), keccak256(abi.encode(t.rules, STAKE)), "rules");
    }

    function test_theShortestPeriodCannotBeZero() public {
        refuses(IJobs.BadPeriod.selector);
        this.deployNotary(0);
    }

    function deployNotary(uint32 minPeriod) external returns (address) {
        return deploy("Notary.sol:Notary", abi.encode(registry, 1, 1, minPeriod));
    }

    function test_aCommitmentGrowsOldInTheShortestPhase() public {
        vm.expectRevert(abi.encodeWithSelector(IJobs.BadCommitAge.selector, 0, 1, 59));
        this.deployJobs(0);
        vm.expectRevert(abi.encodeWithSelector(IJobs.BadCommitAge.selector, 60, 1, 59));
        this.deployJobs(60);
        eq(Jobs(this.deployJobs(59)).COMMIT_AGE(), 59, "age");
    }

    function deployJobs(uint32 commitAge) external returns (address) {
        return deploy("Jobs.sol:Jobs", abi.encode(notary, dataAvailability, commitAge));
    }

    // ------------------------------------------------------------------ storage and views

    /// @dev Terms that are not encoded as Solidity encodes them are decoded once, and stored as Solidity encodes them.
    function test_termsInAnotherFormAreKeptAsTheyAreRead() public {
        Terms memory t = terms(1);
        // The struct may begin anywhere after its offset: here a word later, after junk.
        bytes memory usual = abi.encode(t);
        bytes memory tail = new bytes(usual.length - 0x20);
        for (uint256 i = 0; i < tail.length; ++i) {
            tail[i] = usual[i + 0x20];
        }
        vm.prank(CLIENT);
        (bool ok, bytes memory answer) =
            address(jobs).call(abi.encodePacked(IJobs.post.selector, uint256(0x40), ~uint256(0), tail));
        yes(ok, "posted");
        uint256 id = abi.decode(answer, (uint256));
        eq(keccak256(abi.encode(jobs.jobOf(id).terms)), keccak256(abi.encode(t)), "terms");
        eq(
            keccak256(SSTORE2.read(jobs.fileOf(id))),
            keccak256(SSTORE2.read(jobs.fileOf(post(t)))),
            "what is written is one encoding"
        );
    }

    function test_ofNoJobThereIsNothing() public view {
        eq(jobs.programOf(5).steps, 0, "program");
        yes(!jobs.isVerifier(5, verifier(0)), "verifier");
        eq(jobs.jobOf(5).posted, 0, "job");
    }

    /// @dev The notary reads storage field by field.
    function test_aJobIsShownAsItIsKept() public {
        Terms memory t = terms(3);
        uint256 id = post(t);
        for (uint160 n = 1; n < 4; ++n) {
            join(id, person(n));
            commit(id, person(n), 7);
        }
        for (uint160 n = 1; n < 4; ++n) {
            yes(jobs.trainersOf(id)[n - 1].commitment != 0, "commitment");
            reveal(id, person(n), 7);
            yes(jobs.trainersOf(id)[n - 1].commitment == 0, "until it is opened");
        }
        Job memory job = jobs.jobOf(id);
        eq(keccak256(abi.encode(job.terms)), keccak256(abi.encode(t)), "terms");
        eq(job.client, CLIENT, "client");
        yes(job.posted == block.timestamp && job.reward == REWARD, "posted, reward");
        yes(job.commitEnd == block.timestamp && job.revealEnd == block.timestamp, "instants");
        eq(job.challengeEnd, block.timestamp + PERIOD, "the last instant");
        yes(job.commitments == 3 && job.reveals == 3 && job.openMatches == 0 && job.waiting == 1, "counts");
        for (uint256 i = 0; i < 3; ++i) {
            Trainer memory trainer = jobs.trainersOf(id)[i];
            yes(trainer.owner == person(uint160(i + 1)) && trainer.revealed, "trainer");
            StakedClaim memory kept = jobs.claimsOf(id)[i];
            yes(kept.owner == trainer.owner && kept.group == 0 && kept.slot && !kept.lost, "claim");
            yes(kept.stake == STAKE && !kept.collected, "its stake");
            eq(jobs.groupsOf(id)[0].members[i], i, "member");
        }
        Group memory group = jobs.groupsOf(id)[0];
        yes(group.root == root(7) && group.matchId == 0, "group");
        yes(group.spokesman == 0 && group.members.length == 3 && group.slots == 3, "its members");
        yes(group.deaths == 0 && group.until == 0 && group.atRisk == 3 * STAKE, "and what they risk");
        yes(job.claims == 3 && job.groups == 1 && job.founded == 0 && job.followers == 0, "more counts");
        eq(job.reclaimEnd, 0, "nobody has died");
        pass(PERIOD);
        finalize(id);
        job = jobs.jobOf(id);
        eq(job.acceptedRoot, root(7), "accepted");
        yes(job.ended == JobPhase.Accepted && job.logs == 0 && job.finder == address(0), "the rest");
        yes(jobs.claimsOf(id)[2].collected, "what is credited");
    }

    /// @dev 130 claims are two pages and two more. Nine are of one root.
    function test_manyClaimsAreShownPageByPage() public {
        uint256 id = claimed(1000);
        for (uint160 n = 1; n < 130; ++n) {
            uint256 output = n % 13 == 0 ? 1013 : 1000 + n;
            commitTo(id, person(n + 1), output);
        }
        pass(1);
        for (uint160 n = 1; n < 130; ++n) {
            uint256 output = n % 13 == 0 ? 1013 : 1000 + n;
            Claim memory c = claim(output);
            uint256 price = priceOf(id, output);
            vm.deal(person(n + 1), price);
            vm.prank(person(n + 1));
            jobs.challenge{value: price}(id, c, bytes32(output));
        }
        (, Job memory job,, StakedClaim[] memory claims, Group[] memory groups) = jobs.viewOf(id);
        yes(job.claims == 130 && job.groups == 122, "how many there are");
        yes(job.founded == 121 && job.followers == 8, "by challengers");
        yes(claims.length == 64 && groups.length == 64, "the first page");
        yes(
            jobs.claimsFrom(id, 64).length == 64 && jobs.claimsFrom(id, 128).length == 2
                && jobs.claimsFrom(id, 129).length == 1,
            "the others"
        );
        yes(jobs.claimsFrom(id, 130).length == 0, "no more");
        yes(jobs.claimsFrom(id, type(uint256).max).length == 0, "nowhere");
        yes(jobs.groupsFrom(id, 64).length == 58 && jobs.groupsFrom(id, 122).length == 0, "groups");
        yes(jobs.groupsFrom(id + 1, 0).length == 0 && jobs.claimsFrom(id + 1, 0).length == 0, "no such job");
        eq(keccak256(abi.encode(jobs.claimsFrom(id, 0))), keccak256(abi.encode(claims)), "the same page");
        eq(keccak256(abi.encode(jobs.groupsFrom(id, 0))), keccak256(abi.encode(groups)), "of groups");
        claims = jobs.claimsOf(id);
        groups = jobs.groupsOf(id);
        for (uint256 i = 0; i < 130; ++i) {
            eq(claims[i].owner, person(uint160(i + 1)), "owner");
            yes(claims[i].slot == (i == 0), "slot");
            uint256 output = i > 0 && i % 13 == 0 ? 1013 : 1000 + i;
            eq(groups[claims[i].group].root, root(output), "the root that it claims");
        }
        Group memory group = groupOf(id, 1013);
        eq(group.members.length, 9, "members over two words");
        uint256 atRisk;
        for (uint256 i = 0; i < 9; ++i) {
            eq(group.members[i], 13 * (i + 1), "member");
            atRisk += claims[group.members[i]].stake;
        }
        eq(group.atRisk, atRisk, "what they risk");
    }
}
