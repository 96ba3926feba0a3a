"""A bundle's run on this machine, without a chain: in memory, or in a folder from which it can continue."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from referee_py.commit.tensor import Array
from referee_py.execute import Backend, Run, State, StepTrace
from referee_py.rounding.log_source import LogSource, MemoryLogs, run_log_tree
from referee_py.rounding.step_log import StepLog

from ..run.log_sources import OwnLogs
from ..run.modes import backend_here
from ..run.replay import Interrupted, Replay
from ..workers.channel import Channel
from ..workers.lead import Lead
from .bundle import Bundle
from .run_folder import RunFolder

OnStep = Callable[[State, Mapping[str, float]], None]
"""Called after each step with its state, which is valid during the call, and its scalar metrics."""
AfterStep = Callable[[State, StepTrace | None], None]


@dataclass(frozen=True, slots=True)
class Result:
    """The state after the last step; if all steps were committed, the run root; in rounded-f64, the logs."""

    state: State
    root: bytes | None
    log_root: bytes | None
    log_bytes: int | None


@dataclass(frozen=True)
class LocalRun:
    """A run of the first ``last`` steps of a bundle. ``commit``: as a trainer does, if these are all steps.

    ``evaluator`` is that of rounded-f64. Without a ``folder``, nothing is kept. With a ``channel``, its workers compute
    the steps, of which ``checks`` nodes are computed twice; each of them is told to stop at the end.
    """

    bundle: Bundle
    last: int
    device: str = "cpu"
    evaluator: str = "torch"
    commit: bool = True
    folder: RunFolder | None = None
    channel: Channel | None = None
    checks: int = 1

    def compute(self, on_step: OnStep, stop: Callable[[], bool]) -> Result:
        """Compute the run; ``stop`` is asked after each step. Raises Interrupted; a folder has the state then. Raises
        WorkerLost."""
        return self._in_memory(on_step, stop) if self.folder is None else self._in(self.folder, on_step, stop)

    def _in_memory(self, on_step: OnStep, stop: Callable[[], bool]) -> Result:
        bundle, terms = self.bundle, self.bundle.terms
        logs = MemoryLogs() if terms.arithmetic.follows_logs else None
        lead = self._lead(logs)
        run = Run.of(bundle, self._backend(logs), executor=lead, metrics=bundle.metrics)
        latest = run.latest if lead is None else lead.latest

        def after(state: State, _: StepTrace | None) -> None:
            on_step(state, scalars(latest))
            if stop() and state.step < self.last:
                raise Interrupted(f"stopped after step {state.step} of {self.last}")

        with _until_stopped(lead):
            return self._computed(run, logs, after)

    def _computed(self, run: Run, logs: MemoryLogs | None, after: AfterStep) -> Result:
        terms = self.bundle.terms
        if not self.commit or self.last < terms.steps:
            state = run.advance(run.initial(), self.last, after)
            return Result(state, None, None, self._log_bytes(logs))
        interval = run.commit_interval(
            run.initial(), self.last, terms.strides[0], snapshots=[self.last], on_step=after
        )
        log_root = run_log_tree(logs.roots(terms.node_count)).root if logs is not None else None
        return Result(interval.snapshots[self.last], interval.root, log_root, self._log_bytes(logs))

    def _in(self, folder: RunFolder, on_step: OnStep, stop: Callable[[], bool]) -> Result:
        bundle, terms = self.bundle, self.bundle.terms
        lead, replay, logs = self._replay(folder)
        reached = folder.step

        def after(step: int) -> None:
            nonlocal reached
            reached = step
            on_step(replay.now, scalars(replay.latest))

        if reached < self.last or self.last == terms.steps:
            try:
                with _until_stopped(lead):
                    claim = replay.train(after, lambda: stop() or reached >= self.last, folder.due)
            except Interrupted:
                if reached < self.last:
                    raise
            else:
                folder.publish(bundle, claim)
                log_root = claim.logs if logs is not None else None
                return Result(replay.state(self.last), claim.root, log_root, self._log_bytes(logs))
        return Result(replay.state(self.last), None, None, self._log_bytes(logs))

    def show(self, interval: int, step: int | None, node: int | None) -> None:
        """Publish more of an interval of the run in the folder (`RunFolder.show`)."""
        assert self.folder is not None
        self.folder.show(self._replay(self.folder)[1], interval, step, node)

    def _replay(self, folder: RunFolder) -> tuple[Lead | None, Replay, OwnLogs | None]:
        bundle, terms = self.bundle, self.bundle.terms
        logs = None
        if terms.arithmetic.follows_logs:
            logs = OwnLogs(folder.database, folder.key, folder.store, terms.node_count, terms.steps)
        backend, lead = self._backend(logs), self._lead(logs)
        replay = Replay(
            *(bundle, backend, folder.store, folder),
            log_source=logs,
            metrics=bundle.metrics,
            executor=lead,
        )
        return lead, replay, logs

    def _lead(self, logs: LogSource | None) -> Lead | None:
        """Return what has the steps computed by the workers of the channel, if there is one."""
        if self.channel is None:
            return None
        backend_of = partial(backend_here, self.bundle.terms.mode, self.device, self.evaluator)
        return Lead(self.bundle, self.bundle.metrics, self.channel, backend_of, logs, self.checks)

    def _backend(self, logs: LogSource | None) -> Backend:
        return backend_here(self.bundle.terms.mode, self.device, self.evaluator, logs)

    def _log_bytes(self, logs: LogSource | None) -> int | None:
        if logs is None:
            return None
        steps = range(1, self.last + 1)
        return sum(len((logs.get(step) or StepLog.empty()).encode()) for step in steps)


@contextlib.contextmanager
def _until_stopped(lead: Lead | None) -> Iterator[None]:
    """Tell the workers to stop after the block, also if it was interrupted, which happens between two steps alone."""
    try:
        yield
    except Interrupted:
        if lead is not None:
            lead.close()
        raise
    if lead is not None:
        lead.close()


def scalars(metrics: Mapping[str, Array]) -> dict[str, float]:
    """Return the metrics that are numbers, by name."""
    return {name: float(value) for name, value in sorted(metrics.items()) if value.ndim == 0}
