"""The chess clocks of a match (docs/protocol.md, section 7, "Clocks").

INVARIANT: time is conserved. A side is charged for exactly the seconds in which it owed a move, and nothing
ever gives time back. INVARIANT: `late` is the only judge of lateness: moves, timeouts, views and the solver ask it.
"""

from __future__ import annotations

from dataclasses import replace

from .state import BOTH, NOBODY, MatchState, Phase, sides


def owing(state: MatchState) -> int:
    """The sides whose clocks run, as a bit mask."""
    if state.phase in (Phase.WALK, Phase.OPEN):
        # Both halves are known to all: either may conclude, so both are charged until one does.
        return BOTH if state.posted == BOTH else BOTH & ~state.posted
    if state.phase is Phase.REFINE:
        return BOTH & ~state.posted
    return NOBODY


def deadline(state: MatchState, side: int) -> int:
    """The last instant at which that side, owing a move, is not late."""
    return state.tick + state.clock[side]


def first_deadline(state: MatchState) -> int:
    """The last instant at which nobody is late; zero if nobody owes a move."""
    return min((deadline(state, side) for side in sides(owing(state))), default=0)


def late(state: MatchState, now: int) -> int:
    """The late sides as a bit mask: of those who owe, the one with the earliest deadline (both, if equal).

    NOTE: it does not depend on when it is asked, once the first deadline has passed; so a timeout claimed late
    has the same loser as one claimed at once.
    """
    owe = owing(state)
    if not owe:
        return NOBODY
    first = first_deadline(state)
    if now <= first:
        return NOBODY
    return sum(1 << side for side in sides(owe) if deadline(state, side) == first)


def charge(state: MatchState, now: int) -> MatchState:
    """The state after a move at ``now``: whoever owed has paid for the time since ``tick``."""
    owe = owing(state)
    spent = now - state.tick
    clock = tuple(left - spent if owe >> side & 1 else left for side, left in enumerate(state.clock))
    return replace(state, clock=(clock[0], clock[1]), tick=now)
