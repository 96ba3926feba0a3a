"""Plays a match: asks the solver for moves, given the chain and the opponent's server, and sends them."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from referee_py.game.solver import plan
from referee_py.game.state import MatchState, Phase
from referee_py.game.view import LoggedView
from referee_py.walk import clock

from .chain import Contracts, Receipt, Snapshot, TransactionManager
from .decide import Seat
from .opponent import Opponents
from .patience import NONE, Patience
from .replay import Replay
from .submit import ACT_TIMEOUT_S

_log = structlog.get_logger(__name__)


class MatchPlayer:
    """Plays for the account of ``transactions``."""

    def __init__(self, contracts: Contracts, transactions: TransactionManager, opponents: Opponents) -> None:
        self._contracts = contracts
        self._transactions = transactions
        self._opponents = opponents
        self._waiting: dict[int, MatchState] = {}
        """By match: the state in which its moves are known and wait for cheaper gas."""

    def play(
        self,
        snapshot: Snapshot,
        seat: Seat,
        replay: Replay,
        opponent_uris: Sequence[str],
        patience: Patience = NONE,
    ) -> Receipt | None:
        """Make the moves that are due, all in one transaction; None if there are none, or they wait for cheaper gas.

        Raises the errors of TransactionManager. NOTE: a snapshot is some confirmations old, and somebody may have made
        the move meanwhile. The simulation then refuses it at no cost, and the next round decides again.
        """
        match, state = seat.match, seat.match.state
        waits = _waits(seat, snapshot.now, patience)
        if waits and self._waiting.get(match.id) == state:
            return None
        asked = self._opponents.ask(opponent_uris)
        moves = plan(
            state,
            match.terms,
            seat.side,
            may_refine=seat.may_refine,
            own=replay,
            opponent=LoggedView(match.log, 1 - seat.side, asked.tree, asked.record),
            now=snapshot.now,
        )
        receipt = None
        names = [move.function for move, _ in moves]
        if moves and waits:
            self._waiting[match.id] = state
            _log.info("match.waits", match=match.id, moves=names, fee=patience.fee, bears=patience.bears)
        elif moves:
            self._waiting.pop(match.id, None)
            _log.info("match.move", match=match.id, side=seat.side, step=state.end, moves=names)
            call = self._contracts.moves(match.terms, moves)
            receipt = self._transactions.send(call, timeout_s=ACT_TIMEOUT_S)
        if state.phase is Phase.HEARING:
            replay.publish(state.end, state.index)
        return receipt


def _waits(seat: Seat, now: int, patience: Patience) -> bool:
    """Return whether moves of a match are sent later. SAFETY: only while our clock runs, or after a clock ran out."""
    state = seat.match.state
    if clock.late(state, now):
        return patience.lingers(now - clock.first_deadline(state))
    owes = clock.owing(state) >> seat.side & 1
    return bool(owes) and patience.waits(clock.deadline(state, seat.side) - now, seat.match.terms.clock)
