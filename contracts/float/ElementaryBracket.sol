// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {clz} from "clz/Clz.sol";

/// @title ElementaryBracket
/// @notice An enclosure of an elementary function's value, and the one place where it is rounded to binary32.
///
/// A bracket is four numbers, `(low, high, exponent, sign)`:
///
///     high = 0      a value of a table of docs/opset.md, section 4; `low` is its binary32 pattern (a zero, 1, an
///                   infinity, NaN)
///     low = high    the value is exactly `low 2^exponent`, negated if `sign` is 2^31
///     low < high    `low 2^exponent < |value| < high 2^exponent`, strictly
///
/// low and high of an inexact value agree to 100 bits or more, and no number of 25 significant bits or fewer lies
/// strictly between them: so on any grid of up to 24 bits, and in any direction, every number inside is rounded to the
/// same result. Values beyond 2^369 and below 2^-369 may instead be given as between 2^2100 and 2^2101, or 2^-1900 and
/// 2^-1899. low is at least 2^100, high below 2^200.
library ElementaryBracket {
    /// @notice The ends of a bracket have different roundings.
    error Undecided(uint256 low, uint256 high, int256 exponent);

    uint256 internal constant SIGN = 0x80000000;
    uint256 internal constant MAGNITUDE = 0x7FFFFFFF;
    uint256 internal constant INFINITY = 0x7F800000;
    uint256 internal constant NAN = 0x7FC00000;
    uint256 internal constant ONE = 0x3F800000;

    // ------------------------------------------------------------------ to brackets

    /// @notice Returns a value of a table.
    function special(uint256 bits) internal pure returns (uint256, uint256, int256, uint256) {
        return (bits, 0, 0, 0);
    }

    /// @notice Returns the bracket of a value just above 1 in size, by less than 2^-116.
    function aboveOne(uint256 sign) internal pure returns (uint256, uint256, int256, uint256) {
        return (1 << 116, (1 << 116) + 1, -116, sign);
    }

    /// @notice Returns the bracket of a value just below 1 in size, by less than 2^-116.
    function belowOne(uint256 sign) internal pure returns (uint256, uint256, int256, uint256) {
        return ((1 << 116) - 1, 1 << 116, -116, sign);
    }

    /// @notice Returns the bracket of a value beyond 2^369, or below 2^-369.
    function beyond(bool large, uint256 sign) internal pure returns (uint256, uint256, int256, uint256) {
        return (1 << 100, 1 << 101, large ? int256(2000) : -2000, sign);
    }

    /// @notice Splits a finite binary32 that is not zero: `a = m 2^e` in size, with `2^23 <= m < 2^24`.
    function unpack(uint256 a) internal pure returns (uint256 m, int256 e) {
        unchecked {
            m = a & 0x7FFFFF;
            uint256 field = (a >> 23) & 0xFF;
            if (field != 0) return (m | 0x800000, int256(field) - 150);
            // A subnormal: SAFETY: 1 <= bitLength(m) <= 23.
            uint256 missing = 24 - bitLength(m);
            return (m << missing, -149 - int256(missing));
        }
    }

    /// @notice Returns the number of bits of x; 0 has none.
    function bitLength(uint256 x) internal pure returns (uint256) {
        unchecked {
            return 256 - clz(x);
        }
    }

    // ------------------------------------------------------------------ to binary32

    /// @notice Rounds to the nearest binary32, ties to even; once, subnormals too; infinite from 2^128 - 2^103 on.
    /// @dev low has at least 100 bits, high at most 200. Reverts with Undecided if the bracket allows two results.
    function toBinary32(uint256 low, uint256 high, int256 exponent, uint256 sign)
        internal
        pure
        returns (uint256)
    {
        unchecked {
            if (high == 0) return low;
            // 2^top <= value, and the quantum is 2^(top - 23), or that of the subnormals.
            int256 top = int256(bitLength(low)) - 1;
            uint256 shift = uint256(top - 23);
            top += exponent;
            if (top < -126) {
                shift += uint256(-126 - top);
                if (shift > 255) return sign;
                top = -126;
            } else if (top > 127) {
                return sign | INFINITY;
            }
            // Strictly inside: a low end on a midpoint is rounded up, a high end down.
            uint256 half = 1 << (shift - 1);
            uint256 nearest = (low + half) >> shift;
            if (nearest != (high + half - 1) >> shift) {
                if (low != high) revert Undecided(low, high, exponent);
                nearest &= ~uint256(1); // a tie
            }
            // A carry out of the mantissa is one into the exponent, and so up to infinity.
            return sign | ((uint256(top + 126) << 23) + nearest);
        }
    }
}
