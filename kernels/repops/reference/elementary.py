"""exp, log, log1p, tanh, erf, sin, cos and pow, correctly rounded: an interval around the true value is narrowed until
both ends round to one binary32 value (Ziv's strategy, 1991).

The loop ends because the true value is irrational, so it is never a binary32 value nor half-way between two.
Lindemann's theorem shows this for exp, log, log1p, tanh, sin and cos of a rational other than those treated before; pow
decides its exact cases before. The values of erf are not known to be irrational: the exhaustive test shows that the
loop ends for all inputs.

Intervals come from `decimal`, whose exp and ln are correctly rounded, or from sums of integers that count units of
2^-bits, each rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from ..tensors import Array

LARGEST = Fraction((2**24 - 1) * 2**104)
SMALLEST = Fraction(1, 2**149)
EXACT = Context(prec=2000)  # sums and products of a few binary32 values are exact

Interval = tuple[Fraction, Fraction]


def round_to_f32(q: Fraction) -> float:
    """Round a rational to the nearest binary32, ties to even."""
    if q == 0:
        return 0.0
    size = abs(q)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    quantum = max(Fraction(2) ** (exponent - 23), SMALLEST)
    rounded = round(size / quantum) * quantum  # round() of a Fraction rounds to nearest even
    return math.copysign(math.inf if rounded > LARGEST else float(rounded), q)


def _certain(around: Callable[[int], Interval]) -> float:
    """Round the value that `around(bits)` encloses, ever more closely as the number of bits grows."""
    bits = 80
    while True:
        low, high = map(round_to_f32, around(bits))
        if low == high:
            return low
        bits *= 2


# ------------------------------------------------------------------------------------------- exp, log and kin


def _context(bits: int) -> Context:
    return Context(prec=bits * 3 // 10, Emin=-999999, Emax=999999)


def _widened(value: Decimal, bits: int) -> Interval:
    """Return an interval around a value that is correct to one unit in the last digit of its context."""
    middle = Fraction(value)
    error = abs(middle) / Fraction(10) ** (bits * 3 // 10 - 1)
    return middle - error, middle + error


def _exp_around(x: Decimal, bits: int) -> Interval:
    return _widened(_context(bits).exp(x), bits)


def _ln_around(x: Decimal, bits: int) -> Interval:
    return _widened(_context(bits).ln(x), bits)


def _exp(x: float) -> float:
    if math.isnan(x) or x == math.inf:
        return x
    if x == 0:
        return 1.0
    if x > 89:  # exp(89) > 2^128
        return math.inf
    if x < -104:  # exp(-104) < 2^-150, half of the smallest subnormal
        return 0.0
    return _certain(lambda bits: _exp_around(Decimal(x), bits))


def _log(x: float) -> float:
    if math.isnan(x) or x == math.inf:
        return x
    if x < 0:
        return math.nan
    if x == 0:
        return -math.inf
    if x == 1:
        return 0.0
    return _certain(lambda bits: _ln_around(Decimal(x), bits))


def _log1p(x: float) -> float:
    if math.isnan(x) or x == math.inf or x == 0:
        return x
    if x < -1:
        return math.nan
    if x == -1:
        return -math.inf
    above_one = EXACT.add(Decimal(1), Decimal(x))
    return _certain(lambda bits: _ln_around(above_one, bits))


def _tanh(x: float) -> float:
    if math.isnan(x) or x == 0:
        return x
    if abs(x) > 10:  # 1 - tanh(10) < 2^-25
        return math.copysign(1.0, x)
    twice = EXACT.multiply(Decimal(2), Decimal(x))

    def around(bits: int) -> Interval:
        low, high = _exp_around(twice, bits)
        return (low - 1) / (low + 1), (high - 1) / (high + 1)  # ascending in exp(2 x)

    return _certain(around)


# --------------------------------------------------------------------------------------------- erf, sin, cos


@lru_cache
def _pi(bits: int) -> int:
    """Return pi in units of 2^-bits, within one unit, by Machin's formula 16 arctan(1/5) - 4 arctan(1/239)."""
    guard = 32

    def arctan_of_inverse(n: int) -> int:
        power, total, k = (1 << (bits + guard)) // n, 0, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power, k = power // (n * n), k + 2
        return total

    return (16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)) >> guard


def _alternating(square: int, bits: int, divisors: Callable[[int], int]) -> list[int]:
    """Return the terms t_0 = 1, t_k = -t_(k-1) square / divisors(k) in units of 2^-bits, until they vanish.

    Each term is rounded down and inherits the error of the term before. If square stands for at most 16 (is at most 16
    2^bits), the errors of all terms add up to less than 2^32 units.
    """
    terms = [1 << bits]
    while terms[-1] not in (0, -1):
        terms.append(-terms[-1] * square // (divisors(len(terms)) << bits))
    return terms


def _erf(x: float) -> float:
    if math.isnan(x) or x == 0:
        return x
    if abs(x) > 4:  # 1 - erf(4) < 2^-25
        return math.copysign(1.0, x)

    def around(bits: int) -> Interval:
        # erf(x) = 2 x / sqrt(pi) * (1 - x^2 / 3 + x^4 / (2! 5) - x^6 / (3! 7) + ...)
        bits += 64
        terms = _alternating(int(Fraction(x) ** 2 * 2**bits), bits, lambda k: k)
        total = sum(term // (2 * k + 1) for k, term in enumerate(terms))
        root = math.isqrt(_pi(2 * bits))  # sqrt(pi) in units of 2^-bits, within two
        error = 1 << 34
        ends = [Fraction(total - error, root + 2), Fraction(total + error, root - 2)]
        low, high = sorted(2 * Fraction(x) * end for end in ends)
        return low, high

    return _certain(around)


def _sin_or_cos(x: float, quadrants: int) -> float:
    """Return sin(x + quadrants pi / 2)."""

    def around(bits: int) -> Interval:
        # 2^149 x is an integer; an error in pi counts up to 2^128 times.
        bits += 320
        half_pi = _pi(bits) // 2
        k, r = divmod(int(Fraction(x) * 2**bits) + half_pi // 2, half_pi)
        r -= half_pi // 2  # x = k pi/2 + r with |r| <= pi/4
        square = r * r >> bits
        if (k + quadrants) % 2:
            value = sum(_alternating(square, bits, lambda n: (2 * n - 1) * 2 * n))
        else:
            value = r * sum(_alternating(square, bits, lambda n: 2 * n * (2 * n + 1))) >> bits
        if (k + quadrants) % 4 >= 2:
            value = -value
        return Fraction(value - (1 << 136), 1 << bits), Fraction(value + (1 << 136), 1 << bits)

    return _certain(around)


def _sin(x: float) -> float:
    if x == 0:
        return x
    return _sin_or_cos(x, 0) if math.isfinite(x) else math.nan


def _cos(x: float) -> float:
    if x == 0:
        return 1.0
    return _sin_or_cos(x, 1) if math.isfinite(x) else math.nan


# ------------------------------------------------------------------------------------------------------- pow


def _exact_power(x: Fraction, y: Fraction) -> Fraction | None:
    """Return x^y, x > 0, if it is a binary32 value or half-way between two, else None."""
    while y.denominator > 1:  # y = n / 2^k, n odd: rational only if x is a 2^k-th power
        root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
        if root * root != x:
            return None
        x, y = root, y * 2
    if x == 1:
        return x
    if min(x.numerator, x.denominator) == 1 and (x.numerator * x.denominator).bit_count() == 1:  # 2^a
        power = (x.numerator.bit_length() - x.denominator.bit_length()) * int(y)
        return Fraction(2) ** max(-200, min(power, 200))  # beyond this, it rounds to 0 or infinity anyway
    # x = m 2^a with odd m >= 3: m^16 has more than 25 bits, and m^-1 has infinitely many.
    return x ** int(y) if 0 < y < 16 else None


def _power(x: float, y: float) -> float:
    """Return x^y for finite x > 0 and finite y."""
    exact = _exact_power(Fraction(x), Fraction(y))
    if exact is not None:
        return round_to_f32(exact)
    estimate = y * math.log(x)
    if estimate > 100:
        return math.inf
    if estimate < -120:
        return 0.0

    def around(bits: int) -> Interval:
        middle = EXACT.multiply(Decimal(y), _context(bits).ln(Decimal(x)))
        error = EXACT.multiply(abs(middle), Decimal(10) ** (2 - bits * 3 // 10))
        low = _exp_around(EXACT.subtract(middle, error), bits)
        high = _exp_around(EXACT.add(middle, error), bits)
        return low[0], high[1]

    return _certain(around)


def _pow(x: float, y: float) -> float:
    """Return x^y by the cases of docs/opset.md (section 4, "pow"), in their order."""
    if y == 0 or x == 1:
        return 1.0
    if math.isnan(x) or math.isnan(y):
        return math.nan
    if math.isinf(y):
        if abs(x) == 1:
            return 1.0
        return math.inf if (abs(x) > 1) == (y > 0) else 0.0
    integer = y == math.floor(y)
    sign = math.copysign(1.0, x) if integer and y % 2 == 1 else 1.0
    if x == 0 or math.isinf(x):
        return math.copysign(math.inf if (x != 0) == (y > 0) else 0.0, sign)
    if x < 0 and not integer:
        return math.nan
    return sign * _power(abs(x), y)


# --------------------------------------------------------------------------------------------------- operators


def _each(function: Callable[..., float], *operands: Array) -> Array:
    """Apply a function to every element, or every broadcast tuple of elements, once for each distinct one."""
    broadcast = np.broadcast_arrays(*operands)
    bits = np.stack([array.ravel().view(np.uint32) for array in map(np.ascontiguousarray, broadcast)])
    distinct, where = np.unique(bits, axis=1, return_inverse=True)
    rows = zip(*(row.view(np.float32).tolist() for row in distinct), strict=True)
    results = np.array([function(*row) for row in rows], dtype=np.float32)
    return results[where].reshape(broadcast[0].shape)


exp: Callable[[Array], Array] = partial(_each, _exp)
log: Callable[[Array], Array] = partial(_each, _log)
log1p: Callable[[Array], Array] = partial(_each, _log1p)
tanh: Callable[[Array], Array] = partial(_each, _tanh)
erf: Callable[[Array], Array] = partial(_each, _erf)
sin: Callable[[Array], Array] = partial(_each, _sin)
cos: Callable[[Array], Array] = partial(_each, _cos)
pow_: Callable[[Array, Array], Array] = partial(_each, _pow)
