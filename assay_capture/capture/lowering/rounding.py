"""Lowering rules: rounding to integers, and divisions that do.

There is no operator for rounding. Below 2^23, adding 2^23 to a number and subtracting it again rounds to an integer,
ties to even, since binary32 has no digits after the point there; from 2^23 on every value is an integer already.
"""

from __future__ import annotations

import numpy as np
from repops.opset import F32, I64

from ..builder import Ref
from ..errors import Unsupported
from .pointwise import abs_
from .rules import Context, lowers

Operand = Ref | float
_INTEGERS = float(1 << 23)


def nearest(c: Context, x: Ref) -> Ref:
    """Round f32 to the nearest integer, ties to even; the sign stays, also that of zero."""
    big, size = c.b.full(_INTEGERS), abs_(c, x)
    rounded = c.b.op("sub", c.b.op("add", size, big), big)
    signed = c.b.op("where", c.b.op("lt", x, c.b.full(0.0)), c.b.op("neg", rounded), rounded)
    kept = c.b.op("logical_or", c.b.op("ge", size, big), c.b.op("eq", x, c.b.full(0.0)))
    kept = c.b.op("logical_or", kept, c.b.op("ne", x, x))
    return c.b.op("where", kept, x, signed)


def down(c: Context, x: Ref) -> Ref:
    """Return the largest integer up to x."""
    near = nearest(c, x)
    return c.b.op("where", c.b.op("gt", near, x), c.b.op("sub", near, c.b.full(1.0)), near)


def towards_zero(c: Context, x: Ref) -> Ref:
    below = c.b.op("lt", x, c.b.full(0.0))
    return c.b.op("where", below, c.b.op("neg", down(c, c.b.op("neg", x))), down(c, x))


@lowers("aten.round.default", "prims.round.default")
def round_(c: Context, x: Ref) -> Ref:
    return nearest(c, x) if x.dtype == F32 else x


@lowers("aten.floor.default", "prims.floor.default")
def floor(c: Context, x: Ref) -> Ref:
    return down(c, x) if x.dtype == F32 else x


@lowers("aten.ceil.default", "prims.ceil.default")
def ceil(c: Context, x: Ref) -> Ref:
    return c.b.op("neg", down(c, c.b.op("neg", x))) if x.dtype == F32 else x


@lowers("aten.trunc.default", "prims.trunc.default")
def trunc(c: Context, x: Ref) -> Ref:
    return towards_zero(c, x) if x.dtype == F32 else x


# ------------------------------------------------------------------------------------------------- of integers

_EXACT = 1 << 23  # below it, the quotient of two integers in f32 is never rounded up to the next integer


def _shifted(c: Context, x: Ref, divisor: int) -> tuple[Ref, int]:
    """Return x plus a multiple of the divisor that makes it non-negative, and the number of divisors added."""
    bounds = c.known.bounds(x)
    if bounds is None or divisor < 1 or bounds[1] - min(bounds[0], 0) + divisor >= _EXACT:
        raise Unsupported(
            f"an integer division by {divisor}",
            f"the operator set divides floats; divide values that are known to stay below {_EXACT}, or as data",
        )
    times = max(0, -(bounds[0] // divisor))
    return c.b.op("add", x, c.b.full(times * divisor, I64)), times


def _whole(c: Context, x: Ref, divisor: Operand, rounding_mode: str | None) -> Ref:
    """Divide integers by a known positive number."""
    n = c.known.value(divisor) if isinstance(divisor, Ref) else divisor
    bounds = c.known.bounds(x)
    below = bounds is None or bounds[0] < 0
    if n is None or np.size(n) != 1 or (below and rounding_mode != "floor"):
        raise Unsupported("a rounded division", "divide an i64 tensor by a positive Python integer")
    positive, times = _shifted(c, x, int(n))
    quotient = c.b.op("div", c.tensor(positive, F32), c.b.full(int(n)))
    return c.b.op("sub", c.tensor(quotient, I64), c.b.full(times, I64))


# --------------------------------------------------------------------------------------------- divisions, rests


@lowers("aten.floor_divide.default", "aten.div.Tensor_mode", "aten.div.Scalar_mode")
def floor_divide(c: Context, x: Ref, divisor: Operand, *, rounding_mode: str | None = "floor") -> Ref:
    if c.out.dtype == I64:
        return _whole(c, c.tensor(x, I64), divisor, rounding_mode)
    quotient = c.b.op("div", c.tensor(x, F32), c.tensor(divisor, F32))
    if rounding_mode is None:
        return quotient
    return down(c, quotient) if rounding_mode == "floor" else towards_zero(c, quotient)


@lowers(
    "aten.remainder.Scalar",
    "aten.remainder.Tensor",
    "aten.remainder.Scalar_Tensor",
    "prims.remainder.default",
)
def remainder(c: Context, x: Operand, divisor: Operand) -> Ref:
    """Return the remainder with the divisor's sign, as in Python."""
    x = c.tensor(x, c.out.dtype)
    if c.out.dtype == I64:
        whole = _whole(c, x, divisor, "floor")
        return c.b.op("sub", x, c.b.op("mul", whole, c.tensor(divisor, I64)))
    return _rest(c, x, c.tensor(divisor, F32), True)


@lowers("aten.fmod.Scalar", "aten.fmod.Tensor", "prims.fmod.default")
def fmod(c: Context, x: Ref, divisor: Operand) -> Ref:
    """Return the remainder with the sign of x."""
    if c.out.dtype == I64:
        bounds = c.known.bounds(x)
        if bounds is None or bounds[0] < 0:
            raise Unsupported("fmod of integers that may be negative", "use %, or remainder")
        return remainder(c, x, divisor)
    return _rest(c, c.tensor(x, F32), c.tensor(divisor, F32), False)


def _rest(c: Context, x: Ref, divisor: Ref, of_divisor: bool) -> Ref:
    """Return x - q d. A quotient that rounding brought to the next integer is seen by the rest's sign or size."""
    quotient = c.b.op("div", x, divisor)
    whole = down(c, quotient) if of_divisor else towards_zero(c, quotient)
    rest = c.b.op("sub", x, c.b.op("mul", whole, divisor))
    zero = c.b.full(0.0)
    reference = divisor if of_divisor else x
    crossed = c.b.op("lt", c.b.op("mul", _sign(c, rest), _sign(c, reference)), zero)
    step = c.b.op("mul", abs_(c, divisor), _sign(c, reference))
    return c.b.op("where", crossed, c.b.op("add", rest, step), rest)


def _sign(c: Context, x: Ref) -> Ref:
    """Return -1, 0 or 1: a product of values would underflow."""
    zero = c.b.full(0.0)
    above, below = (c.b.op("cast", c.b.op(op, x, zero), dtype=F32) for op in ("gt", "lt"))
    return c.b.op("sub", above, below)
