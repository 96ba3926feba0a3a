"""A place in one block of memory for every value of a step. Values that live at the same time do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64
"""Bytes: a cache line."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value of `nbytes` that is written at `first` and read at `last`, at the latest, both included."""

    value: int
    nbytes: int
    first: int
    last: int


def place(lifetimes: Sequence[Lifetime]) -> tuple[dict[int, int], int]:
    """The offset of each value, and the bytes that all of them take.

    The largest first, each at the lowest place that is free for its whole life (greedy by size; Pisarchyk and Lee,
    "Efficient memory management for deep neural net inference", 2020).
    """
    placed: list[tuple[int, int, Lifetime]] = []  # (offset, end), by offset
    offsets: dict[int, int] = {}
    total = 0
    for life in sorted(lifetimes, key=lambda life: (-life.nbytes, life.first)):
        size, at = -(-life.nbytes // ALIGNMENT) * ALIGNMENT, 0
        best: int | None = None
        for offset, end, other in placed:
            if other.last < life.first or life.last < other.first:
                continue
            if offset - at >= size and best is None:
                best = at
                break
            at = max(at, end)
        best = at if best is None else best
        offsets[life.value] = best
        total = max(total, best + size)
        placed.append((best, best + size, life))
        placed.sort(key=lambda entry: entry[0])
    return offsets, total
