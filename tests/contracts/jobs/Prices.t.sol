// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Claim, IJobs, Job, JobPhase, Terms} from "contracts/interfaces/IJobs.sol";

/// @notice The price of a claim, which depends on the number of claims.
contract PricesTest is Market {
    using Views for Jobs;

    function _claimFor(uint256 job, address who, uint256 output, uint256 value) private {
        commitChallenge(job, who, output);
        Claim memory c = claim(output);
        vm.deal(who, value);
        vm.prank(who);
        jobs.challenge{value: value}(job, c, bytes32(output));
    }

    function _counts(uint256 job, uint256 founded, uint256 followers) private view {
        Job memory j = jobs.jobOf(job);
        eq(j.founded, founded, "roots of challengers");
        eq(j.followers, followers, "claims of roots that were claimed");
    }

    /// @dev `S (16 + n) / 16`. Trainers' roots do not count.
    function test_eachNewRootIsDearerByASixteenth() public {
        uint256 job = claimed(7, 8, 9);
        _counts(job, 0, 0);
        for (uint160 n = 0; n < 40; ++n) {
            uint256 want = STAKE * (16 + n) / 16;
            eq(priceOf(job, 100 + n), want, "price");
            eq(challenge(job, person(10 + n), 100 + n), want, "what is paid");
            eq(jobs.claimsOf(job)[3 + n].stake, want, "and put at risk");
            eq(groupOf(job, 100 + n).atRisk, want, "by its group");
            _counts(job, n + 1, 0);
        }
        eq(address(jobs).balance, REWARD + 3 * STAKE + 40 * STAKE + (39 * 40 / 2) * STAKE / 16, "balance");
    }

    /// @dev `S 2^r`, counted for each root, whether its group lives or is dead.
    function test_eachFurtherClaimOfARootIsTwiceAsDear() public {
        uint256 job = claimed(7, 8);
        eq(priceOf(job, 7), 2 * STAKE, "the first");
        eq(challenge(job, person(3), 7), 2 * STAKE, "of the one");
        eq(priceOf(job, 7), 4 * STAKE, "the next of it");
        eq(challenge(job, person(4), 8), 2 * STAKE, "of the other, for which that does not count");
        winByDefault(job, 7);
        winByDefault(job, 7);
        yes(!isClaimed(job, 8), "dead");
        eq(challenge(job, person(5), 8), 4 * STAKE, "of a dead one");
        eq(priceOf(job, 8), 8 * STAKE, "the next of it");
        eq(priceOf(job, 7), 4 * STAKE, "and of the other still");
        _counts(job, 0, 3);
        eq(priceOf(job, 9), STAKE, "a new root is no dearer for it");
        challenge(job, person(6), 9);
        eq(priceOf(job, 7), 4 * STAKE, "and makes no other dearer");
        _counts(job, 1, 3);
    }

    /// @dev The challenger that founds a root is no follower, and neither is any slot holder.
    function test_aRootOfAChallengerCountsFromItsSecondClaim() public {
        uint256 job = claimed(7, 7);
        challenge(job, person(3), 8);
        for (uint160 n = 1; n < 6; ++n) {
            eq(challenge(job, person(10 + n), 8), STAKE << n, "founded by a challenger");
            eq(challenge(job, person(20 + n), 7), STAKE << n, "founded by slot holders");
        }
        _counts(job, 1, 10);
    }

    /// @dev Trainers who share a root pay one stake each, and make none dearer.
    function test_trainersOfOneRootAreNoFollowers() public {
        uint256 job = claimed(7, 7, 7);
        _counts(job, 0, 0);
        eq(groupOf(job, 7).atRisk, 3 * STAKE, "three stakes");
        eq(priceOf(job, 7), 2 * STAKE, "the first that follows");
    }

    /// @dev Each job counts for itself.
    function test_pricesAreTheJobs() public {
        (uint256 one, uint256 other) = (claimed(7), claimed(7));
        challenge(one, person(2), 7);
        challenge(one, person(3), 8);
        eq(priceOf(other, 7), 2 * STAKE, "of a root that is claimed");
        eq(priceOf(other, 8), STAKE, "of a new one");
    }

    function test_whatIsLessThanThePriceIsRefused() public {
        uint256 job = claimed(7);
        challenge(job, person(2), 8);
        uint256 want = STAKE * 17 / 16;
        commitChallenge(job, person(3), 9);
        Claim memory c = claim(9);
        vm.deal(person(3), want);
        vm.prank(person(3));
        vm.expectRevert(abi.encodeWithSelector(IJobs.WrongStake.selector, want - 1, want));
        jobs.challenge{value: want - 1}(job, c, bytes32(uint256(9)));
        _counts(job, 1, 0);
        commitChallenge(job, person(3), 8);
        c = claim(8);
        vm.deal(person(3), 2 * STAKE);
        vm.prank(person(3));
        vm.expectRevert(abi.encodeWithSelector(IJobs.WrongStake.selector, 2 * STAKE - 1, 2 * STAKE));
        jobs.challenge{value: 2 * STAKE - 1}(job, c, bytes32(uint256(8)));
        _counts(job, 1, 0);
    }

    function test_whatIsMoreIsCredited() public {
        uint256 job = claimed(7);
        address who = person(2);
        _claimFor(job, who, 8, 5 * STAKE + 3);
        credited(who, 4 * STAKE + 3, "what was more than the price");
        eq(jobs.claimsOf(job)[1].stake, STAKE, "which alone is at risk");
        vm.prank(who);
        jobs.withdraw();
        eq(who.balance, 4 * STAKE + 3, "drawn while the job runs");
        _claimFor(job, person(3), 9, STAKE * 17 / 16);
        credited(person(3), 0, "the price itself");
    }

    /// @dev An attacker that sees a pending claim and claims first makes it dearer, but does not keep it out.
    function test_aClaimThatAnotherHasMadeDearerIsAcceptedIfItSentEnough() public {
        uint256 job = claimed(8);
        commitChallenge(job, person(2), 7);
        challenge(job, address(0xBAD), 7); // the attacker knew the root
        uint256 price = priceOf(job, 7);
        eq(price, 2 * STAKE, "no longer the first");
        challengeRefused(job, person(2), 7, STAKE, IJobs.WrongStake.selector);
        Claim memory c = claim(7);
        vm.prank(person(2));
        jobs.challenge{value: 4 * STAKE}(job, c, bytes32(uint256(7)));
        credited(person(2), 2 * STAKE, "the rest");
        winByDefault(job, 8); // the first claimant gives the root away
        eq(spokesman(job, 7), person(2), "for nothing");
        winByDefault(job, 7);
        pass(PERIOD);
        finalize(job);
        credited(person(2), 2 * STAKE + price + STAKE / 2 + REWARD, "all of it");
        credited(address(0xBAD), 0, "its stake is gone");
    }

    /// @dev With the largest stake the number of further claims is bounded by the ether that exists.
    function test_noPriceOverflows() public {
        uint256 job = _withStake(2 ** 80);
        uint256 claims;
        while (priceOf(job, 7) < 2 ** 88) {
            _claimFor(job, address(uint160(0xF20000 + claims)), 7, priceOf(job, 7));
            ++claims;
        }
        eq(claims, 7, "2^81 to 2^87");
        uint256 price = priceOf(job, 7);
        commitChallenge(job, person(9), 7);
        vm.deal(person(9), price);
        Claim memory c = claim(7);
        vm.prank(person(9));
        vm.expectRevert();
        jobs.challenge{value: price}(job, c, bytes32(uint256(7)));
        vm.deal(person(9), 2 ** 100);
        vm.prank(person(9));
        vm.expectRevert(); // nor with more ether
        jobs.challenge{value: 2 ** 100}(job, c, bytes32(uint256(7)));
        _counts(job, 0, 7);
        eq(groupOf(job, 7).atRisk, 2 ** 88 - 2 ** 80, "one word holds them all");
        pass(PERIOD);
        finalize(job);
        inPhase(job, JobPhase.Accepted);
        eq(address(jobs).balance, REWARD + 2 ** 88 - 2 ** 80, "all is owed to somebody");
        credited(address(uint160(0xF20000 + 6)), 2 ** 87, "the last");
    }

    /// @dev A job whose one trainer has claimed 7 with that stake.
    function _withStake(uint256 stake) private returns (uint256 job) {
        Terms memory t = terms(1);
        t.stake = stake;
        vm.deal(person(1), stake);
        vm.prank(CLIENT);
        job = jobs.post{value: REWARD}(t);
        vm.prank(person(1));
        jobs.join{value: stake}(job);
        commit(job, person(1), 7);
        reveal(job, person(1), 7);
    }
}
