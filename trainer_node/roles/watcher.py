"""Watches jobs for their clients' bounties: computes a job's result before anybody reveals it, and commits to it.

    a slot is taken ─▶ train ─▶ trainers have committed: commit, and stake ─▶ our root is claimed: show it ─▶ collect

A watcher must also challenge with its result: if another root is accepted, the watcher's stake is lost. The chain keeps
the state, so a restarted node continues where it stopped.
"""

from __future__ import annotations

import structlog

from referee_py.watch import WatcherState, watch_commitment

from ..chain import Call, JobPhase, JobView, Snapshot, TransactionManager
from ..compute.job_runner import JobRunner
from ..daemon.due import Due
from ..daemon.service import Daemon
from ..play.ends import Ends
from ..play.salts import Salts
from ..stake.funds import kept_to_watch
from .acceptance import Acceptance

_log = structlog.get_logger(__name__)


class Watcher:
    """Watches jobs for the node's account; ``max_watch`` of its settings bounds the stake on one job."""

    def __init__(self, node: Daemon, transactions: TransactionManager, runner: JobRunner) -> None:
        self._node = node
        self._transactions = transactions
        self._salts = Salts(transactions.account, node.database)
        self._runner = runner
        self._contract = node.client.contracts.watch
        self._watched: set[int] = set()
        self._ends = Ends()
        self._begun = node.remembered.of_jobs(bool)
        self._acceptance = Acceptance(node, runner, "job.not_watched")
        self._left: set[tuple[int, int]] = set()
        """Jobs that we have left, by number and instant of posting: after a reorganisation a number may stand for
        another job."""

    def watches(self, job: JobView) -> bool:
        """Return whether a snapshot has shown our stake on a result of our own."""
        return job.id in self._watched

    def due(self, snapshot: Snapshot, job: JobView) -> list[Due] | None:
        """Return what is due for a job's bounty; None if we neither watch the job nor are about to."""
        if not job.program.arithmetic.watchable or (job.id, job.posted) in self._left:
            return None
        me = self._transactions.address
        mine = snapshot.watcher(job, me)
        if mine.state is WatcherState.NONE and job.phase is JobPhase.TRAINING:
            return self._begin(snapshot, job)
        if mine.state in (WatcherState.NONE, WatcherState.COLLECTED):
            return self._leave(snapshot, job) if job.id in self._watched else None
        self._watched.add(job.id)
        if job.phase.ended:
            right = mine.state is WatcherState.SHOWN and mine.found == job.accepted_root
            if job.phase is JobPhase.ACCEPTED and not right:
                left = self._leave(snapshot, job)
                if left is None:
                    _log.warning("watch.lost", job=job.id, root=job.accepted_root.hex())
                return left
            return [self._due(job, "collect", me)]
        if mine.state is WatcherState.COMMITTED and job.phase in (JobPhase.CHALLENGE, JobPhase.CLOSING):
            own = self._runner.train(job, ours=True)
            # SAFETY: to show a root that nobody claims would give it away before our commitment is old enough to claim.
            if own is not None and job.group_of_root(own.root) is not None:
                return [self._due(job, "show", own.root, self._salt(job))]
        return []

    def _begin(self, snapshot: Snapshot, job: JobView) -> list[Due] | None:
        """Train; return the commitment once the run is done, and None if we do not work on the job."""
        # NOTE: posting a job costs its client nothing until somebody has staked on it.
        if not job.trainers or job.trainer(self._transactions.address) is not None:
            return None
        if not job.is_under(self._node.client.deployment.referee):
            return None
        pool = snapshot.pool(job)

        def worth() -> bool:
            return self._acceptance.takes(job.id, self._acceptance.watch(job, pool, snapshot.now))

        if not pool.amount or (not self._begun[job.id] and not worth()):
            return None
        self._begun[job.id] = True
        own = self._runner.train(job)
        # SAFETY: training may take days, in which prices and our other jobs change, so we check again before we stake.
        if own is not None and is_due(job, snapshot.now) and worth():
            deployment = self._node.client.deployment
            where = deployment.chain_id, str(self._contract.address), job.id, self._transactions.address
            committed = watch_commitment(*where, own.root, self._salt(job))
            stakes = job.id, kept_to_watch(job, self._node.settings.fees.max_fee)
            bounty = self._node.client.contracts.bounty(job.id, job.client)
            call = Call.of(self._contract, "watch", bounty, committed, value=job.stake_sent)
            return [Due(call, stakes=stakes, exposes=True, opens=True)]
        return []

    def _leave(self, snapshot: Snapshot, job: JobView) -> list[Due] | None:
        """Return None once it is certain that nothing of ours is left in a job; until then nothing is due in it."""
        if not self._ends.believed(snapshot, job.id):
            return []
        self._left.add((job.id, job.posted))
        self._watched.discard(job.id)
        self._ends.back(job.id)
        return None

    def _salt(self, job: JobView) -> bytes:
        return self._salts.of(self._node.client.deployment.chain_id, str(self._contract.address), job.id)

    def _due(self, job: JobView, function: str, *arguments: object) -> Due:
        bounty = self._node.client.contracts.bounty(job.id, job.client)
        return Due(Call.of(self._contract, function, bounty, *arguments))


def is_due(job: JobView, now: int) -> bool:
    """Return whether it is time to commit to our result.

    SAFETY: if the job has a watch period, we commit after the trainers, so that a liar cannot see whether somebody
    watches. With several slots, some trainers may never commit; we then commit once only a watch period is left. So a
    trainer that keeps a slot open until then does see it; who wants a bounty to deter, posts one slot
    (docs/economics.md, section 8).
    """
    if not job.watch_period or job.commitments == job.slots:
        return True
    return job.slots > 1 and job.commit_end - now <= job.watch_period
