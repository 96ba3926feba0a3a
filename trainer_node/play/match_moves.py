"""Our moves in a match, by the solver, given the chain, our run and the opponent's server.

SAFETY: this takes as long as an interval of the run, so it runs in a thread outside the loop (`drafts`), and uses
nothing of the loop's.
"""

from __future__ import annotations

from collections.abc import Sequence

from referee_py.game.player_data import LoggedView
from referee_py.game.solver import Planned, plan
from referee_py.game.state import Phase

from ..chain import Seat
from ..network.opponents import Opponents
from ..run.replay import Replay
from .drafts import Stop


def moves_of(
    seat: Seat, replay: Replay, opponents: Opponents, uris: Sequence[str], now: int, stop: Stop
) -> list[Planned]:
    """Return the moves, and offer what a hearing needs; nothing if told to ``stop``."""
    if stop():
        return []
    match, state = seat.match, seat.match.state
    asked = opponents.ask(uris)
    moves = plan(
        state,
        match.terms,
        seat.side,
        may_refine=seat.may_refine,
        own=replay,
        opponent=LoggedView(match.log, 1 - seat.side, asked.tree, asked.record),
        now=now,
    )
    if state.phase is Phase.HEARING:
        replay.publish(state.end, state.index)
    return moves
