"""Decides what is due in a match: asks the solver for moves, given the chain and the opponent's server."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from web3.contract import Contract

from referee_py.game.solver import plan
from referee_py.game.state import MatchState, Phase
from referee_py.game.view import LoggedView

from ..chain import Call, Seat
from ..chain.codec.match import match_call
from ..daemon.due import Due
from ..errors import RpcCorrupt
from ..ids import whole
from ..network.opponents import Opponents
from ..run.replay import Replay
from ..stake.gas_patience import NONE, Patience, Slack

_log = structlog.get_logger(__name__)


class MatchPlayer:
    """Remembers which moves wait for cheaper gas, so that they are not computed again."""

    def __init__(self, referee: Contract, opponents: Opponents) -> None:
        self._referee = referee
        self._opponents = opponents
        self._waiting: dict[int, MatchState] = {}
        """By match: the state in which its moves are known and wait for cheaper gas."""

    def due(
        self, seat: Seat, replay: Replay, opponent_uris: Sequence[str], now: int, patience: Patience = NONE
    ) -> list[Due]:
        """Return the moves that are due at ``now``, all in one transaction; none if they wait for cheaper gas.

        Raises RpcCorrupt if there are none because the endpoint hides what the other side has posted.
        """
        match, state = seat.match, seat.match.state
        waits = patience.waits(Slack.by_clock(state, seat.side, match.terms.clock, now))
        if waits and self._waiting.get(match.id) == state:
            return []
        asked = self._opponents.ask(opponent_uris)
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
        if not moves and match.hidden is not None:
            raise RpcCorrupt(match.hidden)
        if not moves:
            return []
        names = [move.function for move, _ in moves]
        if waits:
            self._waiting[match.id] = state
            _log.info(
                "match.waits", match=whole(match.id), moves=names, fee=patience.fee, bears=patience.bears
            )
            return []
        self._waiting.pop(match.id, None)
        about = {"match": whole(match.id), "side": seat.side, "step": state.end, "moves": names}
        made = [match_call(move, before, match.terms) for move, before in moves]
        return [Due(Call.batch(self._referee, *made, inputs=0), "match.move", about, dispute=True)]
