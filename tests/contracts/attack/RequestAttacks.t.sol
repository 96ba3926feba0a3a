// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Steady} from "../availability/Steady.sol";
import {Views} from "../support/Views.sol";
import {Jobs} from "contracts/Jobs.sol";
import {IDataAvailability, Piece, Place, Subject} from "contracts/interfaces/IDataAvailability.sol";
import {JobPhase} from "contracts/interfaces/IJobs.sol";

/// @notice Attacks with requests, which fail.
/// forge-config: default.isolate = true
contract RequestAttackTest is Steady {
    using Views for Jobs;

    Subject private _s;

    constructor() {
        _s = steadyClaimed();
    }
    address private constant HOLDER = address(0xBAD);
    /// @dev The checkpoint with the weights that the client pays for, which the holder withholds.
    uint64 private constant LAST = 63;

    /// @dev The money spent by HOLDER and AUDITOR, who get what they need for each request.
    mapping(address who => uint256) private _spent;

    function _requestAs(address who, Place[] memory list) private {
        (uint256 deposit,) = requestAs(who, _s, list);
        _spent[who] += deposit;
    }

    /// @dev Answers each of its own requests in the last second, and makes the next one before that.
    function _hold(uint64 checkpoint, uint64 part) private {
        _requestAs(HOLDER, one(leafIn(checkpoint, 0, 300, part)));
    }

    function _loss(address who) private view returns (int256) {
        return int256(_spent[who]) - int256(dataAvailability.credit(who)) - int256(jobs.credit(who));
    }

    function _is(int256 have, int256 want, string memory what) private pure {
        yes(have == want, what);
    }

    /// @dev A claimant requests of itself, always at another checkpoint than the one that it withholds. The client can
    /// still request that one: it waits a period longer for each open checkpoint, and gets its whole deposit back, and
    /// a prize, when nobody answers.
    function test_aClaimantKeepsNobodyFromRequesting() public {
        for (uint64 i = 0; i < 6; ++i) {
            _hold(i, 0);
        }
        Place[] memory wanted = new Place[](2);
        (wanted[0], wanted[1]) = (recordIn(LAST, 1), leafIn(LAST, 1, 256, 0));
        _requestAs(AUDITOR, wanted);
        eq(_spent[AUDITOR], 2 * dataAvailability.depositOf(Piece.Leaf, PRICE) << 6, "dear, for the while");
        uint256 until = dataAvailability.requestOf(_s, wanted[0]).until;
        eq(until, time.time() + 7 * PERIOD + 60, "six periods later than without it");
        // The holder continues for as long as it likes.
        uint64[6] memory part;
        while (time.time() + PERIOD <= until) {
            pass(PERIOD);
            for (uint64 i = 0; i < 6; ++i) {
                Place memory place = leafIn(i, 0, 300, part[i]);
                if (dataAvailability.requestOf(_s, place).until >= time.time() + PERIOD) continue;
                _hold(i, ++part[i]);
                steadyAnswered(_s, place);
            }
        }
        vm.warp(until + 1);
        bytes memory late = steadyAnswer(_s, wanted[0]);
        refuses(IDataAvailability.ResponseLate.selector);
        (bool done,) = address(dataAvailability).call(late);
        yes(done, "it is late");
        dataAvailability.close(_s, wanted[0]);
        dataAvailability.close(_s, wanted[1]);
        yes(jobs.claimsOf(_s.jobId)[0].lost, "the claim is lost");
        _is(_loss(AUDITOR), -int256(STAKE / 2), "the client has all back, and half of a stake");
    }

    /// @dev While the queue is held, which burns money, the client can request at the deposit of its level: once. The
    /// holder pays for a level again in each period.
    function test_whatItCostsToHoldAQueue() public {
        uint256 least = dataAvailability.depositOf(Piece.Leaf, PRICE);
        for (uint64 level = 1; level <= 6; ++level) {
            _hold(level - 1, 0);
        }
        _requestAs(AUDITOR, one(recordIn(LAST, 1)));
        steadyAnswered(_s, recordIn(LAST, 1)); // by a party that has it
        int256 client = _loss(AUDITOR);
        uint256 fee = dataAvailability.credit(AUTHOR);
        _is(client, int256(fee + 63 * least / 2), "the client: half of 63 first deposits, and the fee");
        for (uint64 i = 0; i < 6; ++i) {
            _hold(i, 1);
            steadyAnswered(_s, leafIn(i, 0, 300, 0));
        }
        int256 holder = _loss(HOLDER);
        for (uint64 i = 0; i < 6; ++i) {
            steadyAnswered(_s, leafIn(i, 0, 300, 1));
        }
        eq(burned(), 0, "no stake is touched");
        // 57 for six requests that fill the queue, and 186 for six that follow, in each six periods.
        _is(_loss(HOLDER) - int256(12 * fee), int256(243 * least / 2), "the holder");
        yes(holder > client, "more than the client");
        inPhase(_s.jobId, JobPhase.Challenge);
    }

    /// @dev The longest list that can be open. A party that sends seven answers a minute, one after the other, is in
    /// time and is paid more than they cost, and the flood has burned 7,904 first deposits.
    function test_aFloodIsAnsweredInTime() public {
        uint256 n = dataAvailability.MAX_OPEN();
        for (uint64 from = 0; from < n; from += 64) {
            _requestAs(HOLDER, leavesIn(0, from, 64));
        }
        requestRefused(_s, leafIn(0, 0, 300, uint64(n)), IDataAvailability.TooManyOpen.selector);
        // The computation of the interval takes the whole period.
        pass(PERIOD);
        uint256 gas;
        uint256 calldata_;
        for (uint64 i = 0; i < n; ++i) {
            if (i % 7 == 6) pass(60);
            yes(time.time() <= dataAvailability.requestOf(_s, leafIn(0, 0, 300, i)).until, "in time");
            bytes memory data = steadyAnswer(_s, leafIn(0, 0, 300, i));
            vm.prank(AUTHOR);
            (bool done,) = address(dataAvailability).call(data);
            yes(done, "answered");
            gas += vm.lastCallGas().gasTotalUsed;
            calldata_ += data.length;
        }
        yes(dataAvailability.credit(AUTHOR) > gas * PRICE, "what it costs is paid");
        uint256 least = dataAvailability.depositOf(Piece.Leaf, PRICE);
        // 64 each at 1, 2, 4, ..., 128 times the least: 16,320, of which 512 are the least.
        uint256 lost = (16_320 - 512) * least / 2;
        eq(dataAvailability.credit(dataAvailability.BURNED()), lost, "half of what was more than the least");
        _is(_loss(HOLDER), int256(lost + dataAvailability.credit(AUTHOR)), "the flooder's loss");
        yes(lost > 100 * gas * PRICE, "a hundred times what it costs the honest side, which is paid");
        yes(!jobs.claimsOf(_s.jobId)[0].lost, "nothing is lost");
        vm.warp(jobs.jobOf(_s.jobId).challengeEnd);
        finalize(_s.jobId);
        credited(person(1), STAKE + REWARD, "the honest claimant");
    }
}
