"""Watches jobs for their clients' bounties: computes a job's result before anybody reveals it, and commits to it.

    a slot is taken ─▶ train ─▶ trainers have committed: commit, and stake ─▶ our root is claimed: show it ─▶ collect

A watcher must also challenge with its result: if another root is accepted, the watcher's stake is lost. The chain keeps
the state, so a restarted node continues where it stopped.
"""

from __future__ import annotations

import structlog

from referee_py.program.mode import is_rounded
from referee_py.watch import WatcherState, share_of, watch_commitment

from ..chain import Call, JobPhase, JobView, Snapshot, TransactionManager
from ..chain.codec.watch import PoolInfo
from ..daemon.due import Due
from ..daemon.service import Daemon
from ..play.actions import too_late, too_long, too_slow
from ..play.salts import Salts
from ..run.cost_estimate import MARGIN
from ..stake.funds import kept_to_watch, offer, too_dear, too_poor, unpaid
from ..stake.policy import crowded, unwanted
from ..work.job_runner import JobRunner

WATCH_GAS = 350_000
"""Gas to commit, show, collect and withdraw, together; see tests/contracts/watch/Watch.t.sol."""

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
        self._begun: set[int] = set()
        self._told: set[int] = set()
        self._commit_age = 0
        self._left: set[tuple[int, int]] = set()
        """Jobs that we have left, by number and instant of posting: after a reorganisation a number may stand for
        another job."""

    def watches(self, job: JobView) -> bool:
        """Return whether a snapshot has shown our stake on a result of our own."""
        return job.id in self._watched

    def due(self, snapshot: Snapshot, job: JobView) -> list[Due] | None:
        """Return what is due for a job's bounty; None if we neither watch the job nor are about to."""
        if is_rounded(job.program.mode) or (job.id, job.posted) in self._left:
            return None
        me = self._transactions.address
        mine = snapshot.watcher(job, me)
        if mine.state is WatcherState.NONE and job.phase is JobPhase.TRAINING:
            return self._begin(snapshot, job)
        if mine.state in (WatcherState.NONE, WatcherState.COLLECTED):
            self._leave(job)
            return None
        self._watched.add(job.id)
        if job.phase.ended:
            right = mine.state is WatcherState.SHOWN and mine.found == job.accepted_root
            if job.phase is JobPhase.ACCEPTED and not right:
                _log.warning("watch.lost", job=job.id, root=job.accepted_root.hex())
                self._leave(job)
                return None
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
        pool, self._commit_age = snapshot.pool(job), snapshot.commit_age()
        if not pool.amount or (job.id not in self._begun and not self._worth(job, pool, snapshot.now)):
            return None
        self._begun.add(job.id)
        own = self._runner.train(job)
        # SAFETY: training may take days, in which prices and our other jobs change, so we check again before we stake.
        if own is not None and is_due(job, snapshot.now) and self._worth(job, pool, snapshot.now):
            deployment = self._node.client.deployment
            where = deployment.chain_id, str(self._contract.address), job.id, self._transactions.address
            committed = watch_commitment(*where, own.root, self._salt(job))
            stakes = job.id, kept_to_watch(job, self._node.settings.fees.max_fee)
            bounty = self._node.client.contracts.bounty(job.id, job.client)
            call = Call.of(self._contract, "watch", bounty, committed, value=job.stake_sent)
            return [Due(call, stakes=stakes, exposes=True)]
        return []

    def _worth(self, job: JobView, pool: PoolInfo, now: int) -> bool:
        """Return whether we would stake on a job. Log the reason once if not."""
        settings, max_fee = self._node.settings, self._node.settings.fees.max_fee
        reason = unwanted(job, settings.policy) or too_little(job, pool)
        reason = reason or crowded(job, self._node.reserve.jobs(), settings.policy)
        reason = reason or too_dear(job.stake_sent.wanted, settings.max_watch, "max_watch_eth")
        reason = reason or too_dear(offer(job, b"").wanted, settings.max_stake)
        # SAFETY: a watcher has to claim its result, so we check beforehand what could prevent the claim.
        reason = reason or too_long(job, settings.limits.max_period_s)
        reason = reason or unpaid(job, settings.fees.expected_fee, max_fee)
        if reason is None:
            estimate, ready_in_s = self._runner.prepare(job), self._runner.ready_in_s(job)
            if estimate is None or ready_in_s is None:
                return False
            latency_s = settings.latency_s
            reason = too_late(job, ready_in_s + latency_s, now) or too_hasty(job, latency_s)
            reason = reason or too_slow(job, estimate, latency_s, self._commit_age, settings.mined_s)
            reason = reason or self._node.duties.refuses(job, estimate)
            later = kept_to_watch(job, max_fee)
            reason = reason or too_poor(job.stake_sent.wanted, later, self._node.spare(job.id))
            reason = reason or self._runner.too_full(job.id)
        if reason is not None and job.id not in self._told:
            self._told.add(job.id)
            _log.warning("job.not_watched", job=job.id, reason=reason)
        return reason is None

    def _leave(self, job: JobView) -> None:
        self._left.add((job.id, job.posted))
        self._watched.discard(job.id)

    def _salt(self, job: JobView) -> bytes:
        return self._salts.of(self._node.client.deployment.chain_id, str(self._contract.address), job.id)

    def _due(self, job: JobView, function: str, *arguments: object) -> Due:
        bounty = self._node.client.contracts.bounty(job.id, job.client)
        return Due(Call.of(self._contract, function, bounty, *arguments))


def is_due(job: JobView, now: int) -> bool:
    """Return whether it is time to commit to our result.

    SAFETY: if the job has a watch period, we commit after the trainers, so that a liar cannot see whether somebody
    watches. With several slots, some trainers may never commit; we then commit once only a watch period is left.
    """
    if not job.watch_period or job.commitments == job.slots:
        return True
    return job.slots > 1 and job.commit_end - now <= job.watch_period


def too_hasty(job: JobView, latency_s: float) -> str | None:
    """Return why not to watch, or None: there would be no time to commit after the trainers."""
    needed = MARGIN * 2 * latency_s
    if not job.watch_period or job.watch_period >= needed:
        return None
    return f"its watch period has {job.watch_period} s; to commit in it may take {needed:.0f} s"


def too_little(job: JobView, pool: PoolInfo) -> str | None:
    """Return why not to watch, or None: one more watcher's share would not pay for its transactions. The operator
    accounts for the cost of computing with the limit on stakes."""
    share = share_of(pool.amount, pool.shares, pool.watchers + 1)
    cost = WATCH_GAS * 2 * job.base_fee
    if share > cost:
        return None
    return f"its bounty has {share} wei for one more watcher, whose transactions may cost {cost}"
