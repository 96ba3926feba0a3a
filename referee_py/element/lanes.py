"""The order in which `sum` of f32 takes its items, and what is folded when: the twin of contracts/element/LaneSum.sol.

docs/opset.md, section 2, splits items into blocks of 4,096 and a block into 32 lanes, item i into lane i mod 32; lanes
fold 16, 8, 4, 2, 1, and the blocks' results are items again, one level up. A chain takes one item a step, in the order
in which what is folded next has always just been finished:

    a block    first its items at even places, then those at odd ones; each of these halves in the same way, five times.
               What is left is a lane, whose items ascend. So lanes come in the order of their bits reversed, 0, 16, ...
    a level    block after block, in the order in which the level above takes their results

Only items that exist have a step. The last block may have fewer than 4,096, and is somewhere in the middle of the walk;
all others are full. A half without items is -0, the identity, so its fold is skipped.
"""

from __future__ import annotations

from typing import NamedTuple

BLOCK, LANES, FOLDS = 4096, 32, 5


class Half(NamedTuple):
    """On the way from a block to a lane."""

    second: bool
    """This half is the one of odd places."""
    both: bool
    """The other one, or this if it is the second, has items, too."""


class Turn(NamedTuple):
    """What a step is at one level."""

    place: int
    """Of the item in its block."""
    ends: bool
    """It is the last item of its lane."""
    halves: tuple[Half, ...]
    """From the lane up."""


def levels(items: int) -> list[int]:
    """How many items each level has, from the lowest. The top one has 4,096 at most: a single block."""
    found = [items]
    while found[-1] > BLOCK:
        found.append(-(-found[-1] // BLOCK))
    return found


def before(items: int) -> list[int]:
    """For each level, how many of its blocks come before the last one: the step in which the level above takes its last
    item."""
    found = [0]
    for count in levels(items)[:0:-1]:
        size, step = _few(count), found[0] * BLOCK
        for _ in range(FOLDS):
            # The last of an even number of items is at an odd place, so it is in the second half.
            step += size // 2 if size % 2 == 0 else 0
            size = (size + 1) // 2
        found.insert(0, step + size - 1)
    return found


def turns(items: int, step: int) -> list[Turn]:
    """What a step of the sum of so many items is, at each level from the lowest."""
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
    """Which item a step takes."""
    return sum(turn.place * BLOCK**level for level, turn in enumerate(found))


def _few(count: int) -> int:
    """How many items the last block of a level has, which has so many."""
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
