// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Dispute} from "contracts/interfaces/ICourt.sol";
import {DataRequest, Piece, Place, Subject} from "contracts/interfaces/IDataAvailability.sol";
import {Claim, IJobs, JobPhase, Terms} from "contracts/interfaces/IJobs.sol";
import {IPanel, Submission} from "contracts/interfaces/IPanel.sol";

/// @notice Stakes, bonds and deposits follow the base fee of the block, within the bounds of a job's terms.
///
/// Here a stake is worth 100 million units of gas, at 1 to 100 gwei: 0.1 to 10 ether. The terms ask for 1 ether.
contract FeesTest is Market {
    using Views for Jobs;

    address private constant AUDITOR = address(0xA0D1);

    function _stakeAt(uint256 job, uint256 baseFee) private returns (uint256) {
        vm.fee(baseFee);
        return jobs.stakeOf(job);
    }

    function test_aStakeFollowsTwiceTheBaseFee() public {
        uint256 job = post(1);
        eq(_stakeAt(job, 0), STAKE, "the terms'");
        eq(jobs.feeOf(job), 1 gwei, "the low bound");
        eq(_stakeAt(job, 5 gwei), STAKE, "as much");
        eq(_stakeAt(job, 5 gwei + 1), STAKE + 200_000_000, "more from here");
        eq(_stakeAt(job, 30 gwei), 6 ether, "as gas does");
        eq(_stakeAt(job, 50 gwei), 10 ether, "up to the high bound");
        eq(_stakeAt(job, 400 gwei), 10 ether, "and no further");
        eq(jobs.feeOf(job), 100 gwei, "the high bound");
    }

    function testFuzz_aStakePaysForTheGasThatItIsWorth(uint64 baseFee, uint40 low, uint40 high) public {
        low = uint40(1 gwei + low % (1000 gwei));
        high = uint40(low + high % (2 ** 40 - low));
        Terms memory t = terms(1);
        (t.lowFee, t.highFee) = (low, high);
        t.verifiers = new address[](0);
        t.rules.threshold = 0;
        uint256 job = post(t);
        vm.fee(baseFee);
        uint256 fee = jobs.feeOf(job);
        yes(fee >= low && fee <= high, "within its bounds");
        if (2 * uint256(baseFee) >= low && 2 * uint256(baseFee) <= high) {
            eq(fee, 2 * uint256(baseFee), "twice");
        }
        eq(jobs.stakeOf(job), fee * 100_000_000 > STAKE ? fee * 100_000_000 : STAKE, "the stake");
    }

    // ------------------------------------------------------------------ slots

    function test_aSlotIsToppedUpWhenItsClaimIsRevealed() public {
        uint256 job = post(1);
        address who = person(1);
        join(job, who);
        commit(job, who, 7);
        vm.fee(30 gwei);
        Claim memory c = claim(7);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IJobs.WrongStake.selector, 6 ether - 1, 6 ether));
        jobs.reveal{value: 5 ether - 1}(job, c, 0, bytes32(uint256(7)));
        vm.prank(who);
        jobs.reveal{value: 5 ether + 3}(job, c, 0, bytes32(uint256(7)));
        eq(jobs.claimsOf(job)[0].stake, 6 ether, "at risk");
        credited(who, 3, "what is more");
        eq(jobs.jobOf(job).unrevealed, 0, "nothing is left of the slot");
        vm.fee(0);
        toTheEnd(job);
        finalize(job);
        credited(who, 3 + 6 ether + REWARD, "all of it");
    }

    /// @dev The stake that a slot took at a high price of gas stays at risk.
    function test_aSlotThatWasTakenDearIsNotCheaperLater() public {
        uint256 job = post(1);
        address who = person(1);
        vm.fee(30 gwei);
        vm.prank(who);
        jobs.join{value: 6 ether}(job);
        vm.fee(0);
        commit(job, who, 7);
        reveal(job, who, 7);
        eq(jobs.claimsOf(job)[0].stake, 6 ether, "at risk");
    }

    /// @dev Of slots with different stakes those without a revealed claim are burned.
    function test_whatASlotTookIsBurned() public {
        uint256 job = post(3);
        join(job, person(1));
        commit(job, person(1), 7);
        vm.fee(20 gwei);
        vm.prank(person(2));
        jobs.join{value: 4 ether}(job);
        vm.fee(30 gwei);
        vm.prank(person(3));
        jobs.join{value: 6 ether}(job);
        commit(job, person(3), 7);
        eq(jobs.jobOf(job).unrevealed, 11 ether, "all three");
        pass(PERIOD);
        vm.fee(0);
        reveal(job, person(1), 7);
        eq(jobs.jobOf(job).unrevealed, 10 ether, "two");
        vm.warp(jobs.jobOf(job).challengeEnd);
        finalize(job);
        eq(burned(), 10 ether, "who joined and never revealed");
    }

    // ------------------------------------------------------------------ challengers, appeals, requests

    function test_aChallengeCostsWhatGasCostsThen() public {
        uint256 job = claimed(7);
        vm.fee(30 gwei);
        eq(priceOf(job, 8), 6 ether, "a new root");
        eq(priceOf(job, 7), 12 ether, "a root that is claimed");
        challenge(job, person(2), 8);
        eq(priceOf(job, 9), 6 ether * 17 / 16, "the next");
        vm.fee(0);
        eq(priceOf(job, 9), STAKE * 17 / 16, "when gas is cheap");
        winByDefault(job, 7);
        credited(person(1), 3 ether, "half of what it cost");
    }

    function test_anAppealCostsWhatGasCostsThen() public {
        uint256 job = claimed(7, 8);
        uint256 id = matchOf(job, 7);
        submit(id, 7, 8);
        decide(id, 8);
        vm.fee(30 gwei);
        vm.deal(person(1), 10 ether);
        vm.expectRevert(abi.encodeWithSelector(IPanel.WrongBond.selector, STAKE, 6 ether));
        this.appealAs(id, person(1), STAKE);
        this.appealAs(id, person(1), 7 ether);
        eq(panel.getHearing(hearingOf(id)).bond, 6 ether, "the bond");
        eq(panel.credit(person(1)), 1 ether, "what is more");
        tryHonestly(id, 7, 8);
        pass(PERIOD);
        proceed(id);
        eq(panel.credit(person(1)), 7 ether + 1 ether, "the bond, and half of those of two signers");
    }

    function appealAs(uint256 id, address who, uint256 value) external {
        (uint256 hearingId, Submission memory s, Dispute memory d) =
            (hearingOf(id), submissionOf(id), disputeOf(id));
        vm.prank(who);
        panel.appeal{value: value}(hearingId, s, d);
    }

    /// @dev The price is rounded up to a thousand wei, and kept for the answer.
    function test_ARequestCostsWhatGasCostsThen() public {
        uint256 job = claimed(7);
        Subject memory s = Subject(IJobs(address(jobs)), job, root(7));
        Place[] memory places = new Place[](1);
        places[0] = Place(Piece.Record, 0, 0, 0, 0);
        vm.fee(3 gwei + 1);
        uint256 deposit = dataAvailability.depositOf(Piece.Record, 6 gwei + 1_000);
        vm.deal(AUDITOR, deposit);
        vm.prank(AUDITOR);
        dataAvailability.request{value: deposit}(s, places);
        DataRequest memory d = dataAvailability.requestOf(s, places[0]);
        eq(uint256(d.price) * 1_000, 6 gwei + 1_000, "what gas counts for");
        vm.fee(0);
        vm.warp(d.until + 1);
        dataAvailability.close(s, places[0]);
        eq(dataAvailability.credit(AUDITOR), deposit, "the same comes back");
    }

    // ------------------------------------------------------------------ posting

    function test_theBoundsOfFees() public {
        Terms memory t = terms(1);
        (t.lowFee, t.highFee) = (1 gwei - 1, 1 gwei);
        _postRefused(t, IJobs.BadFees.selector);
        (t.lowFee, t.highFee) = (2 gwei, 2 gwei - 1);
        _postRefused(t, IJobs.BadFees.selector);
        (t.lowFee, t.highFee) = (1 gwei, 2 ** 40);
        _postRefused(t, IJobs.BadFees.selector);
        (t.lowFee, t.highFee) = (1 gwei, 2 ** 40 - 1);
        post(t);
    }

    /// @dev The bond is compared at the price of gas when the job is posted.
    function test_aVerifiersBondPaysForATrial() public {
        Terms memory t = terms(1);
        vm.fee(5 gwei);
        post(t); // bonds are 1 ether
        vm.fee(5 gwei + 1);
        _postRefused(t, IJobs.BondTooSmall.selector);
        t.highFee = 10 gwei;
        post(t);
        t.lowFee = t.highFee = 10 gwei + 1;
        vm.fee(0);
        _postRefused(t, IJobs.BondTooSmall.selector);
    }

    function _postRefused(Terms memory t, bytes4 selector) private {
        vm.prank(CLIENT);
        refuses(selector);
        jobs.post{value: REWARD}(t);
    }

    // ------------------------------------------------------------------ the watch period

    function test_nobodyRevealsInTheWatchPeriod() public {
        Terms memory t = terms(1);
        t.watchPeriod = 365 days + 1;
        _postRefused(t, IJobs.BadPeriod.selector);
        t.watchPeriod = 300;
        uint256 job = post(t);
        join(job, person(1));
        pass(10);
        commit(job, person(1), 7);
        eq(jobs.jobOf(job).commitEnd, time.time() + 300, "from the last commitment");
        eq(jobs.jobOf(job).revealEnd, time.time() + 300 + PERIOD, "the rest follows");
        pass(299);
        inPhase(job, JobPhase.Training);
        revealRefused(job, person(1), 7, 7, IJobs.WrongPhase.selector);
        pass(1);
        reveal(job, person(1), 7);
        inPhase(job, JobPhase.Challenge);
    }

    function test_theAcceptedRoot() public {
        uint256 job = claimed(7);
        eq(jobs.acceptedRoot(job), 0, "none yet");
        toTheEnd(job);
        finalize(job);
        eq(jobs.acceptedRoot(job), root(7), "the one that is left");
        eq(jobs.acceptedRoot(job + 1), 0, "of no job");
    }
}
