"""A job before its run: its package is fetched and its first step measured, in lanes, in turns and within budgets.

    fetch      in lanes (`lanes`); all turns within a share of the period (`waits`)
    measure    one first step after the other: those that take less come first; the next one passes what is in one
               operator for longer than a step may take (`ordered`)
    again      what seems too slow is measured again later: one outlier of a busy machine decides nothing

SAFETY: jobs are cheap to post. So neither a package that comes slowly nor a step that takes long keeps another job
waiting for more than its turn. A job in which we have a stake has a thread of its own for its package, and no budget;
any other job takes its turns, whichever program it names: anybody can name one that we have run. And of a job that
waits, or is left to others, nothing stays in memory but what it costs: its tensors are on disk (`tensors`).
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from referee_py.errors import Unavailable
from referee_py.execute import RunClaim
from referee_py.program import Program
from referee_py.program.read import read_program

from ..chain import JobView
from ..errors import DiskFailed
from ..limits.waits import LANES, again_s, package_s, serves
from ..network.budget import Budget
from ..network.fetcher import Fetcher
from ..network.sources import Served
from ..reason import Reason
from ..run.cost_estimate import TOO_BUSY, CostEstimate, StepTooLong, surely_short
from ..run.fetched_logs import FetchedLogs
from ..run.package import Package, fetch, package_names, read, takes
from ..run.replay import Replay
from ..run.step_times import StepTimes
from ..run.tensors import Tensors
from ..storage.disk_estimate import needs_of, too_full
from ..storage.disk_keeper import Keeper
from .lanes import Lanes
from .ordered import Ordered
from .processors import Share
from .tries import Tries

DRY_RUN_S = 60.0
"""Seconds that the first step of a new job's program may take."""
DRY_RUNS_S = (4.0, 16.0, DRY_RUN_S)
"""The same in each of its turns: one that takes longer is measured after those that take less."""
KNOWN_PART = 10
"""A tenth of a run says what the rest takes: one odd step does not."""
MEASURED = 3
"""Further measurements of a job that we have not taken up."""

Measure = Callable[[JobView, Package, float], CostEstimate]
"""Measures a job whose first step may take so many seconds. Raises as `cost_estimate.measure`."""
Apart = Callable[[Callable[[], Any]], Future[Any]]
"""Begins a work at once, in a thread of its own."""


class Lost(Unavailable):
    """The disk has lost or damaged a package: it must be fetched again."""


@dataclass(slots=True)
class Fetched:
    """A package is on disk; and its first measurement, which begins at once."""

    measuring: Future[CostEstimate] | None


@dataclass
class Work:
    """INVARIANT: it is about one run. After a reorganisation the same number may stand for another job."""

    job: JobView
    key: int
    package: Future[Fetched] | None = None
    prepared: Future[CostEstimate] | None = None
    claim: Future[RunClaim] | None = None
    replay: Replay | None = None
    """The finished run; None before, and once it has given way to others in memory."""
    restored: Future[RunClaim] | None = None
    """The run, while it comes back from the disk."""
    log_source: FetchedLogs | None = None
    program: Program | None = None
    """The program of a run that follows logs, for requests of those that nobody serves."""
    refused: str | None = None
    refused_until: float = math.inf
    package_tries: Tries = field(default_factory=Tries)
    measure_tries: Tries = field(default_factory=Tries)
    run_tries: Tries = field(default_factory=Tries)
    return_tries: Tries = field(default_factory=Tries)
    """Those of the run, to come back from the disk."""
    reached: int = 0
    """The last step that its followed logs had reached when it failed last."""
    period: str = ""
    """The period that its package serves; `wait` is the budget for that."""
    wait: Budget | None = None
    left: str | None = None
    """Reason for leaving the job to others, once that is reported."""
    short_operators: bool = False
    """True if each operator of its program is sure to end within `DRY_RUN_S`, on any machine."""
    dry_runs: int = 0
    """Turns in which its first step took too long."""
    measured: int = 0
    measure_at: float = math.inf
    done: int = 0
    """Steps of the whole run that are computed."""
    times: StepTimes = field(default_factory=StepTimes)
    """Times of the steps of the whole run."""
    again: Future[CostEstimate] | None = None
    """Another measurement of a job that we have not taken up."""
    ours: bool = False
    """True if we have something at stake in the job."""
    share: Share = field(default_factory=Share)
    """Time that its run has had of the processors, in all attempts."""

    @property
    def here(self) -> bool:
        """True if its package is on disk, as far as we know."""
        package = self.package
        done = package is not None and package.done() and not package.cancelled()
        return done and package is not None and package.exception() is None

    @property
    def first_step(self) -> CostEstimate | None:
        """The job's cost by its first step, if it was measured."""
        prepared = self.prepared
        if prepared is None or not prepared.done() or prepared.exception() is not None:
            return None
        return prepared.result()

    @property
    def short(self) -> str | None:
        """Why there is no memory for one of its works."""
        works = self.package_tries, self.measure_tries, self.run_tries, self.return_tries
        return next((tries.short for tries in works if tries.short is not None), None)

    def tries_of(self, future: Future[Any]) -> Tries:
        """Return the tries of the work that has given ``future``."""
        if future is self.package:
            return self.package_tries
        if future is self.prepared:
            return self.measure_tries
        return self.return_tries if future is self.restored else self.run_tries

    @property
    def usual_s(self) -> float:
        """Seconds of its longest step by the first one; 0 if that was not measured."""
        estimate = self.first_step
        return 0.0 if estimate is None else estimate.commit_s

    @property
    def expected_s(self) -> float:
        """Seconds of its run by the first step; infinite if that was not measured."""
        estimate = self.first_step
        return math.inf if estimate is None else estimate.train_s(self.job.program)

    @property
    def rest_s(self) -> float:
        """Seconds that the run has to go, by what its steps have taken; 0 as long as only a few of them are known."""
        steps = self.job.program.steps
        known = self.times.count * KNOWN_PART >= steps
        return self.times.mean_s * (steps - self.done) if known else 0.0

    @property
    def futures(self) -> tuple[Future[Any] | None, ...]:
        """Work that runs for the job, besides another measurement."""
        return self.package, self.prepared, self.claim, self.restored

    @property
    def busy(self) -> bool:
        """True while the package is being fetched or measured, or the run executed."""
        return any(future is not None and not future.done() for future in self.futures)

    @property
    def runs(self) -> bool:
        """Whether the job's run has begun and is not done, or comes back to memory."""
        return any(future is not None and not future.done() for future in (self.claim, self.restored))

    @property
    def late(self) -> str | None:
        """Why its package is not waited for any longer, or None."""
        return self.wait.reason if self.wait is not None and self.wait.over and self.package is None else None


class Packages:
    """Fetches and measures in threads; what is ours is fetched ``apart``, until ``stop`` is set. ``clock`` gives the
    seconds of all budgets."""

    def __init__(
        self,
        fetcher: Fetcher,
        measure: Measure,
        apart: Apart,
        stop: threading.Event,
        *,
        tensors: Tensors,
        keeper: Keeper | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher, self._measure = fetcher, measure
        self._apart, self._stop = apart, stop
        self._tensors, self._keeper, self._clock = tensors, keeper, clock
        self._strangers = Lanes(LANES, "package", clock=clock)
        self._dry_runs = Ordered("dry-run", clock)
        self._measures = ThreadPoolExecutor(1, thread_name_prefix="own measure")

    def fetching(self, work: Work) -> Future[Fetched] | None:
        """Return a job's package, once it is there; None if it has taken its time and is left to others."""
        self._strangers.look()
        self._dry_runs.look()
        if work.ours and work.wait is not None:
            # NOTE: it was a stranger's when it was asked for.
            if work.package is not None and work.package.cancel():
                work.package = None
            work.wait = None
        if work.package is None:
            if work.ours:
                fetcher = self._fetcher.for_job(work.job.id).stopped_by(self._stop)
                work.package = self._apart(partial(self._fetch, work, fetcher))
            elif not self._ask(work):
                return None
        package = work.package
        assert package is not None
        if package.done() and isinstance(package.exception(), Unavailable) and work.wait and work.wait.over:
            work.package = None
            return None
        return package

    def measuring(self, work: Work) -> Future[CostEstimate]:
        """Begin to measure a job. NOTE: those in which we have a stake are measured one after the other, so that they
        do not slow one another down."""
        if work.ours:
            return self._measures.submit(self._prepare, work, math.inf)
        limit_s = DRY_RUNS_S[min(work.dry_runs, len(DRY_RUNS_S) - 1)]
        return self._try(work, work.dry_runs, limit_s, partial(self._prepare, work, limit_s))

    def measured_again(self, work: Work, estimate: CostEstimate) -> CostEstimate:
        """Return what is known of a job's cost by now.

        SAFETY: a job that is too slow for us is left to others. One measurement on a machine that was busy must not
        decide that, so a job that we have not taken up is measured again a few times, and the lowest counts.
        """
        if work.again is not None and work.again.done():
            if work.again.exception() is None:
                estimate = estimate.least(work.again.result())
                work.prepared = Future()
                work.prepared.set_result(estimate)
            work.again = None
        if work.measure_at == math.inf:
            work.measure_at = self._clock() + again_s(work.job, work.measured)
        idle = not work.ours and work.claim is None and work.again is None
        if idle and work.measured < MEASURED and self._clock() >= work.measure_at:
            work.measured, work.measure_at = work.measured + 1, math.inf
            # NOTE: where it has no room now, it waits in no line: the job is measured already.
            again = partial(self._prepare, work, DRY_RUN_S, waits=False)
            work.again = self._try(work, len(DRY_RUNS_S), DRY_RUN_S, again)
        return estimate

    def package(self, work: Work) -> Package:
        """Read a job's package from the disk. Raises as `package.read`, but Lost for what is not there, or damaged."""
        try:
            return read(self._fetcher.store, work.job.program, work.job.program_file, self._tensors)
        except Unavailable as error:
            raise Lost(f"the package is fetched again: {error}") from error

    def program(self, work: Work) -> Program:
        """Read a job's program from the disk. Raises as `package`."""
        try:
            return read_program(self._fetcher.store.get_blob(work.job.program_file))
        except Unavailable as error:
            raise Lost(f"the package is fetched again: {error}") from error

    def too_long(self, work: Work) -> bool:
        """Note that a first step has taken its time; return whether it has another turn at once. Otherwise the job is
        to be refused, and is looked at again later."""
        if work.dry_runs < len(DRY_RUNS_S) - 1:
            work.dry_runs += 1
            return True
        work.refused_until = self._clock() + again_s(work.job, work.measured)
        work.measured += 1
        return False

    def close(self) -> None:
        """Drop what has not begun. Waits for what is ours, and not for strangers."""
        self._strangers.close()
        self._dry_runs.close()
        self._measures.shutdown(wait=True, cancel_futures=True)

    # ------------------------------------------------------------------ inside

    def _try(
        self, work: Work, number: int, limit_s: float, measure: Callable[[], CostEstimate]
    ) -> Future[CostEstimate]:
        """Queue a measurement whose step may take ``limit_s``. The next one passes it if it takes more than it can as
        long as it can be ended between two operators."""
        return self._dry_runs.submit(number, measure, 2 * TOO_BUSY * limit_s, sure=work.short_operators)

    def _ask(self, work: Work) -> bool:
        """Queue a stranger's package; return False if its time is over."""
        period, period_s = serves(work.job)
        if work.wait is None or work.period != period:
            # NOTE: another period that it serves gives another budget.
            of = f"the package of job {work.job.id}, for its {period}"
            work.period, work.wait = period, Budget(0.0, of, clock=self._clock)
        # SAFETY: by what the job is now. One look of one endpoint could say that it has no time at all.
        work.wait.seconds = package_s(work.job)
        if work.wait.over:
            return False
        fetcher = self._fetcher.for_job(work.job.id).within(work.wait)
        work.package = self._strangers.submit(
            period_s, lambda told: self._fetch(work, fetcher.stopped_by(told))
        )
        return True

    def _fetch(self, work: Work, fetcher: Fetcher) -> Fetched:
        job, keeper = work.job, self._keeper
        # SAFETY: the limit may be lower than when we staked on it. It has its memory in any case.
        limit = math.inf if work.ours else self._tensors.limit

        def fits(program: Program, size: int) -> Reason | None:
            if keeper is None:
                return None
            keeper.needs(job.id, needs_of(program, job.program), package_names(program, job.program_file))
            full = too_full(size, keeper.room(job.id)) if size else None
            if full is not None:
                keeper.too_full(job.id)  # NOTE: nothing goes for a package unless the whole job fits then
            return full

        program = fetch(Served(fetcher, [job.uri]), job.program, job.program_file, limit, fits)
        with contextlib.suppress(DiskFailed):
            fetcher.store.held_by(job.id).hold(*package_names(program, job.program_file))
        self._tensors.of(job.id, takes(program, job.program))
        work.short_operators = surely_short(program, job.program.mode, DRY_RUN_S)
        return Fetched(self.measuring(work) if work.prepared is None else None)

    def _prepare(self, work: Work, limit_s: float, *, waits: bool = True) -> CostEstimate:
        """Measure a job. SAFETY: it has its memory for that long, and no longer. One in which we have a stake may run
        meanwhile."""
        ours, began = work.ours, self._clock()
        lent = self._tensors.lent(
            work.job.id, beside=ours, dry_run=True, waits=waits, must=ours, lasts_s=limit_s
        )
        try:
            with lent:
                return self._measure(work.job, self.package(work), limit_s)
        except StepTooLong:
            if self._clock() - began >= DRY_RUN_S:
                work.dry_runs = len(
                    DRY_RUNS_S
                )  # an operator took that long by itself: no turn is long enough
            raise
