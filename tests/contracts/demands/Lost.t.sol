// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Lapsed} from "./Lapsed.sol";
import {Jobs} from "contracts/Jobs.sol";
import {
    DemandState,
    IDemands,
    LogPiece,
    Piece,
    Place,
    RecordPiece,
    Subject,
    TensorPiece
} from "contracts/interfaces/IDemands.sol";
import {IJobs, JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice What becomes of what nobody publishes, and how long that takes.
contract LostTest is Lapsed {
    using Trees for Tree;
    using Views for Jobs;

    // ------------------------------------------------------------------ what is lost

    function test_aRecordThatNobodyShowsLosesTheRoot() public {
        Place memory place = recordIn(2, 1);
        demand(ofClaim(_job), place);
        uint256 end = _end();
        pass(PERIOD + 1);
        demands.close(ofClaim(_job), place);
        credited(AUDITOR, STAKE / 2, "the finder's prize");
        eq(burned(), STAKE / 2, "the rest");
        eq(demands.credit(AUDITOR), demands.depositOf(Piece.Record), "the deposit");
        yes(jobs.claimsOf(_job)[0].lost, "the claim is lost");
        (, bool alive) = jobs.standing(_job, ofClaim(_job).root);
        yes(!alive, "nobody claims the root any more");
        yes(_end() >= end, "a challenge may follow");
        inPhase(_job, JobPhase.Challenge);
        vm.warp(_end());
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Unclaimed);
        credited(CLIENT, REWARD, "the reward");
        eq(address(jobs).balance, REWARD + STAKE, "nothing is minted or lost");
    }

    function test_allWhoClaimTheRootLose() public {
        uint256 job = claimed(7, 7, 7);
        Subject memory s = Subject(IJobs(address(jobs)), job, root(7));
        _lapse(s, recordIn(0, 0));
        credited(AUDITOR, 3 * STAKE / 2, "half of three stakes");
        for (uint256 i = 0; i < 3; ++i) {
            yes(jobs.claimsOf(job)[i].lost, "each is lost");
        }
        eq(address(jobs).balance, 2 * REWARD + 4 * STAKE, "nothing is minted or lost");
    }

    function test_aGroupPlaysItsMatchToTheEndFirst() public {
        otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        demand(ofClaim(_job), recordIn(0, 0));
        pass(PERIOD + 1);
        // NOTE: by now both are late; before anybody says so, the group is in the match.
        closeRefused(ofClaim(_job), recordIn(0, 0), IJobs.GroupPlays.selector);
        is_(stateOf(ofClaim(_job), recordIn(0, 0)), DemandState.Open, "it waits for the match");
        referee.timeout(id);
        // Both have lost by default, so there is nothing to lose any more.
        demands.close(ofClaim(_job), recordIn(0, 0));
        credited(AUDITOR, 0, "the match came first");
        eq(demands.credit(AUDITOR), demands.depositOf(Piece.Record), "the deposit");
    }

    function test_aWinnerLosesByWhatWasDemandedOfItMeanwhile() public {
        bytes32 root = otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 0, runTree().levels[0]);
        demand(ofClaim(_job), recordIn(0, 0));
        vm.warp(referee.deadline(id) + 1);
        referee.timeout(id);
        credited(person(1), STAKE / 2, "the match is won");
        closeRefused(ofClaim(_job), recordIn(0, 0), IDemands.NotLate.selector);
        vm.warp(_end());
        refuses(IJobs.DemandsOpen.selector);
        jobs.finalize(_job);
        demands.close(ofClaim(_job), recordIn(0, 0));
        credited(AUDITOR, STAKE / 2, "and lost all the same");
        inPhase(_job, JobPhase.Challenge);
        yes(root != 0, "another");
    }

    /// @dev Whoever claims a root again is not answerable for what was demanded of those who have lost it.
    function test_aDemandDiesWithThoseItWasMadeOf() public {
        Subject memory s = ofClaim(_job);
        demand(s, recordIn(1, 0));
        demand(s, recordIn(1, 1));
        pass(PERIOD + 1);
        demands.close(s, recordIn(1, 0));
        _claimAgain(person(3));
        demands.close(s, recordIn(1, 1));
        (, bool alive) = jobs.standing(_job, s.root);
        yes(alive, "the new claim stands");
        credited(AUDITOR, STAKE / 2, "one prize");
        demand(s, recordIn(1, 1));
        answer(s, recordIn(1, 1));
        vm.warp(_end());
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Accepted);
    }

    // ------------------------------------------------------------------ time

    function test_whoGetsItLateHasTheTimeToChallenge() public {
        vm.warp(_end() - 1);
        demand(ofLogs(_job), digests(1));
        eq(_end(), block.timestamp + 2 * PERIOD, "an answer, and a challenge period");
        pass(PERIOD);
        answer(ofLogs(_job), digests(1));
        inPhase(_job, JobPhase.Challenge);
    }

    function test_demandsDoNotKeepAJobFromEnding() public {
        uint256 limit = block.timestamp + 4 * 2 * PERIOD + LISTS;
        (Subject memory s, RecordPiece memory shown) = (ofClaim(_job), recordAt(recordIn(0, 0)));
        TensorPiece memory none;
        while (jobs.phaseOf(_job) == JobPhase.Challenge) {
            Place memory place = leafIn(0, 0, 300, uint64(time.time()));
            demand(s, place);
            yes(_end() <= limit, "not longer than that");
            pass(PERIOD / 2);
            demands.answerLeaf(s, place, shown, none);
            pass(PERIOD / 2);
        }
        eq(_end(), limit, "for as long as that");
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Accepted);
    }

    /// @dev Each page that is demanded is paid for, and puts the limit off by a minute and the 64th part of a verdict period.
    function test_noPageOfLogsKeepsAJobFromEndingForLonger() public {
        uint256 limit = block.timestamp + 4 * 2 * PERIOD + LISTS;
        LogPiece memory none = logAt(blocks(1, 2, 0));
        Subject memory s = ofLogs(_job);
        while (jobs.phaseOf(_job) == JobPhase.Challenge) {
            Place memory place = blocks(1, 2, uint64(time.time()));
            demand(s, place);
            limit += 60 + PERIOD / 64;
            yes(_end() <= limit, "not longer than that");
            pass(PERIOD / 2);
            demands.answerBlocks(s, place, none);
            pass(PERIOD / 2);
        }
        eq(_end(), limit, "for as long as that");
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Accepted);
    }

    function test_nothingIsAcceptedWhileSomethingIsDemanded() public {
        uint256 limit = block.timestamp + 4 * 2 * PERIOD + LISTS;
        (Subject memory s, RecordPiece memory shown) = (ofClaim(_job), recordAt(recordIn(0, 0)));
        TensorPiece memory none;
        for (uint64 i = 0; _end() < limit; ++i) {
            demand(s, leafIn(0, 0, 300, i));
            pass(PERIOD);
            demands.answerLeaf(s, leafIn(0, 0, 300, i), shown, none);
        }
        vm.warp(_end() - 1);
        demand(s, recordIn(0, 0));
        pass(1);
        inPhase(_job, JobPhase.Closing);
        refuses(IJobs.DemandsOpen.selector);
        jobs.finalize(_job);
        answer(s, recordIn(0, 0));
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Accepted);
    }

    // ------------------------------------------------------------------ money

    function test_demandingOfHimselfCostsHalfAStake() public {
        address trainer = person(1);
        Place[] memory places = new Place[](1);
        places[0] = recordIn(0, 0);
        uint256 deposit = demands.depositOf(Piece.Record);
        Subject memory s = ofClaim(_job);
        vm.deal(trainer, deposit);
        vm.prank(trainer);
        demands.demand{value: deposit}(s, places);
        pass(PERIOD + 1);
        demands.close(ofClaim(_job), places[0]);
        eq(jobs.credit(trainer) + demands.credit(trainer), STAKE / 2 + deposit, "half is burned");
    }

    function test_creditsAreDrawn() public {
        demand(ofLogs(_job), digests(1));
        answer(ofLogs(_job), digests(1));
        uint256 fee = demands.credit(AUTHOR);
        vm.prank(AUTHOR);
        demands.withdraw();
        eq(AUTHOR.balance, fee, "the fee");
        vm.prank(AUDITOR);
        demands.withdraw();
        eq(address(demands).balance, 0, "all is paid out");
    }
}
