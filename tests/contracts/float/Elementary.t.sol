// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {ElementaryBatch} from "./ElementaryBatch.sol";
import {Elementary} from "contracts/float/Elementary.sol";
import {ElementaryBracket} from "contracts/float/ElementaryBracket.sol";

/// @notice The tables of docs/opset.md, section 4, refusals, and the one place where brackets are rounded. All other
/// values are compared with other implementations in tests/twins/float/test_elementary.py.
contract ElementaryTest is Base {
    uint256 private constant MINUS = 0x80000000;
    uint256 private constant INF = 0x7F800000;
    uint256 private constant NAN = 0x7FC00000;
    uint256 private constant ONE = 0x3F800000;
    uint256 private constant TWO = 0x40000000;

    ElementaryBatch private functions = new ElementaryBatch();

    // ------------------------------------------------------------------ tables

    function _is(uint256 operator, uint256 a, uint256 want) private view {
        eq(functions.value(operator, a, 0), want, vm.toString(a));
    }

    /// @dev Checks the values at +0, -0, +inf, -inf; NaN for every NaN.
    function _ends(uint256 operator, uint256[4] memory want) private view {
        uint256[4] memory ends = [uint256(0), MINUS, INF, MINUS | INF];
        for (uint256 i = 0; i < 4; ++i) {
            _is(operator, ends[i], want[i]);
        }
        _is(operator, NAN, NAN);
        _is(operator, INF + 1, NAN);
        _is(operator, type(uint32).max, NAN);
    }

    function test_tables() public view {
        _ends(Elementary.EXP, [ONE, ONE, INF, 0]);
        _ends(Elementary.LOG, [MINUS | INF, MINUS | INF, INF, NAN]);
        _ends(Elementary.ERF, [0, MINUS, ONE, MINUS | ONE]);
        _ends(Elementary.TANH, [0, MINUS, ONE, MINUS | ONE]);
        _ends(Elementary.SIN, [0, MINUS, NAN, NAN]);
        _ends(Elementary.COS, [ONE, ONE, NAN, NAN]);
        _ends(Elementary.LOG1P, [0, MINUS, INF, NAN]);
    }

    function test_logarithmsAtTheEndOfTheirDomain() public view {
        _is(Elementary.LOG, ONE, 0);
        _is(Elementary.LOG, MINUS | 1, NAN);
        _is(Elementary.LOG1P, MINUS | ONE, MINUS | INF);
        _is(Elementary.LOG1P, (MINUS | ONE) + 1, NAN);
    }

    function _power(uint256 a, uint256 b, uint256 want) private view {
        eq(
            functions.value(Elementary.POW, a, b),
            want,
            string.concat(vm.toString(a), " to the ", vm.toString(b))
        );
    }

    function test_pow() public view {
        uint256 half = 0x3F000000;
        uint256 three = 0x40400000;
        _power(NAN, 0, ONE);
        _power(INF, MINUS, ONE);
        _power(ONE, NAN, ONE);
        _power(NAN, ONE, NAN);
        _power(TWO, NAN, NAN);
        _power(MINUS | ONE, INF, ONE);
        _power(MINUS | ONE, half, NAN);
        _power(MINUS | ONE, three, MINUS | ONE);
        _power(MINUS | half, MINUS | INF, INF);
        _power(half, INF, 0);
        _power(TWO, MINUS | INF, 0);
        _power(MINUS | TWO, INF, INF);
        _power(MINUS, MINUS | three, MINUS | INF);
        _power(MINUS, MINUS | TWO, INF);
        _power(MINUS, three, MINUS);
        _power(MINUS, half, 0);
        _power(INF, MINUS | half, 0);
        _power(MINUS | INF, three, MINUS | INF);
        _power(MINUS | INF, MINUS | three, MINUS);
        _power(MINUS | INF, half, INF);
        _power(MINUS | TWO, half, NAN);
        _power(MINUS | TWO, three, MINUS | 0x41000000);
        _power(MINUS | TWO, TWO, 0x40800000);
    }

    // ------------------------------------------------------------------ refusals

    function test_refusesOtherOperators() public {
        refuses(Elementary.NotElementary.selector);
        functions.value(8, ONE, 0);
        refuses(Elementary.NotElementary.selector);
        functions.bracket(18, ONE, 0);
        // In repops-f32 rsqrt is two rounded operations.
        refuses(Elementary.NotElementary.selector);
        functions.value(Elementary.RSQRT, ONE, 0);
        (uint256 low,,,) = functions.bracket(Elementary.RSQRT, TWO, 0);
        yes(low != 0, "but it has a bracket");
    }

    function test_refusesWhatIsNoBinary32() public {
        refuses(Elementary.NotBinary32.selector);
        functions.value(Elementary.EXP, 1 << 32, 0);
        refuses(Elementary.NotBinary32.selector);
        functions.bracket(Elementary.POW, ONE, 1 << 32);
    }

    // ------------------------------------------------------------------ rounding

    function round(uint256 low, uint256 high, int256 exponent, uint256 sign) external pure returns (uint256) {
        return ElementaryBracket.toBinary32(low, high, exponent, sign);
    }

    function _rounds(uint256 low, uint256 high, int256 exponent, uint256 want, string memory what)
        private
        pure
    {
        eq(ElementaryBracket.toBinary32(low, high, exponent, 0), want, what);
        eq(ElementaryBracket.toBinary32(low, high, exponent, MINUS), MINUS | want, what);
    }

    /// @dev With 128 places: 1 + 2^-24 is the midpoint above 1, 1 - 2^-25 that below.
    function test_rounding() public {
        uint256 one = 1 << 128;
        uint256 above = one + (1 << 104);
        _rounds(above, above, -128, ONE, "a tie goes to even");
        _rounds(above + (1 << 105), above + (1 << 105), -128, ONE + 2, "the next one too");
        _rounds(above, above + 1, -128, ONE + 1, "just above a midpoint");
        _rounds(above - 1, above, -128, ONE, "just below a midpoint");
        _rounds(one - (1 << 103), one - (1 << 103) + 1, -128, ONE, "carried into the exponent");
        _rounds(one - (1 << 103) - 1, one - (1 << 103), -128, ONE - 1, "not carried");
        _rounds(one - 1, one + 1, -128, ONE, "around a power of two");
        refuses(ElementaryBracket.Undecided.selector);
        this.round(above - 1, above + 1, -128, 0);
    }

    function test_roundingAtTheEnds() public {
        uint256 one = 1 << 128;
        _rounds(one, one, -277, 1, "the smallest subnormal");
        _rounds(one, one, -278, 0, "half of it");
        _rounds(one, one + 1, -278, 1, "more than half of it");
        _rounds(3 * one, 3 * one, -278, 2, "a tie between subnormals");
        _rounds(one - 1, one, -254, 0x800000, "the smallest normal");
        _rounds(one, one + 1, -2000, 0, "far below");
        _rounds(one - (1 << 103), one, 0, INF, "from the overflow midpoint on");
        _rounds(one - (1 << 103) - 1, one - (1 << 103), 0, INF - 1, "below it");
        _rounds(one, one + 1, 2000, INF, "far above");
        refuses(ElementaryBracket.Undecided.selector);
        this.round(one - 1, one + 1, -278, 0);
    }

    function test_fuzz_roundingAnExactValueGivesIt(uint256 bits) public pure {
        bits = bits % INF;
        if (bits == 0) return;
        (uint256 m, int256 e) = ElementaryBracket.unpack(bits);
        _rounds(m << 100, m << 100, e - 100, bits, "exactly");
        _rounds((m << 100) - 1, (m << 100) + 1, e - 100, bits, "nearly");
    }
}
