"""Whole nodes at the speed of the kernels: writing a log, and following one (docs/rounding-logs.md, section 3).

The band is searched by `repops.rounding`; only elements in it, or with an entry that says otherwise than their own
value, are looked at one by one, and of those only what is not certain is settled exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from repops.rounding import Rounded as Found
from repops.rounding import round_all, round_to_grid

from ..commit.tensor import Array
from . import forms
from .entries import WRITTEN, Entries, Log
from .evaluate import Evaluation
from .mode import Form, Rounding
from .primitives import DOWN, F64, FIXED_TAU, MAX_BITS, NOT_LOGGED, UP, Bool, largest, quantum, rnd
from .settle import settle
from .taps import I64
from .thresholds import directed, doubted

BAND = 1.25
"""Of a radius: how near to a midpoint a trainer writes an entry. What it is above 1 spares auditors exact work."""
_SLACK = 1 + 2.0**-20  # two parties' radii are sums of the same terms in two orders: they agree to 2 n 2^-53


class Followed(NamedTuple):
    """`corrections` elements are not what our own value is rounded to; `forged` is the first whose entry is ignored."""

    values: Array
    corrections: int
    forged: int | None


def write(
    evaluation: Evaluation, rounding: Rounding, out: Array | None = None, tau: float = FIXED_TAU
) -> tuple[Array, bytes | None]:
    """A trainer's output, f32, and the canonical bytes of its log; none if there is nothing to say.

    The output is in `out`, if that is given and the evaluation is about all of it. `tau` is of the dense form.
    """
    found = search(evaluation, rounding.bits, BAND, out)
    values, x = found.values.reshape(-1), evaluation.x.reshape(-1)
    logged = found.narrow
    if rounding.form == Form.DENSE:
        radius = evaluation.radius.array(evaluation.x.shape).reshape(-1)
        chosen = directed(x, values, radius, rounding.bits, tau)
        chosen[logged] = True
        logged = np.flatnonzero(chosen)
    up = values[logged] > x[logged]
    places = _Places(evaluation, rounding.bits)
    narrow, wide = places.of(logged), places.of(found.wide)
    log = Log(places.elements, narrow, up, wide, values[found.wide].astype(np.float64))
    return places.whole(found.values), forms.pack(log, rounding.form)


def follow(
    name: str,
    inputs: Sequence[Array],
    attrs: Mapping[str, Any],
    evaluation: Evaluation,
    canonical: bytes | None,
    rounding: Rounding,
    out: Array | None = None,
) -> Followed:
    """The truth of a node under its log, which may be anybody's bytes, or none. `out` as in `write`."""
    found, bits = search(evaluation, rounding.bits, _SLACK, out), rounding.bits
    places = _Places(evaluation, bits)
    log = forms.read(canonical, places.elements, rounding.form)
    in_band, values = np.union1d(found.narrow, found.wide), found.values.reshape(-1)
    logged = np.union1d(_contested(evaluation, values, places, log, bits), places.here(log.wide)[0])
    positions = np.union1d(in_band, logged)
    if not positions.size:
        return Followed(places.whole(found.values), 0, None)
    entries, x = log.at(places.of(positions)), evaluation.x.reshape(-1)[positions]
    own = values[positions].astype(np.float64)
    radius = radius_at(evaluation, positions) * _SLACK
    said = _said(entries, x, bits)
    near = np.isin(positions, in_band, assume_unique=True)
    # What is certain without looking closer. An entry that says what we have is admissible: our x is in the ball too.
    agreed = (entries.kinds != NOT_LOGGED) & (said == own) & ~((said == 0) & np.signbit(said))
    narrow = (entries.kinds == UP) | (entries.kinds == DOWN)
    coarse = narrow & (radius >= 0.125 * quantum(np.where(np.isfinite(x), x, 0.0), bits))
    impossible = ~_reachable(x, bits, 2 * radius, said)
    certain = ~np.isfinite(x) | (agreed & ~coarse) | (~near & impossible & ~coarse)
    decided, open_ = own.copy(), np.flatnonzero(~certain)
    if open_.size:
        chosen = Entries(entries.kinds[open_], entries.values[open_])
        decided[open_] = settle(name, inputs, attrs, places.of(positions[open_]), chosen, rounding)
    values[positions] = decided.astype(np.float32)
    ignored = np.flatnonzero((entries.kinds != NOT_LOGGED) & ~(said == decided) & ~coarse)
    forged = int(places.of(positions[ignored[:1]])[0]) if ignored.size else None
    return Followed(places.whole(found.values), int((decided != own).sum()), forged)


class _Places:
    """Where the elements of an evaluation are in the output.

    NOTE: entries anywhere else say nothing: a term alone is exact.
    """

    def __init__(self, evaluation: Evaluation, bits: int) -> None:
        self._rows, self._rest, self._bits = evaluation.rows, evaluation.rest, bits
        self.elements = evaluation.x.size if self._rest is None else self._rest.size
        self._width = math.prod(evaluation.x.shape[1:])

    def of(self, positions: I64) -> I64:
        """In the output."""
        if self._rows is None:
            return positions
        row, place = np.divmod(positions, max(self._width, 1))
        return self._rows[row] * self._width + place

    def here(self, positions: I64) -> tuple[I64, I64 | slice]:
        """In the evaluation, those that it is about, and which of the positions these are."""
        if self._rows is None:
            return positions, slice(None)
        row, place = np.divmod(positions, max(self._width, 1))
        at = np.searchsorted(self._rows, row)
        known = (
            np.flatnonzero(self._rows[np.minimum(at, self._rows.size - 1)] == row)
            if self._rows.size
            else row[:0]
        )
        return at[known] * self._width + place[known], known

    def whole(self, values: Array) -> Array:
        """The output."""
        if self._rest is None:
            return values
        found = (
            round_all(self._rest.astype(np.float64), self._bits)
            if self._bits < MAX_BITS
            else self._rest.copy()
        )
        found += np.float32(0)  # no -0
        found[self._rows] = values
        return found


def search(evaluation: Evaluation, bits: int, widen: float, out: Array | None = None) -> Found:
    """Round an evaluation, and find what lies in the band."""
    shape, rows, columns = _laid_out(evaluation)
    x = np.ascontiguousarray(evaluation.x).reshape(shape)
    given = None if out is None or evaluation.rest is not None else out.reshape(shape)
    found = round_to_grid(x, rows, columns, bits, widen, given)
    return found._replace(values=found.values.reshape(evaluation.x.shape))


def radius_at(evaluation: Evaluation, positions: I64) -> F64:
    """The radius of some elements."""
    shape = evaluation.x.shape
    if positions.size > evaluation.x.size // 16:
        found = evaluation.radius.array(shape).reshape(-1)[positions]
    else:
        found = np.ones(positions.size)
        with np.errstate(invalid="ignore"):
            for factor in evaluation.radius.factors:
                found = found * np.broadcast_to(factor, shape).flat[positions]
    return np.where(np.isnan(found), 0.0, found)  # inf * 0: see Radius


def _contested(evaluation: Evaluation, values: Array, places: _Places, log: Log, bits: int) -> I64:
    """Where in the evaluation a direction may say otherwise than our own value. In the dense form most say the same."""
    at, known = places.here(log.narrow)
    radius = radius_at(evaluation, at) * _SLACK
    contested: I64 = at[doubted(evaluation.x.reshape(-1)[at], values[at], radius, log.up[known], bits)]
    return contested


def _said(entries: Entries, x: F64, bits: int) -> F64:
    """The value that each entry names; NaN where there is none. A direction is taken from where our own x is."""
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.where(np.isfinite(x), x, 0.0)
        step = quantum(finite, bits)
        up, down = np.ceil(finite / step) * step, np.floor(finite / step) * step
    overflow = np.abs(up) > largest(bits), np.abs(down) > largest(bits)
    up, down = np.where(overflow[0], np.inf, up), np.where(overflow[1], -np.inf, down)
    found = np.full(x.shape, np.nan)
    for kind, values in ((UP, up), (DOWN, down), (WRITTEN, entries.values)):
        found = np.where(entries.kinds == kind, values, found)
    return found


def _reachable(x: F64, bits: int, width: F64, value: F64) -> Bool:
    """Can what is at most `width` from x be rounded to `value`? Both ends move out by one place."""
    with np.errstate(invalid="ignore", over="ignore"):
        low = rnd(np.nextafter(x - width, -np.inf), bits)
        high = rnd(np.nextafter(x + width, np.inf), bits)
        return (low <= value) & (value <= high)


def _laid_out(evaluation: Evaluation) -> tuple[tuple[int, int, int], F64, F64]:
    """x as [outer, rows, columns] with a factor of each [outer, rows] and one of each [outer, columns]."""
    shape, factors = evaluation.x.shape, evaluation.radius.factors
    rank = len(shape)
    padded = [np.asarray(f).reshape((1,) * (rank - np.ndim(f)) + np.shape(f)) for f in factors]
    for first, second in itertools.product(range(rank + 1), repeat=2):
        if first > second or len(padded) != 2:
            continue
        for a, b in (padded, reversed(padded)):
            if set(a.shape[second:]) <= {1} and set(b.shape[first:second]) <= {1}:
                sizes = tuple(
                    math.prod(part) for part in (shape[:first], shape[first:second], shape[second:])
                )
                rows = np.broadcast_to(a.reshape(a.shape[:second]), shape[:second]).reshape(sizes[:2])
                middle = b.reshape(b.shape[:first] + b.shape[second:])
                columns = np.broadcast_to(middle, shape[:first] + shape[second:]).reshape(sizes[0], sizes[2])
                return (sizes[0], sizes[1], sizes[2]), rows, columns
    whole = evaluation.radius.array(shape).reshape(1, -1)
    return (1, 1, whole.size), np.ones((1, 1)), np.where(np.isnan(whole), 0.0, whole)
