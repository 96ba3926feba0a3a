"""Exact decisions: the value of chosen elements of an operator with a log, for any entry in the log.

    exact value   of a sum: an integer times 2^-298, since every product of two binary32 values is one;
                  of an elementary function: two neighbours of any precision, from MPFR, with the value between them
    decision      `decide`: the admissible entry, else the nearest value of the grid; integers only

Sums are taken apart by extraction (Rump, Ogita and Oishi, 2008, algorithm 3.1 and its use in AccSum): adding and
subtracting a large power of two leaves the leading bits of every term, few enough that their float64 sum is exact. Two
or three rounds take all bits of ordinary terms, fifteen those of any. A verifier does this to whole rows at once, tens
of nanoseconds per term, and never holds more than `PIECE` terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from repops.opset import Arithmetic

from ..errors import InvalidInput
from ..program.modes import Rounding
from .additions import ADDITIONS, is_exact, smallest_of
from .bounds import gamma
from .elementary import decide_elementary
from .entries import Entries
from .evaluate import arithmetic
from .grid import UNIT, Ball, decide
from .primitives import F64, NOT_LOGGED, unsigned_zero
from .summands import Summands, summands_of
from .taps import I64, Attrs


def decide_exactly(
    name: str, inputs: Sequence[Any], attrs: Attrs, positions: I64, entries: Entries, rounding: Rounding
) -> F64:
    """Return the truth of elements at ascending row-major positions of the output, given their entries in the log.

    Inputs are float32 and int64 arrays. The result is float64 on the grid, one value for each position; zeros are +0.
    Raises InvalidInput for an operator without log, and beyond 2^31 terms.
    """
    if positions.shape != entries.kinds.shape or positions.dtype != np.int64:
        raise InvalidInput(
            f"{entries.kinds.size} entries for {positions.dtype}{positions.shape}; use one an int64 position"
        )
    what = arithmetic(name, inputs, attrs)
    if what == Arithmetic.ELEMENTARY:
        return decide_elementary(name, inputs, positions, entries, rounding)
    if what != Arithmetic.SUM:
        raise InvalidInput(f"{name} has no log; every machine gives the same bits")
    values, terms = np.zeros(positions.size), summands_of(name, inputs, attrs, positions)
    for chosen in terms.groups():
        values[chosen] = _together(terms, chosen, entries, rounding, name in ADDITIONS)
    return unsigned_zero(values)


@np.errstate(invalid="ignore")  # infinite operands are permitted
def _together(terms: Summands, chosen: I64, entries: Entries, rounding: Rounding, added: bool) -> F64:
    """Decide elements of one group; `added` if a radius may be 0 (`additions`)."""
    sums, magnitudes = [0] * chosen.size, [0] * chosen.size
    unbounded = np.zeros(chosen.size)  # the IEEE-754 result, equal in every order, if it is not finite
    smallest = np.full(chosen.size, np.inf)
    logged = np.flatnonzero(entries.kinds[chosen] != NOT_LOGGED)
    for piece in terms.pieces(chosen):
        finite = np.isfinite(piece)
        if not finite.all():
            unbounded += np.where(finite, 0.0, piece).sum(axis=1)
            piece = np.where(finite, piece, 0.0)
        sizes = np.abs(piece[logged])
        smallest[logged] = np.minimum(smallest[logged], smallest_of(sizes))
        _accumulate(sizes, magnitudes, logged)
        _accumulate(piece, sums, range(chosen.size))
    values = np.empty(chosen.size)
    for i, position in enumerate(chosen.tolist()):
        if unbounded[i] != 0:
            values[i] = unbounded[i]
            continue
        numerator, denominator = gamma(int(terms.counts[position]), rounding.bounds)
        radius = 0 if added and is_exact(magnitudes[i], smallest[i]) else magnitudes[i] * numerator
        ball = Ball(sums[i] * denominator, radius, denominator, -UNIT)
        values[i] = decide(ball, int(entries.kinds[position]), float(entries.values[position]), rounding.bits)
    return values


def _accumulate(terms: F64, totals: list[int], rows: Sequence[int] | I64) -> None:
    """Add the exact sum of each row, in units of 2^-298, to the totals of these rows. Overwrites the terms.

    With s = 2^m (n + 2) rounded up to a power of two, 2^m above all of a row: (t + s) - s is t rounded to multiples of
    2^-53 s, so n of them have an exact sum below s, and the remainder of t is at most 2^-53 s.
    """
    bits = (terms.shape[1] + 1).bit_length()
    while True:
        top = np.abs(terms).max(axis=1, initial=0.0)
        if not top.any():
            return
        large = np.ldexp(1.0, np.frexp(top)[1] + bits)[:, None]
        leading = (terms + large) - large
        terms -= leading
        for row, total in zip(rows, np.ldexp(leading.sum(axis=1), UNIT).tolist(), strict=True):
            totals[row] += int(total)
