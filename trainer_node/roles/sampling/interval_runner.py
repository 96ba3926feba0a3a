"""The check of one interval of a claimed run: its data are brought within their time, then it is replayed.

    bring      from the claimants' servers, checked against the root (`audit.claimed`)
    replay     while the next one is brought (`beside`) and whole runs compute, in turns with others (`processors`)
    compare    with the claim's checkpoint; an interval that is wrong is a `Part`

The time of all that one interval needs is a budget in the chain's time (`budget`). What we have staked on has a budget
of its own (`waits.STAKED`), and takes no turns.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import structlog

from referee_py.errors import Unavailable

from ...audit.claimed import ClaimedRun
from ...audit.interval import Auditor
from ...chain import Group, JobView
from ...compute.breaks import Breaks
from ...compute.job_runner import JobRunner
from ...compute.lanes import Turn
from ...compute.packages import Work
from ...compute.run_execution import Equipment
from ...errors import DiskFailed, Malformed
from ...limits.waits import staked_s
from ...network.budget import Until
from ...network.sources import Served
from ...run.cost_estimate import MARGIN
from ...run.refutation import Refuted
from ...run.replay import Interrupted
from ...run.step_times import StepTimes, Taken
from ...storage.drawn import rests_on, using
from .budget import Instant, Means, data_s
from .checks import BudgetSpent, Checks, Meter, Plan, Root, provable
from .decide import claimable_s
from .part import Part

ATTEMPTS = 3
"""Attempts to get the data of an interval that nobody serves."""

_log = structlog.get_logger(__name__)


class Sampling(Protocol):
    """Checks of a node, and their means."""

    def plan(self, job: JobView, group: Group) -> Plan | None:
        """Return what to check of a claimed root; None while that cannot be known."""

    def staked(self, job: JobView, group: Group, found: Sequence[Refuted]) -> tuple[int, ...]:
        """Return the intervals of a claimed root that we have refuted, those of living refutations first. ``found``:
        lies that are known."""

    def share(self, job: JobView) -> float:
        """Return the fraction of a job's intervals that is checked."""

    def lost(self, job: JobView, lie: Refuted) -> bool:
        """Return whether we have lost a refutation that says the same."""

    def means(self) -> Means:
        """Return what this node needs to act."""


@dataclass(frozen=True, slots=True)
class Task:
    """A root of a job, or an interval of it that we have staked on, and what its check needs."""

    job: JobView
    work: Work
    group: Group
    checks: Checks
    root: Root

    @property
    def now(self) -> float:
        """The chain's time."""
        return self.checks.clock.now

    @property
    def again(self) -> bool:
        """Whether it is about an interval that we have refuted, or are about to, and that is found again."""
        return self.root is not self.checks.roots.get(self.group.root)

    @property
    def late(self) -> bool:
        """True if what is asked for has had its time."""
        return self.root.late(self.now)

    @property
    def ends(self) -> int:
        """The instant on the chain from which on the root cannot be refuted."""
        return ends_of(self.job, self.group)

    @property
    def refutable_s(self) -> float:
        """The seconds in which the root can be refuted."""
        return self.ends - self.now

    def about(self, interval: int) -> dict[str, Any]:
        return {"job": self.job.id, "root": self.group.root.hex(), "interval": interval}


class Takes(NamedTuple):
    """Seconds of a job's whole run, of what is drawn of it, and of an interval; and what this node needs to act."""

    whole_s: float
    part_s: float
    interval_s: float
    means: Means


def ends_of(job: JobView, group: Group) -> int:
    """Return the instant on the chain from which on a root cannot be refuted."""
    return max(job.challenge_end, group.until, group.refutable_until)


class IntervalRunner(JobRunner):
    """``samples`` says what is checked. Clocks are those of this machine, between two looks at the chain."""

    def __init__(self, has: Equipment, *, samples: Sampling) -> None:
        super().__init__(has)
        self._samples, self._processors = samples, self._runs.beside()

    def _whole_s(self, job: JobView) -> float | None:
        estimate = self._estimate(job)
        return None if estimate is None else self._left_s(job, estimate)

    def _part_s(self, job: JobView) -> float | None:
        estimate = self._estimate(job)
        return None if estimate is None else float(estimate.train_s(job.program)) * self._samples.share(job)

    def _interval_s(self, job: JobView) -> float:
        """Return the seconds that an interval takes; infinite as long as the job is not measured."""
        if (estimate := self._estimate(job)) is None:
            return math.inf
        terms = job.program
        return float(estimate.train_s(terms)) * min(1.0, terms.strides[0] / terms.steps)

    def _auditor(self, task: Task, stop: threading.Event) -> Auditor:
        """Return what checks a claimed root. NOTE: it waits for data with the program in memory, and no tensors."""
        job, root = task.job, task.group.root
        time_left = Until(
            lambda: task.checks.over or task.late, f"the data of an interval of {root.hex()[:12]}"
        )
        # SAFETY: strangers say what is drawn. It takes no room that is kept for a stake, though one is in this job.
        store = self._fetcher.store.held_by(job.id, drawn=not task.again)
        fetcher = self._fetcher.for_job(job.id, store=store).stopped_by(stop).within(time_left)
        source = Served(fetcher, job.servers(job.members(task.group), client=True))
        program = self._packages.program(task.work)
        claimed = ClaimedRun(source, job.program, program, job.program_file, root, job.logs)
        read = partial(self._packages.package, task.work)
        return Auditor(claimed, self._max_memory, partial(self._computes, job), package=read)

    def _ask(self, task: Task, interval: int) -> None:
        """Let the time run that the data of an interval have."""
        root, checks = task.root, task.checks
        root.asking = interval
        if interval in root.until:
            return
        if root.staked:
            root.until[interval] = min(root.until.values(), default=task.now + staked_s(task.job))
            return
        root.asked[interval] = asked = checks.clock.instant
        while interval not in root.until:
            job = checks.job or task.job
            takes = self._takes(job)
            assert takes is not None
            with checks.lock:
                if checks.job in (None, job):
                    root.until[interval] = self._until(job, task.group, checks, asked, takes)

    def _until(self, job: JobView, group: Group, checks: Checks, asked: Instant, takes: Takes) -> float:
        """Return the instant on the chain up to which data of a root are waited for that were asked for at another."""
        at = checks.clock.on_chain(asked)
        refutable_s = ends_of(job, group) - at
        # NOTE: what is drawn is checked as far as it gets. So what is kept for computing it is half of the time at
        # most, or what one interval takes.
        part_s = min(takes.part_s, max(takes.interval_s, refutable_s / (2 * MARGIN)))
        claims_s = claimable_s(job, checks.wrong, at)
        after_s = checks.whole_after_s
        return at + data_s(takes.means, takes.whole_s, part_s, claims_s, refutable_s, after_s)

    def _takes(self, job: JobView) -> Takes | None:
        """Return what the checks of a job take; None if it is not measured."""
        whole_s, part_s = self._whole_s(job), self._part_s(job)
        if whole_s is None or part_s is None:
            return None
        return Takes(whole_s, part_s, self._interval_s(job), self._samples.means())

    def _see(self, job: JobView, checks: Checks, now: float) -> None:
        """Note what a look shows of a job. If it ends otherwise than the look before has shown, what is waited for has
        other ends, too, and what was overdue may come again.

        SAFETY: whoever serves could show once that a job ends at once. All that is drawn of a lie would count as
        withheld for good, and the lie would be accepted where the whole run is too much.
        """
        roots = [group for group in job.groups if group.refutes is None]
        ends = job.phase, job.challenge_end, [(g.root, g.dead, g.until, g.refutable_until) for g in roots]
        if checks.clock.see(now):
            checks.ends = None
        takes = None if checks.ends == ends else self._takes(job)
        with checks.lock:
            checks.job, checks.ends = job, ends
            if takes is not None:
                for group in roots:
                    root = checks.roots.get(group.root, Root())
                    for interval, asked in list(root.asked.items()):
                        root.until[interval] = self._until(job, group, checks, asked, takes)
        for root in checks.roots.values():
            root.come_again(checks.clock.now)

    def _check(self, task: Task, auditor: Auditor, interval: int) -> Part | None:
        """Check an interval that we have staked on, or are about to, and return it, or one before it, if it is wrong.
        Raises as `_fetch` and `_judge`."""
        checked = self._fetch(
            task, auditor, interval, Meter(task.checks, task.root, auditor.published.source)
        )
        task.checks.brought(task.root, interval)
        try:
            return self._judge(task, auditor, checked, Meter(task.checks, task.root, None), None)
        finally:
            task.checks.replayed(task.root, interval)

    def _fetch(self, task: Task, auditor: Auditor, interval: int, meter: Meter) -> int:
        """Bring the data of an interval; return the one to replay: it, or one before it that the claim's own data prove
        wrong. Raises AssayErrors of its data; and of ours BudgetSpent, DiskFailed, Lost."""
        claimed = auditor.published
        self._ask(task, interval)
        try:
            self._bring(auditor.bring(interval), meter)
        except Malformed as error:
            _log.error("sample.malformed", **task.about(interval), reason=str(error)[:400])

            def state(number: int) -> None:
                self._ask(task, number + 1)
                self._bring(claimed.bring_state(number), meter)

            interval = provable(interval - 1, state)
            self._ask(task, interval)
            self._bring(auditor.bring(interval), meter)
        return interval

    def _count(self, task: Task, error: Unavailable, turn: Turn, drawn: int, interval: int) -> bool:
        """Count a failure to get an interval's data, for one that was drawn; return whether there were enough of them,
        or their time is over.

        Raises the error if it is not the claimants' fault: a turn in a lane has ended before their time.
        """
        root, late = task.root, task.late
        if not late and turn.is_set():
            raise error
        _log.warning("sample.unchecked", **task.about(interval), reason=str(error)[:400])
        lacked = root.lacks
        if late:
            root.overdue[drawn] = interval
        else:
            root.unserved[interval] = tries = root.unserved.get(interval, 0) + 1
            if tries < ATTEMPTS:
                return False
            root.withheld = True
        if not lacked:
            _log.warning("sample.withheld", **task.about(interval), late=late)
        return True

    def _judge(
        self, task: Task, auditor: Auditor, interval: int, meter: Meter, turn: Turn | None
    ) -> Part | None:
        """Replay an interval whose data have come, in a turn. Return it if it is wrong. Raises as `_compute`, and
        AssayErrors of its data."""
        claimed, store = auditor.published, self._store(task.job.id)
        with using(store, *(names := claimed.names(interval))):
            computed = self._compute(task, auditor, interval, meter, turn)
            if computed == claimed.tree.leaves[interval - 1]:
                _log.info("sample.match", **task.about(interval), of=claimed.count)
                task.root.took.pop(interval, None)
                return None
            _log.error("sample.differs", **task.about(interval), of=claimed.count, computed=computed.hex())
            claimed.source.store.works()
            with contextlib.suppress(DiskFailed):
                rests_on(store, *names)
        unkept = self._unkept(task.job.id)
        return Part(auditor, interval, computed, store, unkept=unkept, turns=self._turns)

    def _bring(self, parts: Iterator[None], meter: Meter) -> None:
        """Bring data, part by part. Raises Unavailable, Malformed, BudgetSpent."""
        for _ in parts:
            if meter.spent():
                raise BudgetSpent("the budget is spent with the data of an interval")

    def _compute(self, task: Task, auditor: Auditor, interval: int, meter: Meter, turn: Turn | None) -> bytes:
        """Replay an interval; what is found wrong stays in memory. Raises Interrupted, BudgetSpent, MemoryShort.
        SAFETY: what we have staked on waits for nobody. All others of a root have one share of the processors: the
        client says how many they are, and what a step of theirs takes."""
        checks, times = task.checks, StepTimes()

        def wanted() -> None:
            if self._stop.is_set() or checks.over or (turn is not None and turn.is_set()):
                raise Interrupted(f"stopped in interval {interval}")

        def on_step(step: int) -> None:
            # SAFETY: what we stake next is decided by what a step really takes, not by the first one alone.
            end = auditor.published.span(interval)[1]
            times.ends(committed=step == end)
            took = task.root.took
            took[interval] = took.get(interval, Taken()).most(times.slowest)
            wanted()
            # SAFETY: the client says how long an interval is.
            if step < end and meter.spent():
                raise BudgetSpent(f"the budget is spent after step {step}")

        if task.root.staked:
            alone = Breaks(times, wanted)

            def after_step(step: int) -> None:
                on_step(step)
                alone.begins()

            kept = self._memory(task, auditor, interval, must=True)
            with self._first(), kept as kept_if_wrong, meter, alone.taken():
                auditor.ready(interval)
                alone.begins()
                return kept_if_wrong(auditor.replay(interval, after_step))
        share = task.root.share
        share.leaves = False
        if turn is not None:
            turn.then = partial(self._processors.leave, share)  # it need not wait for them to stop
        wanted()
        with self._processors.share(share, task.ends) as pass_on:
            wanted()

            def in_step() -> None:
                wanted()
                if meter.spent():
                    raise BudgetSpent(f"the budget is spent in the midst of a step of interval {interval}")
                pass_on.in_step()

            breaks = Breaks(times, in_step)

            def between(step: int) -> None:
                on_step(step)
                with breaks.rest():
                    if pass_on():
                        wanted()

            with self._memory(task, auditor, interval) as kept_if_wrong, meter, breaks.taken():
                auditor.ready(interval)
                breaks.begins()
                return kept_if_wrong(auditor.replay(interval, between))

    def _has_whole(self, job_id: int) -> bool:
        """Return whether the whole run of a job is in memory, beside its intervals."""
        work = self._works.get(job_id)
        return work is not None and work.replay is not None

    def _rests_part(self, job_id: int, checks: Checks, key: tuple[bytes, int]) -> None:
        """Let an interval that was found wrong give way to others in memory, if we have not staked on it.

        SAFETY: jobs are cheap to post, and what is wrong in them may be such that nobody could stake against it.
        """
        if key not in checks.refuted:
            self._tensors.idle(job_id, partial(checks.parts.pop, key, None), key)

    @contextlib.contextmanager
    def _memory(
        self, task: Task, auditor: Auditor, interval: int, *, must: bool = False
    ) -> Iterator[Callable[[bytes], bytes]]:
        """Have the memory for an interval meanwhile. What it gives is to be called with what was computed: if that is
        not what is claimed, it stays in memory, where it gives way to others unless we have staked on it. Raises
        MemoryShort."""
        job, checks, wrong = task.job, task.checks, False

        def kept_if_wrong(computed: bytes) -> bytes:
            nonlocal wrong
            if wrong := computed != auditor.published.tree.leaves[interval - 1]:
                self._rests_part(job.id, checks, (task.group.root, interval))
            return computed

        # NOTE: intervals of several roots are replayed at the same time, beside those that were found wrong. For one
        # that we are about to refute there is room already, for a while (`Tensors.mean`).
        beside = must or not (task.again and self._tensors.means(job.id, (task.group.root, interval)))
        with self._tensors.lent(job.id, beside=beside, must=must, lasts_s=self._interval_s(job)):
            try:
                yield kept_if_wrong
            finally:
                if not wrong:
                    auditor.release()
