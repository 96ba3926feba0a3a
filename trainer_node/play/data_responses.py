"""Answers data requests for our root and the job's logs, and closes late requests for logs.

A claimant that does not respond loses its claim, so responses are as urgent as moves in matches. They are computed
outside the loop (`answers`) and sent as they are ready: in the order of their deadlines, one transaction at a time, for
which nothing waits.

    open, in the state that counts ─▶ computed ─▶ open in the newest block, too ─▶ sent, unless our last is on its way
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import structlog

from referee_py.availability import Place, Response
from referee_py.availability.pieces import check
from referee_py.params import ANSWER_GAS, BYTE_GAS

from ..chain import Call, Contracts, Group, JobView, Snapshot, TransactionManager
from ..chain.codec.availability import close_call, provide_call
from ..daemon.due import Due
from ..errors import ChainError, Reverted
from ..run.replay import Replay
from ..stake.flood import ENTRY_BYTES, MAX_BATCH_BYTES, MAX_BATCH_GAS
from .answers import Answers, Key
from .ends import Confirmer

_log = structlog.get_logger(__name__)

MAX_HIDDEN = 512
"""Requests of a job that are computed though the last look does not show them."""
LATER_S = 1 << 62
"""Seconds that are added to their deadlines: all that is shown comes first."""
Answered = tuple[bytes, Place, Response]


class DataResponder:
    """Sends with ``transactions``. ``newest`` returns what most endpoints give at their newest blocks, see
    `ChainClient.newest`. Works until ``stop`` is set."""

    def __init__(
        self,
        contracts: Contracts,
        transactions: TransactionManager,
        newest: Callable[..., frozenset[Key] | None],
        stop: threading.Event,
    ) -> None:
        self._contracts = contracts
        self._transactions = transactions
        self._newest = newest
        self._answers = Answers(stop)
        self._confirmer = Confirmer()
        self._wanted: dict[int, dict[Key, int]] = {}
        """By job: what is computed, with its deadlines."""
        self._sent: dict[int, int] = {}
        """By job: our last transaction with answers, by its number in the outbox."""
        self._to = str(contracts.data_availability.address)
        self._earlier = set(transactions.open(self._to))
        """Open transactions of an earlier process to the contract that takes answers, which may be some."""

    def due(self, snapshot: Snapshot, job: JobView, own: Group, replay: Replay) -> Iterator[Due]:
        """Yield answers to the requests for the job's logs and for our root. Raises RpcUnavailable and RpcCorrupt.

        NOTE: requests from former lives of our root can no longer cost a claim, so they need no response.
        """
        ours = (own.root, own.life), (job.logs, 0)
        opened = snapshot.ledger(job).open.values() if snapshot.pending(job, own) else ()
        due = [d for d in opened if (d.root, d.life) in ours]
        for request in due:
            # NOTE: we close no late request for our own root: that would cost us the claim.
            if snapshot.now > request.until and request.place.piece.of_logs:
                made = close_call(self._contracts.subject(job.id, request.root), request.place)
                yield Due(Call.batch(self._contracts.data_availability, made))
        wanted = {(d.root, d.place): d.until for d in due if snapshot.now <= d.until}
        computed = self._computed(snapshot, job.id, wanted)
        if not opened and not computed:
            self.forget(job.id)
            return
        ready = self._answers.ask(job.id, replay, computed)
        ready = {key: answer for key, answer in ready.items() if key in wanted}
        if not ready:
            return
        if self._on_its_way(job.id):
            return
        last = self._sent.get(job.id)

        def still_open(head: Snapshot) -> frozenset[Key] | None:
            # SAFETY: a block without our last answers shows as open what they have answered.
            if last is not None and not self._transactions.counts_at(last, head.block.number):
                return None
            if head.block.number <= snapshot.block.number:
                return frozenset(ready)
            return frozenset(head.ledger(head.job(job.id, told=False)).open).intersection(ready)

        # SAFETY: the snapshot is some blocks old, and for what is answered by now, by us or another, nobody pays again.
        # What a reorganisation takes back is open in the newest block again, and is sent again.
        # NOTE: many refuse logs. Who alone gives them may hide what is open; what it makes up, the simulation refuses.
        left = self._newest(still_open, alone=True)
        if left is None:
            return
        ready = {key: ready[key] for key in left}
        # SAFETY: in this order, computing one interval a period and sending 100,000 bytes a minute is always in time.
        order = sorted(ready, key=lambda key: (wanted[key], key[1]))
        batch = self._batch(job, order, ready, replay)
        if batch:
            about = {"job": job.id, "answers": len(batch), "ready": len(order), "open": len(wanted)}
            sent = partial(self._sent.__setitem__, job.id)
            yield Due(self._call(job, *batch), "data_request.answer", about, sent=sent)

    def _computed(self, snapshot: Snapshot, job_id: int, wanted: dict[Key, int]) -> dict[Key, int]:
        """Return what is to be computed: what a look shows, and what an earlier one has shown until others confirm that
        it is open no more.

        SAFETY: one endpoint could hide a request for one look, again and again, and whatever was computed of its
        interval would begin once more each time.
        """
        before = self._wanted.get(job_id, {})
        hidden = [key for key, until in before.items() if key not in wanted and snapshot.now <= until]
        if not hidden or self._confirmer.refusal(snapshot) is None:
            self._wanted[job_id] = wanted
            return wanted
        # SAFETY: one endpoint could as well make requests up: they come after those that are shown, and are few.
        few = sorted(hidden, key=lambda key: before[key])[:MAX_HIDDEN]
        self._wanted[job_id] = wanted | {key: before[key] for key in few}
        return wanted | {key: before[key] + LATER_S for key in few}

    def let_go(self, snapshot: Snapshot, job_id: int) -> None:
        """Drop what is computed for a job in which a look shows nothing to answer for, once others confirm that."""
        if job_id in self._wanted and self._confirmer.refusal(snapshot) is None:
            self.forget(job_id)

    def forget(self, job_id: int) -> None:
        """Drop what is computed for a job of which nothing is asked any more."""
        self._answers.forget(job_id)
        self._sent.pop(job_id, None)
        self._wanted.pop(job_id, None)

    @property
    def busy(self) -> bool:
        """True while answers are being computed."""
        return self._answers.busy

    def _on_its_way(self, job_id: int) -> bool:
        """Return whether the last answers to a job's requests may still wait for a block.

        SAFETY: one transaction at a time, so that a move of a match, which is mined after it, is a block late at most.
        """
        open_ones = set(self._transactions.open(self._to))
        if open_ones:
            # SAFETY: a receipt may come hours after its block. Once its number is used, what is still open in the
            # newest blocks is sent again; what was answered is refused.
            with contextlib.suppress(ChainError):
                open_ones &= set(self._transactions.means.waiting())
        self._earlier &= open_ones
        return bool(self._earlier) or self._sent.get(job_id) in open_ones

    def _batch(
        self, job: JobView, order: Sequence[Key], ready: Mapping[Key, Response], replay: Replay
    ) -> list[Answered]:
        """Return those of the first answers that the contract accepts, as many as one transaction takes."""
        batch: list[Answered] = []
        size = gas = 0
        for root, place in order:
            answer = root, place, ready[root, place]
            call = self._call(job, answer)
            bytes_, cost = len(call.data) + ENTRY_BYTES, self._cost(replay, answer)
            if batch and (size + bytes_ > MAX_BATCH_BYTES or gas + cost > MAX_BATCH_GAS):
                break
            batch.append(answer)
            size, gas = size + bytes_, gas + cost
        return self._accepted(job, batch) if batch else []

    def _accepted(self, job: JobView, batch: list[Answered]) -> list[Answered]:
        """Return the answers that the contract accepts: what is closed by now is looked for by halves.

        SAFETY: the loop asks once for a batch, and not once for each answer, while other clocks run.
        """
        try:
            self._transactions.simulate(self._call(job, *batch))
        except Reverted as error:
            if len(batch) == 1:
                _log.info("data_request.refused", place=str(batch[0][1]), reason=str(error))
                return []
            middle = len(batch) // 2
            return self._accepted(job, batch[:middle]) + self._accepted(job, batch[middle:])
        return batch

    def _call(self, job: JobView, *answers: Answered) -> Call:
        """Return one transaction that gives all of these answers, or none of them."""
        subject = self._contracts.subject
        made = (provide_call(subject(job.id, root), place, answer) for root, place, answer in answers)
        return Call.batch(self._contracts.data_availability, *made)

    def _cost(self, replay: Replay, answer: Answered) -> int:
        """Return the most gas that a response takes, which is also the gas that its fee pays for."""
        root, place, shown = answer
        return ANSWER_GAS + BYTE_GAS * check(replay.terms, root, place, shown)
