"""Writing and following the logs of whole nodes at the speed of the kernels (docs/rounding-logs.md, section 3).

The band is searched in the memory that holds the values (`rounded_output`). Only elements in it, or with an entry for
another value than their own, are examined one by one, and only those still uncertain are decided exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..commit.tensor import Array
from ..program.modes import Form, Rounding
from .additions import ADDITIONS, exact
from .band import NARROW, WRITTEN_WITHIN
from .decide_exactly import decide_exactly
from .entries import WRITTEN, Entries, Log
from .primitives import DOWN, F64, FIXED_TAU, NOT_LOGGED, UP, Bool, largest, quantum, rnd
from .rounded_output import Evaluated, Surface, search
from .taps import I64

_SLACK = 1 + 2.0**-20  # two parties' radii are sums of the same terms in two orders: they agree to 2 n 2^-53


class Followed(NamedTuple):
    """`corrections` counts elements that differ from our own rounding; `forged` is the first whose entry is ignored."""

    values: Any
    corrections: int
    forged: int | None


def write(
    name: str,
    inputs: Sequence[Array] | None,
    attrs: Mapping[str, Any],
    evaluation: Evaluated,
    rounding: Rounding,
    out: Array | None = None,
    tau: float = FIXED_TAU,
) -> tuple[Any, Log]:
    """Return a trainer's output, f32, in the memory that holds the evaluation, and its log.

    With `inputs`, arrays on the host, sums that no order changes have no entry (`additions`); they need none. The
    output is in `out`, if given and the evaluation is in numpy's memory. `tau` is for the dense form.
    """
    found = search(evaluation, rounding.bits, WRITTEN_WITHIN, out)
    places = _Places(found)

    narrow, wide = found.narrow, found.wide
    if inputs is not None and name in ADDITIONS and narrow.size + wide.size:
        unneeded = exact(name, inputs, attrs, places.of(np.concatenate([narrow, wide])))
        narrow, wide = narrow[~unneeded[: narrow.size]], wide[~unneeded[narrow.size :]]
    logged = found.logged(tau) if rounding.form == Form.DENSE else narrow
    up = found.values(logged) > found.x(logged)
    log = Log(
        *(found.elements, places.of(logged), up),
        *(places.of(wide), found.values(wide).astype(np.float64)),
    )
    return found.whole(), log


def follow(
    name: str,
    inputs: Sequence[Array],
    attrs: Mapping[str, Any],
    evaluation: Evaluated,
    log: Log,
    rounding: Rounding,
    out: Array | None = None,
) -> Followed:
    """Return the truth of a node under a log of as many elements, which may come from anybody. `out` as in `write`.

    `inputs` are arrays on the host; they are read only if something must be decided exactly.
    """
    found, bits = search(evaluation, rounding.bits, _SLACK, out), rounding.bits
    places = _Places(found)
    in_band = _union(found.narrow, found.wide)
    same, contested = _compared(found, places, log)
    positions = _union(in_band[~_among(in_band, same)], contested)
    if not positions.size:
        return Followed(found.whole(), 0, None)
    entries, x = log.at(places.of(positions)), found.x(positions)
    own = found.values(positions).astype(np.float64)
    radius = found.radius(positions) * _SLACK
    said = _said(entries, x, bits)
    near = _among(positions, in_band)
    # Certain without a closer look. An entry for our own value is admissible, since our x is in the ball too.
    minus = (said == 0) & np.signbit(said)  # never the value of an element
    agreed = (entries.kinds != NOT_LOGGED) & (said == own) & ~minus
    narrow = (entries.kinds == UP) | (entries.kinds == DOWN)
    coarse = narrow & (radius >= NARROW * quantum(np.where(np.isfinite(x), x, 0.0), bits))
    impossible = ~_reachable(x, bits, 2 * radius, said)
    certain = ~np.isfinite(x) | (agreed & ~coarse) | (~near & impossible & ~coarse)
    decided, open_ = own.copy(), np.flatnonzero(~certain)
    open_ = open_[~exact(name, inputs, attrs, places.of(positions[open_]))]
    if open_.size:
        chosen = Entries(entries.kinds[open_], entries.values[open_])
        decided[open_] = decide_exactly(name, inputs, attrs, places.of(positions[open_]), chosen, rounding)
    found.put(positions, decided.astype(np.float32))
    other = ~(said == decided) | (minus & (entries.kinds == WRITTEN))
    ignored = np.flatnonzero((entries.kinds != NOT_LOGGED) & other & ~coarse)
    forged = int(places.of(positions[ignored[:1]])[0]) if ignored.size else None
    return Followed(found.whole(), int((decided != own).sum()), forged)


class _Places:
    """Places of an evaluation's elements in the output.

    NOTE: an entry for any other element has no effect, since a single term is exact.
    """

    def __init__(self, found: Surface) -> None:
        self._rows, self._width = found.rows, found.width

    def of(self, positions: I64) -> I64:
        """Return the positions in the output."""
        if self._rows is None:
            return positions
        row, place = np.divmod(positions, max(self._width, 1))
        return self._rows[row] * self._width + place

    def here(self, positions: I64) -> tuple[I64, I64 | slice]:
        """Return positions in the evaluation of the elements it covers, and the indices of these in `positions`."""
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


def _compared(found: Surface, places: _Places, log: Log) -> tuple[I64, I64]:
    """Return positions in the evaluation whose entry certainly names our own value, and those whose entry may not.

    Most entries agree, and need no further check.
    """
    at, known = places.here(log.narrow)
    doubted = found.doubted(at, log.up[known], _SLACK)
    wide, known = places.here(log.wide)
    said = log.values[known]
    minus = (said == 0) & np.signbit(said)  # never the value of an element
    other = (said != found.values(wide)) | minus
    return _union(at[~doubted], wide[~other]), _union(at[doubted], wide[other])


def _among(positions: I64, others: I64) -> Bool:
    """Return a mask of the positions that are among the others; both ascend."""
    if not others.size:
        return np.zeros(positions.size, np.bool_)
    found: Bool = others[np.minimum(np.searchsorted(others, positions), others.size - 1)] == positions
    return found


def _union(first: I64, second: I64) -> I64:
    """Return all positions of both, each once; both ascend, and so does the result.

    SAFETY: a forged log may have an entry for every element. numpy's union hashes them all, at 30 times the price of
    merging, which is what a stable sort does with two ascending parts.
    """
    joined = np.concatenate([first, second])
    joined.sort(kind="stable")
    kept = np.ones(joined.size, dtype=np.bool_)
    np.not_equal(joined[1:], joined[:-1], out=kept[1:])
    return joined[kept]


def _said(entries: Entries, x: F64, bits: int) -> F64:
    """Return the value that each entry names, NaN without an entry. Directions are relative to our own x."""
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
    """Return whether a number at most `width` from x can round to `value`. Both ends move out by one place."""
    with np.errstate(invalid="ignore", over="ignore"):
        low = rnd(np.nextafter(x - width, -np.inf), bits)
        high = rnd(np.nextafter(x + width, np.inf), bits)
        return (low <= value) & (value <= high)
