// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {BOTH, NOBODY, SIDE0, SIDE1, Sides} from "./Sides.sol";

/// @title ChessClock
/// @notice Chess clocks for two sides, of a match and of a trial, and the ONE place that says who is late.
///
///     A side is charged while it owes a move; its deadline is `tick + clock`.
///
/// INVARIANT: time is conserved. `charged` only subtracts. All times are the timekeeper's, in seconds.
library ChessClock {
    /// @notice Who owes its half of a position: a side that has not posted, as bits. Both owe once both have posted, since
    /// either may conclude then.
    function halves(uint8 posted) internal pure returns (Sides) {
        return posted == BOTH.bits() ? BOTH : missing(posted);
    }

    /// @notice The sides that have not posted.
    function missing(uint8 posted) internal pure returns (Sides) {
        return Sides.wrap(BOTH.bits() ^ posted);
    }

    /// @notice The earliest deadline of those who owe, and whose it is.
    /// @return instant The last second in which a move is in time; zero if nobody owes one.
    /// @return sides One side, or both if their deadlines are equal.
    function due(Sides owing, uint256 tick, uint32 clock0, uint32 clock1)
        internal
        pure
        returns (uint256 instant, Sides sides)
    {
        if (owing == NOBODY) return (0, NOBODY);
        sides = owing;
        if (owing == BOTH && clock0 != clock1) sides = clock0 < clock1 ? SIDE0 : SIDE1;
        instant = tick + (sides == SIDE1 ? clock1 : clock0);
    }

    /// @notice Who is late at that time: the side with the earliest deadline, or both if they are equal.
    function late(Sides owing, uint256 tick, uint32 clock0, uint32 clock1, uint256 time)
        internal
        pure
        returns (Sides)
    {
        (uint256 instant, Sides sides) = due(owing, tick, clock0, clock1);
        return sides != NOBODY && time > instant ? sides : NOBODY;
    }

    /// @notice The clocks after the sides that owe a move have paid for the time since `tick`.
    /// @dev SAFETY: only called when nobody is late, so no clock falls below zero, and `elapsed` fits in 32 bits.
    function charged(Sides owing, uint32 clock0, uint32 clock1, uint256 elapsed)
        internal
        pure
        returns (uint32, uint32)
    {
        if (owing.has(SIDE0)) clock0 -= uint32(elapsed);
        if (owing.has(SIDE1)) clock1 -= uint32(elapsed);
        return (clock0, clock1);
    }
}
