"""Operators whose output element depends on one element of each (broadcast) input.

NOTE: numpy's +, -, *, / and sqrt on float32 are IEEE operations, and its +, - and * on int64 wrap. Nothing else of
numpy's arithmetic is relied on.
"""

from __future__ import annotations

import numpy as np

from ..opset import BF16, BOOL, F32, Dtype
from ..tensors import CANONICAL_BF16_NAN, NUMPY_DTYPE, Array
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
    if dtype == BF16:
        return x if x.dtype == NUMPY_DTYPE[BF16] else to_bf16(x)
    if x.dtype == NUMPY_DTYPE[BF16]:
        return from_bf16(x)
    if dtype == BOOL:
        return np.not_equal(x, 0)  # NaN is not zero, so it becomes true
    if dtype == F32 or x.dtype != np.float32:
        return x.astype(NUMPY_DTYPE[dtype])
    # f32 -> i64 truncates; NaN gives 0; values out of range saturate. 2^63 is a binary32 value, 2^63 - 1 is not.
    inside = (x >= -(2.0**63)) & (x < 2.0**63)
    truncated = np.where(inside, x, 0).astype(np.int64)
    limits = np.iinfo(np.int64)
    return np.where(x >= 2.0**63, limits.max, np.where(x < -(2.0**63), limits.min, truncated))


def from_bf16(x: Array) -> Array:
    """Return the same values as f32: 16 zero bits follow."""
    bits = np.ascontiguousarray(x).view(np.uint16).astype(np.uint32)
    return np.asarray(bits << 16).view(np.float32).reshape(x.shape)


def to_bf16(x: Array) -> Array:
    """Round f32 to bf16: to nearest, ties to even.

    The upper half of the bits is the value rounded towards zero, also of a subnormal. Adding half a unit of its last
    place, less one in the last place of f32 if it is even, carries into it where the value must be rounded up; a carry
    out of the largest finite value gives infinity.
    """
    bits = np.ascontiguousarray(x).view(np.uint32)
    return _upper_half(x, bits + (np.uint32(0x7FFF) + (bits >> 16 & 1)))


def cast_stochastic(a: Array, r: Array) -> Array:
    """Add the low 16 bits of r to the bits of a, and take the upper half. NaN and infinities stay."""
    a, r = np.broadcast_arrays(a, r)
    bits = np.ascontiguousarray(a).view(np.uint32)
    return _upper_half(a, np.where(np.isinf(a), bits, bits + (r & 0xFFFF).astype(np.uint32)))


def _upper_half(x: Array, bits: Array) -> Array:
    found = np.where(np.isnan(x), np.uint16(CANONICAL_BF16_NAN), np.asarray(bits >> 16, np.uint16))
    return found.view(NUMPY_DTYPE[BF16]).reshape(x.shape)
