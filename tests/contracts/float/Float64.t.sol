// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Arithmetic32, Arithmetic64} from "./FloatArithmetic.sol";
import {Float64} from "contracts/float/Float64.sol";

/// @notice binary64 by examples, and its relations to binary32.
contract Float64Test is Base {
    Arithmetic32 private f32 = Arithmetic32(deploy("FloatArithmetic.sol:Arithmetic32", ""));
    Arithmetic64 private f64 = Arithmetic64(deploy("FloatArithmetic.sol:Arithmetic64", ""));

    uint256 private constant NAN = Float64.NAN;
    uint256 private constant INF = Float64.INFINITY;
    uint256 private constant MINUS = Float64.SIGN;
    uint256 private constant ONE = 0x3FF0000000000000;
    uint256 private constant TWO = 0x4000000000000000;
    uint256 private constant HALF = 0x3FE0000000000000;
    uint256 private constant NORMAL = 0x0010000000000000; // 2^-1022
    uint256 private constant MAX = 0x7FEFFFFFFFFFFFFF;
    uint256 private constant HALF_ULP = 0x3CA0000000000000; // 2^-53, half a unit of the last place of 1

    // ------------------------------------------------------------------ examples

    function test_rounding() public view {
        eq(f64.add(ONE, HALF_ULP), ONE, "a tie: 1 + ulp / 2");
        eq(f64.add(ONE + 1, HALF_ULP), ONE + 2, "a tie: (1 + ulp) + ulp / 2");
        eq(f64.add(ONE, HALF_ULP + 1), ONE + 1, "a little more than ulp / 2");
        eq(f64.fma(HALF_ULP, ONE + 1, ONE), ONE + 1, "fma sees what a product would lose");
        eq(f64.fma(ONE + 1, ONE + 1, MINUS | (ONE + 2)), 0x3970000000000000, "ulp^2 = 2^-104");
        eq(f64.sqrt(TWO), 0x3FF6A09E667F3BCD, "sqrt(2)");
        eq(f64.div(ONE, 0x4008000000000000), 0x3FD5555555555555, "1 / 3");
    }

    function test_bothEnds() public view {
        eq(f64.add(MAX, 0x7C90000000000000), INF, "largest number, and half of its last place");
        eq(f64.add(MAX, 0x7C8FFFFFFFFFFFFF), MAX, "and a little less");
        eq(f64.mul(MAX, TWO), INF, "overflow");
        eq(f64.mul(NORMAL, HALF), NORMAL / 2, "subnormal product");
        eq(f64.sub(NORMAL + 1, NORMAL), 1, "subnormal difference");
        eq(f64.mul(1, HALF), 0, "2^-1075, a tie");
        eq(f64.div(1, 1), ONE, "tiny / tiny");
        eq(f64.sqrt(1), 0x1E60000000000000, "sqrt(2^-1074) = 2^-537");
    }

    function test_specialValues() public view {
        eq(f64.sub(TWO, TWO), 0, "x - x");
        eq(f64.add(MINUS, MINUS), MINUS, "-0 + -0");
        eq(f64.add(INF, MINUS | INF), NAN, "inf - inf");
        eq(f64.mul(INF, 0), NAN, "inf * 0");
        eq(f64.fma(0, MINUS, MINUS), MINUS, "0 * -0 + -0");
        eq(f64.div(ONE, MINUS), MINUS | INF, "1 / -0");
        eq(f64.div(0, 0), NAN, "0 / 0");
        eq(f64.sqrt(MINUS), MINUS, "sqrt(-0)");
        eq(f64.sqrt(MINUS | ONE), NAN, "sqrt(-1)");
        eq(f64.add(MINUS | (INF + 1), ONE), NAN, "NaN + 1");
        eq(f64.maximum(MINUS, 0), 0, "maximum(-0, 0)");
        eq(f64.minimum(0, MINUS), MINUS, "minimum(0, -0)");
        yes(f64.eq(0, MINUS) && !f64.lt(MINUS, 0) && !f64.eq(NAN, NAN), "comparisons");
    }

    // ------------------------------------------------------------------ laws

    /// @dev 53 bits are more than twice 24: a result in binary64 rounds to the one in binary32 (Figueroa, When is
    /// double rounding innocuous?, 1995).
    function testFuzz_binary32IsBinary64Rounded(uint32 a, uint32 b) public view {
        (uint256 x, uint256 y) = (f64.f32ToF64(a), f64.f32ToF64(b));
        eq(f64.f64ToF32(f64.add(x, y)), f32.add(a, b), "a + b");
        eq(f64.f64ToF32(f64.mul(x, y)), f32.mul(a, b), "a b");
        eq(f64.f64ToF32(f64.div(x, y)), f32.div(a, b), "a / b");
        eq(f64.f64ToF32(f64.sqrt(x)), f32.sqrt(a), "sqrt(a)");
        yes(f64.lt(x, y) == f32.lt(a, b) && f64.eq(x, y) == f32.eq(a, b), "comparisons");
        eq(f64.f64ToF32(f64.maximum(x, y)), f32.maximum(a, b), "maximum");
    }

    /// @dev Products of two binary32 numbers are exact in binary64, so there fma is a sum.
    function testFuzz_fmaOfExactProducts(uint32 a, uint32 b, uint64 c) public view {
        (uint256 x, uint256 y) = (f64.f32ToF64(a), f64.f32ToF64(b));
        eq(f64.fma(x, y, c), f64.add(f64.mul(x, y), c), "a b + c");
    }

    function testFuzz_addAndMulCommute(uint64 a, uint64 b) public view {
        eq(f64.add(a, b), f64.add(b, a), "a + b");
        eq(f64.mul(a, b), f64.mul(b, a), "a b");
        eq(f64.fma(a, b, MINUS), f64.mul(a, b), "a b + -0");
    }

    /// @dev Ordinary operands take the short path: exponents within 40 of one another. FloatGeneral takes all operands.
    function testFuzz_theShortWayAndTheGeneralOne(uint64 a, uint64 b, uint64 c) public view {
        (uint256 x, uint256 y, uint256 z) = (_ordinary(a), _ordinary(b), _ordinary(c));
        eq(f64.add(x, y), f64.generalAdd(x, y), "add");
        eq(f64.mul(x, y), f64.generalMul(x, y), "mul");
        eq(f64.fma(x, y, z), f64.generalFma(x, y, z), "fma");
        eq(f64.div(x, y), f64.generalDiv(x, y), "div");
        eq(f64.sqrt(x & ~MINUS), f64.generalSqrt(x & ~MINUS), "sqrt");
    }

    function testFuzz_integersComeBack(int64 i) public view {
        uint256 bits = uint256(int256(i >> 11)) & type(uint64).max;
        uint256 there = f64.i64ToF64(bits);
        unchecked {
            eq(f64.i64ToF64((0 - bits) & type(uint64).max), bits == 0 ? 0 : f64.neg(there), "-i");
        }
        // 2^52 + 2^51 makes an integer's bits the lowest ones of the sum.
        uint256 sum = f64.add(there, 0x4338000000000000);
        bool small = int256(i >> 11) < 1 << 51 && int256(i >> 11) >= -(1 << 51);
        if (small) eq(sum, uint256(0x4338000000000000 + int256(i >> 11)), "i");
    }

    function _ordinary(uint256 a) private pure returns (uint256) {
        return (a & 0x800FFFFFFFFFFFFF) | (1003 + (a >> 52) % 40) << 52;
    }
}
