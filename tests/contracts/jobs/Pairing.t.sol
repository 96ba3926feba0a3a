// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {Group, IJobs, Job, JobPhase} from "contracts/interfaces/IJobs.sol";
import {IReferee, Reason} from "contracts/interfaces/IReferee.sol";

/// @notice Pairing: which groups meet, which go on, and which one is left.
contract PairingTest is Market {
    using Views for Jobs;

    address[] private nobody;

    function test_twoRootsMeetAndTheWaitingOneIsSide0() public {
        uint256 job = claimed(7, 8);
        uint256 id = matchOf(job, 7);
        eq(id, matchOf(job, 8), "one match");
        eq(matchTerms(id).roots[0], root(7), "side 0");
        eq(matchTerms(id).players[1], person(2), "player 1");
        (bool open, uint32 group0, uint32 group1) = jobs.pairOf(job, id);
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
        finalize(job);
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
        // The root 7 is right, but its trainer and the last-second challenger are one party.
        uint256 job = claimed(7);
        pass(PERIOD - 2);
        challenge(job, person(2), 8);
        uint256 end = jobs.jobOf(job).challengeEnd;
        winByDefault(job, 8);
        inPhase(job, JobPhase.Closing);
        Job memory j = jobs.jobOf(job);
        eq(j.challengeEnd, end, "no new root comes any more");
        eq(j.reclaimEnd, block.timestamp + PERIOD, "but the dead one, for a whole period");
        eq(groupOf(job, 7).until, j.reclaimEnd, "its group says so");
        eq(groupOf(job, 7).deaths, 1, "deaths");
        refuses(IJobs.ReclaimsOpen.selector);
        jobs.finalize(job);

        pass(PERIOD - 2);
        challenge(job, person(3), 7);
        uint256 id = matchOf(job, 7);
        submit(id, 8, 7);
        rule(id, 7);
        pass(PERIOD);
        finalize(job);
        eq(jobs.jobOf(job).acceptedRoot, root(7), "the right root is accepted");
        credited(person(3), 2 * STAKE + STAKE / 2 - STAKE / 10 + REWARD, "who has claimed it again");
    }

    /// @dev 16 groups: each round halves them, whichever side is silent.
    function test_allGroupsPlayAtOnce() public {
        uint256[] memory outputs = new uint256[](16);
        for (uint256 i = 0; i < 16; ++i) {
            outputs[i] = 100 + i;
        }
        uint256 job = claimed(outputs);
        for (uint256 left = 16; left > 1; left /= 2) {
            eq(jobs.jobOf(job).openMatches, left / 2, "all play");
            eq(jobs.jobOf(job).waiting, 0, "nobody waits");
            uint256[] memory ids = _matches(job);
            for (uint256 i = 0; i < ids.length; ++i) {
                bytes32 first = matchTerms(ids[i]).roots[0];
                referee.openRecord(ids[i], here(ids[i]), 0, record(outputOf(first)));
            }
            pass(CLOCK + 1);
            for (uint256 i = 0; i < ids.length; ++i) {
                referee.timeout(ids[i]);
            }
        }
        eq(jobs.jobOf(job).openMatches, 0, "it is over");
    }

    function _matches(uint256 job) private view returns (uint256[] memory ids) {
        (Group[] memory groups, uint256 found) = (jobs.groupsOf(job), 0);
        ids = new uint256[](jobs.jobOf(job).openMatches);
        for (uint256 g = 0; g < groups.length; ++g) {
            bool first = groups[g].matchId != 0 && matchTerms(groups[g].matchId).roots[0] == groups[g].root;
            if (first) ids[found++] = groups[g].matchId;
        }
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
        finalize(job);
        refuses(IJobs.WrongPhase.selector);
        jobs.finalize(job);
    }

    // ------------------------------------------------------------------ resolving

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
