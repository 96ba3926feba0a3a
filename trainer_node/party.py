"""What trainer and challenger share: look at the chain, decide, act.

Every tick reads one pinned block, so a decision never mixes two states; whatever was true before a crash or a
reorganisation is simply read again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import repops
import structlog

from referee_py.errors import AssayError
from referee_py.execute import Claim
from referee_py.game.book import commitment

from .chain import Call, Job, Snapshot
from .decide import Do, seats
from .errors import Reverted
from .faults import Fault
from .fetch import Fetcher
from .player import Player
from .salt import salt_of
from .service import Node
from .workshop import Workshop

OPPONENT_TIMEOUT_S = 3.0

_log = structlog.get_logger(__name__)


Decide = Callable[[Job], tuple[list[Do], Claim | None]]
"""What is to be done about a job, and the own result if it is at stake."""


@contextlib.contextmanager
def crew(node: Node, fault: Fault, fault_step: int) -> Iterator[Workshop]:
    """The workshop of a node, closed at the end."""
    workshop = Workshop(
        node.fetcher,
        node.database,
        repops.backend("cpu"),
        max_memory=node.settings.limits.memory_bytes,
        fault=fault,
        fault_step=fault_step,
    )
    try:
        yield workshop
    finally:
        workshop.close()


class Party:
    """Acts on jobs for the node's key, or only looks if it has none. ``silent`` never answers in a match."""

    def __init__(self, node: Node, workshop: Workshop, decide: Decide, *, silent: bool = False) -> None:
        self._client = node.client
        self._transactions = node.transactions
        self._workshop = workshop
        self._uri = node.public_uri
        self._decide = decide
        self._player: Player | None = None
        self._over: set[int] = set()
        if node.transactions is not None and not silent:
            # NOTE: an opponent who does not serve must not cost us our clock: he has to reveal on-chain then.
            opponents = Fetcher(node.store, timeout_s=OPPONENT_TIMEOUT_S, attempts=1)
            self._player = Player(node.client.contracts, node.transactions, opponents)

    def tick(self) -> None:
        """Look once and do what is due. Raises RpcUnavailable and RpcCorrupt; a refused act is logged and forgotten."""
        snapshot = self._client.snapshot()
        for job_id in range(1, snapshot.job_count() + 1):
            if job_id in self._over:
                continue
            job = snapshot.job(job_id)
            if job.phase.ended:
                self._over.add(job_id)
                _log.info("job.over", job=job_id, phase=job.phase.name, root=job.accepted_root.hex())
            else:
                self._attend(snapshot, job)
        if self._transactions is not None and snapshot.credit(self._transactions.address):
            self._send(Call.of(self._client.contracts.jobs, "withdraw"))

    def _attend(self, snapshot: Snapshot, job: Job) -> None:
        acts, own = self._decide(job)
        for act in acts:
            self._act(job, act, own)
        if own is None or self._player is None or not job.open_matches:
            return
        me = self._transactions.address if self._transactions else None
        matches = [snapshot.match(job, match_id) for match_id in job.match_ids()]
        for seat in seats(job, matches, me, own):
            try:
                replay = self._workshop.replay(job.id)
                self._player.play(snapshot, seat, replay, job.uris(seat.opponent))
            except Reverted as error:
                _log.info("match.refused", match=seat.match.id, reason=str(error))

    def _act(self, job: Job, act: Do, own: Claim | None) -> None:
        jobs, key = self._client.contracts.jobs, self._transactions
        assert key is not None
        if act is Do.JOIN:
            self._send(Call.of(jobs, "join", job.id, value=job.stake))
        elif act is Do.FINALIZE:
            self._send(Call.of(jobs, "finalize", job.id))
        elif own is not None:
            claim = (own.root, own.last, list(own.path), self._uri)
            salt = salt_of(key.account, self._client.deployment.chain_id, str(jobs.address), job.id)
            if act is Do.COMMIT:
                where = (self._client.deployment.chain_id, str(jobs.address), job.id, key.address)
                self._send(Call.of(jobs, "commit", job.id, commitment(*where, own.root, own.last, salt)))
            elif act is Do.REVEAL:
                self._send(Call.of(jobs, "reveal", job.id, claim, salt))
            elif act is Do.CHALLENGE:
                self._send(Call.of(jobs, "challenge", job.id, claim, value=job.stake))

    def _send(self, call: Call) -> None:
        assert self._transactions is not None
        try:
            receipt = self._transactions.send(call)
            _log.info("act.done", act=call.action, gas=receipt.gas_used)
        except Reverted as error:
            # NOTE: somebody was faster, or the phase has ended; the next look at the chain decides anew.
            _log.info("act.refused", act=call.action, reason=str(error))
        except AssayError as error:
            _log.warning("act.failed", act=call.action, reason=str(error))
