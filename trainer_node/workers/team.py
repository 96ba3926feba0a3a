"""A run's steps by several processes of this machine as long as all of them live, and by this one alone otherwise.

start     at the first step that is computed, and so for no run that is only restored
loss      of a worker that dies, hangs or computes wrongly: `WorkerLost` ends the attempt, and the next one continues
          alone from the last kept state
again     workers are started once more when the run has been alone for long enough

SAFETY: a stake must not depend on a worker's life. A job is taken by what one process needs for it; losses take at most
`LOST_PART` of a run's time, and the first one besides.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from referee_py.commit.tensor import Array
from referee_py.execute import Prepared, Run, State, StepTrace
from referee_py.program import Program, SlotSource
from referee_py.program.terms import Terms
from referee_py.rounding.log_source import LogSource

from ..errors import WorkerLost
from ..run.cost_estimate import CostEstimate
from .channel import MEET_S
from .launch import local_workers
from .lead import BackendOf, Lead
from .micro_batches import marks_of

LOST_PART = 0.05
"""Part of a run's time that workers may cost that are lost, apart from the first loss."""
PATIENCE_S = 30 * 86400.0
"""Seconds that the others wait for one another: worker 0 may rest in the midst of a step, and finds who hangs."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class TeamRule:
    """Rule by which a node computes runs with ``workers`` processes, itself included. ``threads`` are those of each.

    ``timeout_s`` bounds each wait for another worker in a step; ``checks`` nodes of each committed step are computed
    twice.
    """

    workers: int
    threads: int
    device: str
    evaluator: str
    calibration: Path | None
    timeout_s: float
    checks: int

    def patient(self, step_s: float) -> TeamRule:
        """Return the rule for a job whose steps take ``step_s`` alone: no part of one takes longer."""
        return replace(self, timeout_s=max(self.timeout_s, 2 * step_s))

    def with_losses(self, alone_s: float, terms: Terms, estimate: CostEstimate) -> float:
        """Return the seconds that a run takes at most if workers are lost, where one process takes ``alone_s`` for
        it."""
        if not alone_s:
            return 0.0
        waits_s = self.patient(estimate.commit_s).timeout_s
        interval_s = min(terms.strides[0], terms.steps) * estimate.step_s
        return alone_s / (1 - LOST_PART) + waits_s + min(waits_s, MEET_S) + interval_s

    def size(self, program: Program) -> int:
        """Return the number of workers for a program: no more than it has micro-batches."""
        return min(self.workers, marks_of(program).count)

    def command(self, artifacts: Path, program_file: bytes, terms: Terms) -> list[str]:
        """Return the command of a worker, without its place: a job of which the node's ``artifacts`` have all."""
        job = ["--program", program_file.hex(), "--mode", str(terms.mode), "--steps", str(terms.steps)]
        job += [word for stride in terms.strides for word in ("--stride", str(stride))]
        told = ["--threads", str(self.threads), "--device", self.device, "--evaluator", self.evaluator]
        told += [] if self.calibration is None else ["--calibration", str(self.calibration)]
        return ["worker", "run", str(artifacts), *job, *told, "--timeout-s", str(PATIENCE_S)]


class Team:
    """An executor of a job's run (`run.replay.Measured`). Within `working` it computes with workers, else alone.

    ``command`` is that of a worker (`TeamRule.command`). What ``backend_of`` makes over ``logs`` computes alone.
    ``beside`` gets the seconds for which the others have computed in each step, and
    ``unmeasured`` is called before a step whose time here says nothing.
    """

    def __init__(
        self,
        job: Prepared,
        metrics: Mapping[str, SlotSource],
        rule: TeamRule,
        command: Sequence[str],
        backend_of: BackendOf,
        logs: LogSource | None,
        *,
        beside: Callable[[float], None],
        unmeasured: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job, self._metrics, self._rule = job, dict(metrics), rule
        self._command = command
        self._backend_of, self._logs = backend_of, logs
        self._beside, self._unmeasured, self._clock = beside, unmeasured, clock
        self._alone = Run.of(job, backend_of(logs), metrics=metrics)
        self._size = rule.size(job.program)
        self._lead: Lead | None = None
        self._stack = contextlib.ExitStack()
        self._works = False
        self._kept_at = self._again_at = clock()
        self.latest: dict[str, Array] = {}
        """The metrics of the last step."""

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Compute with workers in the block. They end with it."""
        self._works, self._kept_at = True, self._clock()
        try:
            yield
        except BaseException as error:
            self._works = False
            self._leave(error)
            raise
        self._works = False
        self._leave(None)

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        """Return the state after the next step, and its trace if ``commit``. Raises WorkerLost; then the state before
        is gone, and the run continues from the last one that was kept."""
        if (lead := self._led()) is None:
            found, latest = self._alone.executor.step(state, commit), self._alone.latest
        else:
            found, latest = lead.step(state, commit), lead.latest
            self._beside(lead.beside_s)
        self.latest.update(latest)
        if commit:
            self._kept_at = self._clock()
        return found

    # ------------------------------------------------------------------ inside

    def _led(self) -> Lead | None:
        """Return worker 0, if workers are to compute now; start them if there are none."""
        if self._lead is None and self._works and self._size > 1 and self._clock() >= self._again_at:
            self._unmeasured()
            try:
                self._start()
            except WorkerLost as error:
                self._lost(error)
        return self._lead

    def _start(self) -> None:
        rule, job = self._rule, self._job
        _log.info("workers.start", workers=self._size, pid=os.getpid())
        with contextlib.ExitStack() as stack:
            meet_s = min(rule.timeout_s, MEET_S)
            channel = stack.enter_context(local_workers(self._command, self._size, rule.timeout_s, meet_s))
            self._lead = Lead(job, self._metrics, channel, self._backend_of, self._logs, rule.checks)
            self._stack = stack.pop_all()

    def _leave(self, error: BaseException | None) -> None:
        """End the workers. NOTE: one that was stopped within a step is told nothing: its step is not done."""
        lead, self._lead = self._lead, None
        stack, self._stack = self._stack, contextlib.ExitStack()
        if lead is not None and lead.between_steps:
            # NOTE: one that is lost now has done its work.
            with contextlib.suppress(WorkerLost):
                lead.close()
        stack.__exit__(*((None, None, None) if error is None else (type(error), error, None)))
        if isinstance(error, WorkerLost):
            self._lost(error)

    def _lost(self, error: WorkerLost) -> None:
        """Continue alone, for as long as that makes what the loss has cost a small part of the time."""
        self._unmeasured()
        now = self._clock()
        alone_s = (now - self._kept_at) * (1 - LOST_PART) / LOST_PART
        self._again_at = now + alone_s
        _log.error("worker.lost", worker=error.worker, reason=str(error), alone_s=round(alone_s))
