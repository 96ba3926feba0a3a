"""The mode `exact` (docs/opset.md, section 2): contractions, sum of f32 and scatter_add as real sums, rounded once.

Values are integers: in units of 2^-149 a binary32 value, in units of 2^-298 a product or a sum. Python's integers have
any length, so nothing is rounded before the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..opset import BF16, F32, Shape
from ..tensors import Array
from . import contract
from .contract import Tap
from .reduce import keep, reduce_sum, rows

VALUE_UNIT, SUM_UNIT = 149, 298
DIGITS = {F32: 24, BF16: 8}
"""Significant bits of a result."""


def rounded(total: int, digits: int = DIGITS[F32]) -> float:
    """Round an integer in units of 2^-298 to f32 or, with 8 digits, to bf16: to nearest, ties to even, once.

    A zero is +0.
    """
    size = abs(total)
    # The last place: `digits` below the first bit, but not below that of a subnormal.
    dropped = max(size.bit_length() - digits, SUM_UNIT - VALUE_UNIT + DIGITS[F32] - digits)
    whole, rest = divmod(size, 1 << dropped)
    half = 1 << (dropped - 1)
    whole += rest > half or (rest == half and whole & 1)
    if whole << dropped >> (128 + SUM_UNIT):  # at least 2^128
        return math.copysign(math.inf, total)
    return math.copysign(math.ldexp(whole, dropped - SUM_UNIT), total) if whole else 0.0


_integer = np.frompyfunc(lambda value: int(math.ldexp(value, VALUE_UNIT)), 1, 1)
_rounded = np.frompyfunc(rounded, 2, 1)


def exact_total(shape: Shape, length: int, tap: Tap, digits: int = DIGITS[F32]) -> Array:
    """Sum a_k * b_k over k for every element of `shape`, rounded to that many significant bits; an f32 array.

    NOTE: an absent tap has the operands (-0, +0), which add nothing.
    """
    sums, beyond = np.zeros(shape, dtype=object), np.zeros(shape)
    for k in range(length):
        a, b = (np.broadcast_to(np.asarray(v, np.float64), shape) for v in tap(k))
        products = a * b  # exact, and NaN for 0 * infinity
        finite = np.isfinite(a) & np.isfinite(b)
        sums = sums + _integer(np.where(finite, a, 0)) * _integer(np.where(finite, b, 0))
        beyond = beyond + np.where(finite, 0.0, products)  # NaN for infinities of both signs
    return np.where(beyond == 0, np.asarray(_rounded(sums, digits), np.float64), beyond).astype(np.float32)


def _sum(x: Array, dims: Sequence[int], keepdim: int) -> Array:
    if x.dtype == np.int64:
        return reduce_sum(x, dims, keepdim)
    items = rows(x, dims)
    total = exact_total(items.shape[:-1], items.shape[-1], lambda k: (items[..., k], 1.0))
    return keep(total, x, dims, keepdim)


def _scatter_add(base: Array, index: Array, source: Array) -> Array:
    """Sum, for each row, the base and the added rows; a row that is not added is an absent tap."""
    flat, added = index.reshape(-1), source.reshape(index.size, *base.shape[1:])
    column = (-1, *(1,) * (base.ndim - 1))
    number = np.arange(base.shape[0]).reshape(column)

    def tap(k: int) -> tuple[Any, Any]:
        if k == 0:
            return base, 1.0
        met = number == flat[k - 1]
        return np.where(met, added[k - 1], -0.0), np.where(met, 1.0, 0.0)

    return exact_total(base.shape, 1 + flat.size, tap)


def _contraction(operator: Callable[..., Array]) -> Callable[..., Array]:
    return contract.contraction(operator, lambda dtype: partial(exact_total, digits=DIGITS[dtype]))


IMPLEMENTATION: dict[str, Callable[..., Array]] = {
    "sum": _sum,
    "scatter_add": _scatter_add,
    "mm": _contraction(contract.mm),
    "bmm": _contraction(contract.bmm),
    "conv2d": _contraction(contract.conv2d),
    "conv2d_input_grad": _contraction(contract.conv2d_input_grad),
    "conv2d_weight_grad": _contraction(contract.conv2d_weight_grad),
}
"""The operators that differ from repops-f32."""
