"""The readable definition for one element of an operator with a log: exact value, radius, admissible values, truth.

Values are fractions; nothing is rounded before the end. It is readable, not fast: `decide_exactly` and `truth` are
tested against it (docs/rounding-logs.md, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from repops import reference

from referee_py.errors import InvalidInput
from referee_py.program.modes import MAX_BITS, Bounds, Rounding
from referee_py.rounding.additions import ADDITIONS
from referee_py.rounding.bounds import gamma
from referee_py.rounding.elementary import bracket
from referee_py.rounding.entries import WRITTEN
from referee_py.rounding.evaluate import ELEMENTARY
from referee_py.rounding.primitives import F64, NOT_LOGGED, UP, largest
from referee_py.rounding.taps import Attrs, input_axis, output_axis

_PRECISION = 2400
Index = tuple[int, ...]
Term = tuple[float, float]


def terms_of(name: str, inputs: Sequence[Any], attrs: Attrs, index: Index) -> list[Term]:
    """Return the pairs (a_k, b_k) whose products add up to one element of a sum or contraction; b_k is 1 in plain
    sums.

    Index rules: docs/opset.md, sections 5 to 7. A tap that does not exist is left out. Raises InvalidInput for any
    other operator.
    """
    match name, inputs:
        case "sum", (x,):
            return _summed(x, attrs, index)
        case "mm" | "bmm", (a, b):
            *batch, m, n = index
            return _pairs(a[(*batch, m)], b[(*batch, slice(None), n)])
        case "conv2d", (x, w):
            image, out, y, z = index
            group, channels = out // (w.shape[0] // attrs["groups"]), w.shape[1]
            rows = _taps(input_axis(attrs, 0, y + 1, w.shape[2], x.shape[2]), y)
            columns = _taps(input_axis(attrs, 1, z + 1, w.shape[3], x.shape[3]), z)
            return [
                (float(x[image, group * channels + c, h, v]), float(w[out, c, r, s]))
                for c in range(channels)
                for r, h in rows
                for s, v in columns
            ]
        case "conv2d_input_grad", (dy, w):
            image, channel, h, v = index
            filters, (group, c) = w.shape[0] // attrs["groups"], divmod(channel, w.shape[1])
            rows = _taps(output_axis(attrs, 0, h + 1, w.shape[2], dy.shape[2]), h)
            columns = _taps(output_axis(attrs, 1, v + 1, w.shape[3], dy.shape[3]), v)
            return [
                (float(dy[image, f, y, z]), float(w[f, c, r, s]))
                for f in range(group * filters, (group + 1) * filters)
                for r, y in rows
                for s, z in columns
            ]
        case "conv2d_weight_grad", (dy, x):
            f, c, r, s = index
            groups, (height, width) = attrs["groups"], dy.shape[2:]
            channel = f // (dy.shape[1] // groups) * (x.shape[1] // groups) + c
            ys, y_exists = input_axis(attrs, 0, height, r + 1, x.shape[2])
            xs, x_exists = input_axis(attrs, 1, width, s + 1, x.shape[3])
            return [
                (float(dy[image, f, y, z]), float(x[image, channel, ys[y, r], xs[z, s]]))
                for image in range(dy.shape[0])
                for y in range(height)
                for z in range(width)
                if y_exists[y, r] and x_exists[z, s]
            ]
        case "scatter_add", (base, idx, src):
            row, *rest = index
            rows = src.reshape(idx.size, *base.shape[1:])
            met = np.flatnonzero(idx.reshape(-1) == row)
            return [(float(base[index]), 1.0), *((float(rows[(p, *rest)]), 1.0) for p in met)]
    raise InvalidInput(f"{name} of {len(inputs)} inputs is not a sum of products")


def truth_of_element(
    name: str,
    inputs: Sequence[Any],
    attrs: Attrs,
    index: Index,
    kind: int,
    value: float,
    rounding: Rounding,
) -> float:
    """Return the one right value of an element whose entry has this kind, and this value if it is wide."""
    ball = ball_of_element(name, inputs, attrs, index, rounding)
    return ball if isinstance(ball, float) else follow_entry(*ball, kind, value, rounding.bits)


def ball_of_element(
    name: str, inputs: Sequence[Any], attrs: Attrs, index: Index, rounding: Rounding
) -> tuple[Fraction, Fraction] | float:
    """Return (exact value, canonical radius), or the value alone if nothing is free and no entry counts."""
    if name in ELEMENTARY:
        return _elementary(name, [float(v[index]) for v in np.broadcast_arrays(*inputs)], rounding.bits)
    terms = terms_of(name, inputs, attrs, index)
    if not all(math.isfinite(v) for term in terms for v in term):
        return sum((a * b for a, b in terms), 0.0)  # the same infinity, or NaN, in every order
    free = name not in ADDITIONS or not added_exactly([a for a, _ in terms])
    return exact_value(terms), radius(terms, rounding.bounds) if free else Fraction(0)


def follow_entry(exact: Fraction, canonical_radius: Fraction, kind: int, value: float, b: int) -> float:
    """Return the value of an admissible entry; any other entry is ignored."""
    nearest = round_exact(exact, b)
    if kind == NOT_LOGGED:
        return nearest
    if kind != WRITTEN:
        value = ceil_exact(exact, b) if kind == UP else -ceil_exact(-exact, b) + 0.0
    return value if is_admissible(value, exact, b, canonical_radius) else nearest


def exact_value(terms: Sequence[Term]) -> Fraction:
    """Return the sum of the products.

    Raises InvalidInput if a factor is infinite or NaN; such results do not depend on an order.
    """
    return sum((_finite(a) * _finite(b) for a, b in terms), Fraction(0))


def radius(terms: Sequence[Term], bounds: Bounds) -> Fraction:
    """Return the canonical radius: permitted evaluations are (probably, if `bounds` says so) at most this far away."""
    numerator, denominator = gamma(len(terms), bounds)
    return Fraction(numerator, denominator) * sum(
        (abs(_finite(a) * _finite(b)) for a, b in terms), Fraction(0)
    )


def added_exactly(terms: Sequence[float]) -> bool:
    """Return whether no partial sum of binary32 values is ever rounded, in any order (`additions`)."""
    sizes = [abs(Fraction(v)) for v in terms if v]
    return not sizes or sum(sizes) < 2**53 * _quantum(min(sizes), MAX_BITS)


def ceil_exact(x: Fraction, b: int) -> float:
    """Return the lowest value of grid(b) that is not below x. Infinities are values of the grid; zero is +0."""
    if abs(x) > Fraction(largest(b)):
        return math.inf if x > 0 else -largest(b)
    q = _quantum(x, b)
    y = math.ceil(x / q) * q
    return float(y) if y <= Fraction(largest(b)) else math.inf


def round_exact(x: Fraction, b: int) -> float:
    """Round an exact value to grid(b), to nearest, ties to even: a binary32 value or an infinity. Zero is +0."""
    q = _quantum(x, b)
    y = round(x / q) * q
    if abs(y) > Fraction(largest(b)):
        return math.copysign(math.inf, x)
    return float(y)


def admissible(exact: Fraction, b: int, bound_radius: Fraction) -> tuple[float, float]:
    """Return (lowest, highest) admissible rounding: all values of grid(b) from the first to the second are admissible.

    A value is admissible if some real number within `bound_radius` of the exact value rounds to it. Equal ends leave
    no choice; if they differ, an honest trainer has an entry in its sparse log. Raises InvalidInput for a negative
    radius.
    """
    if bound_radius < 0:
        raise InvalidInput(f"a radius of {bound_radius}; it is at least 0")
    return round_exact(exact - bound_radius, b), round_exact(exact + bound_radius, b)


def is_admissible(value: float, exact: Fraction, b: int, bound_radius: Fraction) -> bool:
    """Return whether a rounded value is admissible. -0 is not: results of free operators have no signed zero."""
    low, high = admissible(exact, b, bound_radius)
    if value == 0 and math.copysign(1.0, value) < 0:
        return False
    return low <= value <= high and (math.isinf(value) or round_exact(Fraction(value), b) == value)


def _summed(x: F64, attrs: Attrs, index: Index) -> list[Term]:
    where: list[Any] = []
    kept = iter(index)
    for d in range(x.ndim):
        reduced = d in attrs["dims"]
        if not reduced or attrs["keepdim"]:
            place = next(kept)
        where.append(slice(None) if reduced else place)
    return [(float(v), 1.0) for v in np.ravel(x[tuple(where)])]


def _pairs(a: F64, b: F64) -> list[Term]:
    return list(zip(a.tolist(), b.tolist(), strict=True))


def _taps(axis: tuple[Any, Any], position: int) -> list[tuple[int, int]]:
    """Return (tap, index that it reads) for one position."""
    index, exists = axis
    return [(int(t), int(index[position, t])) for t in np.flatnonzero(exists[position])]


def _finite(v: float) -> Fraction:
    if not math.isfinite(v):
        raise InvalidInput(f"an operand is {v!r}; only finite ones have an exact value")
    return Fraction(v)


def _quantum(x: Fraction, b: int) -> Fraction:
    """Return the spacing of grid(b) around x, continued beyond its largest value."""
    size = abs(x)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    e = e if size >= Fraction(2) ** e else e - 1
    return Fraction(2) ** (max(e, -126) - (b - 9))


def _elementary(name: str, arguments: list[float], b: int) -> tuple[Fraction, Fraction] | float:
    """Return the exact value as the middle of two neighbours of 2,400 bits, and the radius.

    At b = 32, in a table of docs/opset.md, or far beyond any grid, return the result of repops-f32.
    """
    operands = [np.array(v, dtype=np.float32) for v in arguments]
    tabled = float(reference.execute(name, operands, {})[0])
    if b == MAX_BITS:
        return tabled
    tabled += 0.0
    if math.isnan(tabled) or not all(map(math.isfinite, arguments)):
        return tabled
    around = bracket(name, arguments, _PRECISION)
    if isinstance(around, float):
        return tabled
    low, high, exponent = around
    exact = Fraction(low + high, 2) * Fraction(2) ** exponent
    return exact, abs(exact) / 2**50 + Fraction(1, 2**1022)
