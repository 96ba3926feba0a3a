"""The functions of the paper (Srivastava et al. 2024, section 5.2) on whole arrays: rnd, log, rev, threshold.

    grid(b)    the binary32 values whose last 32 - b mantissa bits are zero: b - 8 significant bits, 24 to 18
    quantum    their spacing around x: 2^(max(e, -126) - (b - 9)), where 2^e <= |x| < 2^(e + 1)
    direction  0 rounded down (towards -inf), 1 not logged, 2 rounded up (towards +inf)

All arithmetic on binary64 is exact: powers of two come from the exponent field, without logarithms or decimal
exponents. Each function is a fixed sequence of array operations, the same for numpy and any tensor library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from ..program.modes import check_bits

F64 = npt.NDArray[np.float64]
U8 = npt.NDArray[np.uint8]
Bool = npt.NDArray[np.bool_]

DOWN, NOT_LOGGED, UP = 0, 1, 2
FIXED_TAU = 0.25 * 2.0**-23  # the paper's threshold without a search (section 5.1)

_BIAS = 1023
_MIN_EXPONENT = -126  # binary32 has no finer grid below 2^-126: subnormals share its quantum
_TOP = 2.0**128  # the first power of two that binary32 does not have


def check_tau(tau: float, b: int) -> None:
    """Raise InvalidInput unless tau is within half a quantum."""
    if not 0 <= tau <= 0.5 * 2.0 ** (9 - b):
        raise InvalidInput(f"tau = {tau} for b = {b}; use 0 <= tau <= 2^{8 - b}, half a quantum")


def largest(b: int) -> float:
    """Return the largest finite value of grid(b)."""
    return _TOP - 2.0 ** (136 - b)


def scale(x: F64) -> F64:
    """Return 2^max(e, -126) for 2^e <= |x| < 2^(e + 1): the paper's `exp`. Zero and binary64 subnormals give 2^-126.

    Infinity and NaN give 2^1023, the largest power of two: any finite one would do, since x / q is then x itself.
    """
    field = (x.view(np.int64) >> 52) & 0x7FF
    power: F64 = (np.clip(field, _BIAS + _MIN_EXPONENT, 2046) << 52).view(np.float64)
    return power


def quantum(x: F64, b: int) -> F64:
    """Return the spacing of grid(b), continued beyond 2^128, in the binade of x."""
    return scale(x) * 2.0 ** (9 - b)


@np.errstate(over="ignore", invalid="ignore")  # overflow is a result, a signalling NaN is a NaN
def rnd(x: F64, b: int) -> F64:
    """Round x to grid(b), to nearest, ties to even: float64 array, same shape, every element a binary32 value.

    From 2^128 - 2^(135 - b) on (half a quantum above the largest value) the result is infinite, as in IEEE-754. -0
    stays -0, and negative values that round to zero give -0. Every NaN becomes the positive quiet NaN.
    """
    x = _values(x, b)
    q = quantum(x, b)
    return _finish(np.rint(x / q) * q, b)  # NOTE: q is a power of two, so only rint rounds


def log(x: F64, b: int, tau: float) -> U8:
    """Return the direction in which each element was rounded, if it is logged (algorithm 1). uint8, same shape.

    An element is logged if it is further than ``tau * scale(x)`` from its rounded value. 2^128 follows the largest
    value, so overflow has a direction too; from 2^128 on, at infinities and at NaN nothing is logged.
    """
    x = _values(x, b)
    check_tau(tau, b)
    inside = np.abs(x) < _TOP
    x = np.where(inside, x, 0.0)
    q = quantum(x, b)
    error = np.rint(x / q) * q - x  # exact: both are multiples of x's last place, and close
    logged = np.abs(error) > scale(x) * tau
    return np.where(logged, np.where(error > 0, UP, DOWN), NOT_LOGGED).astype(np.uint8)


@np.errstate(over="ignore", invalid="ignore")
def rev(x: F64, b: int, entry: U8) -> F64:
    """Round x to grid(b) in the direction of each entry; with the own direction, or 1, the result is that of `rnd`.

    A value on the grid stays where it is under every entry.
    Raises InvalidInput for an entry above 2 or of another shape.
    """
    x = _values(x, b)
    if entry.shape != x.shape or entry.dtype != np.uint8:
        raise InvalidInput(f"entries are {entry.dtype}{entry.shape} for values of shape {x.shape}; use uint8")
    if entry.size and int(entry.max()) > UP:
        first = int(np.flatnonzero(entry.ravel() > UP)[0])
        raise InvalidInput(f"entry {first} is {int(entry.ravel()[first])}; an entry is 0, 1 or 2")
    q = quantum(x, b)
    scaled = x / q
    follow = np.where(
        entry == DOWN, np.floor(scaled), np.where(entry == UP, np.ceil(scaled), np.rint(scaled))
    )
    return _finish(follow * q, b)


def unsigned_zero(y: F64) -> F64:
    """Return y with -0 replaced by +0, the last step of every operator whose order is free.

    The order determines the sign of a zero sum, or of a small negative sum that rounds to zero, and no direction names
    that sign.
    """
    return y + 0.0


def threshold(y1: F64, y2: F64, b: int, iterations: int = 40) -> float:
    """Return the largest tau found by bisection that would have logged every recorded divergence (algorithm 4).

    ``y1`` and ``y2`` are outputs of one operator on two kinds of hardware, before rounding (any shape, the same).
    Bisects between 0.25 * 2^-23 and half a quantum, 2^(8 - b).

    Departures from the listing: the exponent is the value's, not the distance's; a distance that equals ``tau *
    scale`` fails, because `log` would not log it; the last tau that succeeded is returned, not the last one tried.

    Raises InvalidInput if two outputs round differently in a way that no direction repairs, or that the smallest tau
    misses.
    """
    y1, y2 = _values(y1, b), _values(y2, b)
    if y1.shape != y2.shape or iterations < 1:
        raise InvalidInput(
            f"shapes {y1.shape} and {y2.shape}, {iterations} iterations; use one shape, 1 or more"
        )
    r1, r2 = rnd(y1, b), rnd(y2, b)
    differ = (r1 != r2) & ~(np.isnan(r1) & np.isnan(r2))
    unrepaired = differ & ((rev(y1, b, log(y2, b, 0.0)) != r2) | (rev(y2, b, log(y1, b, 0.0)) != r1))
    if unrepaired.any():
        first = int(np.flatnonzero(unrepaired.ravel())[0])
        pair = (float(y1.ravel()[first]), float(y2.ravel()[first]))
        raise InvalidInput(
            f"element {first}: {pair[0]!r} and {pair[1]!r} diverge by more than a direction can repair at b = {b}; "
            "round to fewer bits, or use the sparse format"
        )
    distances = np.concatenate([_relative_error(y1[differ], b), _relative_error(y2[differ], b)])
    return bisected(float(distances.min()) if distances.size else np.inf, b, iterations)


def bisected(nearest: float, b: int, iterations: int) -> float:
    """Return the threshold for divergences; `nearest` is the least distance from a rounded value, in its exponent.

    Raises InvalidInput if the smallest tau misses it.
    """
    low, high = FIXED_TAU, 0.5 * 2.0 ** (9 - b)
    if nearest <= low:
        raise InvalidInput(
            f"a divergence lies {nearest} (of its exponent) from its rounded value, not above the smallest tau, {low}; "
            "round to fewer bits, or use the sparse format"
        )
    for _ in range(iterations):
        middle = (low + high) / 2
        low, high = (middle, high) if nearest > middle else (low, middle)
    return low


def _relative_error(y: F64, b: int) -> F64:
    """Return |y - rnd(y)| in units of the exponent, with 2^128 in the place of infinity."""
    q = quantum(y, b)
    return np.abs(np.rint(y / q) * q - y) / scale(y)


def _values(x: Any, b: int) -> F64:
    check_bits(b)
    array = np.asarray(x)
    if array.dtype != np.float64:
        raise InvalidInput(f"values are {array.dtype}; rounding starts from float64")
    return np.ascontiguousarray(array).reshape(array.shape)  # NOTE: the reshape keeps a scalar a scalar


def _finish(y: F64, b: int) -> F64:
    y = np.where(np.abs(y) > largest(b), np.copysign(np.inf, y), y)
    return np.where(np.isnan(y), np.nan, y)
