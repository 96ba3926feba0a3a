"""exp and log, correctly rounded: decimal arithmetic at growing precision until the rounding is certain.

It ends because exp(x) for rational x != 0 and log(x) for rational x != 1 are irrational: never on a binary32
value nor half-way between two, so a narrow enough interval around them has one rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

from ..tensors import Array

LARGEST = Fraction((2**24 - 1) * 2**104)
SMALLEST = Fraction(1, 2**149)


def round_to_f32(q: Fraction) -> float:
    """A non-zero rational to the nearest binary32, ties to even."""
    size = abs(q)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    quantum = max(Fraction(2) ** (exponent - 23), SMALLEST)
    rounded = round(size / quantum) * quantum  # round() of a Fraction is to nearest even
    return math.copysign(math.inf if rounded > LARGEST else float(rounded), q)


def _certain(function: Callable[[Context], Decimal]) -> float:
    """Round a value given by `function`, which is correct to half a unit in the last digit of its context."""
    digits = 24
    while True:
        context = Context(prec=digits, Emin=-999999, Emax=999999)
        value = Fraction(function(context))
        error = abs(value) / Fraction(10) ** (digits - 1)
        low, high = round_to_f32(value - error), round_to_f32(value + error)
        if low == high:
            return low
        digits *= 2


def _exp(x: float) -> float:
    if math.isnan(x) or x == math.inf:
        return x
    if x == 0:
        return 1.0
    if x > 89:  # exp(89) > 2^128
        return math.inf
    if x < -104:  # exp(-104) < 2^-150, half of the smallest subnormal
        return 0.0
    return _certain(lambda context: context.exp(Decimal(x)))


def _log(x: float) -> float:
    if math.isnan(x) or x == math.inf:
        return x
    if x < 0:
        return math.nan
    if x == 0:
        return -math.inf
    if x == 1:
        return 0.0
    return _certain(lambda context: context.ln(Decimal(x)))


def _each(function: Callable[[float], float], x: Array) -> Array:
    values = [function(value) for value in x.ravel().tolist()]
    return np.array(values, dtype=np.float32).reshape(x.shape)


def exp(x: Array) -> Array:
    return _each(_exp, x)


def log(x: Array) -> Array:
    return _each(_log, x)
