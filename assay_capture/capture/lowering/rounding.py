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
    x, divisor = c.tensor(x, F32), c.tensor(divisor, F32)
    quotient = c.b.op("div", x, divisor)
    if rounding_mode is None:
        return quotient
    if rounding_mode != "floor":
        return towards_zero(c, quotient)
    return c.b.op("where", _infinite(c, x), c.b.full(np.nan), down(c, quotient))


def _infinite(c: Context, x: Ref) -> Ref:
    return c.b.op("eq", abs_(c, x), c.b.full(np.inf))


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
    """Return the exact rest of x by the divisor, with the sign of x; or, as in Python, of the divisor."""
    zero, size = c.b.full(0.0), abs_(c, divisor)
    rest = _reduced(c, abs_(c, x), size)
    rest = c.b.op("where", c.b.op("lt", rest, zero), c.b.op("add", rest, size), rest)
    rest = c.b.op("where", c.b.op("lt", x, zero), c.b.op("neg", rest), rest)
    rest = c.b.op("where", c.b.op("eq", x, zero), c.b.op("where", c.b.op("eq", size, zero), rest, x), rest)
    if not of_divisor:
        return rest
    crossed = c.b.op("lt", c.b.op("mul", _sign(c, rest), _sign(c, divisor)), zero)
    return c.b.op("where", crossed, c.b.op("add", rest, divisor), rest)


_BITS = 11
"""Bits of the quotient that one round takes away."""
_LEVELS = -(-277 // _BITS)
"""Rounds from the largest quotient of binary32, 2^128 by 2^-149."""


def _reduced(c: Context, x: Ref, divisor: Ref) -> Ref:
    """Return a number in (-divisor, divisor) that differs from x by a multiple of it, without rounding. Both are >= 0.

    Long division: round k subtracts q D, where D = divisor 2^(11 k) and q is the quotient, an integer of 11 bits. With
    D as a sum of 12 and 12 bits, both products are exact, and so are both differences: they are multiples of D's last
    place below 2^24 of these. A round whose D is no number, or larger than x, changes nothing.
    """
    one, half = c.b.full(1.0), c.b.full(0.5)
    # NOTE: else the split of a large divisor overflows, or the product that a number near the largest is less.
    scale = c.b.op("where", c.b.op("gt", divisor, c.b.full(2.0**100)), c.b.full(2.0**-30), one)
    top = c.b.op("ge", c.b.op("mul", x, scale), c.b.full(2.0**127))
    by = c.b.op("mul", divisor, scale)
    rest = c.b.op("mul", x, c.b.op("where", top, half, scale))
    rest = c.b.op("where", c.b.op("lt", x, divisor), x, rest)
    spread = c.b.op("mul", by, c.b.full(4097.0))
    high = c.b.op("sub", spread, c.b.op("sub", spread, by))
    low = c.b.op("sub", by, high)
    magic = c.b.full(1.5 * 2.0**23)
    for k in reversed(range(_levels(c, by))):
        factor = c.b.full(2.0 ** (_BITS * min(k, 11)))
        more = c.b.full(2.0 ** (_BITS * (k - min(k, 11))))
        upper, lower = (c.b.op("mul", c.b.op("mul", part, factor), more) for part in (high, low))
        whole = c.b.op("add", upper, lower)
        q = c.b.op("sub", c.b.op("add", c.b.op("div", rest, whole), magic), magic)
        less = c.b.op("sub", c.b.op("sub", rest, c.b.op("mul", q, upper)), c.b.op("mul", q, lower))
        rest = c.b.op("where", c.b.op("ge", abs_(c, rest), whole), less, rest)
    twice = c.b.op("add", rest, rest)
    above, below = c.b.op("sub", twice, by), c.b.op("add", twice, by)
    twice = c.b.op("where", c.b.op("ge", twice, by), above, twice)
    twice = c.b.op("where", c.b.op("ge", c.b.op("neg", twice), by), below, twice)
    rest = c.b.op("where", top, twice, rest)
    none = c.b.op("mul", divisor, c.b.full(0.0))  # NaN for a divisor that is no number
    return c.b.op("where", c.b.op("lt", x, divisor), x, c.b.op("add", c.b.op("div", rest, scale), none))


def _levels(c: Context, divisor: Ref) -> int:
    """Return the rounds that the largest number needs, fewer if the divisor is known."""
    known = c.known.value(divisor)
    least = 0.0 if known is None or not np.size(known) else float(np.min(known))
    return _LEVELS if not least > 0 else max(1, -int(-(128 - np.floor(np.log2(least))) // _BITS))


def _sign(c: Context, x: Ref) -> Ref:
    """Return -1, 0 or 1: a product of values would underflow."""
    zero = c.b.full(0.0)
    above, below = (c.b.op("cast", c.b.op(op, x, zero), dtype=F32) for op in ("gt", "lt"))
    return c.b.op("sub", above, below)
