"""Which elements a dense log speaks of beside the band: those further than `tau` from their rounding (algorithm 1).

tau is the paper's fixed one, or one for each operator and number of terms, from a calibration. It decides how large a
log is and nothing else: an entry that says what the exact value is rounded to changes no value, and what an entry is
needed for is in the band, which follows from a bound.
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
"""tau by bits, operator and number of terms."""

_TOP = 2.0**128
_BLOCK = 1 << 15  # elements: what is made of them on the way stays in a cache


def fixed(bits: int, operator: str, terms: int) -> float:  # noqa: ARG001
    """The paper's threshold where none was searched for."""
    return FIXED_TAU


def terms_by_shape(name: str, inputs: Sequence[Array], attrs: Attrs) -> int:
    """How many terms an element of an operator with a log may have; 1 for a function."""
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
    """Which elements the threshold logs; `values` are what they are rounded to, all are flat and of one length.

    None whose radius is an eighth of a quantum or more: no direction is sure to be right for other evaluations.
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
    """Directions that may say otherwise than `values`, to which x was rounded: what else is to be looked at.

    `up` is one for each x. A value that lies in the direction of x, or is x, is the neighbour that it names.
    """
    found = np.empty(x.shape, np.bool_)
    for block in _blocks(x.size):
        y, value = x[block], values[block]
        agreed = np.where(up[block], value >= y, value <= y)
        found[block] = ~(agreed & np.isfinite(y) & (radius[block] < NARROW * quantum(y, bits)))
    return found


def _blocks(size: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))
