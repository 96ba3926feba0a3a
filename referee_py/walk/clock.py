"""Chess clocks of the two sides of a match or a trial (docs/protocol.md, section 7, "Clocks"). All times are seconds.

INVARIANT: a side is charged for exactly the seconds in which it owed a move, and nothing gives time back.
INVARIANT: only `late` decides who is late: moves, timeouts, views and solvers all call it.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import Protocol, TypeVar

from .sides import BOTH, NOBODY, SIDE0, SIDE1, sides


class Turn(Enum):
    """The sides that owe a move."""

    NOBODY = auto()
    CONCLUDE = auto()
    """The sides that have not posted their half; both once both have posted, since either may conclude then."""
    POST = auto()
    """The sides that have not posted."""
    SIDE0 = auto()
    SIDE1 = auto()
    BOTH = auto()


class Clocked(Protocol):
    """A state with clocks: ``clock`` is each side's seconds left at the instant ``tick``."""

    @property
    def turn(self) -> Turn: ...
    @property
    def posted(self) -> int: ...
    @property
    def clock(self) -> tuple[int, int]: ...
    @property
    def tick(self) -> int: ...


S = TypeVar("S", bound=Clocked)

_FIXED = {Turn.NOBODY: NOBODY, Turn.SIDE0: SIDE0, Turn.SIDE1: SIDE1, Turn.BOTH: BOTH}


def owing(state: Clocked) -> int:
    """Return the sides whose clocks run, as a bit mask."""
    if state.turn in _FIXED:
        return _FIXED[state.turn]
    missing = BOTH & ~state.posted
    return missing or (BOTH if state.turn is Turn.CONCLUDE else NOBODY)


def deadline(state: Clocked, side: int) -> int:
    """Return the last instant at which that side is not late, if it owes a move."""
    return state.tick + state.clock[side]


def first_deadline(state: Clocked) -> int:
    """Return the last instant at which nobody is late; zero if nobody owes a move."""
    return min((deadline(state, side) for side in sides(owing(state))), default=0)


def late(state: Clocked, now: int) -> int:
    """Return the late sides as a bit mask: of those that owe a move, the one with the earliest deadline, or both.

    NOTE: after the first deadline the result never changes: a late timeout has the same loser as a prompt one.
    """
    first = first_deadline(state)
    if not owing(state) or now <= first:
        return NOBODY
    return sum(1 << side for side in sides(owing(state)) if deadline(state, side) == first)


def charge(state: S, now: int) -> S:
    """Return the state after a move at ``now``: each side that owed it is charged for the time since ``tick``."""
    mask, spent = owing(state), now - state.tick
    clock = tuple(left - spent * (mask >> side & 1) for side, left in enumerate(state.clock))
    return replace(state, clock=clock, tick=now)  # type: ignore[type-var]  # a dataclass, as all states are
