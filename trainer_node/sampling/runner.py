"""Checks drawn intervals of the runs that a job's claimants have claimed, and keeps all that is wrong: one interval of
each wrong root, as a `Part` that can be refuted and played until the job is over.

    lane     one for each job: waits for the claimants' data, which are checked against their roots, with a budget
             in the chain's time (`budget`)
    runner   one for all: replays an interval whose data have come; those that we have staked on do not wait for it

SAFETY: a claimant who does not serve what a part needs, in time, would never be found out by parts. So such a job is
`withheld`, and its whole run can be computed, which needs nothing of the claimant. One whose data cannot be of the
program is found out by them (`Malformed`).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import structlog

from referee_py.errors import AssayError, Unavailable
from referee_py.execute import RunClaim

from ..audit.claimed import ClaimedRun, Served
from ..audit.interval import Auditor
from ..budget import Until
from ..chain import Group, JobView
from ..cost_estimate import CostEstimate
from ..errors import DiskFailed, Malformed, MemoryShort
from ..job_runner import JobRunner
from ..packages import Lost
from ..refuted import Refuted
from ..replay import Interrupted, Replay
from ..waits import LANES
from .budget import ChainClock, Means, data_s
from .checks import BudgetSpent, Checks, Plan, Root, provable
from .decide import at_large, claimable_s, forsaken
from .part import Part

ATTEMPTS = 3
"""How often the data of an interval that nobody serves are asked for."""
CHECKED_AT_ONCE = 64
"""Jobs of strangers whose data are waited for at the same time: a lane that waits costs a thread, and no time."""

_log = structlog.get_logger(__name__)


class Sampling(Protocol):
    """What a node checks, and with which means."""

    def plan(self, job: JobView, group: Group) -> Plan | None:
        """Return what to check of a claimed root; None while that cannot be known."""

    def staked(self, job: JobView, group: Group) -> tuple[int, ...]:
        """Return the intervals of a claimed root that we have refuted, those of living refutations first."""

    def share(self, job: JobView) -> float:
        """Return the fraction of a job's intervals that is checked."""

    def lost(self, job: JobView, lie: Refuted) -> bool:
        """Return whether we have lost a refutation that says the same."""

    def means(self) -> Means:
        """Return what this node needs to act."""


class SampleRunner(JobRunner):
    """``samples`` says what is checked; ``clock`` are the seconds of this machine, between two looks at the chain."""

    def __init__(
        self, *args: Any, samples: Sampling, clock: Callable[[], float] = time.monotonic, **kwargs: Any
    ) -> None:
        super().__init__(*args, clock=clock, **kwargs)
        self._samples = samples
        self._checks: dict[int, Checks] = {}
        self._lanes = ThreadPoolExecutor(CHECKED_AT_ONCE, thread_name_prefix="checks")
        self._staked = ThreadPoolExecutor(LANES, thread_name_prefix="staked checks")

    # ------------------------------------------------------------------ for the loop

    def check(self, job: JobView, now: int, *, ours: bool = False) -> list[Refuted]:
        """Go on with the checks of a job. Return all that is to be refuted in it, as known now; ``now``: the chain's
        time; ``ours``: we have staked on a refutation in this job."""
        self._at_stake(job.id, ours)
        prepared = self._prepared(job, ours)
        checks = self._checks.setdefault(job.id, Checks(ChainClock(self._clock)))
        checks.clock.see(now)
        if self._keeper is not None:
            self._keeper.takes_part(job.id, not checks.whole)
        if checks.running is not None and checks.running.done():
            done, checks.running = checks.running, None
            self._result(self._works[job.id], done)
        elif checks.running is None and prepared is not None and any(self._todo(job, checks)):
            pool = self._staked if ours else self._lanes
            checks.running = pool.submit(self._sample, job, checks, ours)
        return checks.found()

    def found(self, job_id: int) -> list[Refuted]:
        checks = self._checks.get(job_id)
        return [] if checks is None else checks.found()

    def train(self, job: JobView, *, ours: bool = False) -> RunClaim | None:
        """Return the claim of a job's whole run, as `JobRunner.train`."""
        self._checks.setdefault(job.id, Checks(ChainClock(self._clock))).whole = True
        return super().train(job, ours=ours)

    def replay(self, job_id: int, claim: RunClaim | None = None) -> Replay:
        """Return the run behind a claim: that of one interval for a refutation, else the whole one."""
        if isinstance(claim, Refuted):
            return self._checks[job_id].parts[claim.against, claim.index + 1]
        return super().replay(job_id)

    def withheld(self, job: JobView) -> bool:
        """Return whether the data of a living root that we have not found wrong are not served, or too late."""
        return bool(self._withheld(job, self._checks.get(job.id)))

    def forsaken(self, job: JobView, now: float) -> bool:
        """Return whether nobody claims a root that may be the right one, as far as we know by now, or by the time at
        which a whole run must be begun."""
        checks, whole_s, part_s = self._checks.get(job.id), self._whole_s(job), self._part_s(job)
        if checks is None or whole_s is None or part_s is None:
            return False
        lost = partial(self._samples.lost, job)
        wrong = {root for root in checks.wrong if checks.proven_wrong(root, lost)}
        later_s = claimable_s(job, wrong, now) - part_s
        last_moment = not self._samples.means().takes_whole(whole_s, later_s)
        return forsaken(job, wrong, checks.passed, last_moment=last_moment)

    def in_whole(self, job_id: int) -> bool:
        """Return whether the whole run of a job is being computed, or known."""
        return job_id in self._checks and self._checks[job_id].whole

    def takes_whole(self, job: JobView, now: float) -> bool:
        """Return whether the whole run of a job is computed, or would be now."""
        checks, whole_s = self._checks.get(job.id), self._whole_s(job)
        if self.in_whole(job.id):
            return True
        left_s = claimable_s(job, checks.wrong if checks is not None else (), now)
        return whole_s is not None and self._samples.means().takes_whole(whole_s, left_s)

    def spent(self, job_id: int) -> tuple[float, int]:
        """Return the seconds of processors and the bytes that the checks of a job have taken."""
        checks = self._checks.get(job_id)
        return (0.0, 0) if checks is None else (checks.cpu_s, checks.fetched)

    def forget(self, job_id: int) -> None:
        super().forget(job_id)
        checks = self._checks.pop(job_id, None)
        if checks is not None:
            checks.over = True

    def works_at(self, job_id: int) -> bool:
        """NOTE: what was found wrong is work until the job is over: it may have to be refuted in any round."""
        checks = self._checks.get(job_id)
        return super().works_at(job_id) or (checks is not None and (checks.busy or bool(checks.parts)))

    @property
    def busy(self) -> bool:
        return super().busy or any(checks.busy for checks in self._checks.values())

    def ready_in_s(self, job: JobView) -> float | None:
        """NOTE: a lane that waits for data takes no time of ours; one whose interval is replayed does."""
        ready_s = super().ready_in_s(job)
        others = [n for n, checks in self._checks.items() if checks.computing and n != job.id]
        return (
            None
            if ready_s is None
            else ready_s + sum(self._part_s(self._works[n].job) or 0.0 for n in others)
        )

    def _at_stake(self, job_id: int, ours: bool) -> None:
        """NOTE: what was found wrong keeps its memory, staked on or not."""
        super()._at_stake(job_id, ours)
        checks = self._checks.get(job_id)
        if checks is not None and checks.parts:
            self._tensors.keep(job_id, self._in_memory(job_id, checks))

    def _in_memory(self, job_id: int, checks: Checks) -> int:
        """Return how many runs of a job are in memory: of intervals that were found wrong, and the whole one."""
        work = self._works.get(job_id)
        return len(checks.parts) + (work is not None and work.replay is not None)

    def close(self) -> None:
        for checks in self._checks.values():
            checks.over = True
        super().close()
        for pool in (self._lanes, self._staked):
            pool.shutdown(wait=True, cancel_futures=True)

    # ------------------------------------------------------------------ what is left

    def _todo(self, job: JobView, checks: Checks) -> Iterator[tuple[Group, Root, list[int]]]:
        """Yield the claimed roots of which intervals are left to check, with these.

        SAFETY: what we have staked on is found again whatever else is known: its match or its hearing may go on.
        """
        whole = checks.whole or (
            bool(self._withheld(job, checks)) and self.takes_whole(job, checks.clock.now)
        )
        for group in job.groups:
            if group.refutes is not None:
                continue
            root = checks.roots.setdefault(group.root, Root())
            staked = self._samples.staked(job, group)
            root.stake(tuple(k for k in staked if (group.root, k) not in checks.parts))
            gone = not at_large(job, group, checks.clock.now)
            done = whole or gone or checks.proven_wrong(group.root, partial(self._samples.lost, job))
            if not done and root.plan is None:
                root.draw(self._samples.plan(job, group))
            left = [k for k in root.left if k in root.staked or not done]
            if left:
                yield group, root, left

    def _withheld(self, job: JobView, checks: Checks | None) -> list[Group]:
        if checks is None:
            return []
        lost = partial(self._samples.lost, job)
        now = checks.clock.now
        groups = [group for group in job.groups if group.refutes is None and at_large(job, group, now)]
        of = [(group, checks.roots.get(group.root)) for group in groups]
        return [
            group
            for group, root in of
            if root is not None and root.withheld and not checks.proven_wrong(group.root, lost)
        ]

    def _estimate(self, job: JobView) -> CostEstimate | None:
        work = self._works.get(job.id)
        prepared = None if work is None else work.prepared
        if prepared is None or not prepared.done() or prepared.exception() is not None:
            return None
        return prepared.result()

    def _whole_s(self, job: JobView) -> float | None:
        estimate = self._estimate(job)
        return None if estimate is None else super()._left_s(job, estimate)

    def _part_s(self, job: JobView) -> float | None:
        estimate = self._estimate(job)
        return None if estimate is None else float(estimate.train_s(job.program)) * self._samples.share(job)

    def _left_s(self, job: JobView, estimate: CostEstimate) -> float:
        checks = self._checks.get(job.id)
        if checks is not None and (checks.whole or self._withheld(job, checks)):
            return super()._left_s(job, estimate)
        return float(estimate.train_s(job.program)) * self._samples.share(job)

    # ------------------------------------------------------------------ in a lane

    def _sample(self, job: JobView, checks: Checks, ours: bool) -> None:
        """Check what is left of a job's claimed roots. Raises the last error of one of them.

        SAFETY: a root whose run tree nobody serves, or whose data the disk refuses, does not keep us from the others.
        """
        failed: Exception | None = None
        for group, root, left in self._todo(job, checks):
            try:
                self._ask(job, group, checks, root, 0)
                auditor = self._auditor(job, group, checks)
            except Lost:
                raise  # ours
            except Unavailable as error:
                self._count(job, group, checks, root, error)
                failed = error
                continue
            except Exception as error:
                failed = error
                continue
            try:
                self._intervals(job, group, checks, auditor, left, ours)
            except Interrupted:
                raise
            except Exception as error:
                failed = error
        if failed is not None:
            raise failed

    def _intervals(
        self, job: JobView, group: Group, checks: Checks, auditor: Auditor, left: list[int], ours: bool
    ) -> None:
        """Check intervals of a claimed root, until it is found wrong, the budget is spent, or the whole run is what has
        to be computed."""
        root = checks.roots[group.root]
        for interval in left:
            free = interval in root.staked
            if root.withheld and not free and self.takes_whole(job, checks.clock.now):
                return
            meter = _Meter(checks, auditor.published, root.plan or Plan(()), free=free)
            if meter.spent():
                about = {"job": job.id, "root": group.root.hex()}
                _log.warning("sample.budget_spent", **about, left=len(root.left))
                root.left = [k for k in root.left if k in root.staked]
                return
            if free:
                root.asking, root.until[interval] = interval, math.inf
            else:
                self._ask(job, group, checks, root, interval)
            found = self._check(job, group, checks, auditor, interval, meter, ours)
            if found is not None:
                checks.parts[found.claim.against, found.interval] = found
                return

    def _auditor(self, job: JobView, group: Group, checks: Checks) -> Auditor:
        """Return what checks a claimed root. NOTE: it waits for data with the program in memory, and no tensors."""
        root = checks.roots[group.root]
        time_left = Until(
            lambda: checks.over or root.late(checks.clock.now),
            f"the data of an interval of {group.root.hex()[:12]}",
        )
        fetcher = self._fetcher.for_job(job.id).within(time_left)
        source = Served(fetcher, [job.uri, *job.uris(group)])
        program = self._packages.program(self._works[job.id])
        claimed = ClaimedRun(source, job.program, program, job.program_file, group.root, job.logs)
        read = partial(self._packages.package, self._works[job.id])
        return Auditor(claimed, self._max_memory, partial(self._computes, job), package=read)

    def _ask(self, job: JobView, group: Group, checks: Checks, root: Root, interval: int) -> None:
        """Let the time run that the data of an interval have."""
        root.asking, now = interval, checks.clock.now
        if interval not in root.until:
            whole_s, part_s = self._whole_s(job), self._part_s(job)
            assert whole_s is not None
            assert part_s is not None
            claims_s = claimable_s(job, checks.wrong, now)
            refutations_s = max(job.challenge_end, group.until, group.refutable_until) - now
            means = self._samples.means()
            root.until[interval] = now + data_s(means, whole_s, part_s, claims_s, refutations_s)

    def _check(
        self,
        job: JobView,
        group: Group,
        checks: Checks,
        auditor: Auditor,
        interval: int,
        meter: _Meter,
        ours: bool,
    ) -> Part | None:
        """Return an interval that is wrong: this one, or one before it that the claim's own data prove wrong."""
        root, claimed, checked = checks.roots[group.root], auditor.published, interval
        about = {"job": job.id, "root": claimed.root.hex(), "interval": interval, "of": claimed.count}
        try:
            try:
                self._bring(auditor, interval, meter)
            except Malformed as error:
                _log.error("sample.malformed", **about, reason=str(error)[:400])
                checked = provable(
                    interval - 1, lambda number: self._state(job, group, checks, auditor, number, meter)
                )
                about["interval"] = checked
                self._ask(job, group, checks, root, checked)
                self._bring(auditor, checked, meter)
            computed = self._compute(job, checks, auditor, checked, meter, ours)
        except Interrupted:
            raise
        except (DiskFailed, MemoryShort, Lost):
            raise  # ours, and not the claim's: the interval is checked again
        except AssayError as error:
            if not isinstance(error, Unavailable):
                root.left.remove(interval)
                _log.warning("sample.unchecked", **about, reason=str(error)[:400])
            elif self._count(job, group, checks, root, error):
                root.left.remove(interval)
            return None
        if computed == claimed.tree.leaves[checked - 1]:
            root.left.remove(interval)
            _log.info("sample.match", **about)
            return None
        _log.error("sample.differs", **about, computed=computed.hex())
        store = self._store(job.id)
        with contextlib.suppress(DiskFailed):
            store.hold(*claimed.names(checked))
        told = partial(self._unkept, job.id)
        part = Part(auditor, checked, computed, store, unkept=told)
        root.left.remove(interval)
        return part

    def _bring(self, auditor: Auditor, interval: int, meter: _Meter) -> None:
        """Bring the data of an interval. Raises Unavailable, Malformed, BudgetSpent."""
        for _ in auditor.bring(interval):
            if meter.spent():
                raise BudgetSpent(f"the budget is spent with the data of interval {interval}")

    def _state(
        self, job: JobView, group: Group, checks: Checks, auditor: Auditor, number: int, meter: _Meter
    ) -> None:
        """Bring the state at the end of an interval, as `_bring`."""
        self._ask(job, group, checks, checks.roots[group.root], number + 1)
        for _ in auditor.published.bring_state(number):
            if meter.spent():
                raise BudgetSpent(f"the budget is spent with the state after interval {number}")

    def _compute(
        self, job: JobView, checks: Checks, auditor: Auditor, interval: int, meter: _Meter, ours: bool
    ) -> bytes:
        """Replay an interval; what is found wrong keeps its memory. Raises Interrupted, BudgetSpent, MemoryShort.
        SAFETY: one that we have staked on waits for nobody."""
        runs = self._in_memory(job.id, checks) + 1

        def on_step(step: int) -> None:
            if self._stop.is_set() or checks.over:
                raise Interrupted(f"stopped in interval {interval}")
            # SAFETY: the client says how long an interval is.
            if step < auditor.published.span(interval)[1] and meter.spent():
                raise BudgetSpent(f"the budget is spent after step {step}")

        def replay() -> bytes:
            with self._tensors.lent(job.id, runs, must=ours):
                checks.computing, wrong = True, False
                try:
                    with meter:
                        computed = auditor.replay(interval, on_step)
                    wrong = computed != auditor.published.tree.leaves[interval - 1]
                finally:
                    checks.computing = False
                    if not wrong:
                        auditor.release()
                if wrong:
                    self._tensors.keep(job.id, runs)
                return computed

        return replay() if ours else self._runner.submit(replay).result()

    def _count(self, job: JobView, group: Group, checks: Checks, root: Root, error: Unavailable) -> bool:
        """Count a failure to get data; return whether there were enough of them, or their time is over."""
        root.unserved[root.asking] = tries = root.unserved.get(root.asking, 0) + 1
        about = {"job": job.id, "root": group.root.hex(), "interval": root.asking}
        _log.warning("sample.unchecked", **about, reason=str(error)[:400])
        late = root.late(checks.clock.now)
        if tries < ATTEMPTS and not late:
            return False
        if not root.withheld:
            _log.warning("sample.withheld", **about, late=late)
        root.withheld = True
        return True


class _Meter:
    """Measures what the checks of a job cost: seconds of processors while it is entered, and bytes fetched from its
    creation on. ``free``: whether the limits of the plan do not count."""

    def __init__(self, checks: Checks, claimed: ClaimedRun, plan: Plan, *, free: bool) -> None:
        self._checks, self._source, self._plan, self.free = checks, claimed.source, plan, free
        self._fetched = claimed.source.fetched
        self._began: float | None = None

    def __enter__(self) -> None:
        self._began = time.process_time()

    def __exit__(self, *_: object) -> None:
        self.spent()
        self._began = None

    def spent(self) -> bool:
        """Add up what was spent since the last look; return whether the job's budget is spent."""
        checks, fetched = self._checks, self._source.fetched
        checks.fetched, self._fetched = checks.fetched + fetched - self._fetched, fetched
        if self._began is not None:
            now = time.process_time()
            checks.cpu_s, self._began = checks.cpu_s + now - self._began, now
        return not self.free and (checks.cpu_s >= self._plan.cpu_s or checks.fetched >= self._plan.max_bytes)
