// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ElementaryBracket} from "./ElementaryBracket.sol";
import {Exp} from "./Exp.sol";

/// @title Tanh
/// @notice `tanh` of binary32. Bounds: docs/float-elementary.md.
library Tanh {
    uint256 private constant INFINITY = ElementaryBracket.INFINITY;
    uint256 private constant ONE = ElementaryBracket.ONE;
    /// @dev 41: from here on 1 - tanh is below 2^-117.
    uint256 private constant SATURATED = 0x42240000;

    /// @notice Returns `tanh(a)` as a bracket.
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
            // Below 2^-60: x - x^3 / 3 + ..., and x^2 / 3 < 2^-121
            if (e < -83) return ((m << 96) - 1, m << 96, e - 96, sign);
            // Below 1/8
            if (e < -26) return _small(m, e, sign);
            // (1 - q) / (1 + q), q = exp(-2x)
            (uint256 v, int256 k) = Exp.power(-int256(m << uint256(e + 161)));
            uint256 q = v >> uint256(-k);
            v = (((1 << 126) - q) << 126) / ((1 << 126) + q);
            return (v - 8, v + 8, -126, sign);
        }
    }

    /// @dev With r = 2x, tanh x = r / (r coth(r / 2)): a quotient, so its relative error is the denominator's.
    function _small(uint256 m, int256 e, uint256 sign)
        private
        pure
        returns (uint256, uint256, int256, uint256)
    {
        unchecked {
            uint256 v;
            assembly ("memory-safe") {
                // SAFETY: -83 <= e <= -27, so the shift is between 92 and 204, and r^2 < 2^-4: exact, 256 places.
                let square := shl(add(258, mul(2, e)), mul(m, m))
                let c := add(shl(128, 38), div(square, shl(128, 42)))
                c := add(shl(128, 34), div(square, c))
                c := add(shl(128, 30), div(square, c))
                c := add(shl(128, 26), div(square, c))
                c := add(shl(128, 22), div(square, c))
                c := add(shl(128, 18), div(square, c))
                c := add(shl(128, 14), div(square, c))
                c := add(shl(128, 10), div(square, c))
                c := add(shl(128, 6), div(square, c))
                c := add(shl(128, 2), div(square, c))
                v := div(shl(231, m), c)
            }
            return (v - 2, v + 2, e - 102, sign);
        }
    }
}
