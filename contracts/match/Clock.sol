// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ChessClock} from "../clock/ChessClock.sol";
import {NOBODY, Sides} from "../clock/Sides.sol";
import {Match, Phase} from "../interfaces/IReferee.sol";

/// @title Clock
/// @notice The clocks of a match.
///
///     phase          owes a move
///     Walk, Open     a side that has not posted; both, if both have
///     Refine         a side that has not posted
///     others         nobody
///
/// INVARIANT: `charge` is the only writer of clocks.
library Clock {
    /// @notice The sides that owe a move.
    function owing(Phase phase, uint8 posted) internal pure returns (Sides) {
        if (phase == Phase.Walk || phase == Phase.Open) return ChessClock.halves(posted);
        return phase == Phase.Refine ? ChessClock.missing(posted) : NOBODY;
    }

    /// @notice The last second in which a move is in time; zero if nobody owes one.
    function deadline(Match storage m) internal view returns (uint256 instant) {
        (instant,) = ChessClock.due(owing(m.phase, m.posted), m.tick, m.clock0, m.clock1);
    }

    /// @notice The sides that are late at that time.
    function late(Match storage m, uint256 time) internal view returns (Sides) {
        return ChessClock.late(owing(m.phase, m.posted), m.tick, m.clock0, m.clock1, time);
    }

    /// @notice Charges the time since `tick` to those who owe a move. Nobody may be late.
    function charge(Match storage m, uint256 time) internal {
        uint256 elapsed = time - m.tick;
        if (elapsed == 0) return;
        (m.clock0, m.clock1) = ChessClock.charged(owing(m.phase, m.posted), m.clock0, m.clock1, elapsed);
        m.tick = uint40(time);
    }
}
