// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Market} from "../support/Market.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {
    IDataAvailability,
    Piece,
    Place,
    RecordPiece,
    Subject
} from "contracts/interfaces/IDataAvailability.sol";
import {IJobs, JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice Two hostile trainers claim the right root, request a record of it, and do not show it. They keep its group
/// in a match, so that the request is late before it can be closed, and let the first of them lose: now the root can be
/// claimed behind the second one, and such a claim is lost with it when the request is closed. So an honest party
/// claims no root while a late request hangs over its claimants: it waits until they have lost, which begins another
/// life of the root, and has a challenge period to claim it.
contract LateRequestTest is Market {
    using Views for Jobs;

    address private constant HOSTILE = address(0xBAD);
    address private constant HONEST = address(0x600D);

    uint256 private _job;
    Subject private _s;
    Place private _place = Place(Piece.Record, 0, 0, 0, 0);

    function _besieged() private {
        _job = claimed(7, 7);
        _s = Subject(IJobs(address(jobs)), _job, root(7));
        Place[] memory places = new Place[](1);
        places[0] = _place;
        uint256 deposit = dataAvailability.depositOf(Piece.Record, PRICE);
        Subject memory s = _s;
        vm.deal(HOSTILE, deposit);
        vm.prank(HOSTILE);
        dataAvailability.request{value: deposit}(s, places);
        pass(PERIOD - 50);
        challenge(_job, HOSTILE, 8); // their own lie
        winByDefault(_job, 8);
        yes(time.time() > dataAvailability.requestOf(_s, _place).until, "the request is late");
        refuses(IJobs.GroupPlays.selector);
        dataAvailability.close(_s, _place);
        yes(groupOf(_job, 7).spokesman == 1 && isClaimed(_job, 7), "a claim is lost, another stands");
    }

    /// @dev The wrong way.
    function test_whoClaimsBehindALateRequestLosesWithThoseBefore() public {
        _besieged();
        uint256 price = challenge(_job, HONEST, 7);
        winByDefault(_job, 7); // the second trainer beats their own lie
        dataAvailability.close(_s, _place);
        yes(!isClaimed(_job, 7), "all who claimed it have lost");
        credited(
            HOSTILE, STAKE / 2 + (STAKE + price) / 2, "half of what they have lost, and the prize from before"
        );
        credited(HONEST, 0, "nothing");
    }

    /// @dev The right way: the request is closed as soon as possible, and the root is claimed again.
    function test_whoWaitsUntilTheyAreGoneLosesNothing() public {
        _besieged();
        commitChallenge(_job, HONEST, 7);
        winByDefault(_job, 7);
        refuses(IJobs.RequestsOpen.selector);
        this.finalizeLater();
        dataAvailability.close(_s, _place); // anybody may
        vm.warp(groupOf(_job, 7).until - 1);
        uint256 price = claimNow(_job, HONEST, 7);
        eq(price, 2 * STAKE, "twice the stake, as before");
        refuses(IDataAvailability.NoSuchRequest.selector);
        dataAvailability.close(_s, _place);
        toTheEnd(_job);
        finalize(_job);
        inPhase(_job, JobPhase.Accepted);
        credited(HONEST, price + REWARD, "its stake and the reward");
    }

    function finalizeLater() external {
        toTheEnd(_job);
        jobs.finalize(_job);
    }

    /// @dev The right way before that: a party that has the run answers in time, without a claim, and is paid for it.
    function test_whoAnswersForOthersCanStandBehindThem() public {
        _job = claimed(7, 7);
        _s = Subject(IJobs(address(jobs)), _job, root(7));
        Place[] memory places = new Place[](1);
        places[0] = _place;
        uint256 deposit = dataAvailability.depositOf(Piece.Record, PRICE);
        Subject memory s = _s;
        vm.deal(HOSTILE, deposit);
        vm.prank(HOSTILE);
        dataAvailability.request{value: deposit}(s, places);
        RecordPiece memory a;
        (a.record, a.checkpoint) = (record(7), root(7));
        vm.prank(HONEST);
        dataAvailability.provideRecord(s, places[0], a);
        yes(dataAvailability.credit(HONEST) > 0, "paid");
        pass(PERIOD - 50);
        challenge(_job, HOSTILE, 8);
        winByDefault(_job, 8);
        uint256 price = challenge(_job, HONEST, 7);
        winByDefault(_job, 7);
        toTheEnd(_job);
        finalize(_job);
        credited(HONEST, price, "its stake");
    }
}
