"""Scalar rules of binary32, vectorised: fused multiply-add, and the one total order that every maximum uses."""

from __future__ import annotations

import numpy as np

from ..tensors import Array

MINUS_ZERO = np.float32(-0.0)
MINUS_INF = np.float32(-np.inf)


def fma(a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c, rounded once to binary32 (fusedMultiplyAdd of IEEE 754-2019, section 5.4.1).

    1. The product of two 24-bit significands has 48 bits: exact in binary64, far from its exponent limits.
    2. `s + e == p + c` exactly (TwoSum, Knuth; no overflow, and e is a multiple of 2^-298, so no underflow).
    3. If e is not zero, s becomes the one of the two neighbours enclosing the true sum whose last bit is ODD. An odd
    value is neither a binary32 value nor a midpoint of two (53 >= 24 + 2 bits), and it is on the same side of all of
    them as the true sum. So rounding it to binary32 rounds the true sum (round to odd).
    """
    p = a.astype(np.float64) * b.astype(np.float64)
    c64 = c.astype(np.float64)
    s = p + c64
    t = s - p
    e = (p - (s - t)) + (c64 - t)

    bits = np.ascontiguousarray(s).view(np.int64)
    inexact = np.isfinite(s) & (e != 0)
    away = (e > 0) == (s > 0)
    nudge = np.where(inexact & (bits & 1 == 0), np.where(away, 1, -1), 0)
    return (bits + nudge).view(np.float64).astype(np.float32)


def order_key(x: Array) -> Array:
    """Return an integer for each value, such that -inf < ... < -0 < +0 < ... < inf < NaN and all NaNs are equal."""
    if x.dtype == np.int64:
        return x
    bits = np.ascontiguousarray(x).view(np.int32)
    key = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return np.where(np.isnan(x), np.iinfo(np.int32).max, key).reshape(x.shape)


def larger(a: Array, b: Array) -> Array:
    """Return the larger of each pair in that order (NaN if either is NaN)."""
    return np.where(order_key(a) >= order_key(b), a, b)
