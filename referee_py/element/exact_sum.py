"""Exact sums of products of two binary32 values: the twin of contracts/float/Kulisch.sol.

A sum is an integer in units of 2^-298, or one of three integers beyond every sum. Its encoding is 96 bytes, big-endian,
two's complement; equal sums have equal bytes.
"""

from __future__ import annotations

import math

from ..errors import InvalidInput
from ..rounding.grid import UNIT
from . import scalar

NBYTES = 96
INFINITE = 1 << 766
NAN = -(1 << 767)
_LIMIT = 1 << 585  # 2^31 products are below it
_SPECIAL = (INFINITE, -INFINITE, NAN)


def product(a: int, b: int) -> int:
    """Multiply the bits of two binary32 values exactly. Infinity and NaN follow IEEE-754: 0 * infinity is NaN."""
    value = scalar.to_float(a) * scalar.to_float(b)  # exact: 24 + 24 bits fit in 53
    if math.isfinite(value):
        return int(math.ldexp(value, UNIT))
    return NAN if math.isnan(value) else INFINITE if value > 0 else -INFINITE


def add(a: int, b: int) -> int:
    """Return the sum; infinity + finite = infinity, infinity - infinity = NaN."""
    if is_finite(a) and is_finite(b):
        return a + b
    if is_finite(a) or is_finite(b):
        return b if is_finite(a) else a
    return a if a == b else NAN


def absolute(a: int) -> int:
    return a if a == NAN else abs(a)


def is_finite(a: int) -> bool:
    return a not in _SPECIAL


def encode(a: int) -> bytes:
    return a.to_bytes(NBYTES, "big", signed=True)


def decode(data: bytes) -> int:
    """Decode a sum. Raises InvalidInput for a value that 2^31 products cannot add up to."""
    found = int.from_bytes(data, "big", signed=True)
    if len(data) != NBYTES or (is_finite(found) and not -_LIMIT <= found < _LIMIT):
        raise InvalidInput(f"{data.hex()} is not a sum of 2^31 products or fewer in {NBYTES} bytes")
    return found


def to_float(a: int) -> float:
    """Return the float of a sum that is not finite."""
    return math.nan if a == NAN else math.inf if a > 0 else -math.inf
