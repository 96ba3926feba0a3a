// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Match, Phase} from "contracts/interfaces/IReferee.sol";
import {Clock} from "contracts/match/Clock.sol";

/// @dev The cheatcodes that proofs need; halmos answers them.
interface Assume {
    function assume(bool condition) external pure;
    function warp(uint256 instant) external;
}

/// @title ClocksProof
/// @notice For every position, clocks and instant: a side is late if and only if it owes a move and ran out of time, no
/// later than the other side; charging takes the seconds since the last move from the sides that owe one, and nothing
/// else; it never underflows.
contract ClocksProof {
    using Clock for Match;

    Assume private constant vm = Assume(address(uint160(uint256(keccak256("hevm cheat code")))));
    Match private _match;

    /// @dev Returns whether a side owes a move, by the table in Clock.sol, written out by side.
    function _owes(Phase phase, uint8 posted, uint8 side) private pure returns (bool) {
        bool open = posted & (1 << side) == 0;
        if (phase == Phase.Refine) return open;
        if (phase == Phase.Walk || phase == Phase.Open) return open || posted == 3;
        return false;
    }

    function _place(uint8 phase, uint8 posted, uint40 tick, uint40 instant, uint32[2] memory clock) private {
        vm.assume(phase <= uint8(type(Phase).max) && posted <= 3 && tick <= instant);
        (_match.phase, _match.posted, _match.tick) = (Phase(phase), posted, tick);
        (_match.clock0, _match.clock1) = (clock[0], clock[1]);
    }

    function check_lateIsWhoOwesAndHasNoTime(
        uint8 phase,
        uint8 posted,
        uint40 tick,
        uint40 instant,
        uint32[2] memory clock
    ) external {
        _place(phase, posted, tick, instant, clock);
        uint8 late = _match.late(instant).bits();
        bool[2] memory over;
        for (uint8 side = 0; side < 2; ++side) {
            over[side] = _owes(Phase(phase), posted, side) && instant > uint256(tick) + clock[side];
        }
        assert((late != 0) == (over[0] || over[1]));
        for (uint8 side = 0; side < 2; ++side) {
            if (late & (1 << side) == 0) continue;
            // A side that is named has run out of time, and no later than the other side.
            assert(over[side]);
            assert(!over[1 - side] || clock[side] <= clock[1 - side]);
            // Both are named only if they ran out in the same second.
            assert(late != 3 || clock[0] == clock[1]);
        }
    }

    function check_chargeOnlySubtracts(
        uint8 phase,
        uint8 posted,
        uint40 tick,
        uint40 instant,
        uint32[2] memory clock
    ) external {
        _place(phase, posted, tick, instant, clock);
        vm.assume(_match.late(instant).bits() == 0);
        // A panic is a failure: an underflow would be one.
        try this.charge(instant) {}
        catch {
            assert(false);
        }
        uint256 elapsed = instant - tick;
        for (uint8 side = 0; side < 2; ++side) {
            uint256 owed = _owes(Phase(phase), posted, side) ? elapsed : 0;
            assert((side == 0 ? _match.clock0 : _match.clock1) == clock[side] - owed);
        }
        assert(_match.tick == instant);
        assert(_match.late(instant).bits() == 0);
    }

    function charge(uint256 instant) external {
        _match.charge(instant);
    }
}
