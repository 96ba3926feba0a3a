// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Views} from "../support/Views.sol";
import {Steady} from "./Steady.sol";
import {Jobs} from "contracts/Jobs.sol";
import {
    IDataAvailability,
    LogPiece,
    Piece,
    Place,
    RequestState,
    Subject
} from "contracts/interfaces/IDataAvailability.sol";
import {JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice Many checkpoints and many pieces at once: their deadlines, and their deposits.
/// forge-config: default.isolate = true
contract QueueTest is Steady {
    using Views for Jobs;

    Subject private _s;

    constructor() {
        _s = steadyClaimed();
    }

    function _until(Place memory place) private view returns (uint256) {
        return dataAvailability.requestOf(_s, place).until;
    }

    function _pay(Place memory place) private returns (uint256 deposit) {
        (deposit,) = requestAs(AUDITOR, _s, one(place));
    }

    /// @dev Otherwise a claimant would have to recompute the whole run in the time for one response.
    function test_eachOtherCheckpointGivesAPeriodMore() public {
        for (uint64 i = 0; i < 5; ++i) {
            request(_s, recordIn(i, 0));
            eq(_until(recordIn(i, 0)), time.time() + (i + 1) * PERIOD + 10 * i, "one after the other");
        }
        pass(100);
        request(_s, recordIn(2, 1));
        eq(_until(recordIn(2, 1)), time.time() + 5 * PERIOD + 50, "it comes last, too");
        steadyAnswered(_s, recordIn(0, 0));
        steadyAnswered(_s, recordIn(2, 0));
        request(_s, recordIn(7, 0));
        eq(_until(recordIn(7, 0)), time.time() + 5 * PERIOD + 40, "of checkpoint 2 something is still open");
        steadyAnswered(_s, recordIn(2, 1));
        request(_s, recordIn(8, 0));
        eq(_until(recordIn(8, 0)), time.time() + 5 * PERIOD + 40, "0 and 2 are answered");
    }

    function test_recordsOfOneCheckpointACall() public {
        Place[] memory list = new Place[](2);
        (list[0], list[1]) = (recordIn(1, 0), recordIn(2, 0));
        requestRefused(_s, list, IDataAvailability.AnotherCheckpoint.selector);
    }

    /// @dev Sent one after the other, at 100,000 bytes a minute, none of them is late.
    function test_eachPieceGivesTheTimeToSendIt() public {
        request(_s, leavesIn(0, 0, 96));
        eq(_until(leafIn(0, 0, 300, 0)), time.time() + PERIOD, "the first");
        eq(_until(leafIn(0, 0, 300, 95)), time.time() + PERIOD + 950, "the last");
        uint256 job = runClaimed();
        Place[] memory pages = new Place[](3);
        (pages[0], pages[1], pages[2]) = (blocks(1, 0, 0), blocks(1, 0, 1), digests(1));
        request(ofLogs(job), pages);
        eq(dataAvailability.requestOf(ofLogs(job), pages[2]).until, time.time() + PERIOD + 120, "of logs");
    }

    function test_aDepositDoublesWithEachOtherCheckpoint() public {
        uint256 least = dataAvailability.depositOf(Piece.Record, PRICE);
        for (uint64 i = 0; i < 16; ++i) {
            eq(_pay(recordIn(i, 0)), least << i, "twice as dear");
        }
        requestRefused(_s, recordIn(16, 0), IDataAvailability.TooManyOpen.selector);
        eq(_pay(recordIn(3, 1)), least << 15, "more of one that is open");
        steadyAnswered(_s, recordIn(9, 0));
        eq(_pay(recordIn(16, 0)), least << 15, "the next");
    }

    function test_aDepositDoublesWithEvery64Pieces() public {
        uint256 least = dataAvailability.depositOf(Piece.Leaf, PRICE);
        for (uint64 i = 0; i < 8; ++i) {
            (uint256 deposit,) = requestAs(AUDITOR, _s, leavesIn(0, 64 * i, 64));
            eq(deposit, 64 * (least << i), "twice as dear");
        }
        requestRefused(_s, leafIn(0, 0, 300, 512), IDataAvailability.TooManyOpen.selector);
        steadyAnswered(_s, leafIn(0, 0, 300, 7));
        request(_s, leafIn(0, 0, 300, 512));
    }

    function test_aCallTakesSoManyPlaces() public {
        requestRefused(_s, leavesIn(0, 0, 97), IDataAvailability.TooManyPlaces.selector);
        request(_s, leavesIn(0, 0, 96));
    }

    /// @dev The deposit of the first request of a queue does not depend on later ones.
    function test_halfOfWhatIsMoreIsBurnedWhenItIsAnswered() public {
        uint256 least = dataAvailability.depositOf(Piece.Record, PRICE);
        for (uint64 i = 0; i < 4; ++i) {
            request(_s, recordIn(i, 0));
        }
        uint256 burned_ = dataAvailability.credit(dataAvailability.BURNED());
        eq(burned_, 0, "nothing yet");
        steadyAnswered(_s, recordIn(0, 0));
        uint256 fee = dataAvailability.credit(AUTHOR);
        eq(dataAvailability.credit(AUDITOR), least - fee, "of the first all comes back but the fee");
        steadyAnswered(_s, recordIn(3, 0));
        eq(dataAvailability.credit(AUTHOR), 2 * fee, "the same fee");
        eq(dataAvailability.credit(dataAvailability.BURNED()), 7 * least / 2, "half of seven times the least");
        eq(dataAvailability.credit(AUDITOR), 2 * (least - fee) + 7 * least - 7 * least / 2, "the rest");
    }

    /// @dev A requester that nobody answers gets its whole deposit back, at any rank.
    function test_ofWhatNobodyAnswersAllComesBack() public {
        uint256 paid;
        for (uint64 i = 0; i < 6; ++i) {
            paid += _pay(recordIn(i, 0));
        }
        pass(PERIOD + 1);
        dataAvailability.close(_s, recordIn(0, 0));
        for (uint64 i = 1; i < 6; ++i) {
            dataAvailability.close(_s, recordIn(i, 0));
        }
        eq(dataAvailability.credit(AUDITOR), paid, "all deposits");
        eq(dataAvailability.credit(dataAvailability.BURNED()), 0, "nothing is burned");
        credited(AUDITOR, STAKE / 2, "one prize");
        eq(address(dataAvailability).balance, paid, "nothing is minted or lost");
        pass(1);
        (, bool claimed_) = jobs.standing(_s.jobId, _s.root);
        yes(!claimed_, "the root is lost");
    }

    /// @dev An auditor that asks twice for logs, each time behind the longest list, has a challenge period left.
    function test_whoHasToAskTwiceInAFullQueueCanStillChallenge() public {
        uint256 job = runClaimed();
        Subject memory s = ofLogs(job);
        _fill(s, 0, 511);
        vm.warp(jobs.jobOf(job).challengeEnd - PERIOD - 511 * 60); // the end of the phase as it was
        request(s, digests(1));
        uint256 until = dataAvailability.requestOf(s, digests(1)).until;
        eq(until, time.time() + PERIOD + 511 * 60, "the longest that it takes");
        LogPiece memory none = logAt(blocks(1, 2, 0));
        for (uint64 i = 0; i < 511; ++i) {
            dataAvailability.provideBlocks(s, blocks(1, 2, i), none);
        }
        vm.warp(until);
        answer(s, digests(1));
        _fill(s, 511, 511);
        request(s, blocks(1, 0, 0));
        until = dataAvailability.requestOf(s, blocks(1, 0, 0)).until;
        eq(jobs.jobOf(job).challengeEnd, until + PERIOD, "a challenge period is left");
        vm.warp(until);
        answer(s, blocks(1, 0, 0));
        inPhase(job, JobPhase.Challenge);
    }

    function _fill(Subject memory s, uint64 from, uint64 count) private {
        while (count > 0) {
            uint64 some = count < 96 ? count : 96;
            Place[] memory list = new Place[](some);
            for (uint64 i = 0; i < some; ++i) {
                list[i] = blocks(1, 2, from + i);
            }
            request(s, list);
            (from, count) = (from + some, count - some);
        }
    }

    function test_whatIsOpenIsTold() public {
        request(_s, recordIn(1, 0));
        request(_s, recordIn(1, 1));
        request(_s, recordIn(2, 0));
        (uint256 open, uint256 others) = dataAvailability.openOf(_s, recordIn(1, 2));
        eq(open, 3, "pieces");
        eq(others, 1, "checkpoints besides it");
        (, others) = dataAvailability.openOf(_s, recordIn(3, 0));
        eq(others, 2, "of one that is not open");
        steadyAnswered(_s, recordIn(2, 0));
        (open, others) = dataAvailability.openOf(_s, recordIn(3, 0));
        yes(open == 2 && others == 1, "one less");
        is_(dataAvailability.requestOf(_s, recordIn(2, 0)).state, RequestState.Answered, "answered");
    }
}
