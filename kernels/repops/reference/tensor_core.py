"""The mode `tc16` (docs/opset.md, section 2): contractions of bf16 as chains of blocks, as tensor cores compute them.

Numbers are bits, and all arithmetic is that of integers: a block's terms have 33 bits at most, so int64 holds them. A
term that does not exist has two zeros as factors (`contract`), and a zero factor is no term.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..opset import BF16, Dtype, Shape
from ..tensors import Array
from . import contract
from .arithmetic import MINUS_ZERO
from .contract import CHUNK, PLUS_ZERO, Tap, Total
from .pointwise import from_bf16

TERMS = 16
"""Products of a block."""
FRACTION_BITS = 25
"""Bits below the largest exponent of a block that count."""
LEAST_EXPONENT = -133
"""A block's largest exponent counts as at least this."""
LEAST_UNIT = -149
"""Exponent of the last bit of a subnormal of binary32."""
NAN, INFINITY = 0x7FC00000, 0x7F800000


class Parts(NamedTuple):
    """The parts of numbers: sign (0 or 1), significand as an integer, the exponent of its leading place, and whether
    they are infinite or NaN. The significand of these is 0."""

    sign: Array
    significand: Array
    exponent: Array
    infinite: Array
    nan: Array


def parts(bits: Array, mantissa_bits: int) -> Parts:
    """Take numbers of 8 bits of exponent apart. A subnormal has the exponent of the smallest normal number."""
    wide = np.asarray(bits).astype(np.int64)
    biased, mantissa = wide >> mantissa_bits & 255, wide & (1 << mantissa_bits) - 1
    finite = biased < 255
    significand = np.where(finite, mantissa | np.where(biased > 0, 1 << mantissa_bits, 0), 0)
    exponent = np.maximum(biased, 1) - 127
    return Parts(
        wide >> (8 + mantissa_bits),
        significand,
        exponent,
        ~finite & (mantissa == 0),
        ~finite & (mantissa > 0),
    )


def block(a: Array, b: Array, c: Array) -> Array:
    """Return the bits of binary32 of the products of ``a`` and ``b`` (bits of bf16, along the last dimension) and ``c``
    (of binary32), summed."""
    x, y, z = parts(a, 7), parts(b, 7), parts(c, 23)

    def with_c(of_products: Array, of_c: Array) -> Array:
        return np.concatenate([of_products, of_c[..., None]], axis=-1)

    sign = with_c(x.sign ^ y.sign, z.sign)
    # 23 fractional bits, as those of the accumulator; a product is not normalised.
    total = rounded(
        sign,
        with_c(x.significand * y.significand << 9, z.significand),
        with_c(x.exponent + y.exponent, z.exponent),
    )
    x_is_zero, y_is_zero = (~n.infinite & ~n.nan & (n.significand == 0) for n in (x, y))
    nan = x.nan | y.nan | (x.infinite & y_is_zero) | (y.infinite & x_is_zero)
    infinite = with_c(x.infinite | y.infinite, z.infinite)
    positive, negative = (np.any(infinite & (sign == s), axis=-1) for s in (0, 1))
    result = np.where(positive, INFINITY, np.where(negative, 1 << 31 | INFINITY, total))
    return np.where(np.any(nan, axis=-1) | z.nan | (positive & negative), NAN, result).astype(np.uint32)


def rounded(sign: Array, significand: Array, exponent: Array) -> Array:
    """Return the sum of the terms that are not zero, which are cut, rounded toward zero."""
    top = np.max(np.where(significand > 0, exponent, LEAST_EXPONENT), axis=-1)
    top = np.maximum(top, LEAST_EXPONENT)
    below = np.clip(top[..., None] - exponent, 0, 63)
    cut = significand << FRACTION_BITS - 23 >> below
    total = np.sum(np.where(sign > 0, -cut, cut), axis=-1)
    size = np.abs(total)
    bit_length = np.frexp(size.astype(np.float64))[1].astype(np.int64)
    unit = np.maximum(top - FRACTION_BITS + bit_length - 24, LEAST_UNIT)
    down = unit - (top - FRACTION_BITS)
    kept = np.where(down >= 0, size >> np.clip(down, 0, 63), size << np.clip(-down, 0, 24))
    bits = np.where(kept < 1 << 23, kept, (unit + 150 << 23) + (kept - (1 << 23)))
    return np.where(kept == 0, 0, np.minimum(bits, INFINITY) | (total < 0) << np.int64(31))


def _bits(value: Any, shape: Shape) -> Array:
    """Return the bits of values of bf16 that are widened."""
    wide = np.ascontiguousarray(np.broadcast_to(np.asarray(value, np.float32), shape))
    return (wide.view(np.uint32) >> 16).reshape(shape)


def chain(shape: Shape, length: int, tap: Tap) -> Array:
    """Sum a_k * b_k over k for every element of `shape` at once, as f32.

    A chunk is a chain of blocks from +0. Chunk totals are added in ascending order. There is at least one chunk, so
    without terms the sum is +0.
    """
    result: Array = np.full(shape, MINUS_ZERO)
    for start in range(0, max(length, 1), CHUNK):
        acc = np.zeros(shape, np.uint32)
        end = min(start + CHUNK, length)
        for first in range(start, end, TERMS):
            factors = [tap(k) for k in range(first, min(first + TERMS, end))]
            a, b = (np.stack([_bits(pair[side], shape) for pair in factors], axis=-1) for side in (0, 1))
            acc = block(a, b, acc)
        np.add(result, acc.view(np.float32), out=result)  # NOTE: -0 + chunk_0 is chunk_0 exactly
    return result


def padded(channels: int) -> int:
    """Return how many numbers the channels of a tap take."""
    return -(-channels // TERMS) * TERMS


def chain_of_windows(shape: Shape, length: int, tap: Tap, window: int) -> Array:
    """As `chain`, with terms (r, s, c) for the terms (c, r, s) of `tap`, and the channels of each (r, s) padded to a
    multiple of 16."""
    channels = length // window
    width = padded(channels)

    def at(k: int) -> tuple[Any, Any]:
        place, channel = divmod(k, width)
        return tap(channel * window + place) if channel < channels else (MINUS_ZERO, PLUS_ZERO)

    return chain(shape, width * window, at)


def _in_windows(operator: Callable[..., Array]) -> Callable[..., Array]:
    """Return the operator on an image and w, or dy and w, which sums by `chain_of_windows` instead of `chain`."""

    def apply(a: Array, w: Array, total: Total, **attrs: Any) -> Array:
        windows = partial(chain_of_windows, window=w.shape[2] * w.shape[3])
        return operator(a, w, windows if total is chain else total, **attrs)

    return apply


_OPERATORS: dict[str, Callable[..., Array]] = {
    "mm": contract.mm,
    "bmm": contract.bmm,
    "conv2d": _in_windows(contract.conv2d),
    "conv2d_input_grad": _in_windows(contract.conv2d_input_grad),
    "conv2d_weight_grad": contract.conv2d_weight_grad,
}


def _total(dtype: Dtype) -> Total:
    return chain if dtype == BF16 else contract.contract


IMPLEMENTATION: dict[str, Callable[..., Array]] = {
    name: contract.contraction(operator, _total) for name, operator in _OPERATORS.items()
}
"""The operators that differ from repops-f32 if their factors are bf16."""


def in_binary32(name: str, a: Array, b: Array, **attrs: Any) -> Array:
    """Return a contraction of bf16 that is not rounded to bf16: f32."""
    return np.ascontiguousarray(_OPERATORS[name](from_bf16(a), from_bf16(b), chain, **attrs))
