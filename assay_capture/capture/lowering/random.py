"""Lowering rules: random numbers, each from a site of its own (docs/opset.md, section 9).

Every element is an expression of words of Philox at its place, so it can be computed alone. The numbers are those of
the program's seed: PyTorch's generators have no part in them.
"""

# ruff: noqa: ARG001  (a rule has the signature of its ATen operator)

from __future__ import annotations

import math
from typing import Any

from repops.opset import F32, I64

from ..builder import Ref
from ..errors import Unsupported
from .rounding import down
from .rules import Context, Uninitialised, lowers

Operand = Ref | float


def _uniform(c: Context) -> Ref:
    """Return f32 in [0, 1) of the output's shape."""
    if c.backward:
        # SAFETY: a layer that runs again for its gradient would draw other numbers.
        raise Unsupported(
            "random numbers in the backward pass", "draw them in the forward pass and keep them"
        )
    return c.noise.uniform(c.out.shape)


def _typed(c: Context, value: Ref) -> Ref:
    return c.tensor(value, c.out.dtype)


def _normal(c: Context) -> Ref:
    """Return normal f32 by Box and Muller (1958): sqrt(-2 log(1 - u)) cos(2 pi v). The largest is 5.8."""
    u, v = _uniform(c), _uniform(c)
    radius = c.b.op("sqrt", c.b.op("mul", c.b.full(-2.0), c.b.op("log", c.b.op("sub", c.b.full(1.0), u))))
    return c.b.op("mul", radius, c.b.op("cos", c.b.op("mul", c.b.full(2 * math.pi), v)))


@lowers("aten.rand.default", "aten.rand.generator", "aten.rand_like.default")
def rand(c: Context, *_: Any, **__: Any) -> Ref:
    return _typed(c, _uniform(c))


@lowers("aten.randn.default", "aten.randn.generator", "aten.randn_like.default")
def randn(c: Context, *_: Any, **__: Any) -> Ref:
    return _typed(c, _normal(c))


@lowers("aten.uniform.default")
def uniform(c: Context, x: Ref | Uninitialised, low: float = 0, high: float = 1, **_: Any) -> Ref:
    scaled = c.b.op("mul", _uniform(c), c.b.full(high - low))
    return _typed(c, c.b.op("add", scaled, c.b.full(low)))


@lowers("aten.normal_functional.default", "aten.normal.float_float")
def normal(c: Context, x: Any, mean: float = 0, std: float = 1, **_: Any) -> Ref:
    return _normal_of(c, mean, std)


@lowers("aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor")
def normal_tensors(c: Context, mean: Operand, std: Operand = 1, **_: Any) -> Ref:
    return _normal_of(c, mean, std)


def _normal_of(c: Context, mean: Operand, std: Operand) -> Ref:
    scaled = c.b.op("mul", _normal(c), c.tensor(std, F32))
    return _typed(c, c.b.op("add", scaled, c.tensor(mean, F32)))


@lowers("aten.bernoulli.default", "aten.bernoulli.p", "aten.bernoulli.Tensor")
def bernoulli(c: Context, x: Ref | Uninitialised, p: Operand | None = None, **_: Any) -> Ref:
    """Return 1 with the probability p, or x if it is not given."""
    chance = x if p is None else p
    assert not isinstance(chance, Uninitialised)
    return _typed(c, c.b.op("lt", _uniform(c), c.tensor(chance, F32)))


@lowers("aten.exponential.default")
def exponential(c: Context, x: Ref | Uninitialised, rate: float = 1, **_: Any) -> Ref:
    u = c.b.op("sub", c.b.full(1.0), _uniform(c))
    # NOTE: as in PyTorch, never zero, so that its logarithm is finite (Gumbel noise).
    positive = c.b.op("maximum", c.b.op("neg", c.b.op("log", u)), c.b.full(2.0**-25))
    return _typed(c, c.b.op("div", positive, c.b.full(rate)))


@lowers("aten.randint.default", "aten.randint.generator", "aten.randint_like.default")
def randint(c: Context, *given: Any, **options: Any) -> Ref:
    return _integers(c, 0, _highest(given))


@lowers("aten.randint.low", "aten.randint.low_generator", "aten.randint_like.low_dtype")
def randint_low(c: Context, low: Any, high: Any, *rest: Any, **_: Any) -> Ref:
    if isinstance(low, Ref):
        low, high = high, rest[0]
    return _integers(c, int(low), int(high))


def _highest(given: tuple[Any, ...]) -> int:
    return int(next(value for value in given if isinstance(value, int)))


def _integers(c: Context, low: int, high: int) -> Ref:
    if not 0 < high - low <= 1 << 24:
        raise Unsupported(f"random integers from {low} to {high}", f"a range has at most {1 << 24} numbers")
    place = down(c, c.b.op("mul", _uniform(c), c.b.full(high - low)))
    # NOTE: the product may round up to the end of the range.
    place = c.b.op("minimum", place, c.b.full(high - low - 1))
    whole = c.b.op("add", c.tensor(place, I64), c.b.full(low, I64))
    return c.tensor(whole, c.out.dtype)


@lowers("aten.randperm.default", "aten.randperm.generator")
def randperm(c: Context, n: int, *_: Any, **__: Any) -> Ref:
    """Return the indices of random words in their order; among equal words, the lower index first."""
    if n > 2048:
        raise Unsupported(f"a permutation of {n}", "permute at most 2048, or permute as data")
    words = _uniform(c)
    mine, other = c.b.op("reshape", words, shape=(n, 1)), c.b.op("reshape", words, shape=(1, n))
    places = c.b.op("arange", n=n)
    earlier = c.b.op("lt", places, c.b.op("reshape", places, shape=(n, 1)))
    equal = c.b.op("logical_and", c.b.op("eq", other, mine), earlier)
    before = c.b.op("logical_or", c.b.op("lt", other, mine), equal)
    ranks = c.b.op("sum", c.b.op("cast", before, dtype=I64), dims=(1,), keepdim=0)
    hit = c.b.op("eq", c.b.op("reshape", ranks, shape=(1, n)), c.b.op("reshape", places, shape=(n, 1)))
    return c.tensor(c.b.op("argmax", c.b.op("cast", hit, dtype=I64), dim=1, keepdim=0), c.out.dtype)
