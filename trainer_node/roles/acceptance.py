"""Acceptance of jobs by a challenger: in time, affordable, paid for. A reason to decline is logged once per job."""

from __future__ import annotations

import math
from functools import cached_property

import structlog

from ..chain import JobView
from ..daemon.service import Daemon
from ..play.actions import too_late, too_long, too_slow, too_uncertain
from ..stake.funds import quarrel, too_dear, too_poor, unpaid
from ..stake.policy import crowded, unwanted
from ..work.job_runner import JobRunner

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
        if not self.unless(job, self._refused(job)):
            return False
        ready_in_s = self._runner.ready_in_s(job)
        return ready_in_s is not None and self.unless(job, self._late(job, ready_in_s, now))

    def whole_after_s(self, job: JobView, now: int, *, wanted: bool) -> float:
        """Return the seconds that others take before the whole run of a job that is begun now; infinite if it is not
        begun, because it is refused, too late behind the others, or has no room. ``wanted``: it is to be begun. Then
        room is made for it, and it is logged once why it is not.

        INVARIANT: nothing else says whether a whole run is begun. So nobody keeps time for one that will not be, or
        leaves anything else for its sake. SAFETY: a run that cannot end in time would keep us from all other jobs; one
        for which there is no room beside what is kept for jobs with our stake would take that.
        """
        reason, after_s = self._refused(job), None
        if reason is None:
            after_s, ready_in_s = self._runner.whole_after_s(job), self._runner.whole_ready_in_s(job)
            if after_s is None or ready_in_s is None:
                return math.inf
            reason = self._late(job, ready_in_s, now)
        if reason is None:
            reason = (
                self._runner.too_full(job.id, part=False, stakes=False)
                if wanted
                else self._runner.no_room(job.id)
            )
        if reason is None and after_s is not None:
            return after_s
        if wanted:
            self.unless(job, reason)
        return math.inf

    def _refused(self, job: JobView) -> str | None:
        settings = self._node.settings
        return unwanted(job, settings.policy) or too_uncertain(job, settings.allow_probable_bounds)

    def _late(self, job: JobView, ready_in_s: float, now: int) -> str | None:
        moves_s = CLAIM_MOVES * self._node.settings.latency_s
        return too_late(job, ready_in_s + moves_s, now, self._commit_age)

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
