"""A session of a local run: its metrics, evaluations and warnings step by step, and when it stops."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from referee_py.execute import State

from ..run.replay import Interrupted
from ..storage.process import stop_on_signals
from .evaluation import Evaluation
from .local_run import LocalRun, Result
from .metric_warnings import Health
from .run_folder import RunFolder
from .tensorboard import Scalars

STOPPED_ON_NAN = 3
"""Exit code of a run that --stop-on-nan has stopped."""
FACTS = frozenset(
    {"program hash", "arithmetic", "run root", "steps", "rounding logs", "run folder", "state", "model"}
)
"""Columns of a run's table besides its metrics."""


class Shown(AbstractContextManager["Shown"], Protocol):
    """Shows the progress of a run while it is entered."""

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take note of a finished step."""

    def say(self, text: str) -> None:
        """Show a line. Names of metrics in it may be anybody's."""


class Session:
    """One attempt at a run, from the first step that is computed here to the last. ``shown`` shows how it goes."""

    def __init__(
        self,
        run: LocalRun,
        shown: Shown,
        stop_on_nan: bool,
        tensorboard: bool,
        evaluation: Evaluation | None,
        evaluate_every: int,
    ) -> None:
        self._run, self._folder = run, run.folder
        self._evaluation, self._evaluate_every = evaluation, evaluate_every
        self._evaluated: Mapping[str, float] = {}
        self._stop_on_nan = stop_on_nan
        self._health = Health()
        self._stop = threading.Event()
        self._signal: signal.Signals | None = None
        self._first = self._step = run.folder.step if run.folder else 0
        self._aligned = False
        """True if the file of metrics ends with the step before ours."""
        self._before_s = 0.0
        """Seconds that earlier sessions took for the steps up to ours."""
        self._latest: Mapping[str, float] = {}
        self._scalars: Scalars | None = None
        if tensorboard and run.folder is not None:
            self._scalars = Scalars(run.folder.path / "tensorboard", self._first + 1)
        self._began = self._ended = time.monotonic()
        self._shown = shown

    def compute(self) -> Result:
        """Compute the run, and show how it goes. Raises Interrupted."""
        if self._first:
            self._shown.say(f"continuing after step {self._first} of {self._run.last}")
        try:
            with stop_on_signals(self._stop, self._take), self._shown:
                result = self._run.compute(self._on_step, self._stopping)
            if self._folder is not None and not self._aligned:
                self._align(self._folder, self._run.last)
            return result
        finally:
            if self._scalars is not None:
                self._scalars.close()

    def stopped(self, interrupted: Interrupted | None, again: str) -> int:
        """Show what was stopped, and the command ``again`` that continues; return the exit code. None: in the middle of
        a step."""
        where = str(interrupted or f"stopped in step {self._step + 1} of {self._run.last}")
        if self._folder is None:
            how = "nothing was kept; with --out RUN a run can continue after a stop"
        else:
            how = f"continue with: {again}"
        if self._signal is None and self._health.broken and interrupted:
            where = f"{where}, because {self._health.broken}"
        self._shown.say(f"{where}; {how}")
        return STOPPED_ON_NAN if self._signal is None else 128 + self._signal

    def rows(self, result: Result) -> dict[str, object]:
        """Return what there is to show about the run."""
        rows: dict[str, object] = {}
        if result.root is not None:
            rows["run root"] = result.root.hex()
        took, done = self._ended - self._began, self._step - self._first
        pace = f", {done / took:.3g} a second" if done and took > 0 else ""
        rows["steps"] = f"{self._run.last} of {self._run.bundle.terms.steps}{pace}"
        # SAFETY: names come from the bundle; one that is called as a fact is must not pass for it.
        for name, value in self._latest.items():
            rows[f"metric {name}" if name.strip() in FACTS else name] = f"{value:.6g}"
        if result.log_bytes is not None:
            root = f"{result.log_root.hex()}  " if result.log_root is not None else ""
            rows["rounding logs"] = f"{root}{result.log_bytes:,} bytes"
        if self._folder is not None:
            rows["run folder"] = self._folder.path
        return rows

    def _take(self, number: signal.Signals) -> None:
        self._signal = number

    def _stopping(self) -> bool:
        return self._stop.is_set() or (self._stop_on_nan and self._health.broken is not None)

    def _on_step(self, state: State, metrics: Mapping[str, float]) -> None:
        if self._folder is not None and not self._aligned:
            self._align(self._folder, state.step - 1)
        if self._evaluation is not None and (
            state.step % self._evaluate_every == 0 or state.step == self._run.last
        ):
            self._evaluated = self._evaluation.of(state)
            words = "  ".join(f"{name} {value:.6g}" for name, value in self._evaluated.items())
            self._shown.say(f"step {state.step} of {self._run.last}  {words}")
            metrics = {**metrics, **self._evaluated}
        self._step, self._latest, self._ended = state.step, metrics, time.monotonic()
        for warning in self._health.see(state.step, metrics):
            self._shown.say(f"warning: {warning}")
        if self._folder is not None:
            seconds = self._before_s + self._ended - self._began
            self._folder.metrics.append(state.step, seconds, metrics)
        if self._scalars is not None:
            self._scalars.add(state.step, metrics)
        self._shown.step(state.step, metrics)

    def _align(self, folder: RunFolder, step: int) -> None:
        """Drop the metrics of steps that are computed again. NOTE: known only now, since a state may have been lost."""

        def row(step: int, metrics: Mapping[str, float]) -> None:
            self._health.see(step, metrics)
            self._latest = metrics

        self._aligned = True
        self._first = self._step = step
        last, self._before_s = folder.metrics.cut(step, row)
        if last < step:
            self._shown.say(f"warning: {folder.metrics.path} has no lines for steps {last + 1} to {step}")
