"""Execution of a job's whole run: its backend, its rounding logs, its measurement, and reports of its progress.

    _computes     the backend of the job's mode
    _log_source   our own logs, which the run writes, or those of the job's trainer, which it follows
    deliver       gives a run the logs that the chain has shown, where it waits for them or lacks them
    _measure      what a step of it takes on this machine
    _team         the processes that compute it, where there are several
    _left_s       what the rest of it takes
    _run          computes it, or restores it, and reports each hundredth of the time so far

In mode rounded-f64 a trainer writes the logs of its run. All others follow the trainer's logs, which are an input of
the run: their runner ``follows``, and can begin once the job names the logs.

When a run is computed, together with what, and for whom: `job_runner`.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

import structlog

from referee_py.adjudication import execute_right
from referee_py.execute import Backend, RunClaim
from referee_py.program import Program
from referee_py.program.terms import Terms
from referee_py.rounding.backend import Evaluator
from referee_py.rounding.log_source import DryRunLogs, LogSource
from referee_py.rounding.thresholds import Thresholds, fixed

from ..chain import JobView
from ..errors import DiskFailed, WorkerLost
from ..limits.waits import LANES, logs_s, retry_s
from ..network.budget import Budget
from ..network.fetcher import Fetcher
from ..observe.metrics import Metrics
from ..observe.pace import left_words, rate_words
from ..observe.problems import Problems
from ..observe.run_reports import Board, Reporter, RunReport, told_outputs
from ..run.checkpoints import StoredCheckpoints
from ..run.cost_estimate import CostEstimate, measure
from ..run.fetched_logs import FetchedLogs, step_limit
from ..run.log_sources import OwnLogs, RunLogs
from ..run.modes import Means, backend_of, run_backend
from ..run.onchain_logs import Shown
from ..run.package import Package, memory_needed
from ..run.replay import Interrupted, Replay
from ..run.right_cost import Right
from ..run.turns import Turns
from ..storage.database import Database
from ..storage.disk_keeper import Keeper
from ..storage.ended_runs import note_run
from ..storage.store import Store
from ..workers.team import Team, TeamRule
from .lanes import Lanes
from .packages import Work
from .step_book import StepBook

PROGRESS_S = 0.5
"""Least seconds between two reports of progress. A long run reports more rarely: each hundredth of its time so far."""
MAX_LOGGED = 100
"""Number of forged entries of a job's logs that are reported."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Equipment:
    """All that a runner works with. ``backend`` returns the backend for a mode without rounding logs.

    ``replay`` is the class of a job's run. ``evaluator`` creates the evaluator of rounded-f64; ``max_logs`` bounds the
    bytes of a followed run's logs on disk. ``exact_slowdown`` is the factor of time for later steps whose sums data can
    make slow. ``alike``: runs without rounding logs compute on the processor, as operators are judged. ``thresholds``
    are for a trainer's dense logs. ``team`` says how many processes compute a run, one if it is None. ``board`` gets
    reports about the run in progress, ``problems`` what has failed; ``keeper`` keeps room on the disk, ``clock`` time.
    """

    fetcher: Fetcher
    database: Database
    backend: Callable[[int], Backend]
    _: KW_ONLY
    max_memory: int
    exact_slowdown: float
    max_logs: int
    evaluator: Callable[[], Evaluator]
    thresholds: Thresholds = fixed
    follows: bool = False
    alike: bool = True
    replay: type[Replay] = Replay
    team: TeamRule | None = None
    board: Board = field(default_factory=Board)
    metrics: Metrics = field(default_factory=Metrics)
    problems: Problems = field(default_factory=Problems)
    keeper: Keeper | None = None
    clock: Callable[[], float] = time.monotonic


class RunExecution:
    """Computes runs for `job_runner.JobRunner`. ``unkept`` returns who receives what the disk refuses of a job's run
    (`Replay`), ``others_wait`` whether another run waits for the place of one that computes, ``first`` what lets runs
    rest while it is entered."""

    def __init__(
        self,
        has: Equipment,
        *,
        unkept: Callable[[int], Callable[[DiskFailed | None], None]],
        others_wait: Callable[[], bool],
        first: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._fetcher, self._database, self._backend = has.fetcher, has.database, has.backend
        self._max_memory, self._exact_slowdown, self._max_logs = (
            has.max_memory,
            has.exact_slowdown,
            has.max_logs,
        )
        self._evaluator, self._thresholds = has.evaluator, has.thresholds
        self._follows, self._alike, self._replay = has.follows, has.alike, has.replay
        self._team_rule = has.team
        self._board, self._metrics, self._clock = has.board, has.metrics, has.clock
        self._unkept, self._others_wait = unkept, others_wait
        self._works: dict[int, Work] = {}
        self._logs, self._own_logs = (Lanes(LANES, name, clock=has.clock) for name in ("logs", "own-logs"))
        self._first = first
        self._turns, self._step_book = Turns(first), StepBook(has.database)
        self._stop = threading.Event()

    def lacks_logs(self, job_id: int) -> Program | None:
        """Return the program of a job whose run was computed by logs that are gone, and may have been shown on the
        chain; None for other jobs."""
        work = self._works.get(job_id)
        return (
            work.program
            if work is not None and work.log_source is not None and work.log_source.lacks
            else None
        )

    def deliver(self, job_id: int, shown: Shown) -> None:
        """Let a job's run continue at once with its logs, which have all been shown on the chain, if it waits for them.

        NOTE: a run that has failed for another reason keeps its delay.
        """
        work = self._works[job_id]
        assert work.log_source is not None
        work.log_source.deliver(shown)
        if work.log_source.wanted:
            work.run_tries.retry_at = work.return_tries.retry_at = 0.0

    def _store(self, job_id: int, *, result: bool = False) -> Store:
        """Return the store for the artifacts of a job."""
        return self._fetcher.store.held_by(job_id, result=result)

    def _key(self, job: JobView) -> int:
        """Return a number that identifies the run: the program, and the logs if another party writes them."""
        parts = job.program.hash() + (job.logs if self._followed(job) else b"")
        return int.from_bytes(hashlib.sha256(parts).digest() if self._followed(job) else parts, "big")

    def _followed(self, job: JobView) -> bool:
        return self._follows and job.program.arithmetic.follows_logs

    def _measure(self, job: JobView, package: Package, limit_s: float) -> CostEstimate:
        backend = self._computes(job, DryRunLogs() if job.program.arithmetic.follows_logs else None)
        right = self._right(job.program)
        found = measure(package, backend, limit_s=limit_s, stop=self._stop.is_set, right=right)
        seconds = {"step_s": found.step_s, "commit_s": found.commit_s, "right_s": found.right_s}
        _log.info("job.measured", job=job.id, worst=found.worst, **seconds)
        return found.slower(self._exact_slowdown)

    def _right(self, terms: Terms) -> Right | None:
        """Return how operators are judged, or None if runs compute them in the same way."""
        if self._alike and terms.arithmetic.runs_as_judged:
            return None
        mode, backend = terms.mode, backend_of("cpu", terms.mode)
        return lambda structure, inputs: execute_right(structure, inputs, backend, mode)

    def _computes(self, job: JobView, log_source: LogSource | None) -> Backend:
        """Return the backend for a job's operators. ``log_source`` has the job's rounding logs, if any."""
        means = Means(self._backend, self._evaluator, _log_ignored(job.id), self._thresholds)
        return run_backend(job.program.mode, means, log_source)

    def _log_source(self, work: Work, program: Program) -> RunLogs | None:
        """Return the source of the job's rounding logs: our own, or those of the job's only trainer."""
        job, terms = work.job, work.job.program
        if not terms.arithmetic.follows_logs:
            return None
        if not self._follows:
            store = self._store(job.id)
            return OwnLogs(self._database, work.key, store, terms.node_count, terms.steps)
        if work.log_source is None:
            work.program = program
            work.log_source = FetchedLogs(
                self._fetcher.for_job(job.id),
                lambda: work.job.servers(first=lambda claim: claim.slot),  # the trainer's, who has the logs
                job.logs,
                terms.steps,
                terms.node_count,
                # SAFETY: slow logs of strangers' runs keep no lane from a run in which we have a stake.
                lambda fetch: (self._own_logs if work.ours else self._logs).submit(
                    work.job.challenge_period, fetch
                ),
                step_bytes=step_limit(program, self._max_memory - memory_needed(program, terms)),
                run_bytes=self._max_logs,
                budget=Budget(logs_s(job), f"the rounding logs of job {job.id}", clock=self._clock),
                patience_s=retry_s(job),
                others=self._others_wait,
                clock=self._clock,
            )
        work.log_source.begin_turn()
        return work.log_source

    def _allow_logs(self, work: Work) -> None:
        """Let a run wait for its logs as long as its job allows now."""
        if work.log_source is not None:
            work.log_source.allow(logs_s(work.job), retry_s(work.job))

    def _run(self, work: Work, package: Package, pass_on: Callable[[], bool]) -> tuple[RunClaim, Replay]:
        # SAFETY: what a stake rests on comes back on a full disk, too; an earlier process has noted it, as a rule.
        with contextlib.suppress(*([DiskFailed] if work.ours else [])):
            note_run(self._database, work.job.id, work.key)
        checkpoints = StoredCheckpoints(self._database, work.key)
        _log.info("train.start", job=work.job.id, after=checkpoints.last, of=package.terms.steps)
        log_source = self._log_source(work, package.program)
        backend = self._computes(work.job, log_source)
        outputs, terms = told_outputs(package.program), package.terms
        team = self._team(work, package, log_source)
        replay = self._replay(
            package,
            backend,
            self._store(work.job.id),
            checkpoints,
            log_source=log_source,
            metrics=outputs,
            result=self._store(work.job.id, result=True),
            unkept=self._unkept(work.job.id),
            executor=team,
            turns=self._turns,
        )
        reporter = Reporter(work.job.id, terms.hash(), outputs, checkpoints.last, terms.steps)
        if checkpoints.last:
            # NOTE: a run that resumes is reported at once, and so is one that an earlier job has computed to its end.
            self._board.put(reporter.report({}, checkpoints.last))
        began = told = time.monotonic()
        done = before = checkpoints.last

        def commits(step: int) -> bool:
            return step % terms.strides[0] == 0 or step == terms.steps

        def progress(step: int) -> None:
            nonlocal told, done
            # SAFETY: what we stake from now on is decided by what the steps really take.
            work.times.ends(committed=commits(step))
            work.done = done = step
            self._step_book.note(work.key, work.times.slowest)
            reporter.note(step)
            now = time.monotonic()
            if step == terms.steps or reports(began, told, now):
                told = now
                # NOTE: the checkpoint of this very step is written after this.
                kept = (step - 1) // terms.strides[0] * terms.strides[0]
                report = reporter.report(replay.latest, kept)
                self._board.put(report)
                self._show(report)
                _log.info(
                    "train.progress",
                    job=work.job.id,
                    step=step,
                    of=terms.steps,
                    numbers=[float(f"{number:.6g}") for number in report.history[-1].numbers],
                    rate=rate_words(reporter.pace.rate),
                    left=left_words(reporter.pace.left_s),
                )

        try:
            claim = _trained(replay, team, progress, lambda: pass_on() or self._stop.is_set())
            if isinstance(log_source, FetchedLogs):
                log_source.hold(before, fetch=not work.ours)
        except Interrupted:
            work.times.cut(committed=commits(done + 1))
            self._step_book.note(work.key, work.times.slowest)
            raise
        finally:
            if isinstance(log_source, FetchedLogs):
                log_source.end_turn()
        # NOTE: the states are counted here, so that the loop need not (`mending`).
        _log.info("train.done", job=work.job.id, root=claim.root.hex(), states=checkpoints.kept)
        return claim, replay

    def _team(self, work: Work, package: Package, log_source: LogSource | None) -> Team | None:
        """Return what computes a job's run with several processes; None for one process.

        SAFETY: what a step takes is what all of them compute for it, one after the other: a dispute is played by this
        process alone.
        """
        rule = self._team_rule
        if rule is None or rule.size(package.program) < 2:
            return None
        rule = rule.patient(work.usual_s)
        return Team(
            package,
            told_outputs(package.program),
            rule,
            rule.command(self._fetcher.store.root, work.job.program_file, package.terms),
            partial(self._computes, work.job),
            log_source,
            beside=lambda seconds: work.times.beside(seconds),
            unmeasured=lambda: work.times.drops(),
        )

    def _left_s(self, job: JobView, estimate: CostEstimate) -> float:
        """Return the seconds that a job's run takes at most from what is on disk."""
        done, rule = StoredCheckpoints(self._database, self._key(job)).last, self._team_rule
        left_s = estimate.train_s(job.program) * (1 - done / job.program.steps)
        return left_s if rule is None else rule.with_losses(left_s, job.program, estimate)

    def _show(self, report: RunReport) -> None:
        job, metrics = str(report.job), self._metrics
        metrics.set("steps_done", report.step, job)
        metrics.set("steps", report.steps, job)
        metrics.set("step_rate", report.rate or 0.0, job)
        if report.history and report.history[-1].numbers:
            metrics.set("loss", report.history[-1].numbers[0], job)


def _trained(
    replay: Replay, team: Team | None, progress: Callable[[int], None], stop: Callable[[], bool]
) -> RunClaim:
    """Compute a run. One that has lost a worker continues from the last state that it has kept."""
    if team is None:
        return replay.train(progress, stop)
    while True:
        with contextlib.suppress(WorkerLost), team.working():
            return replay.train(progress, stop)


def reports(began: float, told: float, now: float) -> bool:
    """Return whether the progress of a run must be reported again; ``told``: when it was last. In seconds."""
    return now - told >= max(PROGRESS_S, (now - began) / 100)


def _log_ignored(job: int) -> Callable[[int, int, int], None]:
    """Return a function that logs each ignored entry of a job's logs. An honest trainer writes none.

    SAFETY: a forger may put one into every node of every step, so `MAX_LOGGED` bounds what we write to our disk.
    """
    told = 0

    def tell(step: int, node: int, element: int) -> None:
        nonlocal told
        told += 1
        if told <= MAX_LOGGED:
            _log.warning(
                "log.forged", job=job, step=step, node=node, element=element, last=told == MAX_LOGGED
            )

    return tell
