// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

import {Kulisch, Sum} from "./Kulisch.sol";
import {clz} from "clz/Clz.sol";

/// @notice An exact sum and its canonical radius, `magnitude * numerator / denominator`.
struct Ball {
    Sum sum;
    Sum magnitude;
    uint256 numerator;
    uint256 denominator;
}

/// @notice A rounding log's entry for an element: a kind and, if that is WRITTEN, the bits of a binary32 value.
struct Entry {
    uint256 kind;
    uint32 value;
}

/// @title Grid
/// @notice Rounding to grid(b), the binary32 values whose last `32 - b` bits are zero, b from 16 to 32; and the
/// decision of which of them an element is (docs/rounding-logs.md, sections 1, 3 and 5). As
/// referee_py/rounding/grid.py, without a division. The values of grid(16) are those of bf16.
///
/// Results are bits of binary32. Inside, values are `places`: the bits without the sign, negative if the value is.
/// Places have the order of the values. Neighbours on the grid are a `step` = 2^(32 - b) apart, both infinities are
/// among them, and the even ones, where ties go, are multiples of 2 step. Zero is +0.
library Grid {
    error BitsOutOfRange(uint256 b);
    error UnknownEntry(uint256 kind);
    /// @notice Radii are stated for at most 2^31 terms.
    error TooManyTerms(uint256 n);
    /// @notice The magnitude must be finite if the sum is, and not negative.
    error NotAMagnitude(uint256 hi);
    /// @notice The radius as a fraction of the magnitude: both must be below 2^64, the denominator not zero.
    error NotAFraction(uint256 numerator, uint256 denominator);
    /// @notice The ends must ascend and be below 2^200 in size, the exponent below 2^64.
    error NotABracket(int256 lo, int256 hi, int256 exponent);
    /// @notice Values of the bracket have different decisions; a narrower bracket is needed.
    error Undecided(int256 lo, int256 hi, int256 exponent);

    // Kinds of entries. The first three are also directions of rounding between two values of the grid.
    uint256 internal constant DOWN = 0;
    uint256 internal constant NEAREST = 1; // of an entry: there is none
    uint256 internal constant UP = 2;
    uint256 internal constant WRITTEN = 3;

    uint256 internal constant F32_BITS = 32;
    uint256 internal constant BF16_BITS = 16;

    uint256 internal constant QUIET_NAN = 0x7fc00000;
    uint256 private constant SIGN = 0x80000000;
    int256 private constant INFINITE = 0x7f800000;
    int256 private constant UNIT = 298; // sums are integers times 2^-298
    uint256 private constant MAX_TERMS = 1 << 31;

    // ------------------------------------------------------------------ radii

    /// @notice Returns the canonical radius of a sum of n terms, as a fraction of the sum of their magnitudes: with u =
    /// 2^-53, proven `(n - 1) u / (1 - (n - 1) u)`, probable `6 ceil(sqrt(n)) u` (referee_py/rounding/bounds.py). NOTE:
    /// it is 0 for `sum` and `scatter_add` if Kulisch.isAddedExactly.
    function gamma(uint256 n, bool probable) internal pure returns (uint256 numerator, uint256 denominator) {
        if (n > MAX_TERMS) revert TooManyTerms(n);
        unchecked {
            uint256 additions = n == 0 ? 0 : n - 1;
            if (!probable || additions == 0) return (additions, (1 << 53) - additions);
            return (6 * _rootAbove(n), 1 << 53);
        }
    }

    /// @dev Returns ceil(sqrt(n)), n >= 2.
    function _rootAbove(uint256 n) private pure returns (uint256 root) {
        unchecked {
            // Newton's iteration from above descends to floor(sqrt(n - 1)).
            uint256 next = 1 << (128 - clz(n - 1) / 2);
            do {
                root = next;
                next = (root + (n - 1) / root) / 2;
            } while (next < root);
            ++root;
        }
    }

    // ------------------------------------------------------------------ decisions

    /// @notice Returns the one right value of an element that is a sum: the value of its entry if that is admissible,
    /// else the nearest value of the grid. A sum that is not finite is returned as it is, for every entry.
    /// @dev Admissible is a value of the grid, neither NaN nor -0, between the roundings of both ends of the ball.
    function decide(Ball memory ball, Entry memory entry, uint256 b) internal pure returns (uint256) {
        _check(entry, b);
        if (!Kulisch.isFinite(ball.sum)) return _notFinite(ball.sum.hi);
        int256 nearest = _ofSum(ball.sum, b, NEAREST);
        int256 claimed = nearest;
        if (entry.kind == WRITTEN) {
            if (isOnGrid(entry.value, b)) claimed = _place(entry.value);
        } else if (entry.kind != NEAREST) {
            claimed = _ofSum(ball.sum, b, entry.kind);
        }
        return _bits(claimed != nearest && _reaches(ball, claimed, nearest, b) ? claimed : nearest);
    }

    /// @notice Returns the one right value of an element that is an elementary function: its exact value is strictly
    /// between `lo 2^exponent` and `hi 2^exponent`, or equal to both; its radius is |exact| 2^-50 + 2^-1022.
    function decideBracket(int256 lo, int256 hi, int256 exponent, Entry memory entry, uint256 b)
        internal
        pure
        returns (uint256)
    {
        _check(entry, b);
        if (lo > hi || lo <= -(1 << 200) || hi >= 1 << 200 || exponent >= 1 << 64 || exponent <= -(1 << 64)) {
            revert NotABracket(lo, hi, exponent);
        }
        int256 nearest = _nearestIn(lo, hi, exponent, b);
        int256 claimed = nearest;
        unchecked {
            // NOTE: a direction names a neighbour of the exact value, which is `nearest` or the next one beyond. Only
            // the latter can change the result; and where `nearest` is meant, the next one is not admissible, as the
            // radius is far below half a quantum. So the side of `nearest` on which the exact value lies does not
            // matter.
            if (entry.kind == WRITTEN) {
                if (isOnGrid(entry.value, b)) claimed = _place(entry.value);
            } else if (entry.kind == UP && nearest != INFINITE) {
                claimed += int256(_step(b));
            } else if (entry.kind == DOWN && nearest != -INFINITE) {
                claimed -= int256(_step(b));
            }
            if (claimed == nearest) return _bits(nearest);
            if (claimed > nearest) return _bits(-_lower(-hi, -lo, exponent, -claimed, -nearest, b));
            return _bits(_lower(lo, hi, exponent, claimed, nearest, b));
        }
    }

    // ------------------------------------------------------------------ rounding

    /// @notice Rounds binary64 bits to grid(b), for an element that is the result of one operation in binary64. Signs
    /// are kept, also of zeros; subnormals give a zero, every NaN gives the canonical one.
    function roundBits64(uint256 bits, uint256 b) internal pure returns (uint256) {
        _check(b);
        unchecked {
            uint256 sign = (bits >> 63 & 1) << 31;
            uint256 exponent = bits >> 52 & 0x7ff;
            uint256 fraction = bits & 0xfffffffffffff;
            if (exponent == 0) return sign;
            if (exponent == 0x7ff) return fraction == 0 ? sign | uint256(INFINITE) : QUIET_NAN;
            return sign | uint256(_rounded(1 << 52 | fraction, false, int256(exponent) - 1075, b, NEAREST));
        }
    }

    /// @notice Rounds a sum to grid(b), in the direction DOWN, NEAREST (ties to even) or UP. The grid has both
    /// infinities, which follow its largest finite values. A sum that is not finite is returned as it is.
    function toGrid(Sum memory sum, uint256 b, uint256 toward) internal pure returns (uint256) {
        _check(b);
        if (!Kulisch.isFinite(sum)) return _notFinite(sum.hi);
        return _bits(_ofSum(sum, b, toward));
    }

    /// @notice Returns whether a written entry may have this binary32 value. Infinities may; NaN and -0 may not.
    function isOnGrid(uint256 bits, uint256 b) internal pure returns (bool) {
        unchecked {
            return bits & (SIGN - 1) <= uint256(INFINITE) && bits != SIGN && bits & (_step(b) - 1) == 0;
        }
    }

    // ------------------------------------------------------------------ sums

    /// @dev Returns whether an end of the ball rounds to the claimed value, or beyond. NOTE: nearest lies between the
    /// roundings of both ends, so only the end on the side of the claimed value is tested. It rounds so if it is beyond
    /// the midpoint on the near side of this value, or is this midpoint and the value is even. Both are compared after
    /// multiplication by the denominator.
    function _reaches(Ball memory ball, int256 claimed, int256 nearest, uint256 b)
        private
        pure
        returns (bool)
    {
        Sum memory magnitude = ball.magnitude;
        if (!Kulisch.isFinite(magnitude) || Kulisch.isNegative(magnitude)) {
            revert NotAMagnitude(magnitude.hi);
        }
        if ((ball.numerator | ball.denominator) >> 64 != 0 || ball.denominator == 0) {
            revert NotAFraction(ball.numerator, ball.denominator);
        }
        unchecked {
            Sum memory sum = ball.sum;
            if (claimed > nearest) (sum, claimed) = (Kulisch.negate(sum), -claimed);
            (int256 m, int256 e) = _midpointAbove(claimed, b);
            Sum memory midpoint = Kulisch.shifted(uint256(m < 0 ? -m : m), uint256(e + UNIT));
            Sum memory distance = Kulisch.add(sum, m < 0 ? midpoint : Kulisch.negate(midpoint));
            int256 order = Kulisch.compare(
                Kulisch.times(distance, ball.denominator), Kulisch.times(magnitude, ball.numerator)
            );
            return order < 0 || (order == 0 && uint256(claimed) & _step(b) == 0);
        }
    }

    /// @dev Returns the bits of a sum that is not finite, from its high word.
    function _notFinite(uint256 hi) private pure returns (uint256) {
        if (hi == Kulisch.NAN) return QUIET_NAN;
        return hi == Kulisch.INFINITY ? uint256(INFINITE) : SIGN | uint256(INFINITE);
    }

    /// @dev Returns the place of a finite sum, from its first 256 bits and whether others follow.
    function _ofSum(Sum memory sum, uint256 b, uint256 toward) private pure returns (int256 place) {
        bool negative = Kulisch.isNegative(sum);
        Sum memory size = Kulisch.absolute(sum);
        (uint256 m, uint256 rest) = (size.hi, size.mid);
        unchecked {
            // NOTE: from 2^512 units on, which is 2^214, every sum is beyond the grid, whatever its other bits.
            int256 exponent = 512 - UNIT;
            if (m == 0) (m, rest, exponent) = (rest, size.lo, exponent - 256);
            if (m == 0) (m, rest, exponent) = (rest, 0, exponent - 256);
            // NOTE: a shift by 256 gives zero.
            uint256 zeros = clz(m);
            (m, rest) = (m << zeros | rest >> (256 - zeros), rest << zeros);
            place = _rounded(m, rest != 0, exponent - int256(zeros), b, negative ? 2 - toward : toward);
            return negative ? -place : place;
        }
    }

    // ------------------------------------------------------------------ brackets

    /// @dev Returns the place to which every value of the bracket rounds.
    function _nearestIn(int256 lo, int256 hi, int256 exponent, uint256 b)
        private
        pure
        returns (int256 place)
    {
        unchecked {
            int256 middle = lo + hi;
            uint256 size = uint256(middle < 0 ? -middle : middle);
            place = _rounded(size, false, exponent - 1, b, NEAREST);
            if (middle < 0) place = -place;
            if (lo == hi) return place;

            // NOTE: the ends are not among the values, so they may be midpoints, and their rounding does not matter.
            if (place != INFINITE) {
                (int256 m, int256 e) = _midpointAbove(place, b);
                if (_compare(hi, exponent, m, e) > 0) revert Undecided(lo, hi, exponent);
            }
            if (place != -INFINITE) {
                (int256 m, int256 e) = _midpointAbove(-place, b);
                if (_compare(-lo, exponent, m, e) > 0) revert Undecided(lo, hi, exponent);
            }
        }
    }

    /// @dev Returns the claimed place, which is below the nearest one, if the lower end rounds to it or beyond, else
    /// the nearest. The end is `x - |x| 2^-50` less 2^-1022. NOTE: the last term only keeps the end from being the
    /// midpoint: both x and the midpoint are multiples of a far larger power of two; or x is far nearer to zero than
    /// any midpoint.
    function _lower(int256 lo, int256 hi, int256 exponent, int256 claimed, int256 nearest, uint256 b)
        private
        pure
        returns (int256)
    {
        (int256 m, int256 e) = _midpointAbove(claimed, b);
        unchecked {
            if (_compare((hi << 50) - (hi < 0 ? -hi : hi), exponent - 50, m, e) <= 0) return claimed;
            if (_compare((lo << 50) - (lo < 0 ? -lo : lo), exponent - 50, m, e) > 0) return nearest;
        }
        revert Undecided(lo, hi, exponent);
    }

    /// @dev Returns -1, 0 or 1 if x 2^i is below, equal to or above y 2^j. SAFETY: x and y are below 2^255 in size.
    function _compare(int256 x, int256 i, int256 y, int256 j) private pure returns (int256) {
        int256 sign = x > 0 ? int256(1) : x < 0 ? -1 : int256(0);
        int256 other = y > 0 ? int256(1) : y < 0 ? -1 : int256(0);
        if (sign != other) return sign < other ? -1 : int256(1);
        if (sign == 0) return 0;
        unchecked {
            uint256 p = uint256(x * sign);
            uint256 q = uint256(y * sign);
            int256 top = i - int256(clz(p));
            int256 otherTop = j - int256(clz(q));
            if (top != otherTop) return top < otherTop ? -sign : sign;
            // NOTE: their first bits are at the same power of two, so the one that is shifted loses no bits.
            if (i > j) p <<= uint256(i - j);
            else q <<= uint256(j - i);
            return p == q ? int256(0) : p < q ? -sign : sign;
        }
    }

    // ------------------------------------------------------------------ places

    /// @dev Returns the place of `m 2^exponent`, or a little more if `sticky`: then m has 256 bits. UP is away from
    /// zero.
    function _rounded(uint256 m, bool sticky, int256 exponent, uint256 b, uint256 toward)
        private
        pure
        returns (int256)
    {
        if (m == 0) return 0;
        unchecked {
            int256 e = exponent + 255 - int256(clz(m)); // 2^e <= value < 2^(e + 1)
            bool inward = toward == DOWN;
            int256 largest = INFINITE - int256(_step(b));
            if (e > 127) return inward ? largest : INFINITE;
            if (e < -126) e = -126; // subnormals have the quantum of 2^-126
            int256 shift = e - int256(b - 9) - exponent; // the quantum is 2^(shift + exponent)
            uint256 whole;
            if (shift <= 0) {
                whole = m << uint256(-shift);
            } else {
                whole = m >> uint256(shift);
                uint256 rest = m ^ (whole << uint256(shift));
                if (toward == NEAREST) {
                    // Half a quantum; above 2^256 the rest is less.
                    uint256 half = shift > 256 ? type(uint256).max : 1 << uint256(shift - 1);
                    if (rest > half || (rest == half && shift <= 256 && (sticky || whole & 1 != 0))) ++whole;
                } else if (!inward && (rest != 0 || sticky)) {
                    ++whole;
                }
            }
            // NOTE: the first of b - 8 bits counts as 1 in the exponent field, and so does a carry beyond them.
            int256 place = int256((whole << (32 - b)) + (uint256(e + 126) << 23));
            return place >= INFINITE ? (inward ? largest : INFINITE) : place;
        }
    }

    /// @dev Returns the midpoint between a place and the next one above: m 2^e, e >= -150. Infinity has none.
    function _midpointAbove(int256 place, uint256 b) private pure returns (int256 m, int256 e) {
        unchecked {
            int256 step = int256(_step(b));
            bool negative = place < 0;
            (m, e) = _valueOf(negative ? -place - step : place);
            (m, e) = (2 * m + step, e - 1);
            if (negative) m = -m;
        }
    }

    /// @dev Returns m 2^e; for infinity 2^128.
    function _valueOf(int256 place) private pure returns (int256, int256) {
        unchecked {
            (uint256 m, uint256 e) = Kulisch.parts(uint256(place < 0 ? -place : place));
            return (place < 0 ? -int256(m) : int256(m), int256(e) - 149);
        }
    }

    function _place(uint256 bits) private pure returns (int256) {
        unchecked {
            int256 size = int256(bits & (SIGN - 1));
            return bits & SIGN == 0 ? size : -size;
        }
    }

    function _bits(int256 place) private pure returns (uint256) {
        unchecked {
            return place < 0 ? SIGN | uint256(-place) : uint256(place);
        }
    }

    function _step(uint256 b) private pure returns (uint256) {
        unchecked {
            return 1 << (32 - b);
        }
    }

    function _check(Entry memory entry, uint256 b) private pure {
        _check(b);
        if (entry.kind > WRITTEN) revert UnknownEntry(entry.kind);
    }

    function _check(uint256 b) private pure {
        if (b < BF16_BITS || b > F32_BITS) revert BitsOutOfRange(b);
    }
}
