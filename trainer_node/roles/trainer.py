"""The trainer daemon: takes slots, trains, claims results and defends its claims."""

from __future__ import annotations

import repops
import structlog

from referee_py.execute import RunClaim

from ..chain import JobPhase, JobView
from ..daemon.loop import Loop
from ..daemon.open_runner import open_runner
from ..daemon.service import Daemon, Service, open_daemon
from ..play.actions import JobAction, too_late, too_long, too_slow, too_uncertain, trainer_actions
from ..run.replay import Replay
from ..settings.settings import Settings
from ..stake.funds import quarrel, too_dear, too_poor, unpaid
from ..stake.policy import crowded, underpaid, unwanted
from ..work.job_runner import JobRunner
from .participant import Participant

SLOT_MOVES = 2
"""Number of transactions to take a slot and to commit."""

_log = structlog.get_logger(__name__)


def run(
    settings: Settings, replay: type[Replay] = Replay, participant: type[Participant] = Participant
) -> None:
    """Run until told to stop. ``replay`` and ``participant`` are the classes of the run and of the participant."""
    repops.set_num_threads(settings.worker_threads)
    with open_daemon(settings, "trainer") as node, open_runner(node, replay=replay) as runner:
        Service(node, Loop(node, trainer(node, runner, participant)).tick).run()


def trainer(node: Daemon, runner: JobRunner, participant: type[Participant] = Participant) -> Participant:
    """Create the participant that trains in the jobs of the deployment."""
    me = node.address
    assert me is not None

    told: set[int] = set()

    def worth(job: JobView, now: int) -> bool:
        settings, max_fee = node.settings, node.settings.fees.max_fee
        reason = unwanted(job, settings.policy) or underpaid(job, settings.policy)
        reason = reason or crowded(job, node.reserve.jobs(), settings.policy)
        reason = reason or too_uncertain(job, settings.allow_probable_bounds)
        reason = reason or too_dear(job.stake_sent.wanted, settings.max_stake)
        reason = reason or too_long(job, settings.limits.max_period_s)
        reason = reason or unpaid(job, settings.fees.expected_fee, max_fee)
        if reason is None:
            estimate, ready_in_s = runner.prepare(job), runner.ready_in_s(job)
            if estimate is None or ready_in_s is None:
                return False
            latency_s = settings.latency_s
            reason = too_late(job, ready_in_s + SLOT_MOVES * latency_s, now)
            reason = reason or too_slow(job, estimate, latency_s, mined_s=settings.mined_s)
            reason = reason or node.duties.refuses(job, estimate)
            stake = max(job.stake_sent.wanted, job.stake_at(max_fee))
            reason = reason or too_poor(stake, quarrel(job, max_fee), node.spare(job.id))
            reason = reason or runner.too_full(job.id)
        if reason is not None and job.id not in told:
            told.add(job.id)
            _log.warning("job.left_to_others", job=job.id, reason=reason)
        return reason is None

    def decide(job: JobView, now: int) -> tuple[list[JobAction], RunClaim | None]:
        if job.referee.lower() != node.client.deployment.referee.lower():
            # SAFETY: the client names the referee; we stake only under the referee whose code we have checked.
            return [], None
        joined = job.trainer(me) is not None
        free = job.phase is JobPhase.TRAINING and not joined and len(job.trainers) < job.slots
        willing = free and worth(job, now)
        own = runner.train(job, ours=True) if joined else None
        return trainer_actions(job, me, own, now, willing=willing), own

    return participant(node, runner, decide, joins=True)
