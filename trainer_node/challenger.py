"""The challenger daemon: replays jobs and disputes claims that it cannot reproduce. For a bounty it computes a job
before anybody claims a result (watcher.py)."""

from __future__ import annotations

from functools import cache

import repops
import structlog

from referee_py.execute import RunClaim

from .chain import JobView
from .config import Mode, Settings
from .decide import (
    JobAction,
    challenger_actions,
    disagreements,
    too_late,
    too_long,
    too_slow,
    too_uncertain,
)
from .funds import offer, quarrel, too_dear, too_poor, unpaid
from .job_runner import JobRunner
from .loop import Loop
from .participant import Participant, open_runner
from .replay import Replay
from .service import Daemon, Service, open_daemon
from .watcher import Watcher

CLAIM_MOVES = 2
"""Number of transactions to challenge: a commitment, and the claim."""

_log = structlog.get_logger(__name__)


def run(settings: Settings, replay: type[Replay] = Replay) -> None:
    """Run until told to stop. ``replay`` is the class that replays jobs."""
    repops.set_num_threads(settings.worker_threads)
    with (
        open_daemon(settings, "challenger", key=settings.mode is not Mode.WATCH) as node,
        open_runner(node, follows=True, replay=replay) as runner,
    ):
        Service(node, Loop(node, challenger(node, runner)).tick).run()


def challenger(node: Daemon, runner: JobRunner) -> Participant:
    """Create the participant that challenges in the jobs of the deployment."""
    told: set[tuple[int, bytes]] = set()
    begun: set[int] = set()
    watcher = None
    if node.transactions is not None and node.settings.max_watch:
        watcher = Watcher(node, node.transactions, runner)

    @cache
    def commit_age() -> int:
        return node.client.snapshot().commit_age()

    def worth(job: JobView, now: int) -> bool:
        """SAFETY: a run that cannot end in time would keep us from all other jobs."""
        if not unless(job, too_uncertain(job, node.settings.allow_probable_bounds)):
            return False
        ready_in_s = runner.ready_in_s(job)
        if ready_in_s is None:
            return False
        ready_in_s += CLAIM_MOVES * node.settings.latency_s
        return unless(job, too_late(job, ready_in_s, now, commit_age()))

    def acceptable(job: JobView, root: bytes) -> bool:
        # SAFETY: a watcher has a stake in the job already, and loses it if another root is accepted.
        if watcher is not None and watcher.watches(job):
            return True
        price, settings, max_fee = offer(job, root).wanted, node.settings, node.settings.fees.max_fee
        dear = too_dear(price, settings.max_stake) or too_long(job, settings.limits.max_period_s)
        dear = dear or unpaid(job, settings.fees.expected_fee, max_fee)
        estimate = runner.prepare(job)
        slow = None if estimate is None else too_slow(job, estimate, settings.latency_s, commit_age())
        poor = too_poor(price, quarrel(job, max_fee), node.spare(job.id))
        return estimate is not None and unless(job, dear or slow or poor)

    def unless(job: JobView, reason: str | None) -> bool:
        """Return whether there is no reason to leave the job to others. Log the reason once if there is one."""
        if reason is not None and (job.id, b"") not in told:
            told.add((job.id, b""))
            _log.warning("job.left_to_others", job=job.id, reason=reason)
        return reason is None

    def decide(job: JobView, now: int) -> tuple[list[JobAction], RunClaim | None]:
        if not job.claims or job.referee.lower() != node.client.deployment.referee.lower():
            return [], None
        ours = node.address is not None and job.claim_of(node.address) is not None
        ours = ours or (watcher is not None and watcher.watches(job))
        if not ours and job.id not in begun and not worth(job, now):
            return [], None
        begun.add(job.id)
        own = runner.train(job, ours=ours)
        if own is not None:
            _report(job, own, told)
        acts = challenger_actions(job, node.address, own, node.settings.mode, now)
        if own is not None and JobAction.CHALLENGE in acts and not acceptable(job, own.root):
            acts.remove(JobAction.CHALLENGE)
        return acts, own

    return Participant(node, runner, decide, requests=node.settings.mode is Mode.CHALLENGE, watcher=watcher)


def _report(job: JobView, own: RunClaim, told: set[tuple[int, bytes]]) -> None:
    """Log once for each claimed root whether we could reproduce it."""
    wrong = {group.root for group in disagreements(job, own)}
    for group in job.groups:
        if (job.id, group.root) not in told:
            told.add((job.id, group.root))
            verdict = "claim.invalid" if group.root in wrong else "claim.valid"
            _log.info(verdict, job=job.id, claimed=group.root.hex(), own=own.root.hex())
