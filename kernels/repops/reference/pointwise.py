"""Operators whose output element depends on one element of each (broadcast) input.

NOTE: numpy's +, -, *, / and sqrt on float32 are IEEE operations, and its +, - and * on int64 wrap. Nothing else of
numpy's arithmetic is relied on.
"""

from __future__ import annotations

import numpy as np

from ..opset import BOOL, F32, Dtype
from ..tensors import NUMPY_DTYPE, Array
from .arithmetic import larger

ONE = np.float32(1)


def rsqrt(x: Array) -> Array:
    """Return 1 / sqrt(x) with two roundings: the square root, then the quotient."""
    root: Array = np.sqrt(x)
    return ONE / root


def maximum(a: Array, b: Array) -> Array:
    return larger(*np.broadcast_arrays(a, b))


def minimum(a: Array, b: Array) -> Array:
    """Mirror maximum. A NaN wins here too, as the negation of a NaN is a NaN."""
    return -maximum(-a, -b)


def where(cond: Array, a: Array, b: Array) -> Array:
    return np.where(cond, a, b)


def cast(x: Array, dtype: Dtype) -> Array:
    if dtype == BOOL:
        return np.not_equal(x, 0)  # NaN is not zero, so it becomes true
    if dtype == F32 or x.dtype != np.float32:
        return x.astype(NUMPY_DTYPE[dtype])
    # f32 -> i64 truncates; NaN gives 0; values out of range saturate. 2^63 is a binary32 value, 2^63 - 1 is not.
    inside = (x >= -(2.0**63)) & (x < 2.0**63)
    truncated = np.where(inside, x, 0).astype(np.int64)
    limits = np.iinfo(np.int64)
    return np.where(x >= 2.0**63, limits.max, np.where(x < -(2.0**63), limits.min, truncated))
