// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ElementaryBracket} from "./ElementaryBracket.sol";
import {HALF_PI_127, TWO_OVER_PI_256, TWO_OVER_PI_512} from "./FixedConstants.sol";

/// @title Trig
/// @notice `sin` and `cos` of binary32 of any size. Bounds: docs/float-elementary.md.
library Trig {
    uint256 private constant INFINITY = ElementaryBracket.INFINITY;
    /// @dev The largest binary32 below pi / 4.
    uint256 private constant QUARTER_PI = 0x3F490FDA;

    /// @notice Returns `sin(a)` as a bracket.
    function sinBracket(uint256 a) internal pure returns (uint256, uint256, int256, uint256) {
        unchecked {
            uint256 size = a & ElementaryBracket.MAGNITUDE;
            uint256 sign = a & ElementaryBracket.SIGN;
            if (size >= INFINITY) return ElementaryBracket.special(ElementaryBracket.NAN);
            if (size == 0) return ElementaryBracket.special(sign);
            (uint256 m, int256 e) = ElementaryBracket.unpack(a);
            // Below 2^-58: x - x^3 / 6 + ..., and x^2 / 6 < 2^-118
            if (e < -81) return ((m << 94) - 1, m << 94, e - 94, sign);
            (uint256 r, uint256 g, uint256 quadrant, uint256 negative) = _reduce(size, m, e);
            if (quadrant & 1 != 0) return _cos(r, g, sign ^ ((quadrant & 2) << 30));
            return _sin(r, g, sign ^ ((quadrant & 2) << 30) ^ negative);
        }
    }

    /// @notice Returns `cos(a)` as a bracket.
    function cosBracket(uint256 a) internal pure returns (uint256, uint256, int256, uint256) {
        unchecked {
            uint256 size = a & ElementaryBracket.MAGNITUDE;
            if (size >= INFINITY) return ElementaryBracket.special(ElementaryBracket.NAN);
            if (size == 0) return ElementaryBracket.special(ElementaryBracket.ONE);
            (uint256 m, int256 e) = ElementaryBracket.unpack(a);
            // Below 2^-58: 1 - x^2 / 2 + ...
            if (e < -81) return ElementaryBracket.belowOne(0);
            (uint256 r, uint256 g, uint256 quadrant, uint256 negative) = _reduce(size, m, e);
            // cos is negative in the quadrants 1 and 2; in 1 it is -sin r, in 3 sin r.
            uint256 sign = ((quadrant + 1) & 2) << 30;
            if (quadrant & 1 != 0) return _sin(r, g, sign ^ negative);
            return _cos(r, g, sign);
        }
    }

    /// @dev Reduces `|x| = quadrant pi/2 +- r 2^-g`, minus if `negative` is 2^31; r in (2^125, 2^127), r 2^-g <= pi/4.
    function _reduce(uint256 size, uint256 m, int256 e)
        private
        pure
        returns (uint256 r, uint256 g, uint256 quadrant, uint256 negative)
    {
        unchecked {
            if (size <= QUARTER_PI) return (m << 103, uint256(103 - e), 0, 0);
            // 2/pi 2^e modulo 4, 226 places. SAFETY: -24 <= e <= 104, so 330 bits of 2/pi are enough.
            uint256 window;
            if (e <= 30) {
                window = TWO_OVER_PI_256 >> uint256(30 - e);
            } else {
                window = (TWO_OVER_PI_256 << uint256(e - 30)) | (TWO_OVER_PI_512 >> uint256(286 - e));
            }
            // x 2/pi modulo 4, too small by less than m 2^-226. SAFETY: below 2^(228 + 24).
            uint256 turns = ((window & ((1 << 228) - 1)) * m) & ((1 << 228) - 1);
            quadrant = (turns + (1 << 225)) >> 226;
            uint256 nearest = quadrant << 226;
            if (turns < nearest) {
                negative = ElementaryBracket.SIGN;
                turns = nearest - turns;
            } else {
                turns -= nearest;
            }
            // SAFETY: no binary32 from pi/4 on is as near as 2^-30 to a multiple of pi/2 (docs/float-elementary.md), so
            // turns has more than 190 bits, of which the last 24 may be wrong.
            uint256 length = ElementaryBracket.bitLength(turns);
            r = ((turns >> (length - 128)) * HALF_PI_127) >> 129;
            g = 352 - length;
        }
    }

    /// @dev Returns c = r cot(r / 2) = 2 - r^2 / (6 - r^2 / (10 - ...)) with 126 places, and r^2 with 252.
    function _cotangent(uint256 r, uint256 g) private pure returns (uint256 c, uint256 square) {
        assembly ("memory-safe") {
            let fixedR := shr(sub(g, 126), r)
            square := mul(fixedR, fixedR)
            c := sub(shl(126, 50), div(square, shl(126, 54)))
            c := sub(shl(126, 46), div(square, c))
            c := sub(shl(126, 42), div(square, c))
            c := sub(shl(126, 38), div(square, c))
            c := sub(shl(126, 34), div(square, c))
            c := sub(shl(126, 30), div(square, c))
            c := sub(shl(126, 26), div(square, c))
            c := sub(shl(126, 22), div(square, c))
            c := sub(shl(126, 18), div(square, c))
            c := sub(shl(126, 14), div(square, c))
            c := sub(shl(126, 10), div(square, c))
            c := sub(shl(126, 6), div(square, c))
            c := sub(shl(126, 2), div(square, c))
        }
    }

    /// @dev Returns sin r = 2 r c / (c^2 + r^2).
    function _sin(uint256 r, uint256 g, uint256 sign)
        private
        pure
        returns (uint256, uint256, int256, uint256)
    {
        unchecked {
            (uint256 c, uint256 square) = _cotangent(r, g);
            uint256 v;
            assembly ("memory-safe") {
                // SAFETY: c <= 2, so r c <= 2^254 and the denominator is between 3 and 5, with 252 places.
                v := div(mul(r, c), shr(126, add(mul(c, c), square)))
            }
            return (v - 8, v + 8, 1 - int256(g), sign);
        }
    }

    /// @dev Returns cos r = (c^2 - r^2) / (c^2 + r^2).
    function _cos(uint256 r, uint256 g, uint256 sign)
        private
        pure
        returns (uint256, uint256, int256, uint256)
    {
        unchecked {
            (uint256 c, uint256 square) = _cotangent(r, g);
            uint256 v;
            assembly ("memory-safe") {
                let cc := mul(c, c)
                v := div(sub(cc, square), shr(126, add(cc, square)))
            }
            return (v - 8, v + 8, -126, sign);
        }
    }
}
