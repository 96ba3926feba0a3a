"""Which elements a trainer's log speaks of, to be read; `follow.py` does the same with a kernel.

x is an evaluation of an element, at most r from the exact value; q the quantum, m the nearest midpoint. An entry is
written if |x - m| <= 1.25 r: a direction (narrow) if r < q / 8, else the rounded value (wide).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .entries import Log
from .primitives import F64, NOT_LOGGED, Bool, log, quantum, rnd, scale, unsigned_zero

WRITTEN_WITHIN = 1.25  # radii: what is near for another evaluation is seldom further away
NARROW = 0.125  # quanta: a radius from which on an entry is wide
APART = 2.5  # radii: further than this from its rounding, it lies on the same side of it for everybody

F32 = npt.NDArray[np.float32]


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

    With `tau`, in the dense form, the elements that the paper's threshold logs are narrow too.
    NOTE: not those so near to their rounding that the exact value may lie on its other side, where the direction
    would name another neighbour. At b = 32 no tau asks for such.
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
    """Is a midpoint so near? Not if the radius is 0: then x is exact. A NaN is no radius (`evaluate.Radius`)."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(x) & (midpoint_distance(x, b) <= radius) & (radius > 0)


def _narrowed(y: F64) -> F32:
    """Values of the grid as float32. NOTE: each is one, so nothing is rounded."""
    with np.errstate(invalid="ignore", over="ignore"):
        return y.astype(np.float32)
