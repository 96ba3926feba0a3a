// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {FloatGeneral} from "./FloatGeneral.sol";
import {clz} from "clz/Clz.sol";

/// @title Float32
/// @notice IEEE-754 binary32, rounded to nearest even, subnormals kept. A number is a word whose low 32 bits are
///
///     bit 31 sign | bits 30..23 exponent e | bits 22..0 fraction f        (2^23 + f) * 2^(e - 150) for 0 < e < 255
///
/// ASSUMPTION: the other bits of an argument are 0; they are 0 in every result. An operand may be any NaN; a resulting
/// NaN is `NAN`. docs/opset.md, sections 2 and 4, defines each function; docs/float.md has the gas and the tests.
///
/// Each function is a short path without branches for ordinary operands, after one test that leaves all other operands
/// to FloatGeneral. A significand of 24 bits lies in a word with its highest bit at `t`; `n = clz(word) = 255 - t`
/// gives the exponent of the result. Its bits are `((exponent - 1) << 23) + significand`: the significand's highest
/// bit, and a carry out of it, count in the exponent, up to infinity.
library Float32 {
    uint256 internal constant NAN = 0x7FC00000;
    uint256 internal constant INFINITY = 0x7F800000;
    uint256 internal constant SIGN = 0x80000000;

    uint256 private constant FRACTION = 0x7FFFFF;
    uint256 private constant ONE = 0x800000;
    /// @dev Rounding of a word with bit 254 as its highest: half of the last place (bit 231) less 1, plus 1 if that
    /// place is odd: ties to even.
    uint256 private constant BELOW_HALF = (1 << 230) - 1;

    // Sets of exponents: bit e stands for exponent e.
    /// @dev All exponents of normal numbers.
    uint256 private constant NORMAL = (1 << 255) - 2;
    /// @dev Numbers that fit, with a carry, below bit 254 of a word whose bit 24 is the smallest normal number.
    uint256 private constant ADDENDS = (1 << 229) - 2;
    /// @dev Addends c with which no result of `fma` can leave the normal range (see there).
    uint256 private constant FMA_ADDENDS = (1 << 191) - (1 << 50);

    /// @dev First guesses of square roots, in 1/128, one byte each for the lowest bit of the exponent and the highest
    /// four of the fraction: the nearest to the roots at both ends of that range. The greatest error is 1.65%.
    uint256 private constant ROOTS = 0xb8bdc3c8cdd2d7dbe0e4e9edf2f6fafe82868a8d9194989b9ea2a5a8abaeb1b4;

    /// @notice Returns `a + b`.
    /// @dev Both as integers in units of 2^-150: the sum in a word is exact.
    function add(uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            uint256 ea = (a >> 23) & 0xFF;
            uint256 eb = (b >> 23) & 0xFF;
            if ((ADDENDS >> ea) & (ADDENDS >> eb) & 1 == 0) return FloatGeneral.add(a, b, 23, 255);
            uint256 x = ((a & FRACTION) | ONE) << ea;
            uint256 y = ((b & FRACTION) | ONE) << eb;
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
                // Zero (+0), subnormal, or in the lowest binade: bit 1 is the last place, so nothing is rounded.
                if (x < 1 << 24) return x == 0 ? 0 : (a & SIGN) | (x >> 1);
            }
            uint256 n = clz(x);
            x <<= n - 1;
            return (((x + BELOW_HALF + ((x >> 231) & 1)) >> 231) + ((231 - n) << 23)) | (a & SIGN);
        }
    }

    /// @notice Returns `a - b`.
    function sub(uint256 a, uint256 b) internal pure returns (uint256) {
        return add(a, b ^ SIGN);
    }

    /// @notice Returns `a * b`.
    /// @dev Both exponents are in 64..191, where adding 64 sets the highest of their bits, so the product is not
    /// subnormal; and below 381 together, so it is not infinite.
    function mul(uint256 a, uint256 b) internal pure returns (uint256 r) {
        unchecked {
            uint256 e = (a & INFINITY) + (b & INFINITY);
            uint256 ordinary;
            assembly ("memory-safe") {
                ordinary := and(shr(30, and(add(a, 0x20000000), add(b, 0x20000000))), lt(e, 0xBE800000))
            }
            if (ordinary == 0) return FloatGeneral.mul(a, b, 23, 255);
            uint256 p = ((a & FRACTION) | ONE) * ((b & FRACTION) | ONE);
            assembly ("memory-safe") {
                // Bit 47 or bit 46 is the highest.
                let low := lt(p, 0x800000000000)
                p := shl(low, p)
                p := shr(24, add(add(p, 0x7FFFFF), and(shr(24, p), 1)))
                r := or(and(xor(a, b), SIGN), add(p, sub(e, shl(23, add(127, low)))))
            }
        }
    }

    /// @notice Returns `a * b + c`, rounded once.
    /// @dev The product's 48 bits stand at bit 39, the addend at `ec`, which follows from its exponent. Both fit if 0
    /// <= ec < 230. INVARIANT: then the product is below 2^63 times 2^(exponent of c), so for an exponent up to 190 the
    /// sum is finite; and a sum that cancels has its highest bit at most 48 places below the highest of c, so for an
    /// exponent from 50 on it is normal.
    function fma(uint256 a, uint256 b, uint256 c) internal pure returns (uint256) {
        unchecked {
            uint256 ea = (a >> 23) & 0xFF;
            uint256 eb = (b >> 23) & 0xFF;
            uint256 ec = (c >> 23) & 0xFF;
            uint256 ordinary = (NORMAL >> ea) & (NORMAL >> eb) & (FMA_ADDENDS >> ec);
            ea += eb;
            ec = ec + 189 - ea;
            assembly ("memory-safe") {
                ordinary := and(ordinary, lt(ec, 230))
            }
            if (ordinary == 0) return FloatGeneral.fma(a, b, c, 23, 255);
            uint256 x = (((a & FRACTION) | ONE) * ((b & FRACTION) | ONE)) << 39;
            uint256 y = ((c & FRACTION) | ONE) << ec;
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
            return (((x + BELOW_HALF + ((x >> 231) & 1)) >> 231) + ((ea + 42 - n) << 23)) | (a & SIGN);
        }
    }

    /// @notice Returns `a / b`.
    /// @dev The quotient of two significands is never half-way between two numbers (it would be exact in 25 bits, and
    /// times the divisor need more than 24), so its first 25 bits round as the whole quotient does.
    function div(uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            uint256 ea = (a >> 23) & 0xFF;
            uint256 eb = (b >> 23) & 0xFF;
            uint256 ordinary = (NORMAL >> ea) & (NORMAL >> eb);
            uint256 x = (a & FRACTION) | ONE;
            uint256 y = (b & FRACTION) | ONE;
            assembly ("memory-safe") {
                let low := lt(x, y)
                ea := sub(add(ea, 126), add(eb, low))
                ordinary := and(ordinary, lt(ea, 254))
                x := shl(add(24, low), x)
            }
            if (ordinary == 0) return FloatGeneral.div(a, b, 23, 255);
            return (((x / y + 1) >> 1) + (ea << 23)) | ((a ^ b) & SIGN);
        }
    }

    /// @notice Returns the square root; `sqrt(-0) = -0`, `NAN` below zero.
    /// @dev Newton's iteration on 2^63 times the root of a number in [1, 4), from a guess within 2^-5.9: a step squares
    /// the relative error and halves it, so three steps leave 2^-54. SAFETY: the middle h of two numbers has 25 bits
    /// and is not a root, for its square needs more than 24; x - h^2 is a multiple of 2^-48, so the root is at least 2^-50
    /// from h. An approximation with a smaller error rounds alike.
    function sqrt(uint256 a) internal pure returns (uint256 r) {
        unchecked {
            if (a - ONE >= INFINITY - ONE) return FloatGeneral.sqrt(a, 23, 255);
            assembly ("memory-safe") {
                let e := shr(23, a)
                let x := shl(sub(104, and(e, 1)), or(and(a, FRACTION), ONE))
                r := shl(56, byte(and(shr(19, a), 31), ROOTS))
                r := shr(1, add(r, div(x, r)))
                r := shr(1, add(r, div(x, r)))
                r := shr(1, add(r, div(x, r)))
                r := add(shr(40, add(r, 0x8000000000)), shl(23, shr(1, add(e, 125))))
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
            r := or(eq(a, b), iszero(shl(225, or(a, b))))
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
    /// equal: the key of docs/opset.md, section 2.
    function key(uint256 a) internal pure returns (int256) {
        return isNan(a) ? int256(0x7FFFFFFF) : _place(a);
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
            r := or(gt(and(a, 0x7FFFFFFF), INFINITY), gt(and(b, 0x7FFFFFFF), INFINITY))
        }
    }

    /// @dev Returns an integer that grows with the number and is 0 for both zeros. Not for NaN.
    function _value(uint256 a) private pure returns (int256 v) {
        assembly ("memory-safe") {
            let negative := sar(255, shl(224, a))
            v := sub(xor(and(a, 0x7FFFFFFF), negative), negative)
        }
    }

    /// @dev Returns an integer that grows with the number, -1 for -0 and 0 for +0. Not for NaN.
    function _place(uint256 a) private pure returns (int256 k) {
        assembly ("memory-safe") {
            k := signextend(3, a)
            k := xor(k, shr(225, sar(255, k)))
        }
    }
}
