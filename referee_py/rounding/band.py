"""Who logs what, and who follows whom: the band, the trainer's log and the auditor's check of it.

Two evaluations of one element differ by at most `width` (`bounds.py`). With q the quantum and m the nearest midpoint,

    trainer   logs an element if |x - m| <= width: only there can the auditor's value round otherwise
              width < q / 4: the direction suffices (narrow); else the rounded value is written (wide)
    auditor   accepts an entry if |x - m| <= 2 width: an honest trainer's x is at most width away from its own;
              a direction against its own rounding only if |x - m| <= width; a wide value if x can have become it
"""

from __future__ import annotations

import numpy as np

from ..errors import InvalidInput
from .primitives import DOWN, F64, NOT_LOGGED, UP, Bool, quantum, rev, rnd, scale, unsigned_zero
from .sparse import SparseLog

_SLACK = (
    1 + 2.0**-20
)  # two parties' widths are sums of the same terms in two orders: they agree to 2 n 2^-53, n <= 2^31


class ForgedLog(InvalidInput):
    """A log that no honest trainer can have written. `element` is the first (row-major) that shows it."""

    def __init__(self, element: int, why: str) -> None:
        self.element = element
        super().__init__(f"element {element}: {why}; the log is forged, dispute its node")


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


def band(x: F64, b: int, width: F64) -> tuple[Bool, Bool]:
    """The trainer's (narrow, wide) masks.

    Where x is not finite, or the width is 0, every evaluation agrees and nothing is in the band, not even a tie.
    """
    near = np.isfinite(x) & (midpoint_distance(x, b) <= width) & (width > 0)
    wide = width >= 0.25 * quantum(x, b)
    return near & ~wide, near & wide


def write(x: F64, b: int, width: F64) -> tuple[F64, SparseLog]:
    """The trainer's side: what x is rounded to (zeros without sign), and the log of it. `width` has x's shape."""
    rounded = unsigned_zero(rnd(x, b))
    narrow, wide = (np.flatnonzero(mask.ravel()) for mask in band(x, b, width))
    up = rounded.ravel()[narrow] > x.ravel()[narrow]
    return rounded, SparseLog(x.size, narrow, up, wide, rounded.ravel()[wide])


def follow(x: F64, b: int, width: F64, log: SparseLog) -> F64:
    """The auditor's side: its own x rounded as the trainer's log says.

    Raises ForgedLog, naming the first element whose entry no honest trainer can have written; InvalidInput if the log
    is for another number of elements.
    """
    if log.elements != x.size or width.shape != x.shape:
        raise InvalidInput(
            f"a log for {log.elements} elements and widths {width.shape}, for values {x.shape}"
        )
    entries = np.full(x.size, NOT_LOGGED, dtype=np.uint8)
    entries[log.narrow] = np.where(log.up, UP, DOWN)
    rounded = rev(x, b, entries.reshape(x.shape)).reshape(-1)
    own = rnd(x, b).reshape(-1)
    flat, widths = x.reshape(-1), width.reshape(-1) * _SLACK
    distance = midpoint_distance(flat, b)
    logged = np.zeros(x.size, dtype=np.bool_)
    logged[log.narrow] = logged[log.wide] = True
    outside = logged & ~(np.isfinite(flat) & (distance <= 2 * widths) & (widths > 0))
    against = (rounded != own) & (distance > widths)
    rounded[log.wide] = log.values
    impossible = np.zeros(x.size, dtype=np.bool_)
    impossible[log.wide] = ~_reachable(flat[log.wide], b, widths[log.wide], log.values)
    bad = np.flatnonzero(outside | against | impossible)
    if bad.size:
        element = int(bad[0])
        what = "an entry outside the band" if outside[element] else "an entry that its value cannot have"
        raise ForgedLog(
            element,
            f"{what}: it is {float(flat[element])!r}, its band {float(widths[element])!r} wide, "
            f"the midpoint {float(distance[element])!r} away",
        )
    return unsigned_zero(rounded).reshape(x.shape)


def _reachable(x: F64, b: int, width: F64, value: F64) -> Bool:
    """Can an evaluation that is at most `width` away have been rounded to `value`? Both ends move out by one place."""
    low = rnd(np.nextafter(x - width, -np.inf), b)
    high = rnd(np.nextafter(x + width, np.inf), b)
    return (low <= value) & (value <= high)
