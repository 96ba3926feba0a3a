// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {clz} from "clz/Clz.sol";

/// @title FloatGeneral
/// @notice IEEE-754 arithmetic for every operand, in binary32 and in binary64: the definition to which the short paths
/// of Float32 and Float64 leave operands and results that are not ordinary.
///
///     sign   exponent e   fraction f        binary32: 1 + 8 + 23 bits      fraction = 23, top = 255
///      1 bit  w bits       `fraction` bits   binary64: 1 + 11 + 52 bits     fraction = 52, top = 2047 (= 2^w - 1)
///
/// Magnitudes are integers times powers of two, in units of the smallest subnormal number, "tiny":
///     e = 0: f * tiny       0 < e < top: (2^fraction + f) * 2^(e - 1) * tiny       e = top: infinite (f = 0) or NaN
/// @dev The textbook method: an exact (or sticky) integer result, rounded once (Muller et al., Handbook of
/// Floating-Point Arithmetic, chapter 8). 256-bit words hold exact results where hardware would need sticky bits.
library FloatGeneral {
    /// @notice Returns `a * b + c`, rounded once, to nearest even. A NaN operand, infinity times zero and infinity
    /// minus infinity give NaN; a sum that is exactly zero has the sign of its terms, or + if they differ.
    function fma(uint256 a, uint256 b, uint256 c, uint256 fraction, uint256 top)
        internal
        pure
        returns (uint256)
    {
        unchecked {
            uint256 sign = (top + 1) << fraction;
            uint256 infinity = top << fraction;
            uint256 signP = (a ^ b) & sign;
            uint256 signC = c & sign;
            (a, b, c) = (a & (sign - 1), b & (sign - 1), c & (sign - 1));
            if (a >= infinity || b >= infinity || c >= infinity) {
                if (a > infinity || b > infinity || c > infinity) return nan(fraction, top);
                if (a < infinity && b < infinity) return signC | c;
                if (a == 0 || b == 0 || (c == infinity && signC != signP)) return nan(fraction, top);
                return signP | infinity;
            }
            if (a == 0 || b == 0) return c == 0 ? signP & signC : signC | c;

            // Product: p * 2^u tiny; addend: m * 2^v tiny. The smallest binary exponent of a product is far below 0.
            (uint256 p, int256 u) = _parts(a, fraction);
            (uint256 m, int256 v) = _parts(b, fraction);
            (p, u) = (p * m, u + v - int256((top >> 1) + fraction - 1));
            (m, v) = _parts(c, fraction);
            // A term 140 places below the other one matters to the result only by its existence: 1 stands for it, under
            // 128 places of zeros. NOTE: p < 2^106 and m < 2^53; were the smaller term the larger number, the larger
            // term would be at tiny's own place already.
            if (v - u > 140) (m, v, p, u) = (m << 128, v - 128, 1, v - 128);
            else if (u - v > 140) (p, u, m, v) = (p << 128, u - 128, m == 0 ? 0 : 1, u - 128);
            else if (v > u) (m, v) = (m << uint256(v - u), u);
            else (p, u) = (p << uint256(u - v), v);

            if (signP == signC) return _round(signP, p + m, u, fraction, top);
            if (p == m) return 0;
            if (p > m) return _round(signP, p - m, u, fraction, top);
            return _round(signC, m - p, u, fraction, top);
        }
    }

    /// @notice Returns `a + b`: the product `a * 1` is exact and has the sign of `a`.
    function add(uint256 a, uint256 b, uint256 fraction, uint256 top) internal pure returns (uint256) {
        return fma(a, (top >> 1) << fraction, b, fraction, top);
    }

    /// @notice Returns `a * b`: -0 is the identity of addition.
    function mul(uint256 a, uint256 b, uint256 fraction, uint256 top) internal pure returns (uint256) {
        return fma(a, b, (top + 1) << fraction, fraction, top);
    }

    /// @notice Returns `a / b`, to nearest even. 0 / 0 and infinity / infinity give NaN; x / 0 is infinite.
    function div(uint256 a, uint256 b, uint256 fraction, uint256 top) internal pure returns (uint256) {
        unchecked {
            uint256 sign = (top + 1) << fraction;
            uint256 infinity = top << fraction;
            uint256 signQ = (a ^ b) & sign;
            (a, b) = (a & (sign - 1), b & (sign - 1));
            if (a > infinity || b > infinity || (a == b && (a == 0 || a == infinity))) {
                return nan(fraction, top);
            }
            if (a == infinity || b == 0) return signQ | infinity;
            if (b == infinity || a == 0) return signQ;
            (uint256 m, int256 u) = _parts(a, fraction);
            (uint256 d, int256 v) = _parts(b, fraction);
            // At least 106 bits of quotient; a remainder is below all of them, and matters only by its existence.
            m <<= 160;
            uint256 q = m / d;
            if (q * d != m) q |= 1;
            return _round(signQ, q, u - v + int256((top >> 1) + fraction - 1) - 160, fraction, top);
        }
    }

    /// @notice Returns the square root, to nearest even. `sqrt(-0) = -0`; below zero: the canonical NaN.
    function sqrt(uint256 a, uint256 fraction, uint256 top) internal pure returns (uint256) {
        unchecked {
            uint256 infinity = top << fraction;
            if (a == 0 || a == infinity || a == (top + 1) << fraction) return a;
            if (a > infinity) return nan(fraction, top);
            (uint256 m, int256 u) = _parts(a, fraction);
            // m * 2^u tiny = M * 2^(2 h) with M of 255 or 256 bits; tiny = 2^(2 - 2^(w-1) - fraction).
            uint256 n = clz(m);
            u -= int256((top >> 1) + fraction - 1) + int256(n);
            m <<= n;
            if (u & 1 != 0) (m, u) = (m >> 1, u + 1);
            // Newton's iteration descends from any start above the root to the integer part.
            uint256 root = type(uint128).max;
            for (uint256 next = (root + m / root) >> 1; next < root; next = (root + m / root) >> 1) {
                root = next;
            }
            // One more place below the 127 or 128 bits of the root says whether the root is inexact.
            uint256 sticky = root * root == m ? 0 : 1;
            return
                _round(
                    0, (root << 1) | sticky, (u >> 1) - 1 + int256((top >> 1) + fraction - 1), fraction, top
                );
        }
    }

    /// @notice Returns the number nearest to `magnitude * 2^exponent`, ties to even, with this sign bit; +0 for a
    /// magnitude of 0. `magnitude` < 2^255. From the largest number plus half of its last place on: infinite.
    function round(uint256 sign, uint256 magnitude, int256 exponent, uint256 fraction, uint256 top)
        internal
        pure
        returns (uint256)
    {
        unchecked {
            if (magnitude == 0) return 0;
            return _round(sign, magnitude, exponent + int256((top >> 1) + fraction - 1), fraction, top);
        }
    }

    /// @notice Returns the canonical NaN: quiet, positive, no payload.
    function nan(uint256 fraction, uint256 top) internal pure returns (uint256) {
        return (top << fraction) | (1 << (fraction - 1));
    }

    /// @dev Splits a finite magnitude into m * 2^u tiny.
    function _parts(uint256 x, uint256 fraction) private pure returns (uint256 m, int256 u) {
        unchecked {
            uint256 e = x >> fraction;
            if (e == 0) return (x, 0);
            return (x - ((e - 1) << fraction), int256(e) - 1);
        }
    }

    /// @dev Rounds magnitude * 2^u tiny, 0 < magnitude < 2^255.
    function _round(uint256 sign, uint256 magnitude, int256 u, uint256 fraction, uint256 top)
        private
        pure
        returns (uint256 r)
    {
        unchecked {
            // The last place kept is 2^q tiny: `fraction` places below the highest bit, but none below tiny.
            int256 q = u + 255 - int256(clz(magnitude) + fraction);
            if (q < 0) q = 0;
            if (q <= u) {
                r = magnitude << uint256(u - q);
            } else {
                uint256 drop = uint256(q - u);
                // Below half of tiny: 0. Else add half of the last place, less 1 unless the place is odd: ties to even.
                if (drop < 256) {
                    r = (magnitude + (1 << (drop - 1)) - 1 + ((magnitude >> drop) & 1)) >> drop;
                }
            }
            // NOTE: the highest bit of a normal significand, or a carry out of it, adds one to the exponent.
            r += uint256(q) << fraction;
            if (r > top << fraction) r = top << fraction;
            r |= sign;
        }
    }
}
