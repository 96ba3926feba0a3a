"""Rational numbers on grid(b), with integers only, and the rule that decides one element.

A number is num / den * 2^exponent. A whole decision uses one den and one exponent, so it costs a few divisions of
integers of some hundred bits. `exact.py` is the readable version, with fractions.
"""

from __future__ import annotations

import math
import struct
from enum import IntEnum
from typing import NamedTuple

from ..params import MAX_BITS
from .entries import WRITTEN
from .primitives import DOWN, NOT_LOGGED, UP, largest

UNIT = 298  # every product of two binary32 values is a multiple of 2^-298
_MIN_EXPONENT = -126


class Toward(IntEnum):
    """Rounding of a number between two values of the grid."""

    BELOW = DOWN
    NEAREST = NOT_LOGGED  # ties to even
    ABOVE = UP


class Ball(NamedTuple):
    """exact = num / den * 2^exponent and its canonical radius, radius / den * 2^exponent."""

    num: int
    radius: int
    den: int
    exponent: int


def to_grid(num: int, den: int, exponent: int, b: int, toward: Toward) -> float:
    """Round num / den * 2^exponent to grid(b), which has both infinities: below the lowest finite value lies -inf.

    A zero is +0. den > 0.
    """
    size = abs(num)
    if not size:
        return 0.0
    e = size.bit_length() - den.bit_length()  # exponent of the quotient: this, or one less
    if (size << -e if e < 0 else size) < (den << e if e > 0 else den):
        e -= 1
    place = max(e + exponent, _MIN_EXPONENT) - (b - 9)  # the quantum is 2^place
    shift = exponent - place
    if shift >= 0:
        whole, rest, unit = *divmod(size << shift, den), den
    else:
        whole, rest, unit = *divmod(size, den << -shift), den << -shift
    outward = toward == (Toward.ABOVE if num > 0 else Toward.BELOW)
    if toward == Toward.NEAREST:
        whole += 2 * rest > unit or (2 * rest == unit and whole & 1)
    elif outward and rest:
        whole += 1
    if e + exponent > 127 or math.ldexp(whole, place) > largest(b):
        y = math.inf if outward or toward == Toward.NEAREST else largest(b)
    else:
        y = math.ldexp(whole, place)
    return -y + 0.0 if num < 0 else y


def decide(ball: Ball, kind: int, value: float, b: int) -> float:
    """Return the truth of an element: the value of its entry if admissible, else the nearest value of the grid.

    Admissible is a value of the grid, neither NaN nor -0, between the roundings of both ends of the ball.
    """
    num, radius, den, exponent = ball
    nearest = to_grid(num, den, exponent, b, Toward.NEAREST)
    if kind == NOT_LOGGED:
        return nearest
    if kind == WRITTEN:
        if not on_grid(value, b):
            return nearest
    else:
        value = to_grid(num, den, exponent, b, Toward(kind))
    # NOTE: nearest lies between both ends, so only the end on the value's side is checked.
    if value < nearest:
        return value if to_grid(num - radius, den, exponent, b, Toward.NEAREST) <= value else nearest
    if value > nearest:
        return value if to_grid(num + radius, den, exponent, b, Toward.NEAREST) >= value else nearest
    return nearest


def on_grid(value: float, b: int) -> bool:
    """Return whether a wide entry may have this binary32 value. It may be infinite, not NaN or -0."""
    if math.isnan(value) or (not value and math.copysign(1.0, value) < 0):
        return False
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return not bits & ((1 << (MAX_BITS - b)) - 1)
