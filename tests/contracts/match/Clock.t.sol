// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Matches} from "../support/Matches.sol";
import {Step} from "../support/Positions.sol";
import {Fault, Kind, Run, Runs} from "../support/Runs.sol";
import {Submission} from "contracts/interfaces/IPanel.sol";
import {Exhibit, IReferee, Match, Phase, Reason} from "contracts/interfaces/IReferee.sol";

/// @notice The clocks: exact to the second, never given back, and the same in every view and move.
contract ClockTest is Matches {
    using Runs for Run;

    function _openTwo() private returns (uint256 id, Run memory run0, Run memory run1) {
        run0 = Runs.right();
        run1 = Runs.wrong(Fault(Kind.Output, 9, 4, 0, 1));
        id = open(run0, run1);
    }

    function test_theLastSecondIsInTime() public {
        (uint256 id, Run memory run0,) = _openTwo();
        eq(referee.deadline(id), block.timestamp + CLOCK, "deadline");
        vm.warp(referee.deadline(id));
        refuses(IReferee.NotLate.selector);
        referee.timeout(id);
        reveal(id, 0, run0);
        eq(referee.getMatch(id).clock0, 0, "all of the clock is used");
    }

    function test_aLateMoveRevertsAndATimeoutClaimedLateFindsTheSameLoser() public {
        (uint256 id, Run memory run0, Run memory run1) = _openTwo();
        reveal(id, 0, run0);
        bytes32[] memory nodes = childrenOf(id, run1);
        pass(CLOCK + 1);
        vm.expectRevert(abi.encodeWithSelector(IReferee.Late.selector, id, 2));
        reveal(id, 1, nodes);
        (bool late0, bool late1) = referee.late(id);
        yes(!late0 && late1, "side 1 is late");
        pass(1000 days);
        (late0, late1) = referee.late(id);
        yes(!late0 && late1, "and side 1 alone stays late");
        referee.timeout(id);
        decided(id, 2, Reason.Timeout);
    }

    function test_bothSilentBothLoseAndTheMatchEnds() public {
        (uint256 id,,) = _openTwo();
        pass(CLOCK + 1);
        referee.timeout(id);
        decided(id, 3, Reason.Timeout);
        refuses(IReferee.NotLate.selector);
        referee.timeout(id);
        eq(decisions, 1, "decided once");
    }

    function test_whenBothHavePostedBothArePressedAndTheSlowerClockFallsFirst() public {
        (uint256 id, Run memory run0, Run memory run1) = _openTwo();
        pass(100);
        reveal(id, 1, run1); // both are charged
        pass(50);
        reveal(id, 0, run0); // only side 0 is charged
        Match memory m = referee.getMatch(id);
        eq(m.clock0, CLOCK - 150, "clock 0");
        eq(m.clock1, CLOCK - 100, "clock 1");
        eq(referee.deadline(id), block.timestamp + CLOCK - 150, "deadline");
        pass(CLOCK - 149);
        (bool late0, bool late1) = referee.late(id);
        yes(late0 && !late1, "side 0 is late");
        pass(CLOCK);
        referee.timeout(id);
        decided(id, 1, Reason.Timeout);
    }

    function test_whoHasRefinedIsNotCharged() public {
        (uint256 id, Run memory run0, Run memory run1) = _openTwo();
        descend(id, run0, run1);
        refine(id, 1, run1);
        pass(CLOCK + 1);
        referee.timeout(id);
        decided(id, 1, Reason.Timeout);
    }

    function test_whoHasOpenedTheRecordIsNotCharged() public {
        (uint256 id, Run memory run0,) = atRecord(Fault(Kind.Output, 7, 3, 0, 1));
        openRecord(id, 0, recordOf(id, run0));
        pass(CLOCK + 1);
        referee.timeout(id);
        decided(id, 2, Reason.Timeout);
    }

    function test_nobodyOwesAnythingWhileVerifiersVote() public {
        (uint256 id, Run memory run0, Run memory run1) = atRecord(Fault(Kind.Output, 7, 3, 0, 1));
        Exhibit memory e = exhibit(id, run0, run1);
        submit(id, e);
        Submission memory s = submission(id, e);
        vote(id, s, 0, s.records[0]);
        pass(VERDICT - 1);
        refuses(IReferee.NotLate.selector);
        referee.timeout(id);
        vote(id, s, 1, s.records[0]);
        pass(10 * CLOCK);
        refuses(IReferee.NotLate.selector);
        referee.timeout(id);
        panel.proceed(panel.hearingOf(address(referee), id), s);
        decided(id, 2, Reason.Operator);
    }

    /// @notice At any pace of the moves clocks only fall, by exactly the time for which their side owed a move.
    function test_fuzz_timeIsConserved(uint256 seed) public {
        (uint256 id, Run memory run0, Run memory run1) = _openTwo();
        uint256 began = block.timestamp;
        uint256[2] memory spent;
        for (uint256 move = 0; move < 40; ++move) {
            Match memory m = referee.getMatch(id);
            if (m.phase == Phase.Done || m.phase == Phase.Hearing) break;
            eq(m.clock0 + spent[0], CLOCK, "clock 0 and what side 0 used");
            eq(m.clock1 + spent[1], CLOCK, "clock 1 and what side 1 used");
            seed = uint256(keccak256(abi.encode(seed)));
            uint256 pause = seed % 200;
            pass(pause);
            if (_timesOut(id)) break;
            bool bothOwe = m.posted == 0 || m.posted == 3;
            if (bothOwe || m.posted == 2) spent[0] += pause;
            if (bothOwe || m.posted == 1) spent[1] += pause;
            _anyMove(id, m, run0, run1, seed);
        }
        yes(block.timestamp - began <= 2 * CLOCK + 200, "a match lasts at most both clocks");
    }

    /// @dev Ends the match if a side is late, and returns whether it has.
    function _timesOut(uint256 id) private returns (bool) {
        (bool late0, bool late1) = referee.late(id);
        if (!late0 && !late1) return false;
        referee.timeout(id);
        decided(id, (late0 ? 1 : 0) | (late1 ? 2 : 0), Reason.Timeout);
        return true;
    }

    /// @dev Makes a publication of this side if it has not published, else the conclusion.
    function _anyMove(uint256 id, Match memory m, Run memory run0, Run memory run1, uint256 seed) private {
        uint8 side = uint8((seed >> 128) % 2);
        if (m.posted & (1 << side) != 0) side = 1 - side;
        bool conclude = m.posted == 3 || seed & 0xFF00 == 0;
        if (m.phase == Phase.Refine) {
            refine(id, side, side == 0 ? run0 : run1);
        } else if (m.phase == Phase.Walk) {
            if (conclude) descend(id, run0, run1);
            else reveal(id, side, side == 0 ? run0 : run1);
        } else if (conclude) {
            submit(id, exhibit(id, run0, run1));
        } else {
            openRecord(id, side, recordOf(id, side == 0 ? run0 : run1));
        }
    }
}
