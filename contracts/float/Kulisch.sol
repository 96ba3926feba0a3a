// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {clz} from "clz/Clz.sol";

/// @notice An exact sum: `hi * 2^512 + mid * 2^256 + lo` in two's complement, 768 bits, in units of 2^-298. If it is
/// not finite, `hi` is one of three values beyond every sum (see Kulisch), and `mid` and `lo` are zero.
struct Sum {
    uint256 hi;
    uint256 mid;
    uint256 lo;
}

/// @title Kulisch
/// @notice Exact sums of products of two binary32 values (docs/float-exact.md), after Kulisch's long accumulator.
///
///     value of the bits  sign exponent fraction   =  (-1)^sign  m  2^(e - 149),   m < 2^24,   e = max(exponent, 1) - 1
///     product                                     =  (m_a m_b) 2^(e_a + e_b)   in units of 2^-298
///
/// INVARIANT: a product is below 2^48 2^506 units, so 2^31 of them are below 2^585: far from the 2^639 where sums end
/// here. A decoded sum is no larger, so 2^54 of them can be added; no transaction does.
library Kulisch {
    /// @notice The terms must have eight bytes each.
    error NotWholeTerms(uint256 length);
    /// @notice These bytes are not 96, or no sum of at most 2^31 products.
    error NotASum(uint256 length, uint256 hi);

    // The high words of sums that are not finite. As integers: NaN < -infinity < every sum < infinity.
    uint256 internal constant INFINITY = 1 << 254;
    uint256 internal constant NEGATIVE_INFINITY = 3 << 254;
    uint256 internal constant NAN = 1 << 255;

    /// @notice The second factor of a term that is a value, not a product: 1.
    uint256 internal constant ONE = 0x3f800000;

    uint256 private constant INFINITE = 0x7f800000; // the bits of binary32's infinity

    // A word of terms has eight lanes of 32 bits, a ‖ b four times; masks of the same bits in each lane, or in each b.
    uint256 private constant LANES = 0x0000000100000001000000010000000100000001000000010000000100000001;
    uint256 private constant PAIRS = 0x0000000000000001000000000000000100000000000000010000000000000001;

    // ------------------------------------------------------------------ terms

    /// @notice Adds products to a sum, and their magnitudes to another one. About 120 gas per term, for all values.
    /// @param terms each `a u32be ‖ b u32be`, the bits of two binary32 values
    function addTerms(Sum memory sum, Sum memory magnitude, bytes memory terms)
        internal
        pure
        returns (Sum memory, Sum memory)
    {
        unchecked {
            if (terms.length % 8 != 0) revert NotWholeTerms(terms.length);
            if (terms.length == 0) return (sum, magnitude);

            // Bin 32 (4 negative + k) holds products of one sign whose shift is from 128 k to 128 k + 127.
            // INVARIANT: each is below 2^(48 + 127), so 2^81 of them fit in a bin and no carry is due before the end.
            uint256 bins;
            (uint256 word, uint256 next, uint256 end) = _firstWord(terms);
            assembly ("memory-safe") {
                bins := mload(0x40)
                mstore(0x40, add(bins, 0x100))
                calldatacopy(bins, calldatasize(), 0x100) // zeros
            }
            while (true) {
                uint256 shifts = word & (0x7f800000 * LANES);
                if ((shifts + 0x00800000 * LANES) & (0x80000000 * LANES) != 0) {
                    (uint256 s, uint256 m) = _notFinite(word, next, end);
                    return (add(sum, Sum(s, 0, 0)), add(magnitude, Sum(m, 0, 0)));
                }
                // The first bit of m, which is 1 if the exponent is not zero; e is the exponent less this bit.
                uint256 first = ((shifts + 0x7f800000 * LANES) >> 8) & (0x00800000 * LANES);
                uint256 m24 = (word & (0x007fffff * LANES)) | first;
                shifts -= first;
                // In each b: e_a + e_b; then its low 7 bits in the last byte, and the bin's offset in the first one.
                shifts = (shifts + (shifts >> 32)) >> 23;
                shifts = ((shifts * 0x400001) & (0x6000007f * PAIRS))
                    | ((word ^ (word >> 32)) & (0x80000000 * PAIRS));
                assembly ("memory-safe") {
                    let bin := add(bins, byte(28, shifts))
                    let size := mul(and(shr(32, m24), 0xffffff), and(m24, 0xffffff))
                    mstore(bin, add(mload(bin), shl(byte(31, shifts), size)))

                    bin := add(bins, byte(20, shifts))
                    size := mul(and(shr(96, m24), 0xffffff), and(shr(64, m24), 0xffffff))
                    mstore(bin, add(mload(bin), shl(byte(23, shifts), size)))

                    bin := add(bins, byte(12, shifts))
                    size := mul(and(shr(160, m24), 0xffffff), and(shr(128, m24), 0xffffff))
                    mstore(bin, add(mload(bin), shl(byte(15, shifts), size)))

                    bin := add(bins, byte(4, shifts))
                    size := mul(shr(224, m24), and(shr(192, m24), 0xffffff))
                    mstore(bin, add(mload(bin), shl(byte(7, shifts), size)))
                }
                if (next == end) break;
                assembly ("memory-safe") {
                    word := mload(next)
                    next := add(next, 0x20)
                }
            }
            return (add(sum, _fromBins(bins, -1)), add(magnitude, _fromBins(bins, 1)));
        }
    }

    /// @notice Adds the product of two binary32 values.
    function addProduct(Sum memory sum, uint256 a, uint256 b) internal pure returns (Sum memory) {
        return add(sum, product(a, b));
    }

    /// @notice Adds a binary32 value.
    function addValue(Sum memory sum, uint256 a) internal pure returns (Sum memory) {
        return add(sum, product(a, ONE));
    }

    /// @notice Returns the product of two binary32 values. If it is not finite it is that of IEEE-754: zero times
    /// infinity is NaN. The sign of zero is lost.
    function product(uint256 a, uint256 b) internal pure returns (Sum memory) {
        unchecked {
            bool negative = (a ^ b) >> 31 & 1 != 0;
            (a, b) = (a & 0x7fffffff, b & 0x7fffffff);
            if (a >= INFINITE || b >= INFINITE) {
                if (a > INFINITE || b > INFINITE || a == 0 || b == 0) return Sum(NAN, 0, 0);
                return Sum(negative ? NEGATIVE_INFINITY : INFINITY, 0, 0);
            }
            (uint256 ma, uint256 ea) = parts(a);
            (uint256 mb, uint256 eb) = parts(b);
            Sum memory s = shifted(ma * mb, ea + eb);
            return negative ? negate(s) : s;
        }
    }

    /// @notice Splits a finite binary32 value without sign: `m 2^(e - 149)`.
    function parts(uint256 bits) internal pure returns (uint256 m, uint256 e) {
        assembly ("memory-safe") {
            e := shr(23, bits)
            let normal := iszero(iszero(e))
            m := or(and(bits, 0x7fffff), shl(23, normal))
            e := sub(e, normal)
        }
    }

    /// @notice Returns the set, as bits, of the exponents e (see above) of the first factors that are not zero. For
    /// sums of values, whose second factors are 1; sets of parts of the terms are united by `|`.
    function exponents(bytes memory terms) internal pure returns (uint256 set) {
        unchecked {
            if (terms.length % 8 != 0) revert NotWholeTerms(terms.length);
            for (uint256 i = 0; i < terms.length; i += 8) {
                uint256 a;
                assembly ("memory-safe") {
                    a := and(shr(224, mload(add(add(terms, 0x20), i))), 0x7fffffff)
                }
                if (a >= INFINITE || a == 0) continue;
                (, uint256 e) = parts(a);
                set |= 1 << e;
            }
        }
    }

    /// @notice Returns whether no partial sum of values with these exponents and this sum of magnitudes is rounded in
    /// binary64, in any order. That is so below 2^53 ulps of the smallest (docs/rounding-logs.md, section 4).
    function isAddedExactly(uint256 set, Sum memory magnitude) internal pure returns (bool) {
        unchecked {
            uint256 least = 255 - clz(set & (0 - set));
            return set == 0 || compare(magnitude, shifted(1, least + 149 + 53)) < 0;
        }
    }

    // ------------------------------------------------------------------ sums

    /// @notice Returns a + b; with infinities as in IEEE-754: infinity + finite = infinity, infinity - infinity = NaN.
    function add(Sum memory a, Sum memory b) internal pure returns (Sum memory c) {
        if (!isFinite(a) || !isFinite(b)) {
            if (isFinite(a)) return b;
            if (isFinite(b) || a.hi == b.hi) return a;
            return Sum(NAN, 0, 0);
        }
        unchecked {
            c.lo = a.lo + b.lo;
            uint256 carry = _below(c.lo, b.lo);
            uint256 mid = a.mid + b.mid;
            c.mid = mid + carry;
            c.hi = a.hi + b.hi + _below(mid, b.mid) + _below(c.mid, carry);
        }
    }

    /// @notice Returns -a. Infinities change their sign, NaN stays.
    function negate(Sum memory a) internal pure returns (Sum memory c) {
        unchecked {
            c.lo = 0 - a.lo;
            uint256 borrow = _below(0, a.lo);
            c.mid = 0 - a.mid - borrow;
            c.hi = 0 - a.hi - (a.mid | borrow == 0 ? 0 : 1);
        }
    }

    /// @notice Returns |a|. NaN stays.
    function absolute(Sum memory a) internal pure returns (Sum memory) {
        return isNegative(a) ? negate(a) : a;
    }

    /// @notice Returns a times k. SAFETY: the product must be below 2^767; with sums below 2^639, k below 2^128 is
    /// fine.
    function times(Sum memory a, uint256 k) internal pure returns (Sum memory c) {
        unchecked {
            uint256 carry;
            (c.lo, carry) = _mulAdd(a.lo, k, 0);
            (c.mid, carry) = _mulAdd(a.mid, k, carry);
            // NOTE: modulo 2^256, so two's complement needs no special case.
            c.hi = a.hi * k + carry;
        }
    }

    /// @notice Returns m 2^shift. SAFETY: it must be below 2^767.
    function shifted(uint256 m, uint256 shift) internal pure returns (Sum memory c) {
        // NOTE: a shift by 256 or more gives zero, and so does a shift by a negative difference.
        unchecked {
            c.lo = m << shift;
            c.mid = (m >> (256 - shift)) | (m << (shift - 256));
            c.hi = (m >> (512 - shift)) | (m << (shift - 512));
        }
    }

    /// @notice Returns -1, 0 or 1 if a is below, equal to or above b. NaN is below everything else.
    function compare(Sum memory a, Sum memory b) internal pure returns (int256) {
        if (a.hi != b.hi) return int256(a.hi) < int256(b.hi) ? -1 : int256(1);
        if (a.mid != b.mid) return a.mid < b.mid ? -1 : int256(1);
        if (a.lo != b.lo) return a.lo < b.lo ? -1 : int256(1);
        return 0;
    }

    function isNegative(Sum memory a) internal pure returns (bool) {
        return a.hi >> 255 != 0;
    }

    function isFinite(Sum memory a) internal pure returns (bool) {
        int256 above = int256(a.hi) >> 127;
        return above == 0 || above == -1;
    }

    // ------------------------------------------------------------------ bytes

    /// @notice Returns 96 bytes, big-endian. Equal sums have equal bytes.
    function encode(Sum memory a) internal pure returns (bytes memory) {
        return abi.encodePacked(a.hi, a.mid, a.lo);
    }

    /// @notice Returns the sum that has these bytes. Reverts with NotASum if 2^31 products cannot add up to it.
    function decode(bytes memory data) internal pure returns (Sum memory a) {
        uint256 length = data.length;
        if (length != 96) revert NotASum(length, 0);
        assembly ("memory-safe") {
            mcopy(a, add(data, 0x20), 0x60)
        }
        bool special = (a.hi == INFINITY || a.hi == NEGATIVE_INFINITY || a.hi == NAN) && a.mid | a.lo == 0;
        int256 above = int256(a.hi) >> 73; // a sum is from -2^585 to 2^585 - 1
        if (!special && above != 0 && above != -1) revert NotASum(length, a.hi);
    }

    // ------------------------------------------------------------------ pieces

    /// @dev The last word is full, so the first one may not be: the bytes before its terms become terms 0 * 0.
    function _firstWord(bytes memory terms) private pure returns (uint256 word, uint256 next, uint256 end) {
        assembly ("memory-safe") {
            let length := mload(terms)
            let first := add(and(sub(length, 1), 0x1f), 1) // 8, 16, 24 or 32 bytes; length is not zero
            next := add(add(terms, 0x20), first)
            end := add(add(terms, 0x20), length)
            let unused := shl(3, sub(0x20, first))
            word := shr(unused, shl(unused, mload(sub(next, 0x20))))
        }
    }

    /// @dev Reads on from the first word with an infinite or NaN factor: only such factors matter, so it costs less
    /// than a finite word. Returns the high words of sum and magnitude. `x & ~y` here means: in x and not in y.
    function _notFinite(uint256 word, uint256 next, uint256 end) private pure returns (uint256, uint256) {
        unchecked {
            uint256 plus;
            uint256 minus;
            while (true) {
                // The top bit of each lane says about its value:
                uint256 value = word & (0x7fffffff * LANES);
                uint256 nan = (value + 0x007fffff * LANES) & (0x80000000 * LANES);
                uint256 special = (value + 0x00800000 * LANES) & (0x80000000 * LANES); // infinite or NaN
                uint256 zero = ~(value + 0x7fffffff * LANES);
                uint256 partners = (special & (0x80000000 * PAIRS) & (zero >> 32))
                    | ((special >> 32) & (0x80000000 * PAIRS) & zero);
                if (nan | partners != 0) return (NAN, NAN);
                uint256 infinite = (special | (special >> 32)) & (0x80000000 * PAIRS);
                uint256 sign = word ^ (word >> 32);
                plus |= infinite & ~sign;
                minus |= infinite & sign;
                if (next == end) break;
                assembly ("memory-safe") {
                    word := mload(next)
                    next := add(next, 0x20)
                }
            }
            if (plus != 0 && minus != 0) return (NAN, INFINITY);
            return (plus != 0 ? INFINITY : NEGATIVE_INFINITY, INFINITY);
        }
    }

    /// @dev Returns d0 + d1 2^128 + d2 2^256 + d3 2^384, where d is a positive bin plus the negative one times `sign`.
    function _fromBins(uint256 bins, int256 sign) private pure returns (Sum memory c) {
        int256 d0;
        int256 d1;
        int256 d2;
        int256 d3;
        assembly ("memory-safe") {
            // INVARIANT: below 2^254 in size.
            d0 := add(mload(bins), mul(mload(add(bins, 0x80)), sign))
            d1 := add(mload(add(bins, 0x20)), mul(mload(add(bins, 0xa0)), sign))
            d2 := add(mload(add(bins, 0x40)), mul(mload(add(bins, 0xc0)), sign))
            d3 := add(mload(add(bins, 0x60)), mul(mload(add(bins, 0xe0)), sign))
        }
        unchecked {
            // NOTE: a shift to the right by 255 gives the words above, all zeros or all ones.
            uint256 part = uint256(d1) << 128;
            c.lo = part + uint256(d0);
            int256 mid = (d0 >> 255) + (d1 >> 128) + int256(_below(c.lo, part)) + d2;
            part = uint256(d3) << 128;
            c.mid = part + uint256(mid);
            c.hi = uint256((d3 >> 128) + (mid >> 255)) + _below(c.mid, part);
        }
    }

    /// @dev Returns x y + carry as (low, high) words.
    function _mulAdd(uint256 x, uint256 y, uint256 carry) private pure returns (uint256 low, uint256 high) {
        assembly ("memory-safe") {
            low := mul(x, y)
            let m := mulmod(x, y, not(0))
            high := sub(sub(m, low), lt(m, low))
            low := add(low, carry)
            high := add(high, lt(low, carry))
        }
    }

    function _below(uint256 x, uint256 y) private pure returns (uint256 yes) {
        assembly ("memory-safe") {
            yes := lt(x, y)
        }
    }
}
