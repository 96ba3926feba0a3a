// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Match, Phase} from "../interfaces/IReferee.sol";

/// @title Clock
/// @notice A chess clock for two sides, and the ONE place that says who is late.
///
///     phase          owes a move                                        deadline of a side
///     Walk, Open     who has not posted; both, if both have             tick + clock
///     Refine         who has not posted                                 tick + clock
///     others         nobody                                             none
///
/// INVARIANT: time is conserved. `charge` is the only writer of clocks, and it only subtracts. `time` is the timekeeper's.
library Clock {
    uint8 internal constant NOBODY = 0;
    uint8 internal constant BOTH = 3;

    /// @notice Bit `s`: side `s` owes a move.
    function owing(Phase phase, uint8 posted) internal pure returns (uint8 mask) {
        if (phase == Phase.Walk || phase == Phase.Open) return posted == BOTH ? BOTH : BOTH ^ posted;
        if (phase == Phase.Refine) return BOTH ^ posted;
        return NOBODY;
    }

    /// @notice The earliest deadline of those who owe, and whose it is.
    /// @return instant The last second in which a move is in time; zero if nobody owes.
    /// @return mask Whose deadline that is: one side, or both if they are equal.
    function due(Match storage m) internal view returns (uint256 instant, uint8 mask) {
        mask = owing(m.phase, m.posted);
        if (mask == NOBODY) return (0, NOBODY);
        (uint32 clock0, uint32 clock1) = (m.clock0, m.clock1);
        if (mask == BOTH && clock0 != clock1) mask = clock0 < clock1 ? 1 : 2;
        instant = uint256(m.tick) + (mask == 2 ? clock1 : clock0);
    }

    /// @notice Bit `s`: side `s` is late at that time.
    function late(Match storage m, uint256 time) internal view returns (uint8) {
        (uint256 instant, uint8 mask) = due(m);
        return mask != NOBODY && time > instant ? mask : NOBODY;
    }

    /// @notice Charges the time since `tick` to those who owe a move.
    /// @dev SAFETY: only called when nobody is late, so no clock can fall below zero, and what is charged fits in 32 bits.
    function charge(Match storage m, uint256 time) internal {
        uint256 elapsed = time - m.tick;
        if (elapsed == 0) return;
        uint8 mask = owing(m.phase, m.posted);
        if (mask & 1 != 0) m.clock0 -= uint32(elapsed);
        if (mask & 2 != 0) m.clock1 -= uint32(elapsed);
        m.tick = uint40(time);
    }
}
