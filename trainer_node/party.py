"""What trainer and challenger share: look at the chain, decide, act.

Every tick reads one pinned block, so a decision never mixes two states; whatever was true before a crash or a
reorganisation is simply read again. Disputes come first, and an error in one of them keeps nobody from the next.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import structlog

from referee_py.execute import Claim
from referee_py.game.book import commitment
from referee_py.rounding.thresholds import fixed

from .acts import act
from .chain import Call, Job, Snapshot
from .decide import Do, seats
from .devices import backend_of, evaluator_of
from .docket import Docket, Rounds
from .errors import Reverted
from .faults import HONEST, Lie
from .fetch import Fetcher
from .opponent import PATIENCE_S, Opponents
from .player import Player
from .rounded.calibration import Calibration
from .salt import salt_of
from .service import Node
from .workshop import Workshop

OPPONENT_TIMEOUT_S = 3.0

_log = structlog.get_logger(__name__)


Decide = Callable[[Job, int], tuple[list[Do], Claim | None]]
"""What is to be done about a job at an instant of the chain, and the own result if it is at stake."""


@contextlib.contextmanager
def crew(node: Node, lie: Lie = HONEST, *, follows: bool = False) -> Iterator[Workshop]:
    """The workshop of a node, closed at the end. ``follows``: not its own rounding logs, but the trainer's."""
    settings = node.settings
    workshop = Workshop(
        node.fetcher,
        node.database,
        backend_of(settings.device),
        max_memory=settings.limits.memory_bytes,
        max_logs=settings.limits.log_bytes,
        follows=follows,
        evaluator=lambda: evaluator_of(settings.evaluator, settings.device),
        thresholds=fixed if settings.calibration is None else Calibration.read(settings.calibration).tau,
        lie=lie,
    )
    try:
        yield workshop
    finally:
        workshop.close()


class Party:
    """Acts on jobs for the node's key, or only looks if it has none. ``silent`` never answers in a match."""

    def __init__(self, node: Node, workshop: Workshop, decide: Decide, *, silent: bool = False) -> None:
        self._client = node.client
        self._metrics = node.metrics
        self._transactions = node.transactions
        self._workshop = workshop
        self._uri = node.public_uri
        self._decide = decide
        self._rounds = Rounds(Docket(node.database), node.problems)
        self._player: Player | None = None
        self._over: set[int] = set()
        if node.transactions is not None and not silent:
            # NOTE: an opponent who does not serve must not cost us our clock: he has to reveal on-chain then.
            fetcher = Fetcher(
                node.store,
                timeout_s=OPPONENT_TIMEOUT_S,
                attempts=1,
                budget_s=PATIENCE_S,
                stop=node.stop,
            )
            self._player = Player(node.client.contracts, node.transactions, Opponents(fetcher))

    def tick(self) -> None:
        """Look once and do what is due. Raises RpcUnavailable and RpcCorrupt if the chain is gone, nothing else."""
        snapshot = self._client.snapshot()
        self._metrics.block.set(snapshot.block.number)
        if self._transactions is not None and self._transactions.open():
            self._transactions.recover()  # what was not mined in the time an earlier round had for it
        self._rounds.go(snapshot, lambda job: self._attend(snapshot, job))
        if self._transactions is not None and snapshot.credit(self._transactions.address):
            self._send(Call.of(self._client.contracts.jobs, "withdraw"))

    def _attend(self, snapshot: Snapshot, job: Job) -> bool:
        """Do what is due in a job. Whether it concerns us."""
        if job.phase.ended:
            if job.id not in self._over:
                self._over.add(job.id)
                _log.info("job.over", job=job.id, phase=job.phase.name, root=job.accepted_root.hex())
            self._workshop.forget(job.id)
            return False
        self._over.discard(job.id)  # a reorganisation has brought it back
        acts, own = self._decide(job, snapshot.now)
        try:
            if own is not None:
                self._play(snapshot, job, own)
        finally:
            for act in acts:
                self._act(job, act, own)
        me = self._transactions.address if self._transactions else None
        ours = me is not None and (job.trainer(me) is not None or job.claim_of(me) is not None)
        return ours or (own is not None and job.open_matches > 0)

    def _play(self, snapshot: Snapshot, job: Job, own: Claim) -> None:
        """Make the moves that are due in its matches. Raises the last error, after all of them had their turn."""
        if self._player is None or not job.open_matches:
            return
        me = self._transactions.address if self._transactions else None
        failed: Exception | None = None
        matches = [snapshot.match(job, match_id) for match_id in job.match_ids()]
        for seat in seats(job, matches, me, own):
            try:
                self._player.play(snapshot, seat, self._workshop.replay(job.id), job.uris(seat.opponent))
            except Reverted as error:
                _log.info("match.refused", match=seat.match.id, reason=str(error))
            except Exception as error:
                _log.warning(
                    "match.failed", match=seat.match.id, error=type(error).__name__, reason=str(error)
                )
                failed = error
        if failed is not None:
            raise failed

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
                run = (own.root, own.last, own.logs)
                where = (self._client.deployment.chain_id, str(jobs.address), job.id, key.address)
                self._send(Call.of(jobs, "commit", job.id, commitment(*where, *run, salt)))
            elif act is Do.REVEAL:
                self._send(Call.of(jobs, "reveal", job.id, claim, own.logs, salt))
            elif act is Do.CHALLENGE:
                self._send(Call.of(jobs, "challenge", job.id, claim, value=job.stake))

    def _send(self, call: Call) -> None:
        assert self._transactions is not None
        act(self._transactions, call)
