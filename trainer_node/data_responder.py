"""Answers data requests for our root and the job's logs, and closes late requests for logs.

A claimant that does not respond loses its claim, so responses are as urgent as moves in matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import structlog

from referee_py.availability import Place, Response
from referee_py.availability.pieces import check
from referee_py.availability.solver import response_of
from referee_py.errors import AssayError
from referee_py.params import ANSWER_GAS, BYTE_GAS

from .chain import Call, Contracts, Group, JobView, Snapshot
from .chain.codec.availability import close_call, provide_call
from .due import Due
from .errors import Reverted
from .replay import Replay

MAX_BATCH_BYTES, MAX_BATCH_GAS = 100_000, 12_000_000
"""Limits of one transaction: public nodes relay 131,072 bytes; a transaction may have 16.7 million gas (EIP-7825)."""
ENTRY_BYTES = 128
"""Upper bound on the bytes that a batch adds to a response: its offset, its length, padding, the batch's head."""
MAX_BATCHES = 4
"""Batches sent before other jobs have their turn: a flood of requests must not keep us from a match."""

_log = structlog.get_logger(__name__)

Answered = tuple[bytes, Place, Response]


class DataResponder:
    """``simulate`` raises Reverted if the contract would refuse a call."""

    def __init__(self, contracts: Contracts, simulate: Callable[[Call], object]) -> None:
        self._contracts = contracts
        self._simulate = simulate

    def due(self, snapshot: Snapshot, job: JobView, own: Group, replay: Replay) -> Iterator[Due]:
        """Yield answers to the requests for the job's logs and for our root. Raises RpcUnavailable and RpcCorrupt.

        NOTE: requests from former lives of our root can no longer cost a claim, so they need no response.
        """
        if not snapshot.pending(job, own):
            return
        ours = (own.root, own.life), (job.logs, 0)
        due = [d for d in snapshot.ledger(job).open.values() if (d.root, d.life) in ours]
        for request in due:
            # NOTE: we close no late request for our own root: that would cost us the claim.
            if snapshot.now > request.until and request.place.piece.of_logs:
                made = close_call(self._contracts.subject(job.id, request.root), request.place)
                yield Due(Call.batch(self._contracts.data_availability, made))
        # SAFETY: in this order, computing one interval a period and sending 100,000 bytes a minute is always in time.
        due.sort(key=lambda request: (request.until, request.place))
        places = [(d.root, d.place) for d in due if snapshot.now <= d.until]
        for batch in islice(self._batches(job, places, replay), MAX_BATCHES):
            about = {"job": job.id, "answers": len(batch), "open": len(places)}
            yield Due(self._call(job, *batch), "data_request.answer", about)

    def _batches(
        self, job: JobView, places: Sequence[tuple[bytes, Place]], replay: Replay
    ) -> Iterator[list[Answered]]:
        """Yield batches of responses that the contract accepts, each for one transaction."""
        batch: list[Answered] = []
        size = gas = 0
        for root, place in places:
            try:
                answer = root, place, response_of(replay.terms, place, replay)
                call = self._call(job, answer)
                self._simulate(call)
            except Reverted as error:
                _log.info("data_request.refused", place=str(place), reason=str(error))  # somebody was faster
                continue
            except AssayError as error:
                # NOTE: we show the other pieces even if one is lost.
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

    def _call(self, job: JobView, *answers: Answered) -> Call:
        """Return one transaction that gives all of these answers, or none of them."""
        subject = self._contracts.subject
        made = (provide_call(subject(job.id, root), place, answer) for root, place, answer in answers)
        return Call.batch(self._contracts.data_availability, *made)

    def _cost(self, replay: Replay, answer: Answered) -> int:
        """Return the most gas that a response takes, which is also the gas that its fee pays for."""
        root, place, shown = answer
        return ANSWER_GAS + BYTE_GAS * check(replay.terms, root, place, shown)
