// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ElementaryBracket} from "./ElementaryBracket.sol";
import {LN2_160} from "./FixedConstants.sol";

/// @title Exp
/// @notice `exp` of binary32, and the power of e that tanh, erf and pow use. Bounds: docs/float-elementary.md.
library Exp {
    uint256 private constant SIGN = ElementaryBracket.SIGN;
    uint256 private constant INFINITY = ElementaryBracket.INFINITY;

    /// @notice Returns `exp(a)` as a bracket.
    function bracket(uint256 a) internal pure returns (uint256, uint256, int256, uint256) {
        unchecked {
            uint256 size = a & ElementaryBracket.MAGNITUDE;
            bool negative = a & SIGN != 0;
            if (size >= INFINITY) {
                if (size > INFINITY) return ElementaryBracket.special(ElementaryBracket.NAN);
                return ElementaryBracket.special(negative ? 0 : INFINITY);
            }
            if (size == 0) return ElementaryBracket.special(ElementaryBracket.ONE);
            (uint256 m, int256 e) = ElementaryBracket.unpack(a);
            if (e >= -14) return ElementaryBracket.beyond(!negative, 0); // 2^9 or more
            if (e < -140) return negative ? ElementaryBracket.belowOne(0) : ElementaryBracket.aboveOne(0);
            int256 t = int256(m << uint256(e + 160));
            (uint256 v, int256 k) = power(negative ? -t : t);
            return (v - 2, v + 2, k - 126, 0);
        }
    }

    /// @notice Returns e to the power of `t 2^-160`: `v 2^(k - 126)`, v in (2^125, 2^127), less than 2 off.
    /// @dev For `|t| < 2^169`.
    function power(int256 t) internal pure returns (uint256 v, int256 k) {
        assembly ("memory-safe") {
            // t = k ln2 + r, |r| <= ln2 / 2. SAFETY: 1024 ln2 > 2^9, so the dividend is positive.
            let biased := add(t, add(shl(10, LN2_160), shr(1, LN2_160)))
            k := sub(div(biased, LN2_160), 1024)
            let r := sar(32, sub(mod(biased, LN2_160), shr(1, LN2_160))) // 128 places
            let square := mul(r, r) // 256 places
            // c = r coth(r / 2) = 2 + r^2 / (6 + r^2 / (10 + ...)), 128 places
            let c := add(shl(128, 42), div(square, shl(128, 46)))
            c := add(shl(128, 38), div(square, c))
            c := add(shl(128, 34), div(square, c))
            c := add(shl(128, 30), div(square, c))
            c := add(shl(128, 26), div(square, c))
            c := add(shl(128, 22), div(square, c))
            c := add(shl(128, 18), div(square, c))
            c := add(shl(128, 14), div(square, c))
            c := add(shl(128, 10), div(square, c))
            c := add(shl(128, 6), div(square, c))
            c := add(shl(128, 2), div(square, c))
            // e^r = (c + r) / (c - r). SAFETY: c + r < 2^130 (2.4 with 128 places).
            v := div(shl(126, add(c, r)), sub(c, r))
        }
    }
}
