"""Whether a challenger takes up a job: in time, affordable, paid for. Reasons against it are logged once a job."""

from __future__ import annotations

from functools import cached_property

import structlog

from .chain import JobView
from .decide import too_late, too_long, too_slow, too_uncertain
from .funds import quarrel, too_dear, too_poor, unpaid
from .job_runner import JobRunner
from .policy import crowded, unwanted
from .service import Daemon

CLAIM_MOVES = 2
"""Number of transactions to challenge: a commitment, and the claim."""

_log = structlog.get_logger(__name__)


class Worth:
    """Judges jobs for a node, by what its runner has measured."""

    def __init__(self, node: Daemon, runner: JobRunner) -> None:
        self._node, self._runner = node, runner
        self._told: set[int] = set()

    @cached_property
    def _commit_age(self) -> int:
        return self._node.client.snapshot().commit_age()

    def in_time(self, job: JobView, now: int) -> bool:
        """SAFETY: a run that cannot end in time would keep us from all other jobs."""
        settings = self._node.settings
        reason = unwanted(job, settings.policy) or too_uncertain(job, settings.allow_probable_bounds)
        if not self.unless(job, reason):
            return False
        ready_in_s = self._runner.ready_in_s(job)
        if ready_in_s is None:
            return False
        ready_in_s += CLAIM_MOVES * settings.latency_s
        return self.unless(job, too_late(job, ready_in_s, now, self._commit_age))

    def fits(self, job: JobView) -> bool:
        """SAFETY: a run for which there is no room beside what is kept for jobs with our stake is not begun."""
        return self.unless(job, self._runner.too_full(job.id, stakes=False))

    def affordable(self, job: JobView, price: int, *, beside: int = 0, part: bool = False) -> bool:
        """Return whether to stake ``price`` wei on a job. ``beside``: stakes that are in the price besides the last;
        ``part``: it is for a refutation, which needs one interval and not the disk space of a whole run."""
        settings, max_fee, me = self._node.settings, self._node.settings.fees.max_fee, self._node.address
        mine = [] if me is None else [claim.stake for claim in job.stakes_of(me) if not claim.lost]
        dear = crowded(job, self._node.reserve.jobs(), settings.policy)
        dear = dear or too_dear(sum(mine) + price, settings.max_stake)
        dear = dear or too_long(job, settings.limits.max_period_s)
        dear = dear or unpaid(job, settings.fees.expected_fee, max_fee)
        estimate, disputes = self._runner.prepare(job), len(mine) + beside + 1
        slow = None
        if estimate is not None:
            paces = settings.latency_s, self._commit_age, settings.mined_s
            slow = too_slow(job, estimate, *paces) or self._node.duties.refuses(job, estimate, disputes)
        poor = too_poor(price, disputes * quarrel(job, max_fee), self._node.spare(job.id))
        reason = dear or slow or poor
        if estimate is not None and reason is None:
            reason = self._runner.too_full(job.id, part=part)
        return estimate is not None and self.unless(job, reason)

    def unless(self, job: JobView, reason: str | None) -> bool:
        """Return whether there is no reason to leave the job to others. Log the reason once if there is one."""
        if reason is not None and job.id not in self._told:
            self._told.add(job.id)
            _log.warning("job.left_to_others", job=job.id, reason=reason)
        return reason is None
