"""Answers what is requested of us, and closes what nobody has answered in time.

Whoever has claimed something and keeps silent about it is lost, so this comes as early as the moves of matches do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import structlog

from referee_py.availability import Place, Response
from referee_py.availability.pieces import check
from referee_py.availability.solver import response_of
from referee_py.errors import AssayError
from referee_py.params import ANSWER_GAS, BYTE_GAS

from .chain import Contracts, Group, JobView, Snapshot, TransactionManager
from .errors import Reverted
from .replay import Replay
from .submit import act

MAX_BATCH_BYTES, MAX_BATCH_GAS = 100_000, 12_000_000
"""Of one transaction: public nodes relay 131,072 bytes, a transaction may have 16.7 million gas (EIP-7825)."""
ENTRY_BYTES = 128
"""More than an answer takes in a batch besides its own: where it begins, its length, padding, the batch's head."""
MAX_BATCHES = 4
"""That are sent before other jobs have their turn: a flood must not keep us from a match."""

_log = structlog.get_logger(__name__)

Answered = tuple[bytes, Place, Response]


class DataResponder:
    """Acts for whoever holds the key of ``transactions``."""

    def __init__(self, contracts: Contracts, transactions: TransactionManager) -> None:
        self._contracts = contracts
        self._transactions = transactions

    def attend(self, snapshot: Snapshot, job: JobView, own: Group, replay: Replay) -> None:
        """Answer what is requested of the job's logs and of our root. Raises RpcUnavailable and RpcCorrupt.

        NOTE: what was requested of our root in former lives costs nobody anything any more.
        """
        if not snapshot.pending(job, own):
            return
        ours = (own.root, own.life), (job.logs, 0)
        due = [d for d in snapshot.ledger(job).open.values() if (d.root, d.life) in ours]
        for request in due:
            # NOTE: what is late of our own root would cost us the claim; that is for others to say.
            if snapshot.now > request.until and request.place.piece.of_logs:
                act(self._transactions, self._contracts.closings(job.id, [(request.root, request.place)]))
        # SAFETY: in this order whoever computes one interval a period and sends 100,000 bytes a minute is never late.
        due.sort(key=lambda request: (request.until, request.place))
        places = [(d.root, d.place) for d in due if snapshot.now <= d.until]
        for batch in islice(self._batches(job, places, replay), MAX_BATCHES):
            _log.info("data_request.answer", job=job.id, answers=len(batch), open=len(places))
            act(self._transactions, self._contracts.answers(job.id, batch))

    def _batches(
        self, job: JobView, places: Sequence[tuple[bytes, Place]], replay: Replay
    ) -> Iterator[list[Answered]]:
        """Answers that the contract accepts, as many in one transaction as fit."""
        batch: list[Answered] = []
        size = gas = 0
        for root, place in places:
            try:
                answer = root, place, response_of(replay.terms, place, replay)
                call = self._contracts.answers(job.id, [answer])
                self._transactions.simulate(call)
            except Reverted as error:
                _log.info("data_request.refused", place=str(place), reason=str(error))  # somebody was faster
                continue
            except AssayError as error:
                # NOTE: one piece that is lost must not keep us from showing the others.
                _log.error(
                    "data_request.failed", place=str(place), error=type(error).__name__, reason=str(error)
                )
                continue
            bytes_, cost = len(call.data) + ENTRY_BYTES, self._cost(replay, answer)
            if batch and (size + bytes_ > MAX_BATCH_BYTES or gas + cost > MAX_BATCH_GAS):
                yield batch
                batch, size, gas = [], 0, 0
            batch.append(answer)
            size, gas = size + bytes_, gas + cost
        if batch:
            yield batch

    def _cost(self, replay: Replay, answer: Answered) -> int:
        """The gas that an answer takes at most: what it is paid for."""
        root, place, shown = answer
        return ANSWER_GAS + BYTE_GAS * check(replay.terms, root, place, shown)
