"""Scalar rules of binary32, vectorised: fused multiply-add, and the one total order used by every maximum."""

from __future__ import annotations

import numpy as np

from ..tensors import Array

MINUS_ZERO = np.float32(-0.0)
MINUS_INF = np.float32(-np.inf)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once to binary32.

    1. The product of two 24-bit significands has 48 bits: exact in binary64, far from its exponent limits.
    2. `s + e == p + c` exactly (TwoSum; no overflow, and e is a multiple of 2^-298, so no underflow).
    3. If e is not zero, then of the two neighbours that enclose the true sum, s becomes the one with an ODD
       last bit. An odd value is no binary32 value and no midpoint of two (53 >= 24 + 2 bits), and it is on
       the same side of all of them as the true sum, so rounding it to binary32 is rounding the true sum.
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
    """An integer for each value such that -inf < ... < -0 < +0 < ... < inf < NaN, and all NaNs are equal."""
    if x.dtype == np.int64:
        return x
    bits = np.ascontiguousarray(x).view(np.int32)
    key = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return np.where(np.isnan(x), np.iinfo(np.int32).max, key).reshape(x.shape)


def larger(a: Array, b: Array) -> Array:
    """The larger of each pair in that order (NaN if either is)."""
    return np.where(order_key(a) >= order_key(b), a, b)
