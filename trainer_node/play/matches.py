"""Decides what is due in a match: its moves, once they are computed, and unless they wait for cheaper gas.

SAFETY: a move may take an interval of the run to compute, and whoever disputes our root chooses the moment. So moves
are computed (`match_moves`) outside the loop (`drafts`), one match after the other: meanwhile the loop commits,
reveals, gives slots back, and sends what is due elsewhere.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from functools import partial

import structlog
from web3.contract import Contract

from referee_py.game.solver import Planned
from referee_py.game.state import MatchState

from ..chain import Call, Seat, Snapshot
from ..chain.codec.match import match_call
from ..daemon.due import Due
from ..errors import RpcCorrupt
from ..ids import whole
from ..network.opponents import Opponents
from ..run.replay import Replay
from ..stake.gas_patience import NONE, Patience, Slack
from .drafts import Drafts, RoundPatience
from .match_moves import moves_of
from .unbound_moves import confirmed_first

_log = structlog.get_logger(__name__)


class MatchPlayer:
    """Remembers which moves wait for cheaper gas, so that they are not computed again. Works until ``stop`` is set."""

    def __init__(
        self,
        referee: Contract,
        opponents: Opponents,
        stop: threading.Event,
        patience: RoundPatience | None = None,
    ) -> None:
        self._referee = referee
        self._opponents = opponents
        self._patience = RoundPatience() if patience is None else patience
        # NOTE: admission counts the matches of all jobs one after the other (`stake.admission`).
        self._drafts: Drafts[tuple[int, int, int], Planned] = Drafts(stop, 1, "match")
        self._waiting: dict[tuple[int, int, int], MatchState] = {}
        """By job, match and side: the state in which its moves are known and wait for cheaper gas."""

    def due(
        self,
        snapshot: Snapshot,
        seat: Seat,
        replay: Replay,
        opponent_uris: Sequence[str],
        patience: Patience = NONE,
    ) -> list[Due]:
        """Return the moves that are due, all in one transaction; none while they are computed, or if they wait for
        cheaper gas.

        Raises RpcCorrupt if there are none because the endpoint hides what the other side has posted.
        """
        match, state, now = seat.match, seat.match.state, snapshot.now
        key = match.job_id, match.id, seat.side
        slack = Slack.by_clock(state, seat.side, match.terms.clock, now)
        waits = patience.waits(slack)
        if waits and self._waiting.get(key) == state:
            return []
        with self._patience.of(snapshot) as left:
            work = partial(moves_of, seat, replay, self._opponents, opponent_uris, now)
            moves = self._drafts.moves(key, (state, match.hidden), work, left)
        if moves is None:
            _log.info("match.pending", match=whole(match.id), side=seat.side, step=state.end)
            return []
        if not moves and match.hidden is not None:
            raise RpcCorrupt(match.hidden)
        if not moves:
            return []
        names = [move.function for move, _ in moves]
        if waits:
            self._waiting[key] = state
            _log.info(
                "match.waits", match=whole(match.id), moves=names, fee=patience.fee, bears=patience.bears
            )
            return []
        self._waiting.pop(key, None)
        about = {"match": whole(match.id), "side": seat.side, "step": state.end, "moves": names}
        made = [match_call(move, before, match.terms) for move, before in moves]
        due = Due(Call.batch(self._referee, *made, inputs=0), "match.move", about, dispute=True)
        return [confirmed_first(due, [move for move, _ in moves], slack)]

    @property
    def computing(self) -> bool:
        """True while moves are being computed."""
        return any(map(self._drafts.busy, self._drafts.known()))

    def forget(self, job_id: int, but: Collection[int] = ()) -> None:
        """Drop what is known of a job's matches, except those in ``but``."""
        for key in [key for key in self._drafts.known() if key[0] == job_id and key[1] not in but]:
            self._drafts.forget(key)
        for key in [key for key in self._waiting if key[0] == job_id and key[1] not in but]:
            del self._waiting[key]
