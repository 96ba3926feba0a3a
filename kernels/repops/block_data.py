"""Data for the mode tc16: factors of each kind that a kernel or a device could get wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .opset import BF16
from .reference.tensor_core import TERMS
from .tensors import NUMPY_DTYPE, Array

TYPE = NUMPY_DTYPE[BF16]
Rng = np.random.Generator
SPECIAL = np.array(
    [
        0,
        0x8000,
        1,
        0x8001,
        0x7F,
        0x80,
        0x8080,
        0x7F7F,
        0xFF7F,
        0x7F80,
        0xFF80,
        0x7FC0,
        0xFFFF,
        0x7FFF,
        0x3F80,
    ],
    np.uint16,
)
"""Zeros, subnormals, the smallest and the largest numbers, infinities, NaNs, 1. One NaN has the bits of a kernel's mark
for what does not exist."""


def of_bits(bits: Array) -> Array:
    return np.ascontiguousarray(bits, np.uint16).view(TYPE)


def rounded(x: Array) -> Array:
    """Return the values as bf16; those beyond the range are infinite."""
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(x).astype(np.float32).astype(TYPE)


def _normal(rng: Rng, *shape: int) -> Array:
    return rng.standard_normal(shape)


def _scaled(low: int, high: int) -> Callable[..., Array]:
    """Return a drawer of numbers with random exponents in that range."""

    def draw(rng: Rng, *shape: int) -> Array:
        return rounded(_normal(rng, *shape) * np.exp2(rng.integers(low, high + 1, shape)))

    return draw


def _mixed(draw: Callable[..., Array], values: Array, share: float) -> Callable[..., Array]:
    """Return a drawer of such numbers, of which a share is one of the values."""

    def mixed(rng: Rng, *shape: int) -> Array:
        chosen = rng.choice(values, shape)
        return of_bits(np.where(rng.random(shape) < share, chosen, draw(rng, *shape).view(np.uint16)))

    return mixed


def _any_bits(rng: Rng, *shape: int) -> Array:
    return of_bits(rng.integers(0, 1 << 16, shape))


def _finite_bits(rng: Rng, *shape: int) -> Array:
    return of_bits(rng.integers(0, 0x7F80, shape) | rng.integers(0, 2, shape) << 15)


def _full(rng: Rng, *shape: int) -> Array:
    """Significands near 2, of one sign: sums of 2^31 units and more."""
    return of_bits(0x3FF8 + rng.integers(0, 8, shape) + (rng.integers(0, 40, shape) == 0) * 0x80)


def _blocks(rng: Rng, *shape: int) -> Array:
    """Blocks of 16 of one magnitude, which differ by up to 60 binades: the accumulator is cut, or cuts all products."""
    scale = np.exp2(rng.integers(-30, 31, (shape[0], -(-shape[1] // 16)))).repeat(16, axis=1)[:, : shape[1]]
    return rounded(_normal(rng, *shape) * scale)


def _tails(rng: Rng, *shape: int) -> Array:
    """Blocks down to subnormal numbers behind a large one, as the weights of a softmax are."""
    scale = np.exp2(-rng.integers(0, 134, (shape[0], -(-shape[1] // 16))).astype(np.float64))
    scale[:, :1] = 1
    return rounded(_normal(rng, *shape) * scale.repeat(16, axis=1)[:, : shape[1]])


DRAWERS: dict[str, Callable[..., Array]] = {
    "ordinary": _scaled(0, 0),
    "few bits": lambda rng, *shape: rounded(rng.integers(-4, 5, shape)),
    "zeros": _mixed(_scaled(0, 0), SPECIAL[:2], 0.8),
    "wide": _scaled(-15, 15),
    "distances at the limits of lanes": _mixed(_scaled(-70, 0), SPECIAL[:2], 0.5),
    "full range": _finite_bits,
    "any bits": _any_bits,
    "subnormal factors": lambda rng, *shape: of_bits(
        rng.integers(0, 2, shape) << 15 | rng.integers(0, 0x200, shape)
    ),
    "subnormal results": _scaled(-75, -60),
    "units near the smallest normal number": _scaled(-53, -47),
    "beside the largest exponent": _scaled(56, 64),
    "overflow": _scaled(63, 64),
    "full sums": _full,
    "blocks of different magnitudes": _blocks,
    "tails": _tails,
    "infinities": _mixed(_scaled(0, 2), SPECIAL[9:11], 0.01),
    "special values": _mixed(_scaled(-2, 2), SPECIAL, 0.02),
    "zeros beside what is not finite": _mixed(_mixed(_scaled(0, 0), SPECIAL, 0.5), SPECIAL[:2], 0.97),
    "only special values": _mixed(_scaled(0, 0), SPECIAL, 1.0),
}
CANCELLING = "cancelling"
KINDS = (*DRAWERS, CANCELLING)


def factors(rng: Rng, kind: str, m: int, k: int, n: int) -> list[Array]:
    """Return the factors of a product of matrices."""
    if kind != CANCELLING:
        return [DRAWERS[kind](rng, m, k), DRAWERS[kind](rng, k, n)]
    a, b = _normal(rng, m, k), _normal(rng, k, n) * np.exp2(rng.integers(-9, 10, (k, 1)))
    half = k // 2
    a[:, half : 2 * half], b[half : 2 * half] = a[:, :half], -b[:half]
    a[:, ::7] *= 2.0**-20  # what is left when the rest has cancelled
    order = rng.permutation(k)
    return [rounded(a[:, order]), rounded(b[order])]


def drawn(rng: Rng, kind: str, shape: tuple[int, ...]) -> Array:
    """Return an array of that kind, of any shape."""
    flat = DRAWERS[kind](rng, 1, int(np.prod(shape)))
    return np.ascontiguousarray(flat).reshape(shape)


def blocks_of(kind: str, count: int) -> tuple[Array, Array, Array]:
    """Return factors (bits of bf16) and accumulators (bits of binary32) of blocks.

    An eighth of the accumulators is +0, as at the beginning of a chunk, an eighth has any bits; the others are near the
    products, or a few binades away.
    """
    rng = np.random.default_rng(list(DRAWERS).index(kind))
    a, b = (drawn(rng, kind, (count, TERMS)).view(np.uint16) for _ in "ab")
    with np.errstate(all="ignore"):
        wide = [x.view(NUMPY_DTYPE[BF16]).astype(np.float32) for x in (a, b)]
        near = wide[0][:, 0] * wide[1][:, 0] * np.exp2(rng.integers(-30, 31, count)).astype(np.float32)
    signed = np.where(rng.random(count) < 0.5, -near, near)
    close = signed.view(np.uint32) ^ rng.integers(0, 64, count).astype(np.uint32)
    way = rng.integers(0, 8, count)
    any_bits = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    return a, b, np.select([way == 0, way == 1], [np.uint32(0), any_bits], close).astype(np.uint32)
