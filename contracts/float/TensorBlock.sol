// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Float32} from "./Float32.sol";
import {clz} from "clz/Clz.sol";

/// @title TensorBlock
/// @notice A block of the mode tc16: up to 16 products of bf16 and an accumulator c of binary32, summed as tensor cores
/// do (docs/tensor-cores.md). A contract computes it pair by pair, in two passes over the pairs:
///
///     opened        c: the block's largest exponent so far, and whether a term is infinite or NaN
///     widen         a pair: the same
///     begun         c, cut to a multiple of 2^(e - 25): the exact sum so far
///     accumulate    a pair: the same
///     rounded       the sum toward zero, to binary32
///
/// Numbers are words: a bf16 has 16 bits, a binary32 has 32, and the other bits are 0. Exponents `e` are those of
/// products plus 254, the sum of the biases of two factors: at least 121 (2^-133).
///
/// INVARIANT: every function has a result for all arguments, whether a block gives them or not. So a state that no chain
/// reaches has one next state and one element, too, and a party that posts it gains nothing.
library TensorBlock {
    /// @dev What is not finite: bits of a set.
    uint256 internal constant NOT_A_NUMBER = 1;
    uint256 internal constant PLUS_INFINITY = 2;
    uint256 internal constant MINUS_INFINITY = 4;

    /// @dev A block's largest exponent counts as at least 2^-133.
    uint256 private constant LEAST = 121;
    /// @dev The exponent of c plus this is on the scale of products.
    uint256 private constant OF_C = 127;
    uint256 private constant ONE = 0x800000;
    uint256 private constant FRACTION = 0x7FFFFF;
    uint256 private constant NARROW_SIGN = 0x8000;
    uint256 private constant NARROW_INFINITY = 0x7F80;
    /// @dev All exponents of normal numbers: bit e stands for exponent e.
    uint256 private constant NORMAL = (1 << 255) - 2;
    /// @dev A sum has 40 bits in two's complement; 17 terms take 33.
    uint256 private constant SUM_SIGN = 1 << 39;
    uint256 internal constant SUM = (1 << 40) - 1;

    /// @notice Returns the largest exponent of a block that has no products yet, and what of c is not finite.
    function opened(uint256 c) internal pure returns (uint256 e, uint256 flags) {
        unchecked {
            uint256 ec = (c >> 23) & 0xFF;
            if (ec == 255) {
                if (c & FRACTION != 0) return (LEAST, NOT_A_NUMBER);
                return (LEAST, c & Float32.SIGN == 0 ? PLUS_INFINITY : MINUS_INFINITY);
            }
            // The exponent of a subnormal is that of the smallest normal number; a zero is no term.
            e = ec == 0 ? (c & FRACTION == 0 ? 0 : OF_C + 1) : ec + OF_C;
            if (e < LEAST) e = LEAST;
        }
    }

    /// @notice Returns the largest exponent and what is not finite, with the pair `a b`.
    function widen(uint256 e, uint256 flags, uint256 a, uint256 b) internal pure returns (uint256, uint256) {
        unchecked {
            uint256 ea = (a >> 7) & 0xFF;
            uint256 eb = (b >> 7) & 0xFF;
            if ((NORMAL >> ea) & (NORMAL >> eb) & 1 == 0) {
                (uint256 x, uint256 y) = (a & ~NARROW_SIGN, b & ~NARROW_SIGN);
                if (x >= NARROW_INFINITY || y >= NARROW_INFINITY) {
                    return (e, flags | _special(x, y, (a ^ b) & NARROW_SIGN));
                }
                // A product with a zero is no term, however large the other factor.
                if (x == 0 || y == 0) return (e, flags);
                if (ea == 0) ea = 1;
                if (eb == 0) eb = 1;
            }
            ea += eb;
            return (ea > e ? ea : e, flags);
        }
    }

    /// @dev Returns what a product is of which a factor is not finite, given their magnitudes.
    function _special(uint256 x, uint256 y, uint256 sign) private pure returns (uint256) {
        if (x > NARROW_INFINITY || y > NARROW_INFINITY || x == 0 || y == 0) return NOT_A_NUMBER;
        return sign == 0 ? PLUS_INFINITY : MINUS_INFINITY;
    }

    /// @notice Returns the sum with the pair `a b`, cut to a multiple of 2^(e - 25). What is not finite adds nothing.
    function accumulate(uint256 e, uint256 sum, uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            uint256 ea = (a >> 7) & 0xFF;
            uint256 eb = (b >> 7) & 0xFF;
            uint256 p = a & 0x7F;
            uint256 q = b & 0x7F;
            if ((NORMAL >> ea) & (NORMAL >> eb) & 1 != 0) {
                (p, q) = (p | 0x80, q | 0x80);
            } else {
                if (ea == 255 || eb == 255) return sum;
                if (ea == 0) ea = 1;
                else p |= 0x80;
                if (eb == 0) eb = 1;
                else q |= 0x80;
            }
            // 14 fractional bits, and 25 below e. NOTE: where e is below the product's exponent, as in no chain, the
            // distance wraps and nothing is left.
            p = ((p * q) << 11) >> (e - ea - eb);
            return ((a ^ b) & NARROW_SIGN == 0 ? sum + p : sum - p) & SUM;
        }
    }

    /// @notice Returns the sum of c alone, cut to a multiple of 2^(e - 25).
    function begun(uint256 e, uint256 sum, uint256 c) internal pure returns (uint256) {
        unchecked {
            uint256 ec = (c >> 23) & 0xFF;
            if (ec == 255) return sum;
            uint256 p = c & FRACTION;
            if (ec == 0) ec = 1;
            else p |= ONE;
            // 23 fractional bits, and 25 below e.
            p = (p << 2) >> (e - ec - OF_C);
            return (c & Float32.SIGN == 0 ? sum + p : sum - p) & SUM;
        }
    }

    /// @notice Returns the block's result: the sum toward zero as binary32, or what is not finite. A NaN is
    /// 0x7FC00000, a zero +0.
    function rounded(uint256 e, uint256 flags, uint256 sum) internal pure returns (uint256) {
        unchecked {
            flags &= NOT_A_NUMBER | PLUS_INFINITY | MINUS_INFINITY;
            if (flags != 0) {
                if (flags == PLUS_INFINITY) return Float32.INFINITY;
                return flags == MINUS_INFINITY ? Float32.SIGN | Float32.INFINITY : Float32.NAN;
            }
            if (sum == 0) return 0;
            uint256 sign = 0;
            if (sum & SUM_SIGN != 0) (sign, sum) = (Float32.SIGN, SUM + 1 - sum);
            uint256 n = clz(sum);
            // The exponent of the result is e + 103 - n, in binary32's bias.
            if (e + 102 >= n) {
                sum = ((sum << n) >> 232) + ((e + 102 - n) << 23);
                return sign | (sum < Float32.INFINITY ? sum : Float32.INFINITY);
            }
            // In units of 2^-149, which are 2^(e - 130) of those of the sum.
            sum = e < 130 ? sum >> (130 - e) : sum << (e - 130);
            return sum == 0 ? 0 : sign | sum;
        }
    }
}
