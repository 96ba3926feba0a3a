"""The two sides of a match or a trial, 0 and 1, and sets of them as bit masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

NOBODY, SIDE0, SIDE1, BOTH = 0b00, 0b01, 0b10, 0b11


def sides(mask: int) -> Sequence[int]:
    """Return the sides in a bit mask, in ascending order."""
    return [side for side in (0, 1) if mask >> side & 1]


def by_side(side: int, own: T, other: T) -> tuple[T, T]:
    """Return ``own``, which belongs to ``side``, and ``other``, in the order of the sides."""
    return (own, other) if side == 0 else (other, own)


def unlike(claimed: Sequence[object], truth: object) -> int:
    """Return the sides whose claim differs from the truth, as a bit mask."""
    return sum(1 << side for side in (0, 1) if claimed[side] != truth)
