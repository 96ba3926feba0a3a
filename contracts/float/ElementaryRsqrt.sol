// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ElementaryBracket} from "./ElementaryBracket.sol";
import {FixedRoot} from "./FixedRoot.sol";

/// @title ElementaryRsqrt
/// @notice The real number `1 / sqrt(a)` of a binary32. Bounds: docs/float-elementary.md. NOTE: this is the `rsqrt` of
/// rounding logs below 32 bits; the one of repops-f32 is two rounded operations.
library ElementaryRsqrt {
    uint256 private constant SIGN = ElementaryBracket.SIGN;
    uint256 private constant INFINITY = ElementaryBracket.INFINITY;

    /// @notice Returns `1 / sqrt(a)` as a bracket.
    function bracket(uint256 a) internal pure returns (uint256, uint256, int256, uint256) {
        unchecked {
            if (a & ElementaryBracket.MAGNITUDE == 0) return ElementaryBracket.special(a | INFINITY);
            // Negative numbers, infinities and NaN.
            if (a >= INFINITY) return ElementaryBracket.special(a == INFINITY ? 0 : ElementaryBracket.NAN);
            (uint256 m, int256 e) = ElementaryBracket.unpack(a);
            if (e & 1 != 0) (m, e) = (m << 1, e - 1);
            // 2^126 / sqrt(m): integer only for m = 4^12, as 2^23 <= m < 2^25. Its floor is the root's of the quotient.
            uint256 v = FixedRoot.root((1 << 252) / m);
            return (v, m == 1 << 24 ? v : v + 1, -126 - (e >> 1), 0);
        }
    }
}
