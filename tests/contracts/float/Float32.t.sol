// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Arithmetic32, Arithmetic64} from "./FloatArithmetic.sol";
import {Float32} from "contracts/float/Float32.sol";

/// @notice binary32 by examples, and by laws that hold bit for bit.
contract Float32Test is Base {
    Arithmetic32 private f32 = Arithmetic32(deploy("FloatArithmetic.sol:Arithmetic32", ""));
    Arithmetic64 private f64 = Arithmetic64(deploy("FloatArithmetic.sol:Arithmetic64", ""));

    uint256 private constant NAN = Float32.NAN;
    uint256 private constant INF = Float32.INFINITY;
    uint256 private constant MINUS = Float32.SIGN;
    uint256 private constant ONE = 0x3F800000;
    uint256 private constant TWO = 0x40000000;
    uint256 private constant THREE = 0x40400000;
    uint256 private constant HALF = 0x3F000000;
    uint256 private constant TINY = 1; // 2^-149
    uint256 private constant NORMAL = 0x00800000; // 2^-126
    uint256 private constant MAX = 0x7F7FFFFF;
    uint256 private constant ULP = 0x34000000; // 2^-23, one unit of the last place of 1
    uint256 private constant HALF_ULP = 0x33800000;
    uint256 private constant SIGNALLING = 0xFF800001;

    // ------------------------------------------------------------------ examples

    function test_tiesGoToEven() public view {
        eq(f32.add(ONE, HALF_ULP), ONE, "1 + ulp / 2");
        eq(f32.add(ONE + 1, HALF_ULP), ONE + 2, "(1 + ulp) + ulp / 2");
        eq(f32.add(ONE, HALF_ULP + 1), ONE + 1, "1 and a little more than ulp / 2");
        eq(f32.fma(HALF_ULP, ONE, ONE), ONE, "fma: 1 + ulp / 2");
        eq(f32.mul(ONE + 1, 0x3FC00000), 0x3FC00002, "(1 + ulp) * 1.5 = 1.5 + 1.5 ulp");
        eq(f32.mul(TINY, HALF), 0, "2^-150");
        eq(f32.mul(TINY, 0x3FC00000), 2, "1.5 * 2^-149");
    }

    function test_aCarryReachesTheNextBinade() public view {
        eq(f32.add(TWO - 1, HALF_ULP), TWO, "largest number below 2, and half of its last place");
        eq(f32.add(MAX, 0x73000000), INF, "largest number, and half of its last place");
        eq(f32.add(MAX, 0x72FFFFFF), MAX, "and a little less");
        eq(f32.mul(MAX, ONE + 1), INF, "overflow");
        eq(f32.mul(MAX, MINUS | TWO), MINUS | INF, "overflow below zero");
    }

    function test_subnormalNumbersAreKept() public view {
        eq(f32.sub(NORMAL + 1, NORMAL), TINY, "difference of two normal numbers");
        eq(f32.add(NORMAL - 1, TINY), NORMAL, "sum of two subnormal numbers");
        eq(f32.mul(NORMAL, HALF), NORMAL / 2, "product");
        eq(f32.div(NORMAL, TWO), NORMAL / 2, "quotient");
        eq(f32.div(TINY, TINY), ONE, "tiny / tiny");
        eq(f32.sqrt(TINY), 0x1A3504F3, "sqrt(2^-149) = 2^-74.5");
        eq(f32.fma(NORMAL, HALF, TINY), NORMAL / 2 + 1, "fma");
    }

    function test_fmaRoundsOnce() public view {
        // (1 + ulp)^2 - (1 + 2 ulp) = ulp^2, which a rounded product loses.
        eq(f32.fma(ONE + 1, ONE + 1, MINUS | (ONE + 2)), 0x28800000, "2^-46");
        eq(f32.add(f32.mul(ONE + 1, ONE + 1), MINUS | (ONE + 2)), 0, "rounded twice");
        // The bit that decides the tie lies 149 places below.
        eq(f32.fma(TINY, ONE, f32.fma(ONE, HALF_ULP, ONE)), ONE, "1 + ulp / 2, rounded, + tiny");
        eq(f32.fma(HALF_ULP, ONE + 1, ONE), ONE + 1, "1 + ulp / 2 + 2^-47");
    }

    function test_zerosHaveSigns() public view {
        eq(f32.add(0, MINUS), 0, "0 + -0");
        eq(f32.add(MINUS, MINUS), MINUS, "-0 + -0");
        eq(f32.sub(THREE, THREE), 0, "x - x");
        eq(f32.sub(MINUS | THREE, MINUS | THREE), 0, "-x - -x");
        eq(f32.mul(MINUS | ONE, 0), MINUS, "-1 * 0");
        eq(f32.mul(MINUS | TINY, TINY), MINUS, "product too small");
        eq(f32.fma(MINUS, 0, MINUS), MINUS, "-0 * 0 + -0, a term that does not exist");
        eq(f32.fma(ONE, MINUS, 0), 0, "1 * -0 + 0");
        eq(f32.fma(THREE, ONE, MINUS | THREE), 0, "x - x");
        eq(f32.div(MINUS, THREE), MINUS, "-0 / 3");
        eq(f32.div(ONE, MINUS | INF), MINUS, "1 / -inf");
        eq(f32.sqrt(MINUS), MINUS, "sqrt(-0)");
    }

    function test_infinitiesAndNaNs() public view {
        eq(f32.add(INF, MINUS | MAX), INF, "inf - max");
        eq(f32.add(INF, MINUS | INF), NAN, "inf - inf");
        eq(f32.mul(INF, MINUS), NAN, "inf * -0");
        eq(f32.mul(INF, MINUS | TINY), MINUS | INF, "inf * -tiny");
        eq(f32.fma(INF, ONE, MINUS | INF), NAN, "inf * 1 - inf");
        eq(f32.fma(INF, 0, NAN), NAN, "inf * 0 + NaN");
        eq(f32.fma(MAX, MAX, MINUS | INF), MINUS | INF, "a finite product that is too large, - inf");
        eq(f32.div(ONE, MINUS), MINUS | INF, "1 / -0");
        eq(f32.div(MINUS, 0), NAN, "-0 / 0");
        eq(f32.div(INF, INF), NAN, "inf / inf");
        eq(f32.sqrt(INF), INF, "sqrt(inf)");
        eq(f32.sqrt(MINUS | TINY), NAN, "sqrt(-tiny)");
        eq(f32.sqrt(MINUS | INF), NAN, "sqrt(-inf)");
        eq(f32.add(SIGNALLING, ONE), NAN, "NaN + 1");
        eq(f32.mul(0, SIGNALLING), NAN, "0 * NaN");
        eq(f32.sqrt(SIGNALLING), NAN, "sqrt(NaN)");
        eq(f32.neg(SIGNALLING), NAN, "-NaN");
        eq(f32.neg(0), MINUS, "-(0)");
    }

    function test_order() public view {
        yes(f32.eq(0, MINUS) && !f32.lt(MINUS, 0) && f32.le(0, MINUS), "IEEE: -0 equals 0");
        yes(f32.key(MINUS) < f32.key(0), "order: -0 is below 0");
        yes(f32.key(INF) < f32.key(NAN) && f32.key(SIGNALLING) == f32.key(NAN), "NaN is above");
        yes(!f32.eq(NAN, NAN) && !f32.lt(ONE, NAN) && !f32.le(NAN, ONE), "NaN is unordered");
        yes(f32.lt(MINUS | TWO, MINUS | ONE) && f32.lt(MINUS | INF, MINUS | MAX), "below zero");
        eq(f32.maximum(MINUS, 0), 0, "maximum(-0, 0)");
        eq(f32.minimum(0, MINUS), MINUS, "minimum(0, -0)");
        eq(f32.maximum(SIGNALLING, INF), NAN, "maximum(NaN, inf)");
        eq(f32.minimum(MINUS | INF, SIGNALLING), NAN, "minimum(-inf, NaN)");
    }

    function test_conversions() public view {
        uint256 minus = 1 << 64;
        eq(f32.f32ToI64(MINUS | 0x3F7FFFFF), 0, "towards zero");
        eq(f32.f32ToI64(MINUS | 0x40600000), minus - 3, "-3.5");
        eq(f32.f32ToI64(0x5F000000), 0x7FFFFFFFFFFFFFFF, "2^63");
        eq(f32.f32ToI64(MINUS | 0x5F000000), 0x8000000000000000, "-2^63");
        eq(f32.f32ToI64(MINUS | INF), 0x8000000000000000, "-inf");
        eq(f32.f32ToI64(SIGNALLING), 0, "NaN");
        eq(f32.i64ToF32(0x1000001), 0x4B800000, "2^24 + 1, a tie");
        eq(f32.i64ToF32(0x1000003), 0x4B800002, "2^24 + 3, a tie");
        eq(f32.i64ToF32(0x8000000000000000), MINUS | 0x5F000000, "-2^63");
        eq(f32.i64ToF32(0x7FFFFFFFFFFFFFFF), 0x5F000000, "2^63 - 1");
        eq(f32.i64ToF32(minus - 1), MINUS | ONE, "-1");
        eq(f32.i64ToF32(0), 0, "0");
    }

    // ------------------------------------------------------------------ laws

    function testFuzz_addAndMulCommute(uint32 a, uint32 b) public view {
        eq(f32.add(a, b), f32.add(b, a), "a + b");
        eq(f32.mul(a, b), f32.mul(b, a), "a b");
    }

    function testFuzz_signsPassThrough(uint32 a, uint32 b) public view {
        eq(f32.mul(f32.neg(a), b), f32.neg(f32.mul(a, b)), "(-a) b");
        eq(f32.div(a, f32.neg(b)), f32.neg(f32.div(a, b)), "a / -b");
        uint256 sum = f32.add(a, b);
        uint256 other = f32.add(f32.neg(a), f32.neg(b));
        if (!f32.eq(sum, 0)) eq(other, f32.neg(sum), "-a + -b");
    }

    function testFuzz_whatUndoesItself(uint32 a) public view {
        bool finite = f32.lt(a & 0x7FFFFFFF, INF);
        eq(f32.sub(a, a), finite ? 0 : NAN, "a - a");
        eq(f32.div(a, a), finite && a & 0x7FFFFFFF != 0 ? ONE : NAN, "a / a");
        uint256 same = _isNan(a) ? NAN : a;
        eq(f32.add(a, MINUS), same, "a + -0");
        eq(f32.mul(a, ONE), same, "a * 1");
        eq(f32.div(a, ONE), same, "a / 1");
    }

    function testFuzz_fmaIsTheOthersWhereATermIsNeutral(uint32 a, uint32 b) public view {
        eq(f32.fma(a, b, MINUS), f32.mul(a, b), "a b + -0");
        eq(f32.fma(a, ONE, b), f32.add(a, b), "a 1 + b");
        eq(f32.fma(ONE, a, b), f32.add(a, b), "1 a + b");
    }

    /// @dev The error of a product is a number, unless it is too small: fma finds it exactly.
    function testFuzz_fmaFindsTheErrorOfAProduct(uint32 a, uint32 b) public view {
        uint256 x = (a & 0x807FFFFF) | (64 + (uint256(a) >> 24) % 128) << 23;
        uint256 y = (b & 0x807FFFFF) | (110 + (uint256(b) >> 24) % 32) << 23;
        uint256 product = f32.mul(x, y);
        uint256 rest = f32.fma(x, y, f32.neg(product));
        uint256 exact = ((x & 0x7FFFFF) | 0x800000) * ((y & 0x7FFFFF) | 0x800000);
        yes((rest & 0x7FFFFFFF == 0) == (exact % (exact < 1 << 47 ? 1 << 23 : 1 << 24) == 0), "exact or not");
        eq(f32.add(product, rest), product, "and below half of the last place");
    }

    function testFuzz_squaresOfShortNumbersHaveTheirRoots(uint32 a) public view {
        // 12 significant bits: the square is exact. Exponents 2^-62 to 2^63.
        uint256 x = (a & 0x007FF000) | (65 + (uint256(a) >> 24) % 125) << 23;
        eq(f32.sqrt(f32.mul(x, x)), x, "sqrt(x x)");
    }

    function testFuzz_rootIsTheNearest(uint32 a) public view {
        // In units of 2^-149 and of its root: (r - 1/2)^2 < a < (r + 1/2)^2, all of it times 2^k.
        uint256 x = bound(a, 1, INF - 1);
        uint256 r = f32.sqrt(x);
        (uint256 m, uint256 e) = _parts(x);
        (uint256 n, uint256 h) = _parts(r);
        // x = m 2^(e - 149), r = n 2^(h - 149): compare m 2^(e + 149 + 2) with ((2 n +- 1) 2^h)^2.
        uint256 shift = e + 151 - 2 * h;
        yes((2 * n - 1) ** 2 < m << shift && m << shift < (2 * n + 1) ** 2, "nearest");
    }

    function testFuzz_orderIsOfNumbers(uint32 a, uint32 b) public view {
        bool unordered = _isNan(a) || _isNan(b);
        yes(f32.le(a, b) == (f32.lt(a, b) || f32.eq(a, b)), "le");
        yes(unordered || f32.le(a, b) == !f32.lt(b, a), "le and gt");
        uint256 difference = f32.sub(b, a);
        yes(f32.lt(a, b) == f32.lt(0, difference), "lt and the sign of b - a");
        uint256 highest = f32.maximum(a, b);
        uint256 lowest = f32.neg(f32.maximum(f32.neg(a), f32.neg(b)));
        eq(f32.minimum(a, b), lowest, "minimum by maximum");
        yes(unordered || f32.key(highest) >= f32.key(lowest), "maximum and minimum");
    }

    function testFuzz_integersComeBack(int32 x) public view {
        uint256 bits = uint256(int256(x >> 7)) & type(uint64).max;
        eq(f32.f32ToI64(f32.i64ToF32(bits)), bits, "25 bits with the sign");
    }

    function testFuzz_binary64HoldsBinary32(uint32 a) public view {
        eq(f64.f64ToF32(f64.f32ToF64(a)), _isNan(a) ? NAN : a, "there and back");
    }

    /// @dev m 2^(e - 149), positive.
    function _parts(uint256 x) private pure returns (uint256 m, uint256 e) {
        e = x >> 23;
        return e == 0 ? (x, 0) : ((x & 0x7FFFFF) | 0x800000, e - 1);
    }

    function _isNan(uint256 a) private pure returns (bool) {
        return a & 0x7FFFFFFF > INF;
    }
}
