// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Tree, Trees} from "../support/Trees.sol";
import {Views} from "../support/Views.sol";
import {Lapsed} from "./Lapsed.sol";
import {Jobs} from "contracts/Jobs.sol";
import {
    IDataAvailability,
    LogPiece,
    Piece,
    Place,
    RecordPiece,
    RequestState,
    Subject,
    TensorPiece
} from "contracts/interfaces/IDataAvailability.sol";
import {IJobs, JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice The effects of data that nobody publishes, and how long they take.
contract LostTest is Lapsed {
    using Trees for Tree;
    using Views for Jobs;

    // ------------------------------------------------------------------ losses

    function test_aRecordThatNobodyShowsLosesTheRoot() public {
        Place memory place = recordIn(2, 1);
        request(ofClaim(_job), place);
        uint256 end = _end();
        pass(PERIOD + 1);
        dataAvailability.close(ofClaim(_job), place);
        credited(AUDITOR, STAKE / 2, "the finder's prize");
        eq(burned(), STAKE / 2, "the rest");
        eq(dataAvailability.credit(AUDITOR), dataAvailability.depositOf(Piece.Record, PRICE), "the deposit");
        yes(jobs.claimsOf(_job)[0].lost, "the claim is lost");
        (, bool alive) = jobs.standing(_job, ofClaim(_job).root);
        yes(!alive, "nobody claims the root any more");
        yes(_end() == end, "a challenge may follow, as long as it might have");
        inPhase(_job, JobPhase.Challenge);
        eq(jobs.jobOf(_job).reclaimEnd, time.time() + PERIOD, "of the same root, too");
        toTheEnd(_job);
        finalize(_job);
        inPhase(_job, JobPhase.Unclaimed);
        credited(CLIENT, REWARD, "the reward");
        eq(address(jobs).balance, REWARD + STAKE, "nothing is minted or lost");
    }

    function test_allWhoClaimTheRootLose() public {
        uint256 job = claimed(7, 7, 7);
        challenge(job, person(4), 7);
        challenge(job, person(5), 8);
        winByDefault(job, 8);
        winByDefault(job, 7);
        Subject memory s = Subject(IJobs(address(jobs)), job, root(7));
        uint256 burned_ = burned();
        _lapse(s, recordIn(0, 0));
        credited(
            AUDITOR, (2 + 2) * STAKE / 2, "half of two stakes and a double one: the first was lost before"
        );
        eq(burned() - burned_, (2 + 2) * STAKE / 2, "the rest");
        for (uint256 i = 0; i < 4; ++i) {
            yes(jobs.claimsOf(job)[i].lost, "each is lost");
        }
        eq(groupOf(job, 7).atRisk, 0, "nothing is at risk");
        yes(groupOf(job, 7).deaths == 1 && groupOf(job, 7).until == time.time() + PERIOD, "dead");
        eq(jobs.jobOf(job).waiting, 0, "nobody waits");
        eq(address(jobs).balance, 2 * REWARD + 7 * STAKE, "nothing is minted or lost");
    }

    function test_aGroupPlaysItsMatchToTheEndFirst() public {
        otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        request(ofClaim(_job), recordIn(0, 0));
        pass(PERIOD + 1);
        // NOTE: by now both are late; before either is closed, the group is in the match.
        closeRefused(ofClaim(_job), recordIn(0, 0), IJobs.GroupPlays.selector);
        is_(stateOf(ofClaim(_job), recordIn(0, 0)), RequestState.Open, "it waits for the match");
        referee.timeout(id);
        // Both have lost by default, so nothing is left to lose.
        dataAvailability.close(ofClaim(_job), recordIn(0, 0));
        credited(AUDITOR, 0, "the match came first");
        eq(dataAvailability.credit(AUDITOR), dataAvailability.depositOf(Piece.Record, PRICE), "the deposit");
    }

    function test_aWinnerLosesByWhatWasRequestedOfItMeanwhile() public {
        bytes32 root = otherClaimed(_job, person(2));
        uint256 id = jobs.groupsOf(_job)[0].matchId;
        referee.reveal(id, atTheTop(_job), 0, runTree().levels[0]);
        request(ofClaim(_job), recordIn(0, 0));
        vm.warp(referee.deadline(id) + 1);
        referee.timeout(id);
        credited(person(1), STAKE / 2, "the match is won");
        closeRefused(ofClaim(_job), recordIn(0, 0), IDataAvailability.NotLate.selector);
        vm.warp(_end());
        refuses(IJobs.RequestsOpen.selector);
        jobs.finalize(_job);
        dataAvailability.close(ofClaim(_job), recordIn(0, 0));
        credited(AUDITOR, STAKE / 2, "and lost all the same");
        inPhase(_job, JobPhase.Closing);
        refuses(IJobs.ReclaimsOpen.selector);
        jobs.finalize(_job);
        pass(PERIOD - 2);
        _claimAgain(person(3)); // in the last second
        toTheEnd(_job);
        finalize(_job);
        credited(person(3), 2 * STAKE + REWARD, "who claims it again");
        yes(root != 0, "another");
    }

    /// @dev A new claimant of a lost root does not answer for what was requested of earlier claimants.
    function test_aRequestDiesWithThoseItWasMadeOf() public {
        Subject memory s = ofClaim(_job);
        request(s, recordIn(1, 0));
        request(s, recordIn(1, 1));
        pass(PERIOD + 1);
        dataAvailability.close(s, recordIn(1, 0));
        _claimAgain(person(3));
        dataAvailability.close(s, recordIn(1, 1));
        (, bool alive) = jobs.standing(_job, s.root);
        yes(alive, "the new claim stands");
        credited(AUDITOR, STAKE / 2, "one prize");
        request(s, recordIn(1, 1));
        answer(s, recordIn(1, 1));
        vm.warp(_end());
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Accepted);
    }

    /// @dev After the challenge phase data of a root that is claimed again can be requested, before the `until` of its
    /// group. Such a request extends nothing, but the end waits for it.
    function test_ofARootThatIsClaimedAgainSomethingCanBeRequestedInTime() public {
        Subject memory s = ofClaim(_job);
        vm.warp(_end() - 1);
        request(s, recordIn(0, 0));
        pass(PERIOD + 1);
        dataAvailability.close(s, recordIn(0, 0));
        uint256 end = _end();
        vm.warp(jobs.groupsOf(_job)[0].until - 2);
        requestRefused(s, recordIn(0, 0), IDataAvailability.NotClaimed.selector);
        _claimAgain(person(3)); // in the last second
        inPhase(_job, JobPhase.Closing);
        uint256 until = jobs.groupsOf(_job)[0].until;
        eq(until, time.time() + PERIOD, "a challenge period");
        eq(jobs.jobOf(_job).reclaimEnd, until, "for which the job waits");
        requestRefused(ofLogs(_job), digests(1), IJobs.WrongPhase.selector); // of the root only
        vm.warp(until);
        requestRefused(s, recordIn(0, 0), IJobs.WrongPhase.selector);
        vm.warp(until - 1);
        request(s, recordIn(0, 0));
        eq(_end(), end, "that puts nothing off");
        vm.warp(until);
        refuses(IJobs.RequestsOpen.selector);
        jobs.finalize(_job);
        answer(s, recordIn(0, 0));
        finalize(_job);
        inPhase(_job, JobPhase.Accepted);
        credited(person(3), 2 * STAKE + REWARD, "who has shown it");
    }

    /// @dev The new claimant does not publish the data either: so a root whose data is withheld is not accepted.
    function test_aRootThatIsClaimedAgainAndNotShownIsLostAgain() public {
        Subject memory s = ofClaim(_job);
        vm.warp(_end() - 1);
        request(s, recordIn(0, 0));
        pass(PERIOD + 1);
        dataAvailability.close(s, recordIn(0, 0));
        vm.warp(jobs.groupsOf(_job)[0].until - 2);
        _claimAgain(person(3));
        request(s, recordIn(0, 0));
        pass(PERIOD + 1);
        dataAvailability.close(s, recordIn(0, 0));
        credited(AUDITOR, STAKE / 2 + STAKE, "half of either stake");
        eq(jobs.groupsOf(_job)[0].deaths, 2, "dead again");
        toTheEnd(_job);
        finalize(_job);
        inPhase(_job, JobPhase.Unclaimed);
    }

    /// @dev A root that has not died, with or without lost claims, allows requests in the challenge phase alone.
    function test_ofARootThatHasNotDiedNothingIsRequestedAfterTheChallengePhase() public {
        uint256 job = claimed(7, 7, 8);
        Subject memory s = Subject(IJobs(address(jobs)), job, root(7));
        winByDefault(job, 8);
        vm.warp(jobs.jobOf(job).challengeEnd);
        requestRefused(s, recordIn(0, 0), IJobs.WrongPhase.selector);
    }

    // ------------------------------------------------------------------ time

    function test_whoGetsItLateHasTheTimeToChallenge() public {
        vm.warp(_end() - 1);
        request(ofLogs(_job), digests(1));
        eq(_end(), block.timestamp + 2 * PERIOD, "an response, and a challenge period");
        pass(PERIOD);
        answer(ofLogs(_job), digests(1));
        inPhase(_job, JobPhase.Challenge);
    }

    /// @dev Returns the latest end of the challenge phase, as far as requests of claimed roots extend it.
    function _limit() private view returns (uint256) {
        return jobs.jobOf(_job).revealEnd + PERIOD + 4 * 2 * PERIOD + LISTS;
    }

    /// @dev The limit holds for all roots together, including one that is claimed last.
    function test_noNewRootPutsTheEndOffForLonger() public {
        uint256 limit = _limit();
        (Subject memory s, RecordPiece memory shown) = (ofClaim(_job), recordAt(recordIn(0, 0)));
        TensorPiece memory none;
        for (uint64 i = 0; _end() < limit; ++i) {
            request(s, leafIn(0, 0, 300, i));
            pass(PERIOD);
            dataAvailability.provideLeaf(s, leafIn(0, 0, 300, i), shown, none);
        }
        vm.warp(_end() - 3);
        s.root = otherClaimed(_job, person(2));
        request(s, recordIn(0, 0));
        eq(_end(), limit, "the second root's request comes too late to put anything off");
        eq(dataAvailability.requestOf(s, recordIn(0, 0)).until, time.time() + PERIOD, "but is to be answered");
    }

    function test_requestsDoNotKeepAJobFromEnding() public {
        uint256 limit = _limit();
        (Subject memory s, RecordPiece memory shown) = (ofClaim(_job), recordAt(recordIn(0, 0)));
        TensorPiece memory none;
        while (jobs.phaseOf(_job) == JobPhase.Challenge) {
            Place memory place = leafIn(0, 0, 300, uint64(time.time()));
            request(s, place);
            yes(_end() <= limit, "not longer than that");
            pass(PERIOD / 2);
            dataAvailability.provideLeaf(s, place, shown, none);
            pass(PERIOD / 2);
        }
        eq(_end(), limit, "for as long as that");
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Accepted);
    }

    /// @dev Returns `count` pages of a node that has no log.
    function _pages(uint64 from, uint64 count) private pure returns (Place[] memory list) {
        list = new Place[](count);
        for (uint64 i = 0; i < count; ++i) {
            list[i] = blocks(1, 2, from + i);
        }
    }

    /// @dev The limit moves by the time in which 32 pages or more are open.
    function test_noPagesOfLogsKeepAJobFromEndingForLonger() public {
        (uint256 start, uint256 limit) = (time.time(), 0);
        LogPiece memory none = logAt(blocks(1, 2, 0));
        Subject memory s = ofLogs(_job);
        for (uint64 first = 0; jobs.phaseOf(_job) == JobPhase.Challenge; first += 32) {
            Place[] memory list = _pages(first, 32);
            request(s, list);
            // NOTE: the limit of claimed roots, as long as it is the later one.
            limit = _limit();
            if (start + 4 * 2 * PERIOD + LISTS > limit) limit = start + 4 * 2 * PERIOD + LISTS;
            yes(_end() <= limit, "not longer than that");
            pass(PERIOD / 2);
            for (uint256 i = 0; i < 32; ++i) {
                dataAvailability.provideBlocks(s, list[i], none);
            }
            start += PERIOD / 2;
            pass(PERIOD / 2);
        }
        eq(_end(), limit, "for as long as that");
        yes(limit > _limit(), "longer than requests of claimed roots could");
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Accepted);
    }

    /// @dev A single requester, with a new page whenever one is answered, waits for a block each time.
    function test_fewPagesOfLogsPutNothingOff() public {
        LogPiece memory none = logAt(blocks(1, 2, 0));
        Subject memory s = ofLogs(_job);
        for (uint64 first = 0; jobs.phaseOf(_job) == JobPhase.Challenge; first += 31) {
            Place[] memory list = _pages(first, 31);
            request(s, list);
            yes(_end() <= _limit(), "no longer than requests of claimed roots");
            pass(PERIOD - 1);
            for (uint256 i = 0; i < 31; ++i) {
                dataAvailability.provideBlocks(s, list[i], none);
            }
        }
        eq(_end(), _limit(), "as long");
    }

    /// @dev Nobody has waited for these pages.
    function test_pagesOfLogsThatAreAnsweredAtOncePutNothingOff() public {
        LogPiece memory none = logAt(blocks(1, 2, 0));
        Subject memory s = ofLogs(_job);
        uint64 page;
        while (jobs.phaseOf(_job) == JobPhase.Challenge) {
            for (uint256 i = 0; i < 3; ++i) {
                request(s, blocks(1, 2, ++page));
                dataAvailability.provideBlocks(s, blocks(1, 2, page), none);
            }
            pass(PERIOD / 2);
        }
        eq(_end(), _limit(), "no longer than requests of claimed roots");
    }

    function test_nothingIsAcceptedWhileSomethingIsRequested() public {
        uint256 limit = _limit();
        (Subject memory s, RecordPiece memory shown) = (ofClaim(_job), recordAt(recordIn(0, 0)));
        TensorPiece memory none;
        for (uint64 i = 0; _end() < limit; ++i) {
            request(s, leafIn(0, 0, 300, i));
            pass(PERIOD);
            dataAvailability.provideLeaf(s, leafIn(0, 0, 300, i), shown, none);
        }
        vm.warp(_end() - 1);
        request(s, recordIn(0, 0));
        pass(1);
        inPhase(_job, JobPhase.Closing);
        refuses(IJobs.RequestsOpen.selector);
        jobs.finalize(_job);
        answer(s, recordIn(0, 0));
        jobs.finalize(_job);
        inPhase(_job, JobPhase.Accepted);
    }

    // ------------------------------------------------------------------ money

    function test_requestingOfHimselfCostsHalfAStake() public {
        address trainer = person(1);
        Place[] memory places = new Place[](1);
        places[0] = recordIn(0, 0);
        uint256 deposit = dataAvailability.depositOf(Piece.Record, PRICE);
        Subject memory s = ofClaim(_job);
        vm.deal(trainer, deposit);
        vm.prank(trainer);
        dataAvailability.request{value: deposit}(s, places);
        pass(PERIOD + 1);
        dataAvailability.close(ofClaim(_job), places[0]);
        eq(jobs.credit(trainer) + dataAvailability.credit(trainer), STAKE / 2 + deposit, "half is burned");
    }

    function test_creditsAreDrawn() public {
        request(ofLogs(_job), digests(1));
        answer(ofLogs(_job), digests(1));
        uint256 fee = dataAvailability.credit(AUTHOR);
        vm.prank(AUTHOR);
        dataAvailability.withdraw();
        eq(AUTHOR.balance, fee, "the fee");
        vm.prank(AUDITOR);
        dataAvailability.withdraw();
        eq(address(dataAvailability).balance, 0, "all is paid out");
    }
}
