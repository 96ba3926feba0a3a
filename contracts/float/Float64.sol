// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {FloatGeneral} from "./FloatGeneral.sol";
import {clz} from "clz/Clz.sol";

/// @title Float64
/// @notice IEEE-754 binary64, rounded to nearest even, subnormals kept. A number is a word whose low 64 bits are
///
///     bit 63 sign | bits 62..52 exponent e | bits 51..0 fraction f        (2^52 + f) * 2^(e - 1075) for 0 < e < 2047
///
/// ASSUMPTION: the other bits of an argument are 0; they are 0 in every result. An operand may be any NaN; a resulting
/// NaN is `NAN`. docs/float.md has the gas and the tests.
///
/// Built as Float32 is: one test, a path without branches for ordinary operands, FloatGeneral for all others. Ordinary
/// exponents are 512..1535 (numbers from 2^-511 to 2^513), where adding 512 sets the highest of their bits.
library Float64 {
    uint256 internal constant NAN = 0x7FF8000000000000;
    uint256 internal constant INFINITY = 0x7FF0000000000000;
    uint256 internal constant SIGN = 0x8000000000000000;

    uint256 private constant FRACTION = 0xFFFFFFFFFFFFF;
    uint256 private constant ONE = 0x10000000000000;
    /// @dev 512 as an exponent.
    uint256 private constant WINDOW = 0x2000000000000000;
    /// @dev Rounding of a word with bit 254 as its highest: half of the last place (bit 202) less 1, plus 1 if that
    /// place is odd: ties to even.
    uint256 private constant BELOW_HALF = (1 << 201) - 1;

    /// @dev First guesses of square roots, in 1/128, one byte each for the lowest bit of the exponent and the highest
    /// four of the fraction: the nearest to the roots at both ends of that range. The greatest error is 1.65%.
    uint256 private constant ROOTS = 0xb8bdc3c8cdd2d7dbe0e4e9edf2f6fafe82868a8d9194989b9ea2a5a8abaeb1b4;

    /// @notice Returns `a + b`.
    /// @dev If b's exponent is within 100 of a's, both are integers in units of 2^-152 of a's highest bit, and the sum
    /// in a word is exact. INVARIANT: it is normal, because a sum that cancels keeps a bit at most 53 places below.
    function add(uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            uint256 e = (a >> 52) & 0x7FF;
            uint256 place = ((b >> 52) & 0x7FF) + 100 - e;
            uint256 ordinary;
            assembly ("memory-safe") {
                ordinary := and(shr(62, add(a, WINDOW)), lt(place, 200))
            }
            if (ordinary == 0) return FloatGeneral.add(a, b, 52, 2047);
            uint256 x = ((a & FRACTION) | ONE) << 100;
            uint256 y = ((b & FRACTION) | ONE) << place;
            if ((a ^ b) & SIGN == 0) {
                x += y;
            } else {
                // The magnitude of the difference; if y is the larger, its sign.
                assembly ("memory-safe") {
                    x := sub(x, y)
                    let negative := sar(255, x)
                    x := sub(xor(x, negative), negative)
                    a := xor(a, negative)
                }
                if (x == 0) return 0;
            }
            uint256 n = clz(x);
            x <<= n - 1;
            return (((x + BELOW_HALF + ((x >> 202) & 1)) >> 202) + ((e + 102 - n) << 52)) | (a & SIGN);
        }
    }

    /// @notice Returns `a - b`.
    function sub(uint256 a, uint256 b) internal pure returns (uint256) {
        return add(a, b ^ SIGN);
    }

    /// @notice Returns `a * b`.
    /// @dev Both in the window, so the product is not subnormal; exponents below 3069 together, so it is not infinite.
    function mul(uint256 a, uint256 b) internal pure returns (uint256 r) {
        unchecked {
            uint256 e = (a & INFINITY) + (b & INFINITY);
            uint256 ordinary;
            assembly ("memory-safe") {
                ordinary := and(shr(62, and(add(a, WINDOW), add(b, WINDOW))), lt(e, 0xBFD0000000000000))
            }
            if (ordinary == 0) return FloatGeneral.mul(a, b, 52, 2047);
            uint256 p = ((a & FRACTION) | ONE) * ((b & FRACTION) | ONE);
            assembly ("memory-safe") {
                // Bit 105 or bit 104 is the highest.
                let low := lt(p, 0x200000000000000000000000000)
                p := shl(low, p)
                p := shr(53, add(add(p, 0xFFFFFFFFFFFFF), and(shr(53, p), 1)))
                r := or(and(xor(a, b), SIGN), add(p, sub(e, shl(52, add(1023, low)))))
            }
        }
    }

    /// @notice Returns `a * b + c`, rounded once.
    /// @dev All are in the window. The product's 106 bits stand at bit 60, the addend at `place`, which follows from
    /// its exponent; both fit if 0 <= place < 200. INVARIANT: then the product is between 2^-88 and 2^113 times c's
    /// power of two, and a sum that cancels keeps a bit at most 105 places below: every result is normal.
    function fma(uint256 a, uint256 b, uint256 c) internal pure returns (uint256) {
        unchecked {
            uint256 e = ((a >> 52) & 0x7FF) + ((b >> 52) & 0x7FF);
            uint256 place = ((c >> 52) & 0x7FF) + 1135 - e;
            uint256 ordinary;
            assembly ("memory-safe") {
                ordinary := and(add(a, WINDOW), and(add(b, WINDOW), add(c, WINDOW)))
                ordinary := and(shr(62, ordinary), lt(place, 200))
            }
            if (ordinary == 0) return FloatGeneral.fma(a, b, c, 52, 2047);
            uint256 x = (((a & FRACTION) | ONE) * ((b & FRACTION) | ONE)) << 60;
            uint256 y = ((c & FRACTION) | ONE) << place;
            a ^= b;
            if ((a ^ c) & SIGN == 0) {
                x += y;
            } else {
                assembly ("memory-safe") {
                    x := sub(x, y)
                    let negative := sar(255, x)
                    x := sub(xor(x, negative), negative)
                    a := xor(a, negative)
                }
                if (x == 0) return 0;
            }
            uint256 n = clz(x);
            x <<= n - 1;
            return (((x + BELOW_HALF + ((x >> 202) & 1)) >> 202) + ((e - n - 933) << 52)) | (a & SIGN);
        }
    }

    /// @notice Returns `a / b`.
    /// @dev The quotient of two significands is never half-way between two numbers (it would be exact in 54 bits, and
    /// times the divisor need more than 53), so its first 54 bits round as the whole quotient does.
    function div(uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            uint256 e = (a >> 52) & 0x7FF;
            uint256 x = (a & FRACTION) | ONE;
            uint256 y = (b & FRACTION) | ONE;
            uint256 ordinary;
            assembly ("memory-safe") {
                let low := lt(x, y)
                e := sub(add(e, 1022), add(and(shr(52, b), 0x7FF), low))
                ordinary := and(shr(62, and(add(a, WINDOW), add(b, WINDOW))), lt(e, 2046))
                x := shl(add(53, low), x)
            }
            if (ordinary == 0) return FloatGeneral.div(a, b, 52, 2047);
            return (((x / y + 1) >> 1) + (e << 52)) | ((a ^ b) & SIGN);
        }
    }

    /// @notice Returns the square root; `sqrt(-0) = -0`, `NAN` below zero.
    /// @dev As in Float32: 2^120 times the root of a number in [1, 4); four steps from 2^-5.9 leave 2^-109 of it.
    /// SAFETY: the middle h of two numbers has 54 bits and is not a root, for its square needs more than 53; x - h^2 is a
    /// multiple of 2^-106, so the root is at least 2^-108 from h. An approximation with a smaller error rounds alike.
    function sqrt(uint256 a) internal pure returns (uint256 r) {
        unchecked {
            if (a - ONE >= INFINITY - ONE) return FloatGeneral.sqrt(a, 52, 2047);
            assembly ("memory-safe") {
                let e := shr(52, a)
                let x := shl(sub(189, and(e, 1)), or(and(a, FRACTION), ONE))
                r := shl(113, byte(and(shr(48, a), 31), ROOTS))
                r := shr(1, add(r, div(x, r)))
                r := shr(1, add(r, div(x, r)))
                r := shr(1, add(r, div(x, r)))
                r := shr(1, add(r, div(x, r)))
                r := add(shr(68, add(r, 0x80000000000000000)), shl(52, shr(1, add(e, 1021))))
            }
        }
    }

    /// @notice Returns `a` with the other sign; NaN gives `NAN`.
    function neg(uint256 a) internal pure returns (uint256) {
        return isNan(a) ? NAN : a ^ SIGN;
    }

    /// @notice Returns whether `a` is a NaN, of any sign and payload.
    function isNan(uint256 a) internal pure returns (bool) {
        return a & ~SIGN > INFINITY;
    }

    /// @notice Returns whether `a == b` in IEEE-754: -0 equals +0, a NaN equals nothing.
    function eq(uint256 a, uint256 b) internal pure returns (bool r) {
        assembly ("memory-safe") {
            // Equal bits, or no bits but signs.
            r := or(eq(a, b), iszero(shl(193, or(a, b))))
        }
        return r && !isNan(a);
    }

    /// @notice Returns whether `a < b` in IEEE-754: false with a NaN, and for two zeros.
    function lt(uint256 a, uint256 b) internal pure returns (bool) {
        return !_unordered(a, b) && _value(a) < _value(b);
    }

    /// @notice Returns whether `a <= b` in IEEE-754: false with a NaN.
    function le(uint256 a, uint256 b) internal pure returns (bool) {
        return !_unordered(a, b) && _value(a) <= _value(b);
    }

    /// @notice Returns the place of `a` in the order `-inf < ... < -0 < +0 < ... < +inf < NaN`, in which all NaNs are
    /// equal: the key of docs/opset.md, section 2, for 64 bits.
    function key(uint256 a) internal pure returns (int256) {
        return isNan(a) ? int256(0x7FFFFFFFFFFFFFFF) : _place(a);
    }

    /// @notice Returns the larger in the order of `key`: `NAN` if either is a NaN, `maximum(-0, +0) = +0`.
    function maximum(uint256 a, uint256 b) internal pure returns (uint256) {
        if (_unordered(a, b)) return NAN;
        return _place(a) < _place(b) ? b : a;
    }

    /// @notice Returns the smaller in the order of `key`, but `NAN` if either is a NaN; `minimum(-0, +0) = -0`.
    function minimum(uint256 a, uint256 b) internal pure returns (uint256) {
        if (_unordered(a, b)) return NAN;
        return _place(b) < _place(a) ? b : a;
    }

    /// @dev Returns whether either is a NaN.
    function _unordered(uint256 a, uint256 b) private pure returns (bool r) {
        assembly ("memory-safe") {
            r := or(gt(and(a, 0x7FFFFFFFFFFFFFFF), INFINITY), gt(and(b, 0x7FFFFFFFFFFFFFFF), INFINITY))
        }
    }

    /// @dev Returns an integer that grows with the number and is 0 for both zeros. Not for NaN.
    function _value(uint256 a) private pure returns (int256 v) {
        assembly ("memory-safe") {
            let negative := sar(255, shl(192, a))
            v := sub(xor(and(a, 0x7FFFFFFFFFFFFFFF), negative), negative)
        }
    }

    /// @dev Returns an integer that grows with the number, -1 for -0 and 0 for +0. Not for NaN.
    function _place(uint256 a) private pure returns (int256 k) {
        assembly ("memory-safe") {
            k := signextend(7, a)
            k := xor(k, shr(193, sar(255, k)))
        }
    }
}
