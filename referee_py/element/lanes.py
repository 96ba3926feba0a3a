"""The order in which `sum` of f32 takes and folds its items: the twin of contracts/element/LaneSum.sol.

docs/opset.md, section 2, splits items into blocks of 4,096 and a block into 32 lanes, item i into lane i mod 32; lanes
fold 16, 8, 4, 2, 1, and the blocks' results are items again, one level up. A chain takes one item a step, in an order
in which the operands of the next fold have always just been finished:

    a block    its items at even places, then those at odd places; each half is split in the same way, five times. The
               last halves are lanes, whose items ascend. So lanes come in the order of their reversed bits, 0, 16, ...
    a level    block after block, in the order in which the level above takes their results

Only items that exist have a step. The last block may have fewer than 4,096, and is somewhere in the middle of the
walk; all others are full. A half without items is -0, the identity, so its fold is skipped.
"""

from __future__ import annotations

from typing import NamedTuple

BLOCK, LANES, FOLDS = 4096, 32, 5


class Half(NamedTuple):
    """A half on the way from a block to a lane."""

    second: bool
    """True if this half has the odd places."""
    both: bool
    """True if both halves have items."""


class Turn(NamedTuple):
    """A step at one level."""

    place: int
    """Place of the item in its block."""
    ends: bool
    """True if this is the last item of its lane."""
    halves: tuple[Half, ...]
    """Halves from the lane up."""


def levels(items: int) -> list[int]:
    """Return the number of items of each level, from the lowest. The top level has at most 4,096, a single block."""
    found = [items]
    while found[-1] > BLOCK:
        found.append(-(-found[-1] // BLOCK))
    return found


def before(items: int) -> list[int]:
    """Return, for each level, how many of its blocks come before the last one. That is the step in which the level
    above takes its last item."""
    found = [0]
    for count in levels(items)[:0:-1]:
        size, step = _few(count), found[0] * BLOCK
        for _ in range(FOLDS):
            # An even number of items has its last one at an odd place, which is in the second half.
            step += size // 2 if size % 2 == 0 else 0
            size = (size + 1) // 2
        found.insert(0, step + size - 1)
    return found


def turns(items: int, step: int) -> list[Turn]:
    """Return the turn of a step at each level from the lowest, in a sum of `items` items."""
    found = list[Turn]()
    for count, blocks in zip(levels(items), before(items), strict=True):
        start, few = blocks * BLOCK, _few(count)
        if start <= step < start + few:
            block, step, size = blocks, step - start, few
        else:
            after = step >= start
            block, step = divmod(step - few if after else step, BLOCK)
            block, size = block + after, BLOCK
        found.append(_in_block(step, size))
        step = block
    return found


def item(found: list[Turn]) -> int:
    """Return the number of the item that a step takes."""
    return sum(turn.place * BLOCK**level for level, turn in enumerate(found))


def _few(count: int) -> int:
    """Return the number of items in the last block of a level of `count` items."""
    return (count - 1) % BLOCK + 1


def _in_block(step: int, size: int) -> Turn:
    place, halves = 0, list[Half]()
    for bit in range(FOLDS):
        evens = (size + 1) // 2
        second = step >= evens
        halves.insert(0, Half(second, size > 1))
        place |= second << bit
        step, size = (step - evens, size - evens) if second else (step, evens)
    return Turn(place + LANES * step, step + 1 == size, tuple(halves))
