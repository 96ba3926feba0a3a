"""Plays a match: from what the chain and the opponent's server show to the transaction that the solver asks for."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from referee_py.commit import Record, Tag, Tree
from referee_py.errors import InvalidInput, Unavailable
from referee_py.game.solver import plan
from referee_py.game.state import Phase
from referee_py.game.view import LoggedView

from .chain import Contracts, Receipt, Snapshot, TransactionManager
from .decide import Seat
from .fetch import Fetcher
from .replay import Replay

_log = structlog.get_logger(__name__)


class Player:
    """Plays for whoever holds the key of ``transactions``. ``fetcher`` asks the opponent's servers."""

    def __init__(self, contracts: Contracts, transactions: TransactionManager, fetcher: Fetcher) -> None:
        self._contracts = contracts
        self._transactions = transactions
        self._fetcher = fetcher

    def play(
        self, snapshot: Snapshot, seat: Seat, replay: Replay, opponent_uris: Sequence[str]
    ) -> Receipt | None:
        """Make the moves that are due, all in one transaction; None if there are none.

        Raises the errors of TransactionManager. NOTE: whoever moved first in the meantime makes ours revert in
        simulation; the next look at the chain decides anew.
        """
        match = seat.match
        state = match.state
        if state.phase in (Phase.OPEN, Phase.VERDICT):
            replay.publish(state.end, state.index)
        moves = plan(
            state,
            match.terms,
            seat.side,
            may_refine=seat.may_refine,
            own=replay,
            opponent=self._view(snapshot, seat, opponent_uris),
            now=snapshot.now,
        )
        if not moves:
            return None
        names = [move.function for move in moves]
        _log.info("match.move", match=match.id, side=seat.side, step=state.end, moves=names)
        return self._transactions.send(self._contracts.moves(match.id, moves))

    def _view(self, snapshot: Snapshot, seat: Seat, uris: Sequence[str]) -> LoggedView:
        def tree(tag: Tag, root: bytes, leaves: int) -> Tree | None:
            try:
                return self._fetcher.tree(tag, root, leaves, uris)
            except (Unavailable, InvalidInput):
                return None

        def record(record_hash: bytes) -> Record | None:
            try:
                return self._fetcher.record(record_hash, uris)
            except (Unavailable, InvalidInput):
                return None

        log = snapshot.history(seat.match.id).log
        return LoggedView(log, 1 - seat.side, tree, record)
