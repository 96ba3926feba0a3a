"""Whether a challenger takes up a job: in time, affordable, paid for. Reasons against it are logged once a job."""

from __future__ import annotations

import math
from functools import cached_property

import structlog

from ..chain import JobView
from ..daemon.service import Daemon
from ..play.actions import too_late, too_long, too_slow, too_uncertain
from ..run.cost_estimate import CostEstimate
from ..settings.settings import Mode, Settings
from ..stake.funds import quarrel, too_dear, too_poor, unpaid
from ..stake.policy import crowded, unwanted
from ..work.job_runner import JobRunner

CLAIM_MOVES = 2
"""Number of transactions to challenge: a commitment, and the claim."""

_log = structlog.get_logger(__name__)


def never(
    job: JobView, settings: Settings, estimate: CostEstimate | None = None, commit_age: int = 0
) -> str | None:
    """Return why we could not stake on a job at any moment, or None: the operator's policy, its bounds, its periods,
    its prices; and once it is measured (``estimate``), its clocks. ``commit_age``: see `too_late`. Wei and seconds.

    NOTE: what else keeps us from a stake may pass: what else we have at stake, the time that is left, the account, the
    disk, the memory. A price of gas may pass, too; then the job is looked at again.
    """
    reason = unwanted(job, settings.policy) or too_uncertain(job, settings.allow_probable_bounds)
    reason = reason or too_long(job, settings.limits.max_period_s)
    reason = reason or too_dear(job.stake_now, settings.max_stake)
    reason = reason or unpaid(job, settings.fees.expected_fee, settings.fees.max_fee)
    if reason is None and estimate is not None:
        reason = too_slow(job, estimate, settings.latency_s, commit_age, settings.mined_s)
    return reason


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
        # NOTE: it may have been measured just now.
        return ready_in_s is not None and self.unless(
            job, self._refused(job) or self._late(job, ready_in_s, now)
        )

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
            reason = self._refused(job) or self._late(job, ready_in_s, now)
        if reason is None:
            reason = (
                self._runner.too_full(job.id, part=False, stakes=0)
                if wanted
                else self._runner.no_room(job.id)
            )
        if reason is None and after_s is not None:
            return after_s
        if wanted:
            self.unless(job, reason)
        return math.inf

    def possible(self, job: JobView) -> bool:
        """Return whether we could ever stake on a job, as far as is known by now (`never`)."""
        return self._never(job) is None

    def _never(self, job: JobView) -> str | None:
        settings = self._node.settings
        estimate = None if never(job, settings) else self._runner.measured(job)
        return never(job, settings, estimate, 0 if estimate is None else self._commit_age)

    def _refused(self, job: JobView) -> str | None:
        """SAFETY: jobs are cheap to post. What is computed and kept for one in which nobody stakes takes from those in
        which somebody does, and costs its author nothing. Only who just watches tells what is wrong in any; and where
        we have a stake already, nothing is left to decide by its terms."""
        settings, reason, me = self._node.settings, self._never(job), self._node.address
        self._node.keeper.considers(job.id, stakes=reason is None)
        if settings.mode is Mode.WATCH or (me is not None and job.stakes_of(me)):
            return unwanted(job, settings.policy) or too_uncertain(job, settings.allow_probable_bounds)
        return reason

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
        estimate, disputes = self._runner.prepare(job), len(mine) + beside + 1
        slow = never(job, settings, estimate, self._commit_age)
        if estimate is not None:
            slow = slow or self._node.duties.refuses(job, estimate, disputes)
        poor = too_poor(price, disputes * quarrel(job, max_fee), self._node.spare(job.id))
        reason = dear or slow or poor
        if estimate is not None and reason is None:
            reason = self._runner.too_full(job.id, part=part, stakes=beside + 1)
        return estimate is not None and self.unless(job, reason)

    def unless(self, job: JobView, reason: str | None) -> bool:
        """Return whether there is no reason to leave the job to others. Log the reason once if there is one."""
        if reason is not None and job.id not in self._told:
            self._told.add(job.id)
            _log.warning("job.left_to_others", job=job.id, reason=reason)
        return reason is None
