"""Sums that no order of additions changes, whose radius is 0 (docs/rounding-logs.md, section 4).

Operands of `sum` and `scatter_add` are binary32, so all terms of an element are multiples of the smallest term's ulp,
and so is every partial sum. If the sum of their magnitudes is below 2^53 such ulps, every partial sum in every order
is a binary64 value: nothing is ever rounded, and the canonical radius is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..program.modes import MAX_BITS
from .grid import UNIT
from .primitives import F64, Bool, quantum
from .summands import summands_of
from .taps import I64

ADDITIONS = ("sum", "scatter_add")
"""NOTE: a product's ulp is so small that the test would seldom succeed for sums of products."""


def is_exact(magnitude: int, smallest: float) -> bool:
    """Return whether one element's sum is exact. `magnitude` is the sum of its terms' magnitudes in units of 2^-298;
    `smallest` is the smallest nonzero magnitude, or infinity if there is none."""
    return magnitude < math.ldexp(float(_limit(np.array([smallest]))[0]), UNIT)


def exact(name: str, inputs: Sequence[Any], attrs: Mapping[str, Any], positions: I64) -> Bool:
    """Return a mask of exact sums at row-major positions of the output; all false for any other operator.

    NOTE: the magnitudes are added in binary64, in any order. The limit is a binary64 value, so a sum below it is
    exact, and no other sum is computed to be below it, as rounding is monotone.
    """
    found = np.zeros(positions.size, dtype=np.bool_)
    if name not in ADDITIONS or not positions.size:
        return found
    terms = summands_of(name, inputs, attrs, positions)
    for chosen in terms.groups():
        magnitude, smallest = np.zeros(chosen.size), np.full(chosen.size, np.inf)
        for piece in terms.pieces(chosen):
            sizes = np.abs(piece)
            magnitude += sizes.sum(axis=1)
            smallest = np.minimum(smallest, smallest_of(sizes))
        found[chosen] = magnitude < _limit(smallest)
    return found


def smallest_of(sizes: F64) -> F64:
    """Return the smallest nonzero element of each row, or infinity if there is none."""
    smallest: F64 = np.where(sizes > 0, sizes, np.inf).min(axis=1, initial=np.inf)
    return smallest


@np.errstate(over="ignore")
def _limit(smallest: F64) -> F64:
    """Return 2^53 ulps of binary32 values. Infinity, which stands for no value, also gives a limit."""
    return 2.0**53 * quantum(smallest, MAX_BITS)
