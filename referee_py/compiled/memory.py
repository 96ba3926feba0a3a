"""A place in one block of memory for every value of a step. Values that live at the same time do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64
"""Bytes: a cache line."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value of `nbytes` that is written by task `first` and read by task `last` at the latest, both included."""

    value: int
    nbytes: int
    first: int
    last: int


def place(lifetimes: Sequence[Lifetime]) -> tuple[dict[int, int], int]:
    """Return the offset of each value, and the bytes that all of them take.

    Places the largest value first, each at the lowest offset that is free for its whole life (greedy by size;
    Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
    """
    placed = np.zeros((4, len(lifetimes)), np.int64)  # offset, end, first, last, by offset
    offsets: dict[int, int] = {}
    total = 0
    for count, life in enumerate(sorted(lifetimes, key=lambda life: (-life.nbytes, life.first))):
        size = -(-life.nbytes // ALIGNMENT) * ALIGNMENT
        offset, end, first, last = known = placed[:, :count]
        alive = (first <= life.last) & (last >= life.first)
        free_from = np.maximum.accumulate(np.append(0, end[alive]))
        fits = np.flatnonzero(offset[alive] - free_from[:-1] >= size)
        at = int(free_from[fits[0] if len(fits) else -1])
        offsets[life.value] = at
        total = max(total, at + size)
        place = int(np.searchsorted(offset, at, side="right"))
        placed[:, place + 1 : count + 1] = known[:, place:]
        placed[:, place] = at, at + size, life.first, life.last
    return offsets, total
