"""Checks drawn intervals of the runs that a job's claimants have claimed, and holds the first one that is wrong.

A `JobRunner` whose result is no run but a refutation: `train` returns it once an interval differs, and None until then
and if none does. The claimants' data come from their servers, checked against their roots.

SAFETY: a claimant who does not serve what a part needs would never be found out by parts. So such a job is `withheld`,
and its whole run can be computed, which needs nothing of the claimant.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from referee_py.errors import AssayError, Unavailable
from referee_py.execute import RunClaim

from ..audit.claimed import ClaimedRun, Served
from ..audit.interval import Auditor
from ..chain import Group, JobView
from ..cost_estimate import CostEstimate
from ..job_runner import JobRunner
from ..package import load_program
from ..packages import Work
from ..refuted import Refuted
from ..replay import Interrupted
from .part import Part

ATTEMPTS = 3
"""How often the data of an interval that nobody serves are asked for."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is checked of a claimed root, as intervals in this order; at most ``cpu_s`` seconds of processors and
    ``max_bytes`` fetched, in all roots of the job together."""

    intervals: tuple[int, ...]
    cpu_s: float = math.inf
    max_bytes: float = math.inf


class _BudgetSpent(AssayError):
    """An interval takes more than is left."""


PlanOf = Callable[[JobView, Group], Plan | None]


@dataclass
class _Root:
    """The progress of one claimed root. ``left``: intervals to check; ``unserved``: failures by interval, of the run
    tree by 0."""

    left: list[int]
    unserved: dict[int, int] = field(default_factory=dict)


class SampleRunner(JobRunner):
    """``plan_of`` returns what to check of a claimed root, or None while that cannot be known; ``share_of`` the
    fraction of a job's intervals."""

    def __init__(
        self, *args: Any, plan_of: PlanOf, share_of: Callable[[JobView], float], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._plan_of, self._share_of = plan_of, share_of
        self._roots: dict[tuple[int, bytes], _Root] = {}
        self._withheld: set[int] = set()
        self._whole: set[int] = set()
        """Jobs of which the whole run is computed."""
        self._spent: dict[int, tuple[float, int]] = {}
        """By job: seconds of processors, and bytes."""

    def train(self, job: JobView, *, ours: bool = False) -> Refuted | None:
        """Return what is to be refuted in a job; None if nothing is known to be wrong, or not yet.

        ``ours``: we have staked on a refutation in this job.
        """
        prepared, work = self._prepared(job, ours), self._works[job.id]
        if prepared is None:
            return None
        if work.claim is None and any(self._todo(job)):
            work.claim = self._runner.submit(self._sample, work)  # type: ignore[arg-type]
        claim = None if work.claim is None else self._result(work, work.claim)
        if isinstance(claim, Refuted) and not ours and self._moot(job, claim):
            work.claim = work.replay = claim = None
        if claim is None and work.claim is not None and work.claim.done():
            work.claim = None
        return claim  # type: ignore[return-value]

    def _moot(self, job: JobView, claim: Refuted) -> bool:
        """Return whether the root of what we would refute has died of another's dispute, so that other roots are next.
        If it is claimed again, the same interval comes first."""
        target = job.group_of_root(claim.against)
        if target is None or not target.dead:
            return False
        self._roots[job.id, claim.against].left.insert(0, claim.index + 1)
        return True

    def whole(self, job: JobView, *, ours: bool = False) -> RunClaim | None:
        """Return the claim of a job's whole run, as `JobRunner.train`."""
        self._whole.add(job.id)
        return super().train(job, ours=ours)

    def withheld(self, job_id: int) -> bool:
        """Return whether claimants of a job do not serve what a part needs, and no other part of it is being checked or
        has been found wrong. SAFETY: a refutation must not be taken for the claim of a whole run."""
        work = self._works.get(job_id)
        checks = work is not None and work.claim is not None and job_id not in self._whole
        return job_id in self._withheld and not checks

    def forget(self, job_id: int) -> None:
        super().forget(job_id)
        self._withheld.discard(job_id)
        self._whole.discard(job_id)
        self._spent.pop(job_id, None)
        self._roots = {key: root for key, root in self._roots.items() if key[0] != job_id}

    def spent(self, job_id: int) -> tuple[float, int]:
        """Return the seconds of processors and the bytes that the checks of a job have taken."""
        return self._spent.get(job_id, (0.0, 0))

    def _todo(self, job: JobView) -> Iterator[tuple[Group, Plan, _Root]]:
        """Yield the claimed roots of which something is left to check, those of our own refutation first."""
        for group in job.groups:
            if group.refutes is not None or group.dead:
                continue
            plan = self._plan_of(job, group)
            if plan is None:
                continue
            root = self._roots.setdefault((job.id, group.root), _Root(list(plan.intervals)))
            if root.left:
                yield group, plan, root

    def _sample(self, work: Work) -> Refuted | None:
        job = work.job
        unserved: Unavailable | None = None
        for group, plan, root in self._todo(job):
            try:
                auditor = self._auditor(job, group)
            except Unavailable as error:
                # SAFETY: a root whose run tree nobody serves does not keep us from the others.
                self._count(job, group.root, root, 0, error)
                unserved = error
                continue
            for interval in list(root.left):
                seconds, size = self.spent(job.id)
                if seconds >= plan.cpu_s or size >= plan.max_bytes:
                    _log.warning(
                        "sample.budget_spent", job=job.id, root=group.root.hex(), left=len(root.left)
                    )
                    root.left.clear()
                    break
                before, fetched = time.process_time(), auditor.published.source.fetched
                left = plan.cpu_s - seconds, plan.max_bytes - size
                computed = self._check(auditor, job, root, interval, left)
                spent = time.process_time() - before, auditor.published.source.fetched - fetched
                self._spent[job.id] = seconds + spent[0], size + spent[1]
                if computed is not None:
                    work.replay = part = Part(auditor, interval, computed)
                    return part.claim
        if unserved is not None:
            raise unserved
        return None

    def _auditor(self, job: JobView, group: Group) -> Auditor:
        terms = job.program
        uris = [job.uri, *job.uris(group)]
        fetcher = self._fetcher.for_job(job.id)
        program = load_program(fetcher, terms, job.program_file, uris)
        claimed = ClaimedRun(Served(fetcher, uris), terms, program, job.program_file, group.root, job.logs)
        return Auditor(claimed, self._max_memory, partial(self._computes, job))

    def _check(
        self, auditor: Auditor, job: JobView, root: _Root, interval: int, left: tuple[float, float]
    ) -> bytes | None:
        """Return our checkpoint at the end of an interval if the claim's is another one. ``left``: seconds of
        processors and bytes that it may take."""
        claimed = auditor.published
        before, fetched = time.process_time(), claimed.source.fetched

        def on_step(step: int) -> None:
            if self._stop.is_set():
                raise Interrupted(f"stopped in interval {interval}")
            # SAFETY: the client says how long an interval is.
            spent = time.process_time() - before, claimed.source.fetched - fetched
            if step < claimed.span(interval)[1] and (spent[0] > left[0] or spent[1] > left[1]):
                raise _BudgetSpent(f"the budget is spent after step {step}")

        about = {"job": job.id, "root": claimed.root.hex(), "interval": interval, "of": claimed.count}
        try:
            computed = auditor.replay(interval, on_step)
        except Interrupted:
            raise
        except AssayError as error:
            if not isinstance(error, Unavailable):
                root.left.remove(interval)
                _log.warning("sample.unchecked", **about, reason=str(error)[:400])
            elif self._count(job, claimed.root, root, interval, error):
                root.left.remove(interval)
            return None
        root.left.remove(interval)
        if computed == claimed.tree.leaves[interval - 1]:
            _log.info("sample.match", **about)
            return None
        _log.error("sample.differs", **about, computed=computed.hex())
        return computed

    def _count(self, job: JobView, claimed: bytes, root: _Root, interval: int, error: Unavailable) -> bool:
        """Count a failure to get data; return whether there were enough of them."""
        root.unserved[interval] = root.unserved.get(interval, 0) + 1
        about = {"job": job.id, "root": claimed.hex(), "interval": interval}
        _log.warning("sample.unchecked", **about, reason=str(error)[:400])
        if root.unserved[interval] < ATTEMPTS:
            return False
        if job.id not in self._withheld:
            _log.warning("sample.withheld", **about)
        self._withheld.add(job.id)
        return True

    def _left_s(self, job: JobView, estimate: CostEstimate) -> float:
        if job.id in self._withheld | self._whole:
            return super()._left_s(job, estimate)
        return float(estimate.train_s(job.program)) * self._share_of(job)
