"""Elements that a dense log has besides the band: those further than `tau` from their rounding (algorithm 1).

tau is the paper's fixed one, or one for each operator and number of terms, from a calibration. It determines the size
of a log and nothing else: an entry that names the rounding of the exact value changes no value, and every element that
needs an entry is in the band, which follows from a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..commit.tensor import Array
from .band import APART, NARROW
from .evaluate import ELEMENTARY
from .primitives import F64, FIXED_TAU, Bool, quantum, scale
from .taps import Attrs

Thresholds = Callable[[int, str, int], float]
"""Returns tau for bits, operator and number of terms."""

_TOP = 2.0**128
_BLOCK = 1 << 15  # elements; intermediate arrays of this size stay in a cache


def fixed(bits: int, operator: str, terms: int) -> float:  # noqa: ARG001
    """Return the paper's threshold without a search."""
    return FIXED_TAU


def terms_by_shape(name: str, inputs: Sequence[Array], attrs: Attrs) -> int:
    """Return the maximum number of terms of an element of an operator with a log; 1 for a function."""
    if name in ELEMENTARY:
        return 1
    first: tuple[int, ...] = inputs[0].shape
    second: tuple[int, ...] = inputs[1].shape if len(inputs) > 1 else ()
    match name:
        case "sum":
            return math.prod(first[d] for d in attrs["dims"])
        case "conv2d":
            return math.prod(second[1:])
        case "conv2d_input_grad":
            return second[0] // int(attrs["groups"]) * math.prod(second[2:])
        case "conv2d_weight_grad":
            return first[0] * math.prod(first[2:])
        case "scatter_add":
            return 1 + math.prod(second)
    return first[-1]


def directed(x: F64, values: Array, radius: F64, bits: int, tau: float) -> Bool:
    """Return a mask of elements that the threshold logs; `values` are the rounded x, all flat and of one length.

    None has a radius of an eighth of a quantum or more: its direction might be wrong for other evaluations.
    """
    found = np.empty(x.shape, np.bool_)
    for block in _blocks(x.size):
        y, r = x[block], radius[block]
        power = scale(y)
        # NOTE: 2^128 stands in the place of infinity, as in `primitives.log`.
        error = np.abs(np.clip(values[block], -_TOP, _TOP, dtype=np.float64) - y)
        logged = (error > power * tau) & (error > APART * r) & (r < power * (NARROW * 2.0 ** (9 - bits)))
        found[block] = logged & (np.abs(y) < _TOP)
    return found


def doubted(x: F64, values: Array, radius: F64, up: Bool, bits: int) -> Bool:
    """Return a mask of directions that may not name `values`, the rounded x, and need a closer look.

    `up` has one direction for each x. A value that lies in this direction from x, or is x, is the neighbour it names.
    """
    found = np.empty(x.shape, np.bool_)
    for block in _blocks(x.size):
        y, value = x[block], values[block]
        agreed = np.where(up[block], value >= y, value <= y)
        found[block] = ~(agreed & np.isfinite(y) & (radius[block] < NARROW * quantum(y, bits)))
    return found


def _blocks(size: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))
