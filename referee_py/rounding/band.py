"""Who writes what, and who follows whom: the trainer's log of an evaluation, and the truth from anyone's evaluation.

x and y are two evaluations of one element, each at most r from the exact value; q the quantum, m the nearest midpoint.

    trainer   writes an entry if |x - m| <= 1.25 r: a direction (narrow) if r < q / 8, else the rounded value (wide)
    auditor   |y - m| > r, no entry        rnd(y) is the truth
              |y - m| > 2 r                rnd(y) is the truth, whatever an entry says
              the entry says rnd(y)        rnd(y) is the truth; a direction says it only if r < q / 8
              else                         the element is settled exactly: seldom, if the log is honest

Proofs: docs/rounding-logs.md, section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InvalidInput
from .entries import I64, WRITTEN, Entries, Log
from .primitives import F64, NOT_LOGGED, UP, Bool, log, quantum, rnd, scale, unsigned_zero

WRITTEN_WITHIN = (
    1.25  # radii: what is near for another evaluation too is seldom further, so it need not be settled
)
NARROW = 0.125  # quanta

F32 = npt.NDArray[np.float32]
Settle = Callable[[I64, Entries], F64]
"""The truth of elements at ascending positions, with the log's entries for them (`settle.settle`)."""


class Followed(NamedTuple):
    """The truth of a node, and what the log had to do with it."""

    values: F32
    forged: I64
    """Positions of entries that say otherwise than the truth: no honest trainer wrote them, and they were ignored."""
    corrections: int
    """Elements that this evaluation alone would have rounded otherwise."""
    settled: int


def midpoint_distance(x: F64, b: int) -> F64:
    """From each element to the nearest rounding midpoint of grid(b); inf and NaN give inf.

    Rounded to nearest from the exact distance. INVARIANT: so `midpoint_distance(x) <= w` holds wherever the exact
    distance is at most the float64 w, because rounding is monotone and w rounds to itself.
    """
    finite = np.abs(x) < 2.0**128
    inner = np.where(finite, x, 0.0)
    q = quantum(inner, b)
    near = np.rint(inner / q) * q
    error = np.abs(inner - near)  # exact
    distance = 0.5 * q - error
    # NOTE: just above a power of two, the cells below are half as wide, and their last midpoint may be the nearest one.
    above_power = (
        (np.abs(inner) >= np.abs(near)) & (np.abs(near) == scale(inner)) & (np.abs(near) > 2.0**-126)
    )
    distance = np.where(above_power, np.minimum(distance, 0.25 * q + error), distance)
    beyond = np.abs(x) - (2.0**128 - 2.0 ** (135 - b))  # the last midpoint is where overflow begins
    return np.where(finite, distance, np.where(np.isnan(x), np.inf, beyond))


def band(x: F64, radius: F64, b: int) -> tuple[Bool, Bool]:
    """The trainer's (narrow, wide) masks; `radius` has x's shape.

    Where x is not finite, or the radius is 0, every evaluation agrees and nothing is in the band, not even a tie.
    """
    near = _within(x, WRITTEN_WITHIN * radius, b)
    wide = radius >= NARROW * quantum(x, b)
    return near & ~wide, near & wide


def write(x: F64, radius: F64, b: int, tau: float | None = None) -> tuple[F32, Log]:
    """The trainer's side: what x is rounded to (zeros without sign), and the log of it. `radius` broadcasts to x.

    With `tau` the elements that the paper's threshold logs are narrow too. They are far from a midpoint, so nobody
    needs them; this is for comparison with the paper's dense logs.
    """
    radius = np.broadcast_to(radius, x.shape)
    rounded = unsigned_zero(rnd(x, b))
    narrow, wide = band(x, radius, b)
    if tau is not None:
        narrow |= (log(x, b, tau) != NOT_LOGGED) & (radius < NARROW * quantum(x, b))
    at, written = np.flatnonzero(narrow.reshape(-1)), np.flatnonzero(wide.reshape(-1))
    flat = rounded.reshape(-1)
    entries = Log(x.size, at, flat[at] > x.reshape(-1)[at], written, flat[written])
    return _narrowed(rounded), entries


def follow(x: F64, radius: F64, b: int, entries: Log, settle: Settle) -> Followed:
    """The truth of a node with this log, from any permitted evaluation x of it. `radius` broadcasts to x.

    Elements that x does not decide are given to `settle`. Raises InvalidInput if the log is for another number of
    elements; `forms.read` gives an empty one in place of such a log.
    """
    if entries.elements != x.size:
        raise InvalidInput(f"a log for {entries.elements} elements, for {x.size} values; use an empty one")
    flat, radii = x.reshape(-1), np.broadcast_to(radius, x.shape).reshape(-1)
    values = unsigned_zero(rnd(flat, b))
    near = np.flatnonzero(_within(flat, radii, b))
    looked_at = np.unique(np.concatenate([near, entries.narrow, entries.wide]))
    said = entries.at(looked_at)
    open_ = undecided(flat[looked_at], values[looked_at], radii[looked_at], b, said)
    positions = looked_at[open_]
    own = values[positions]
    if positions.size:
        values[positions] = settle(positions, Entries(said.kinds[open_], said.values[open_]))
    corrections = int((values[positions] != own).sum())
    forged = _forged(flat, values, entries)
    return Followed(_narrowed(values.reshape(x.shape)), forged, corrections, positions.size)


def undecided(x: F64, own: F64, radius: F64, b: int, said: Entries) -> Bool:
    """The auditor's rule: which elements does x, itself rounded to `own`, not decide? All arguments have one shape."""
    agrees = np.where(
        said.kinds == WRITTEN,
        said.values == own,
        np.where(said.kinds == UP, own > x, own < x) & (radius < NARROW * quantum(x, b)),
    )
    no_entry = said.kinds == NOT_LOGGED
    reach = np.where(no_entry, radius, 2 * radius)
    open_: Bool = _within(x, reach, b) & (no_entry | ~agrees)
    return open_


def _forged(x: F64, truth: F64, entries: Log) -> I64:
    """Positions of entries that the truth contradicts. NOTE: for messages; the truth does not depend on it."""
    narrow, wide = entries.narrow, entries.wide
    against = np.where(entries.up, truth[narrow] < x[narrow], truth[narrow] > x[narrow])
    return np.sort(np.concatenate([narrow[against], wide[entries.values != truth[wide]]]))


def _within(x: F64, radius: F64, b: int) -> Bool:
    """Is a midpoint so near? Not if the radius is 0: then x is exact. A NaN is no radius (`evaluate.Radius`)."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(x) & (midpoint_distance(x, b) <= radius) & (radius > 0)


def _narrowed(y: F64) -> F32:
    """Values of the grid as float32. NOTE: each is one, so nothing is rounded."""
    with np.errstate(invalid="ignore", over="ignore"):
        return y.astype(np.float32)
