// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {ElementaryBracket} from "./ElementaryBracket.sol";
import {Exp} from "./Exp.sol";
import {FixedRoot} from "./FixedRoot.sol";
import {Log} from "./Log.sol";

/// @title Pow
/// @notice `pow` of binary32. Bounds and proofs: docs/float-elementary.md.
library Pow {
    uint256 private constant SIGN = ElementaryBracket.SIGN;
    uint256 private constant MAGNITUDE = ElementaryBracket.MAGNITUDE;
    uint256 private constant INFINITY = ElementaryBracket.INFINITY;
    uint256 private constant NAN = ElementaryBracket.NAN;
    uint256 private constant ONE = ElementaryBracket.ONE;

    /// @notice Returns `pow(a, b)` as a bracket.
    function bracket(uint256 a, uint256 b) internal pure returns (uint256, uint256, int256, uint256) {
        uint256 size = a & MAGNITUDE;
        uint256 height = b & MAGNITUDE;
        if (height == 0 || a == ONE) return ElementaryBracket.special(ONE);
        if (size > INFINITY || height > INFINITY) return ElementaryBracket.special(NAN);
        (bool integer, bool odd) = _parity(height);
        uint256 sign = odd ? a & SIGN : 0;
        if (size == ONE) return ElementaryBracket.special(integer ? sign | ONE : NAN); // a is -1
        if (size == 0 || size == INFINITY || height == INFINITY) {
            bool grows = (size > ONE) == (b & SIGN == 0);
            return ElementaryBracket.special(grows ? sign | INFINITY : sign);
        }
        if (a != size && !integer) return ElementaryBracket.special(NAN);
        return _real(size, height, b & SIGN != 0, sign);
    }

    /// @dev Returns whether a binary32 that is neither zero nor NaN is an integer, and odd. From 2^24 on all are even;
    /// so are the infinities here.
    function _parity(uint256 height) private pure returns (bool integer, bool odd) {
        unchecked {
            if (height < ONE) return (false, false);
            if (height >= 0x4B800000) return (true, false);
            // SAFETY: 2^0 <= |b| < 2^24, so there are 0 to 23 places.
            uint256 places = 150 - (height >> 23);
            uint256 m = (height & 0x7FFFFF) | 0x800000;
            integer = m & ((1 << places) - 1) == 0;
            odd = integer && (m >> places) & 1 == 1;
        }
    }

    /// @dev Returns x^y or x^-y, for finite x and y above zero, x not 1.
    function _real(uint256 a, uint256 b, bool inverse, uint256 sign)
        private
        pure
        returns (uint256, uint256, int256, uint256)
    {
        unchecked {
            (uint256 m, int256 e) = ElementaryBracket.unpack(a);
            (uint256 n, int256 g) = ElementaryBracket.unpack(b);
            (uint256 power, int256 exponent) = _exact(m, e, n, g, inverse);
            if (power != 0) {
                // SAFETY: 1 to 190 bits become 192.
                uint256 missing = 192 - ElementaryBracket.bitLength(power);
                power <<= missing;
                return (power, power, exponent - int256(missing), sign);
            }

            (uint256 v, int256 places, bool negative) = Log.natural(m, e);
            negative = negative != inverse;
            // |y ln x| = v n 2^places, with v n below 2^161
            v *= n;
            places += g;
            int256 length = int256(ElementaryBracket.bitLength(v)) + places;
            if (length > 8) return ElementaryBracket.beyond(!negative, sign);
            if (length < -116) {
                return negative ? ElementaryBracket.belowOne(sign) : ElementaryBracket.aboveOne(sign);
            }
            places += 160;
            v = places < 0 ? v >> uint256(-places) : v << uint256(places);
            // SAFETY: the error of v is below 2^-124 of v plus 1, so that of the power is below 2^-157 v + 3.
            uint256 slack = (v >> 157) + 4;
            (uint256 p, int256 k) = Exp.power(negative ? -int256(v) : int256(v));
            return (p - slack, p + slack, k - 126, sign);
        }
    }

    /// @dev Returns `x^y = power 2^exponent` if that is a binary fraction of at most 190 significant bits, else power =
    /// 0. INVARIANT: x = m 2^e and y = n 2^g, m and n odd. A power of two to the y is a power of two, or irrational.
    /// For m >= 3: x^-y has no finite binary expansion; x^(n / 2^k) is rational only if x is a 2^k-th power, as n is
    /// odd; and m is no 16th power, as m < 2^24 < 3^16.
    function _exact(uint256 m, int256 e, uint256 n, int256 g, bool inverse)
        private
        pure
        returns (uint256 power, int256 exponent)
    {
        unchecked {
            (m, e) = _odd(m, e);
            (n, g) = _odd(n, g);
            if (m == 1) return _powerOfTwo(e, n, g, inverse);
            // More than 190 bits, or an irrational root, for every m.
            if (inverse || g < -3 || g > 7 || n > 190) return (0, 0);
            for (; g < 0; ++g) {
                uint256 root = FixedRoot.root(m);
                if (e & 1 != 0 || root * root != m) return (0, 0);
                m = root;
                e >>= 1;
            }
            n <<= uint256(g);
            if (n * ElementaryBracket.bitLength(m) > 190) return (0, 0);
            // SAFETY: m^n < 2^190; the square after the last bit is not taken.
            exponent = e * int256(n);
            power = 1;
            while (true) {
                if (n & 1 != 0) power *= m;
                n >>= 1;
                if (n == 0) return (power, exponent);
                m *= m;
            }
        }
    }

    /// @dev Returns (2^e)^(n 2^g), e not 0.
    function _powerOfTwo(int256 e, uint256 n, int256 g, bool inverse)
        private
        pure
        returns (uint256 power, int256 exponent)
    {
        unchecked {
            exponent = e * int256(n);
            if (inverse) exponent = -exponent;
            if (g < 0) {
                // SAFETY: |e n| < 2^32, so that 2^255 does not divide it; -g <= 149.
                uint256 rest = uint256(exponent) & ((1 << uint256(-g)) - 1);
                return rest == 0 ? (1, exponent >> uint256(-g)) : (0, int256(0));
            }
            // SAFETY: g <= 127, so this does not overflow. Beyond 2^400 the logarithm decides.
            exponent <<= uint256(g);
            if (exponent > 400 || exponent < -400) return (0, 0);
            return (1, exponent);
        }
    }

    function _odd(uint256 m, int256 e) private pure returns (uint256, int256) {
        unchecked {
            uint256 zeros = ElementaryBracket.bitLength(m & (~m + 1)) - 1;
            return (m >> zeros, e + int256(zeros));
        }
    }
}
