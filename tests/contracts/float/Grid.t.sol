// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Base} from "../Base.t.sol";
import {Convert} from "contracts/float/Convert.sol";
import {Ball, Entry, Grid} from "contracts/float/Grid.sol";
import {Kulisch, Sum} from "contracts/float/Kulisch.sol";

/// @notice Decisions, by examples for readers and by laws. Against referee_py: tests/twins/float/test_grid.py.
contract GridTest is Base {
    using Kulisch for Sum;

    uint256 private constant ONE = 0x3f800000;
    uint256 private constant TWO = 0x40000000;
    uint256 private constant LARGEST = 0x7f7fffff;
    uint256 private constant INFINITE = 0x7f800000;
    uint256 private constant SIGN = 0x80000000;

    function decide(Ball calldata ball, Entry calldata entry, uint256 b) external pure returns (uint256) {
        return Grid.decide(ball, entry, b);
    }

    function decideBracket(int256 lo, int256 hi, int256 exponent, Entry calldata entry, uint256 b)
        external
        pure
        returns (uint256)
    {
        return Grid.decideBracket(lo, hi, exponent, entry, b);
    }

    function gamma(uint256 n) external pure {
        Grid.gamma(n, false);
    }

    function roundBits64(uint256 bits, uint256 b) external pure {
        Grid.roundBits64(bits, b);
    }

    function _value(uint256 bits) private pure returns (Sum memory) {
        return Kulisch.product(bits, ONE);
    }

    /// @dev Returns a sum and a radius, in units.
    function _ball(Sum memory sum, Sum memory radius) private pure returns (Ball memory) {
        return Ball(sum, radius, 1, 1);
    }

    function _none() private pure returns (Entry memory) {
        return Entry(Grid.NEAREST, 0);
    }

    // ------------------------------------------------------------------ entries

    /// @dev 1 + 2^-24 is half-way between 1 and its neighbour. One unit above it, the neighbour is nearer.
    function test_anEntryCountsNearAMidpoint() public pure {
        Sum memory sum = _value(ONE).addProduct(0x33800000, ONE).addProduct(1, 1);
        Sum memory touching = Sum(0, 0, 1);
        Entry memory down = Entry(Grid.DOWN, 0);
        Entry memory written = Entry(Grid.WRITTEN, uint32(ONE));
        eq(Grid.decide(_ball(sum, touching), _none(), 32), ONE + 1, "nearest");
        eq(Grid.decide(_ball(sum, touching), Entry(Grid.UP, 0), 32), ONE + 1, "up is the same");
        eq(Grid.decide(_ball(sum, touching), down, 32), ONE, "down: the end is a tie, which goes to 1");
        eq(Grid.decide(_ball(sum, touching), written, 32), ONE, "the value itself");
        eq(Grid.decide(_ball(sum, Sum(0, 0, 0)), down, 32), ONE + 1, "no radius: ignored");
        eq(Grid.decide(_ball(sum.addProduct(1, 1), touching), down, 32), ONE + 1, "further away: ignored");
    }

    function test_valuesThatNoEntryMayHave() public pure {
        // Everything from 0 to 2 is admissible around 1.
        Ball memory ball = _ball(_value(ONE), _value(ONE));
        uint256[4] memory values = [uint256(0x7fc00000), SIGN, ONE + 1, 0x40400000];
        for (uint256 i = 0; i < 4; ++i) {
            eq(Grid.decide(ball, Entry(Grid.WRITTEN, uint32(values[i])), 31), ONE, "ignored");
        }
        eq(Grid.decide(ball, Entry(Grid.WRITTEN, 0), 31), 0, "+0 is one");
        eq(Grid.decide(ball, Entry(Grid.WRITTEN, uint32(ONE + 2)), 31), ONE + 2, "a value of the grid");
    }

    function test_overflow() public pure {
        // Half a quantum above the largest value.
        Sum memory edge = _value(LARGEST).addProduct(0x73000000, ONE);
        Sum memory below = edge.add(Sum(0, 0, 1).negate());
        eq(Grid.toGrid(edge, 32, Grid.NEAREST), INFINITE, "a tie goes to infinity");
        eq(Grid.toGrid(below, 32, Grid.NEAREST), LARGEST, "just below it does not");
        eq(Grid.toGrid(edge.times(1 << 40), 32, Grid.DOWN), LARGEST, "down from far above");
        eq(Grid.toGrid(edge.times(1 << 40).negate(), 26, Grid.UP), 0xff7fffc0, "up from far below");
        Ball memory ball = _ball(below, Sum(0, 0, 1));
        eq(Grid.decide(ball, Entry(Grid.UP, 0), 32), INFINITE, "up to infinity");
        eq(Grid.decide(ball, Entry(Grid.WRITTEN, uint32(INFINITE)), 32), INFINITE, "infinity is a value");
        ball.sum = below.negate();
        eq(Grid.decide(ball, Entry(Grid.DOWN, 0), 32), INFINITE | SIGN, "down to minus infinity");
    }

    function test_whatIsNotFiniteIsNotRounded() public pure {
        uint256[3] memory words = [Kulisch.INFINITY, Kulisch.NEGATIVE_INFINITY, Kulisch.NAN];
        uint256[3] memory values = [INFINITE, INFINITE | SIGN, Grid.QUIET_NAN];
        for (uint256 i = 0; i < 3; ++i) {
            for (uint256 toward = 0; toward < 3; ++toward) {
                eq(Grid.toGrid(Sum(words[i], 0, 0), 32, toward), values[i], "the value itself");
            }
        }
    }

    function test_zeroHasNoSign() public pure {
        Sum memory crumb = Kulisch.product(1 | SIGN, 1);
        eq(Grid.toGrid(crumb, 32, Grid.NEAREST), 0, "nearest");
        eq(Grid.toGrid(crumb, 32, Grid.UP), 0, "up");
        eq(Grid.toGrid(crumb, 32, Grid.DOWN), 1 | SIGN, "down is the lowest subnormal");
        eq(Grid.toGrid(crumb, 26, Grid.DOWN), 64 | SIGN, "of the grid");
        eq(Grid.roundBits64(1 << 63 | 1, 32), SIGN, "a binary64 keeps its sign");
    }

    // ------------------------------------------------------------------ brackets

    function test_aBracketNextToAMidpoint() public pure {
        // The exact value is just above 1 + 2^-24: its lower end is below that, and may round to 1.
        int256 lo = (1 << 120) + (1 << 96);
        eq(Grid.decideBracket(lo, lo + 1, -120, _none(), 32), ONE + 1, "above the midpoint");
        eq(Grid.decideBracket(lo, lo + 1, -120, Entry(Grid.DOWN, 0), 32), ONE, "down counts");
        eq(Grid.decideBracket(lo - 1, lo, -120, _none(), 32), ONE, "below the midpoint");
        eq(Grid.decideBracket(-lo, 1 - lo, -120, _none(), 32), ONE | SIGN, "the same below zero");
        eq(Grid.decideBracket(lo, lo, -120, _none(), 32), ONE, "exactly a tie");
        // More than one in 2^50 above the midpoint: out of reach. (2^-100 of it is 2^20.)
        int256 far = lo + (lo >> 50) + (1 << 21);
        eq(Grid.decideBracket(far, far + 1, -120, Entry(Grid.DOWN, 0), 32), ONE + 1, "down does not count");
    }

    /// @dev 1 is the value of exp(0), and exp of the smallest subnormal exceeds it by less than any bracket shows.
    function test_aBracketAroundAValueOfTheGrid() public pure {
        int256 one = 1 << 120;
        for (uint256 kind = 0; kind < 3; ++kind) {
            eq(Grid.decideBracket(one - 1, one + 1, -120, Entry(kind, 0), 29), ONE, "whatever side it is");
        }
    }

    function test_aBracketThatDoesNotDecide() public {
        int256 lo = (1 << 120) + (1 << 96);
        refuses(Grid.Undecided.selector);
        this.decideBracket(lo - 1, lo + 1, -120, _none(), 32);
        refuses(Grid.Undecided.selector);
        int256 far = lo + (lo >> 50);
        this.decideBracket(far, far + (1 << 21), -120, Entry(Grid.DOWN, 0), 32);
    }

    // ------------------------------------------------------------------ laws

    function testFuzz_withoutRadiusNoEntryCounts(uint256[4] memory f, uint256 kind, uint32 value, uint256 b)
        public
        pure
    {
        b = bound(b, 16, 32);
        Sum memory sum = Kulisch.product(f[0] & 0xbfffffff, f[1] & 0xbfffffff)
            .addProduct(f[2] & 0xbfffffff, f[3] & 0xbfffffff);
        uint256 nearest = Grid.toGrid(sum, b, Grid.NEAREST);
        eq(Grid.decide(Ball(sum, sum.absolute(), 0, 1), _none(), b), nearest, "none");
        // At a tie the other neighbour could only be the rounding of an end; it is not, since the end is the sum.
        uint256 decided = Grid.decide(Ball(sum, sum.absolute(), 0, 1), Entry(kind % 4, value), b);
        eq(decided, nearest, "any");
    }

    function testFuzz_directionsEncloseTheSum(uint256 x, uint256 y, uint256 b) public pure {
        b = bound(b, 16, 32);
        Sum memory sum = Kulisch.product(x & 0x9fffffff, y & 0x9fffffff);
        uint256 down = Grid.toGrid(sum, b, Grid.DOWN);
        uint256 up = Grid.toGrid(sum, b, Grid.UP);
        uint256 nearest = Grid.toGrid(sum, b, Grid.NEAREST);
        yes(_value(down).compare(sum) <= 0 && sum.compare(_value(up)) <= 0, "between its neighbours");
        yes(nearest == down || nearest == up, "nearest is one of them");
        yes(Grid.isOnGrid(down, b) && Grid.isOnGrid(up, b), "both are on the grid");
        eq(Grid.toGrid(_value(down), b, Grid.UP), down, "which stays");
        eq(Grid.toGrid(sum.negate(), b, Grid.UP), down == 0 ? 0 : down ^ SIGN, "and is symmetric");
    }

    /// @dev A binary64 between 2^-126 and 2^127, taken as a sum: both round alike.
    function testFuzz_binary64IsRoundedAsASum(uint256 fraction, uint256 exponent, uint256 b) public pure {
        b = bound(b, 16, 32);
        fraction &= (1 << 52) - 1;
        exponent = bound(exponent, 1023 - 150, 1023 + 127);
        Sum memory sum = Kulisch.shifted(1 << 52 | fraction, exponent + 298 - 1075);
        eq(Grid.roundBits64(exponent << 52 | fraction, b), Grid.toGrid(sum, b, Grid.NEAREST), "nearest");
    }

    /// @dev The values of bf16 are those of grid(16): a cast, which keeps the sign of a zero, rounds like a sum.
    function testFuzz_bf16IsTheGridOf16Bits(uint32 a) public pure {
        uint256 narrow = Convert.f32ToBf16(a) << 16;
        if (narrow == SIGN) narrow = 0;
        eq(Grid.toGrid(_value(a), 16, Grid.NEAREST), narrow, "the nearest value");
        yes(narrow == Grid.QUIET_NAN || Grid.isOnGrid(narrow, 16), "which is on the grid");
    }

    // ------------------------------------------------------------------ refusals

    function test_refusals() public {
        Ball memory ball = _ball(_value(ONE), _value(ONE));
        Entry memory written = Entry(Grid.WRITTEN, uint32(TWO));
        eq(Grid.decide(ball, written, 32), TWO, "as it stands");
        refuses(Grid.BitsOutOfRange.selector);
        this.decide(ball, written, 15);
        refuses(Grid.BitsOutOfRange.selector);
        this.decideBracket(1, 2, 0, written, 33);
        refuses(Grid.BitsOutOfRange.selector);
        this.roundBits64(0, 33);
        refuses(Grid.UnknownEntry.selector);
        this.decide(ball, Entry(4, 0), 32);
        refuses(Grid.TooManyTerms.selector);
        this.gamma((1 << 31) + 1);
        ball.denominator = 0;
        refuses(Grid.NotAFraction.selector);
        this.decide(ball, written, 32);
        (ball.denominator, ball.numerator) = (1, 1 << 64);
        refuses(Grid.NotAFraction.selector);
        this.decide(ball, written, 32);
        (ball.numerator, ball.magnitude) = (1, Sum(0, 0, 1).negate());
        refuses(Grid.NotAMagnitude.selector);
        this.decide(ball, written, 32);
        ball.magnitude = Sum(Kulisch.INFINITY, 0, 0);
        refuses(Grid.NotAMagnitude.selector);
        this.decide(ball, written, 32);
        refuses(Grid.NotABracket.selector);
        this.decideBracket(2, 1, 0, written, 32);
        refuses(Grid.NotABracket.selector);
        this.decideBracket(0, 1 << 200, 0, written, 32);
        refuses(Grid.NotABracket.selector);
        this.decideBracket(0, 1, 1 << 64, written, 32);
    }
}
