"""The elements that have an entry in a trainer's log, in readable form; `follow.py` does the same with a kernel.

x is an evaluation of an element, at most r from the exact value; q the quantum, m the nearest midpoint. An entry is
written if |x - m| <= 1.25 r: a direction (narrow) if r < q / 8, else the rounded value (wide).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .entries import Log
from .primitives import F64, NOT_LOGGED, Bool, log, quantum, rnd, scale, unsigned_zero

WRITTEN_WITHIN = 1.25  # radii: an element within one radius for another evaluation is seldom further away
NARROW = 0.125  # quanta: an entry is wide from this radius on
APART = 2.5  # radii: an element this far from its rounding lies on the same side of it for everybody

F32 = npt.NDArray[np.float32]


def midpoint_distance(x: F64, b: int) -> F64:
    """Return the distance from each element to the nearest rounding midpoint of grid(b); inf and NaN give inf.

    It is the exact distance, rounded to nearest. INVARIANT: so `midpoint_distance(x) <= w` holds wherever the exact
    distance is at most the float64 w, because rounding is monotone and w rounds to itself.
    """
    finite = np.abs(x) < 2.0**128
    inner = np.where(finite, x, 0.0)
    q = quantum(inner, b)
    near = np.rint(inner / q) * q
    error = np.abs(inner - near)  # exact
    distance = 0.5 * q - error
    # NOTE: cells below a power of two are half as wide; just above it, their last midpoint may be the nearest one.
    above_power = (
        (np.abs(inner) >= np.abs(near)) & (np.abs(near) == scale(inner)) & (np.abs(near) > 2.0**-126)
    )
    distance = np.where(above_power, np.minimum(distance, 0.25 * q + error), distance)
    beyond = np.abs(x) - (2.0**128 - 2.0 ** (135 - b))  # the last midpoint is the start of overflow
    return np.where(finite, distance, np.where(np.isnan(x), np.inf, beyond))


def band(x: F64, radius: F64, b: int) -> tuple[Bool, Bool]:
    """Return the trainer's (narrow, wide) masks; `radius` has x's shape.

    Where x is not finite or the radius is 0, all evaluations agree, and nothing is in the band, not even a tie.
    """
    near = _within(x, WRITTEN_WITHIN * radius, b)
    wide = radius >= NARROW * quantum(x, b)
    return near & ~wide, near & wide


def write(x: F64, radius: F64, b: int, tau: float | None = None) -> tuple[F32, Log]:
    """Return the trainer's rounded x (zeros without sign), and its log. `radius` broadcasts to x.

    With `tau`, in the dense form, the elements that the paper's threshold logs are narrow too.
    NOTE: an element is left out if the exact value may lie on the other side of its rounding, since the direction
    would name another neighbour. At b = 32 no tau selects such an element.
    """
    radius = np.broadcast_to(radius, x.shape)
    rounded = unsigned_zero(rnd(x, b))
    narrow, wide = band(x, radius, b)
    if tau is not None:
        with np.errstate(invalid="ignore"):
            apart = (log(x, b, tau) != NOT_LOGGED) & (np.abs(rounded - x) > APART * radius)
        narrow |= apart & (radius < NARROW * quantum(x, b))
    at, written = np.flatnonzero(narrow.reshape(-1)), np.flatnonzero(wide.reshape(-1))
    flat = rounded.reshape(-1)
    entries = Log(x.size, at, flat[at] > x.reshape(-1)[at], written, flat[written])
    return _narrowed(rounded), entries


def _within(x: F64, radius: F64, b: int) -> Bool:
    """Return whether a midpoint is within the radius; never for radius 0, where x is exact. No radius is NaN."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(x) & (midpoint_distance(x, b) <= radius) & (radius > 0)


def _narrowed(y: F64) -> F32:
    """Return values of the grid as float32. NOTE: all of them are binary32 values, so nothing is rounded."""
    with np.errstate(invalid="ignore", over="ignore"):
        return y.astype(np.float32)
