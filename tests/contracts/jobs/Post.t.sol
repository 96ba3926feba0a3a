// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Panel} from "contracts/Panel.sol";
import {Programs} from "contracts/commit/Programs.sol";
import {Adjudication, IJobs, Job, JobPhase, Rules, Terms} from "contracts/interfaces/IJobs.sol";
import {IReferee} from "contracts/interfaces/IReferee.sol";

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
            if (mode == 1 || rounded) post(t);
            else _refused(t, IReferee.UnknownMode.selector);
        }
        eq(jobs.jobCount(), 1 + 28, "repops-f32, and rounded-f64 with each of its parameters");
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
        t.verifiers = new address[](0);
        _refused(t, IJobs.BadVerifierCount.selector);
        t.verifiers = new address[](33);
        _refused(t, IJobs.BadVerifierCount.selector);

        Panel other = Panel(payable(deploy("Panel.sol:Panel", abi.encode(court, registry))));
        t = terms(1);
        t.referee = deploy("Referee.sol:Referee", abi.encode(other));
        _refused(t, IJobs.VerifierNotRegistered.selector); // their bonds answer to the panel of another referee

        vm.prank(verifier(1));
        registry.unregister();
        _refused(terms(1), IJobs.VerifierNotRegistered.selector);
    }

    function test_onChainOnlyMeansWithoutVerifiers() public {
        Terms memory t = terms(1);
        t.rules.adjudication = Adjudication.OnChain;
        _refused(t, IJobs.BadVerifierCount.selector);
        t.verifiers = new address[](0);
        _refused(t, IJobs.BadThreshold.selector);
        t.rules.threshold = 0;
        uint256 id = post(t);
        (Rules memory rules, uint256 stake) = jobs.rulesOf(id);
        eq(keccak256(abi.encode(rules, stake)), keccak256(abi.encode(t.rules, STAKE)), "rules");
    }

    function test_theShortestPeriodCannotBeZero() public {
        refuses(IJobs.BadPeriod.selector);
        this.deployJobs(0);
    }

    function deployJobs(uint32 minPeriod) external returns (address) {
        return deploy("Jobs.sol:Jobs", abi.encode(registry, demands, 1, minPeriod));
    }
}
