// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice Claims behind a lie are paid back if the lie is accepted. So they must not make the right root dear, which its
/// first claimant gives away.
contract BehindALieTest is Market {
    using Views for Jobs;

    uint160 private constant BEHIND = 6;
    address private constant HONEST = address(0x600D);

    /// @dev The trainer has the right root; a lie and six claims behind it come in the last second, and the trainer plays no
    /// move of its match.
    function _givenAway() private returns (uint256 job) {
        job = claimed(TRUTH);
        vm.warp(jobs.jobOf(job).challengeEnd - 2);
        for (uint160 n = 0; n <= BEHIND; ++n) {
            commitTo(job, person(10 + n), 8);
        }
        pass(1);
        for (uint160 n = 0; n <= BEHIND; ++n) {
            eq(claimNow(job, person(10 + n), 8), STAKE << n, "each claim of the lie is twice as dear");
        }
        inPhase(job, JobPhase.Challenge);
        winByDefault(job, 8);
        inPhase(job, JobPhase.Closing);
        yes(!isClaimed(job, TRUTH), "given away");
    }

    /// @dev Who holds two stakes wins, whatever stands behind the lie, and all of that is lost.
    function test_theRightRootIsNoDearer() public {
        uint256 job = _givenAway();
        eq(priceOf(job, TRUTH), 2 * STAKE, "its own claims alone count");
        eq(priceOf(job, 8), STAKE << (BEHIND + 1), "and those of the lie for the lie");
        vm.deal(HONEST, 2 * STAKE);
        challenge(job, HONEST, TRUTH);
        eq(HONEST.balance, 0, "it had no more");
        for (uint256 n = 0; n <= BEHIND; ++n) {
            winByDefault(job, TRUTH);
        }
        pass(PERIOD);
        finalize(job);
        eq(jobs.acceptedRoot(job), root(TRUTH), "the right result");
        uint256 lost = ((STAKE << (BEHIND + 1)) - STAKE) / 2;
        credited(HONEST, 2 * STAKE + lost + REWARD, "half of what they have staked");
        credited(person(10), STAKE / 2, "what the lie won from its ally");
    }

    /// @dev Claims of the root itself, given away one by one, are what makes it dearer.
    function test_itsOwnClaimsMakeItDearer() public {
        uint256 job = _givenAway();
        for (uint160 n = 1; n < 4; ++n) {
            eq(challenge(job, person(20 + n), TRUTH), STAKE << n, "and each is lost");
            winByDefault(job, 8);
        }
        eq(priceOf(job, TRUTH), STAKE << 4, "twice the last one");
    }
}
