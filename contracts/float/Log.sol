// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ElementaryBracket} from "./ElementaryBracket.sol";
import {LN2_160, SQRT_HALF_256} from "./FixedConstants.sol";

/// @title Log
/// @notice `log` and `log1p` of binary32, and the logarithm that pow uses. Bounds: docs/float-elementary.md.
library Log {
    uint256 private constant SIGN = ElementaryBracket.SIGN;
    uint256 private constant INFINITY = ElementaryBracket.INFINITY;
    uint256 private constant NAN = ElementaryBracket.NAN;
    uint256 private constant ONE = ElementaryBracket.ONE;

    /// @notice Returns `log(a)` as a bracket.
    function bracket(uint256 a) internal pure returns (uint256, uint256, int256, uint256) {
        if (a & ElementaryBracket.MAGNITUDE == 0) return ElementaryBracket.special(SIGN | INFINITY);
        // Negative numbers, infinities and NaN.
        if (a >= INFINITY) return ElementaryBracket.special(a == INFINITY ? INFINITY : NAN);
        if (a == ONE) return ElementaryBracket.special(0);
        (uint256 m, int256 e) = ElementaryBracket.unpack(a);
        return _around(m, e);
    }

    /// @notice Returns `log1p(a)`, the logarithm of `1 + a`, as a bracket.
    function bracket1p(uint256 a) internal pure returns (uint256, uint256, int256, uint256) {
        unchecked {
            uint256 size = a & ElementaryBracket.MAGNITUDE;
            uint256 sign = a & SIGN;
            if (size == 0) return ElementaryBracket.special(sign);
            if (sign != 0 && size == ONE) return ElementaryBracket.special(SIGN | INFINITY);
            if (size >= INFINITY || (sign != 0 && size > ONE)) {
                return ElementaryBracket.special(a == INFINITY ? INFINITY : NAN);
            }
            (uint256 m, int256 e) = ElementaryBracket.unpack(a);
            if (e < -125) {
                // Below 2^-102: x - x^2 / 2 + ..., and x^2 / 2 with 96 - e places is below 2^17.
                m <<= 96;
                return sign == 0 ? (m - (1 << 17), m, e - 96, sign) : (m, m + (1 << 17), e - 96, sign);
            }
            // 1 + x as an integer times a power of two. SAFETY: below 2^128 + 1.
            if (e >= 0) return _around((m << uint256(e)) + 1, 0);
            return _around(sign == 0 ? (1 << uint256(-e)) + m : (1 << uint256(-e)) - m, e);
        }
    }

    function _around(uint256 n, int256 f) private pure returns (uint256, uint256, int256, uint256) {
        unchecked {
            (uint256 v, int256 exponent, bool negative) = natural(n, f);
            return (v - 24, v + 24, exponent, negative ? SIGN : 0);
        }
    }

    /// @notice Returns `ln(n 2^f) = v 2^exponent`, negated if `negative`; the error of v is below 24 and below 2^-124
    /// of v, and v is at least 2^126.
    /// @dev For `0 < n <= 2^128`, `abs(f) < 2^9`, n 2^f not 1. v < 2^137.
    function natural(uint256 n, int256 f) internal pure returns (uint256 v, int256 exponent, bool negative) {
        unchecked {
            // n = 2^j (1 + s) / (1 - s), s = (n - 2^j) / (n + 2^j), for the j that makes s less than 0.1716 in size.
            uint256 length = ElementaryBracket.bitLength(n);
            bool below = n << (256 - length) > SQRT_HALF_256;
            uint256 power = 1 << (below ? length : length - 1);
            uint256 numerator = below ? power - n : n - power;
            uint256 denominator = n + power;
            int256 k = f + int256(below ? length : length - 1);
            uint256 s = (numerator << 128) / denominator;
            uint256 series = _series((s * s) >> 128);
            if (k == 0) {
                // Near 1: s again, with 127 bits or more. ln = 2 s series
                uint256 shift =
                    ElementaryBracket.bitLength(denominator) + 127 - ElementaryBracket.bitLength(numerator);
                v = (((numerator << shift) / denominator) * series) >> 126;
                return (v, -int256(shift), below);
            }
            uint256 small = (s * series) >> 126; // 2 atanh(s) with 128 places
            negative = k < 0;
            uint256 large = (uint256(negative ? -k : k) * LN2_160) >> 32;
            return (below == negative ? large + small : large - small, -128, negative);
        }
    }

    /// @dev Returns atanh(s) / s = 1 + z / 3 + z^2 / 5 + ..., z = s^2 with 128 places, the result with 127.
    function _series(uint256 z) private pure returns (uint256 p) {
        assembly ("memory-safe") {
            p := add(div(shl(127, 1), 47), shr(128, mul(z, div(shl(127, 1), 49))))
            p := add(div(shl(127, 1), 45), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 43), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 41), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 39), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 37), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 35), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 33), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 31), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 29), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 27), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 25), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 23), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 21), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 19), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 17), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 15), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 13), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 11), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 9), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 7), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 5), shr(128, mul(z, p)))
            p := add(div(shl(127, 1), 3), shr(128, mul(z, p)))
            p := add(shl(127, 1), shr(128, mul(z, p)))
        }
    }
}
