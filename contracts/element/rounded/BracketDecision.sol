// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Modes} from "../../commit/Modes.sol";
import {Float32} from "../../float/Float32.sol";
import {Entry as GridEntry, Grid} from "../../float/Grid.sol";
import {Entry} from "../IRule.sol";

/// @title BracketDecision
/// @notice The value of an elementary function in rounded-f64 below 32 bits (docs/rounding-logs.md, section 3).
library BracketDecision {
    /// @notice Returns the element, of which the log says `entry`, from a bracket of its exact value (see
    /// ElementaryBracket).
    /// @dev NOTE: values of a table are on every grid; an entry for them is ignored.
    function ofBracket(
        uint256 low,
        uint256 high,
        int256 exponent,
        uint256 sign,
        Entry calldata entry,
        uint8 mode
    ) internal pure returns (uint256) {
        if (entry.kind > Grid.WRITTEN) revert Grid.UnknownEntry(entry.kind);
        // A zero becomes +0.
        if (high == 0) return low == Float32.SIGN ? 0 : low;
        // SAFETY: ends are below 2^200.
        (int256 lo, int256 hi) = sign == 0 ? (int256(low), int256(high)) : (-int256(high), -int256(low));
        return Grid.decideBracket(lo, hi, exponent, GridEntry(entry.kind, entry.written), Modes.bits(mode));
    }
}
