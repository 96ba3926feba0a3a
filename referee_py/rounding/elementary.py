"""Exact elementary functions of chosen elements: MPFR gives both neighbours of the value at any precision.

MPFR rounds correctly in both directions, so an inexact value lies strictly between the two results. No value of the
grid and no midpoint lies there (they have at most 25 significant bits), so every rounding of the value is that of the
middle. Only the ends of the admissible interval, 2^-50 away, may need more bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import gmpy2
import numpy as np
from repops.host import cpu

from ..program.modes import Rounding
from .bounds import ELEMENTARY_ULPS
from .entries import WRITTEN, Entries
from .grid import Toward, on_grid, to_grid
from .primitives import F64, NOT_LOGGED, Bool, unsigned_zero
from .taps import I64

PRECISION = 128  # bits to begin with
_EXPONENTS = 3000  # beyond, MPFR gives zero or infinity
_FLUSHED = -1022  # the radius has an absolute term of 2^-1022
_RELATIVE = 52 - (ELEMENTARY_ULPS.bit_length() - 1)  # and a relative one of 2^-50
_FUNCTIONS = {"rsqrt": "rec_sqrt"}  # functions that have another name in MPFR


def decide_elementary(
    name: str, inputs: Sequence[Any], positions: I64, entries: Entries, rounding: Rounding
) -> F64:
    """Return the truth of elements at row-major positions of the output."""
    operands = [v.flat[positions] for v in np.broadcast_arrays(*inputs)]
    values = unsigned_zero(cpu.execute(name, operands, {})[0].astype(np.float64))
    for i in np.flatnonzero(~_special(name, operands, values)).tolist():
        arguments = [float(v[i]) for v in operands]
        values[i] = _decide(name, arguments, int(entries.kinds[i]), float(entries.values[i]), rounding.bits)
    return values


def _special(name: str, operands: Sequence[Any], values: F64) -> Bool:
    """Return a mask of elements whose value docs/opset.md gives in a table: not real, or known without computing."""
    special: Bool = np.isnan(values)
    for v in operands:
        special = special | ~np.isfinite(v)
    match name:
        case "log" | "rsqrt" | "pow":
            special = special | (operands[0] == 0)
        case "log1p":
            special = special | (operands[0] == -1)
    return special


def bracket(name: str, arguments: Sequence[float], precision: int) -> tuple[int, int, int] | float:
    """Return (low, high, exponent): low 2^exponent < value < high 2^exponent, neighbours; low = high if exact.

    A float is returned for values so large or so small that they and all near them round to it on any grid.
    """
    operands = [gmpy2.mpfr(v, 53) for v in arguments]
    low, high = (getattr(context, _FUNCTIONS.get(name, name))(*operands) for context in _contexts(precision))
    for end in (low, high):
        if not gmpy2.is_finite(end) or abs(end) > 2.0**200:
            return float("-inf") if end < 0 else float("inf")
    if abs(low) < 2.0**-200 and abs(high) < 2.0**-200:
        return 0.0
    (m, e), (n, f) = low.as_mantissa_exp(), high.as_mantissa_exp()
    exponent = min(int(e), int(f))
    return int(m) << (int(e) - exponent), int(n) << (int(f) - exponent), exponent


def _decide(name: str, arguments: Sequence[float], kind: int, value: float, b: int) -> float:
    """Decide an entry like `grid.decide`, for a value between two neighbours."""
    precision = PRECISION
    around = bracket(name, arguments, precision)
    if isinstance(around, float):
        return around
    low, high, exponent = around

    def rounded(toward: Toward) -> float:
        return to_grid(low + high, 1, exponent - 1, b, toward)

    nearest = rounded(Toward.NEAREST)
    if kind == NOT_LOGGED:
        return nearest
    claimed = value if kind == WRITTEN else rounded(Toward(kind))
    if claimed == nearest or (kind == WRITTEN and not on_grid(value, b)):
        return nearest
    # NOTE: the loop ends. The ends of the interval are midpoints only if the value is a binary fraction whose last bit
    # is near 2^-1022, and then some precision has it exactly (docs/rounding-logs.md, section 5).
    while True:
        ends = [_end(m, exponent, -1 if claimed < nearest else 1, b) for m in (low, high)]
        if ends[0] == ends[1]:
            return claimed if min(ends[0], nearest) <= claimed <= max(ends[0], nearest) else nearest
        precision *= 2
        again = bracket(name, arguments, precision)
        assert not isinstance(again, float), "a value between 2^-200 and 2^200 stays there"
        low, high, exponent = again


def _end(m: int, exponent: int, sign: int, b: int) -> float:
    """Round x = m 2^exponent, plus or minus 2^-50 |x| + 2^-1022, to grid(b)."""
    scale = min(exponent - _RELATIVE, _FLUSHED)
    shift = exponent - scale
    radius = (abs(m) << (shift - _RELATIVE)) + (1 << (_FLUSHED - scale))
    return to_grid((m << shift) + sign * radius, 1, scale, b, Toward.NEAREST)


@cache
def _contexts(precision: int) -> tuple[gmpy2.context, gmpy2.context]:
    down, up = (
        gmpy2.context(precision=precision, round=mode, emin=-_EXPONENTS, emax=_EXPONENTS)
        for mode in (gmpy2.RoundDown, gmpy2.RoundUp)
    )
    return down, up
