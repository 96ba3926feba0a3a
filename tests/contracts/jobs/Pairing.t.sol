// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Group, IJobs, Job, JobPhase} from "contracts/interfaces/IJobs.sol";
import {IReferee, Reason} from "contracts/interfaces/IReferee.sol";

/// @notice Who meets whom, who goes on, and what is left.
contract PairingTest is Market {
    using Views for Jobs;

    address[] private nobody;

    function test_twoRootsMeetAndTheWaitingOneIsSide0() public {
        uint256 job = claimed(7, 8);
        uint256 id = matchOf(job, 7);
        eq(id, matchOf(job, 8), "one match");
        eq(docket(id).roots[0], root(7), "side 0");
        eq(docket(id).players[1], person(2), "player 1");
        (bool open, uint8 group0, uint8 group1) = jobs.pairOf(job, id);
        yes(open && group0 == 0 && group1 == 1, "pair");
        eq(jobs.jobOf(job).openMatches, 1, "open matches");
        eq(jobs.jobOf(job).waiting, 0, "nobody waits");
    }

    function test_aWinnerGoesOnUntilOneIsLeft() public {
        uint256 job = claimed(1, 2, 7); // 1 against 2; 7 waits
        eq(matchOf(job, 7), 0, "7 waits");
        winByDefault(job, 1); // 1 meets 7
        eq(matchOf(job, 7), matchOf(job, 1), "the winner meets who waits");
        uint256 id = matchOf(job, 7);
        submit(id, 7, 1);
        rule(id, 7);
        eq(jobs.jobOf(job).waiting, 3, "7 waits again");
        pass(2 * PERIOD);
        jobs.finalize(job);
        Job memory j = jobs.jobOf(job);
        eq(j.acceptedRoot, root(7), "accepted root");
        eq(j.acceptedLast, root(7), "accepted last checkpoint");
        inPhase(job, JobPhase.Accepted);
    }

    function test_manyClaimsAreResolvedOneMatchATransaction() public {
        uint256 job = claimed(7);
        for (uint160 n = 2; n <= 12; ++n) {
            challenge(job, person(n), 100 + n);
        }
        eq(jobs.jobOf(job).openMatches, 6, "six matches at once");
        uint256 guard;
        while (jobs.jobOf(job).openMatches > 0) {
            // The honest party plays; every other match ends by silence.
            uint256 id = matchOf(job, 7);
            if (id != 0) {
                winByDefault(job, 7);
            } else {
                Group[] memory groups = jobs.groupsOf(job);
                for (uint256 i = 0; i < groups.length; ++i) {
                    if (groups[i].matchId != 0) id = groups[i].matchId;
                }
                pass(CLOCK + 1);
                referee.timeout(id);
            }
            yes(++guard < 50, "it ends");
        }
        pass(PERIOD);
        jobs.finalize(job);
        eq(jobs.jobOf(job).acceptedRoot, root(7), "the honest root is left");
    }

    function test_aGroupFallsToItsNextMember() public {
        uint256 job = claimed(7, 7, 8);
        eq(spokesman(job, 7), person(1), "the first speaks");
        winByDefault(job, 8); // person 1 was silent
        eq(spokesman(job, 7), person(2), "the next speaks");
        eq(matchOf(job, 7), matchOf(job, 8), "and meets 8 again");
        yes(jobs.claimsOf(job)[0].lost && !jobs.claimsOf(job)[1].lost, "only the first has lost");
        winByDefault(job, 7);
        pass(PERIOD);
        jobs.finalize(job);
        eq(jobs.jobOf(job).acceptedRoot, root(7), "accepted root");
        credited(person(2), STAKE + STAKE / 2 + REWARD, "stake, prize and reward");
        credited(person(1), 0, "the silent one");
    }

    function test_bothSilentBothLoseAndTheClientIsRefunded() public {
        uint256 job = claimed(7, 8);
        uint256 id = matchOf(job, 7);
        pass(CLOCK + 1);
        referee.timeout(id);
        pass(PERIOD);
        jobs.finalize(job);
        inPhase(job, JobPhase.Unclaimed);
        credited(CLIENT, REWARD, "the client");
        eq(burned(), 2 * STAKE, "both stakes are burned");
    }

    function test_aRootGivenAwayInTheLastSecondCanBeClaimedAgain() public {
        // 7 is right, but its trainer and the last-second challenger are one and the same.
        uint256 job = claimed(7);
        pass(PERIOD - 2);
        challenge(job, person(2), 8);
        winByDefault(job, 8);
        inPhase(job, JobPhase.Challenge); // again, for a whole period
        eq(jobs.jobOf(job).challengeEnd, block.timestamp + PERIOD, "challengeEnd");
        refuses(IJobs.WrongPhase.selector);
        jobs.finalize(job);

        pass(PERIOD - 2);
        challenge(job, person(3), 7);
        uint256 id = matchOf(job, 7);
        submit(id, 8, 7);
        rule(id, 7);
        pass(PERIOD);
        jobs.finalize(job);
        eq(jobs.jobOf(job).acceptedRoot, root(7), "the right root is accepted");
    }

    function test_finalizeWaitsForTheMatches() public {
        uint256 job = claimed(7, 8);
        refuses(IJobs.WrongPhase.selector);
        jobs.finalize(job);
        pass(PERIOD);
        inPhase(job, JobPhase.Closing);
        vm.expectRevert(abi.encodeWithSelector(IJobs.MatchesOpen.selector, job, 1));
        jobs.finalize(job);
    }

    function test_aMatchOpenedInTimeIsPlayedAfterTheEnd() public {
        uint256 job = claimed(7);
        pass(PERIOD - 2);
        challenge(job, person(2), 8);
        pass(1);
        winByDefault(job, 7);
        pass(PERIOD);
        jobs.finalize(job);
        refuses(IJobs.WrongPhase.selector);
        jobs.finalize(job);
    }

    // ------------------------------------------------------------------ void

    /// @dev A job that is full, one of whose slots has shown no claim.
    function test_aVoidJobRefundsWhatIsNotLost() public {
        uint256 job = post(16);
        for (uint160 n = 1; n <= 16; ++n) {
            join(job, person(n));
            commit(job, person(n), 7);
        }
        for (uint160 n = 1; n < 16; ++n) {
            reveal(job, person(n), 7);
        }
        pass(PERIOD);
        for (uint160 n = 17; n <= 65; ++n) {
            challenge(job, person(n), 100 + n);
            winByDefault(job, 7);
        }
        uint256 lost = burned();
        eq(lost, 49 * (STAKE / 2), "half of what challengers have lost");
        pass(PERIOD);
        jobs.finalize(job);
        inPhase(job, JobPhase.Void);
        credited(CLIENT, REWARD, "the client");
        credited(person(1), STAKE + 49 * (STAKE / 2), "stake, and the prizes from before");
        for (uint160 n = 2; n < 16; ++n) {
            credited(person(n), STAKE, "a claim");
        }
        credited(person(16), STAKE, "the slot");
        for (uint160 n = 17; n <= 65; ++n) {
            credited(person(n), 0, "what was lost before stays lost");
        }
        eq(burned(), lost, "nothing more is burned");
        refuses(IJobs.WrongPhase.selector);
        jobs.finalize(job);
        challengeRefused(job, person(66), 8, STAKE, IJobs.WrongPhase.selector);
    }

    // ------------------------------------------------------------------ the referee's word

    function test_onlyTheJobsRefereeResolves() public {
        uint256 job = claimed(7, 8);
        uint256 id = matchOf(job, 7);
        vm.expectRevert(abi.encodeWithSelector(IJobs.NotReferee.selector, address(this), address(referee)));
        jobs.resolve(job, id, 1, Reason.Timeout, nobody);
    }

    function test_aMatchIsResolvedOnceAndOnlyItsOwn() public {
        uint256 job = claimed(7, 8);
        uint256 id = matchOf(job, 7);
        vm.prank(address(referee));
        refuses(IJobs.NoSuchMatch.selector);
        jobs.resolve(job, id + 1, 1, Reason.Timeout, nobody);
        vm.prank(address(referee));
        vm.expectRevert(abi.encodeWithSelector(IJobs.BadResult.selector, 0));
        jobs.resolve(job, id, 0, Reason.Timeout, nobody);
        vm.prank(address(referee));
        vm.expectRevert(abi.encodeWithSelector(IJobs.BadResult.selector, 4));
        jobs.resolve(job, id, 4, Reason.Timeout, nobody);
        winByDefault(job, 7);
        vm.prank(address(referee));
        refuses(IJobs.NoSuchMatch.selector);
        jobs.resolve(job, id, 1, Reason.Timeout, nobody);
    }
}
