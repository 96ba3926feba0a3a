// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ElementaryBracket} from "./ElementaryBracket.sol";
import {Exp} from "./Exp.sol";
import {TWO_OVER_SQRT_PI_126} from "./FixedConstants.sol";

/// @title Erf
/// @notice `erf` of binary32. Bounds: docs/float-elementary.md.
library Erf {
    uint256 private constant INFINITY = ElementaryBracket.INFINITY;
    uint256 private constant ONE = ElementaryBracket.ONE;
    /// @dev 3.5: from here on a continued fraction of 1 - erf takes fewer steps than the series.
    uint256 private constant TAIL = 0x40600000;
    /// @dev 8.875: from here on 1 - erf is below 2^-117.
    uint256 private constant SATURATED = 0x410E0000;

    /// @notice Returns `erf(a)` as a bracket.
    function bracket(uint256 a) internal pure returns (uint256, uint256, int256, uint256) {
        unchecked {
            uint256 size = a & ElementaryBracket.MAGNITUDE;
            uint256 sign = a & ElementaryBracket.SIGN;
            if (size >= INFINITY) {
                return ElementaryBracket.special(size > INFINITY ? ElementaryBracket.NAN : sign | ONE);
            }
            if (size == 0) return ElementaryBracket.special(sign);
            if (size >= SATURATED) return ElementaryBracket.belowOne(sign);
            (uint256 m, int256 e) = ElementaryBracket.unpack(a);
            if (e < -83) {
                // Below 2^-60: 2/sqrt(pi) (x - x^3 / 3 + ...), and x^2 / 3 < 2^-121
                uint256 v = m * TWO_OVER_SQRT_PI_126;
                return (v - (v >> 121), v + m, e - 126, sign);
            }
            return size < TAIL ? _series(m, e, sign) : _tail(m, e, sign);
        }
    }

    /// @dev `erf x = 2/sqrt(pi) x e^-z (1 + (2z)/3 (1 + (2z)/5 (1 + ...)))`, z = x^2: no term is negative.
    function _series(uint256 m, int256 e, uint256 sign)
        private
        pure
        returns (uint256, uint256, int256, uint256)
    {
        unchecked {
            (uint256 v, int256 k) = _gauss(m, e);
            uint256 sum;
            assembly ("memory-safe") {
                // 16 + 20 x terms, and here there are at least that many, leave less than 2^-127 of the sum. Four at a
                // time, the last ones first. SAFETY: -83 <= e <= -22, and the sum is below 2^(150 + 18).
                let square := mul(m, m)
                let one := shl(not(mul(2, e)), 1) // 2z = square / one
                let two := shl(1, one)
                let odd := add(one, mul(two, shl(2, add(5, shr(sub(0, e), mul(5, m))))))
                sum := shl(150, 1)
                for {} gt(odd, one) {} {
                    sum := add(shl(150, 1), div(mul(sum, square), odd))
                    odd := sub(odd, two)
                    sum := add(shl(150, 1), div(mul(sum, square), odd))
                    odd := sub(odd, two)
                    sum := add(shl(150, 1), div(mul(sum, square), odd))
                    odd := sub(odd, two)
                    sum := add(shl(150, 1), div(mul(sum, square), odd))
                    odd := sub(odd, two)
                }
            }
            // SAFETY: v < 2^127, the sum is cut to 128 bits, m 2/sqrt(pi) to 128 bits: no product has more than 256.
            uint256 cut = ElementaryBracket.bitLength(sum) - 128;
            v = (v * (sum >> cut)) >> 127;
            v = (v * ((m * TWO_OVER_SQRT_PI_126) >> 23)) >> 124;
            uint256 slack = v >> 122;
            return (v - slack, v + slack, e + k + int256(cut) - 128, sign);
        }
    }

    /// @dev `1 - erf x = e^-z / sqrt(pi) / (x + (1/2) / (x + (2/2) / (x + (3/2) / (x + ...))))`
    function _tail(uint256 m, int256 e, uint256 sign)
        private
        pure
        returns (uint256, uint256, int256, uint256)
    {
        unchecked {
            (uint256 v, int256 k) = _gauss(m, e);
            assembly ("memory-safe") {
                // 120 places. 2 + 1000 / z levels, and here there are at least that many, leave less than 2^-127 of 1.
                // Four at a time, the last ones first. SAFETY: -22 <= e <= -20, z > 12, so there are less than 2^8.
                let x := shl(add(120, e), m)
                let c := x
                let level := shl(241, add(2, div(shl(sub(0, mul(2, e)), 250), mul(m, m)))) // half of it, 240 places
                for {} level {} {
                    c := add(x, div(level, c))
                    level := sub(level, shl(239, 1))
                    c := add(x, div(level, c))
                    level := sub(level, shl(239, 1))
                    c := add(x, div(level, c))
                    level := sub(level, shl(239, 1))
                    c := add(x, div(level, c))
                    level := sub(level, shl(239, 1))
                }
                // v 2/sqrt(pi) / (2 c) 2^k, with 126 places. SAFETY: k < 0
                v := sub(shl(126, 1), shr(sub(7, k), div(mul(v, TWO_OVER_SQRT_PI_126), c)))
            }
            return (v - 4, v + 4, -126, sign);
        }
    }

    /// @dev e^-z = v 2^(k - 126)
    function _gauss(uint256 m, int256 e) private pure returns (uint256 v, int256 k) {
        unchecked {
            int256 places = 160 + 2 * e;
            uint256 z = places < 0 ? (m * m) >> uint256(-places) : (m * m) << uint256(places);
            return Exp.power(-int256(z));
        }
    }
}
