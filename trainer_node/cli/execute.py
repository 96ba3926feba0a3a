"""`assay program run`: execute a program here, without a chain."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from referee_py.errors import InvalidInput

from ..local.metric_warnings import Health
from ..local.tensorboard import Scalars
from .arithmetic import ModeFlags, mode_words, with_mode
from .common import HuggingFaceOption, OptimizerStateOption, show_rows
from .extensions import exporter
from .follow import Follower

if TYPE_CHECKING:
    from referee_py.execute import State

    from ..local.bundle import Bundle
    from ..local.evaluation import Evaluation
    from ..local.local_run import LocalRun, Result
    from ..local.run_folder import RunFolder
    from ..run.replay import Interrupted

STOPPED_ON_NAN = 3
"""Exit code of a run that --stop-on-nan has stopped."""


FACTS = frozenset(
    {"program hash", "arithmetic", "run root", "steps", "rounding logs", "run folder", "state", "model"}
)
"""Columns of a run's table besides its metrics."""


@with_mode
def run_command(
    mode: ModeFlags,
    job: Annotated[Path, typer.Argument(help="A bundle.")],
    steps: Annotated[int | None, typer.Option(help="Stop after this many steps.", min=1)] = None,
    root: Annotated[
        bool, typer.Option(help="Commit as a trainer does, and show the run root; needs all steps.")
    ] = True,
    save: Annotated[Path | None, typer.Option(help="Where to write the state, as safetensors.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for states and metrics.jsonl: what --resume needs to continue after a stop."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out, or begin it if there is none.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write the metrics for TensorBoard, into --out.")
    ] = False,
    stop_on_nan: Annotated[
        bool, typer.Option("--stop-on-nan", help="Stop when a metric is NaN or infinite.")
    ] = False,
    every: Annotated[
        float,
        typer.Option(help="Least seconds between two lines about progress; a terminal has a bar.", min=0),
    ] = 10.0,
    keep_every: Annotated[
        float,
        typer.Option(help="With --out: seconds after which the state is kept, between checkpoints.", min=0),
    ] = 60.0,
    keep: Annotated[
        str,
        typer.Option(
            help="With --out: checkpoints whose states stay, for audits: all, last, every:K or window:K."
        ),
    ] = "all",
    evaluate: Annotated[
        Path | None,
        typer.Option(help="A bundle that evaluates the state: its slots take the tensors of the same names."),
    ] = None,
    evaluate_every: Annotated[
        int, typer.Option(help="With --evaluate: steps between two evaluations; also after the last.", min=1)
    ] = 100,
    hf: HuggingFaceOption = None,
    optimizer_state: OptimizerStateOption = False,
    threads: Annotated[int | None, typer.Option(help="Number of threads of a kernel.", min=1)] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    evaluator: Annotated[
        str,
        typer.Option(
            help="Evaluator in rounded-f64: torch, unfolded, numpy, blocked, interleaved, permuted, halves or "
            "direct."
        ),
    ] = "torch",
) -> None:
    """Execute a bundle's program on this machine: show its metrics, and the root that an honest trainer claims.

    Ctrl-C and SIGTERM end the run after the current step; with --out it can continue from there. Exit codes: 130 after
    Ctrl-C, 143 after SIGTERM, 3 after --stop-on-nan.
    """
    import repops

    from ..local.bundle import Bundle
    from ..local.evaluation import Evaluation
    from ..local.local_run import LocalRun
    from ..local.provenance import local_run
    from ..local.run_folder import KeepRule, open_run
    from ..run.replay import Interrupted

    bundle = Bundle.read(job)
    bundle = bundle.with_mode(mode.over(bundle.terms.mode))
    terms, last = bundle.terms, steps or bundle.terms.steps
    if last > terms.steps:
        raise InvalidInput(f"{last} steps of a program that has {terms.steps}")
    if out is None and (resume or tensorboard):
        raise InvalidInput(
            f"{'--resume' if resume else '--tensorboard'} needs the folder of a run; add --out RUN"
        )
    if out is not None and not root:
        raise InvalidInput("a run in a folder is committed; leave out --no-root, or --out")
    if threads:
        repops.set_num_threads(threads)
    if device not in ("cpu", "cuda"):
        raise InvalidInput(f"device {device!r}; choose cpu or cuda")
    # NOTE: a file that cannot be written is reported now, and not after hours of computing.
    if save is not None:
        _state_names(bundle, job)
        _check_place(save.parent)
        if save.is_dir():
            raise InvalidInput(f"{save} is a folder; name a file for the state")
    if hf is not None:
        exporter().check_export(bundle, hf)
        _check_place(hf)
        for other in filter(None, (out, save)):
            if hf.resolve() in (other.resolve(), *other.resolve().parents):
                raise InvalidInput(f"{hf} is to hold {other}, too; name a folder for the model alone")
    elif optimizer_state:
        raise InvalidInput("--optimizer-state is part of an exported model; add --hf OUT")
    evaluation = None
    if evaluate is not None:
        evaluation = Evaluation(Bundle.read(evaluate), bundle, device)
    with contextlib.ExitStack() as stack:
        folder = None
        if out is not None:
            keeps = KeepRule.of(keep)
            opened = open_run(
                out, terms, mode_words(terms.mode), resume=resume, keep_s=keep_every, keeps=keeps
            )
            folder = stack.enter_context(opened)
        run = LocalRun(bundle, last, device, evaluator, root, folder)
        session = _Session(run, stop_on_nan, tensorboard, every, evaluation, evaluate_every)
        try:
            result = session.compute()
        except Interrupted as interrupted:
            raise typer.Exit(session.stopped(interrupted)) from None
        except KeyboardInterrupt:
            session.stopped(None)
            raise
    rows: dict[str, object] = {"program hash": terms.hash().hex(), "arithmetic": mode_words(terms.mode)}
    rows |= session.rows(result)
    if save is not None:
        rows["state"] = _save(bundle, result.state, save, job)
    if hf is not None:
        known = local_run({name: str(value) for name, value in rows.items()})
        rows["model"] = exporter().export(
            bundle, result.state.arrays, hf, known, optimizer_state=optimizer_state
        )
    show_rows(f"{bundle.name}  {job}", rows)


class _Session:
    """One attempt at a run: from the first step that is computed here to the last."""

    def __init__(
        self,
        run: LocalRun,
        stop_on_nan: bool,
        tensorboard: bool,
        every_s: float,
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
        self._follower = Follower(self._first, run.last, every_s)

    def compute(self) -> Result:
        """Compute the run and tell how it goes. Raises Interrupted."""
        from ..storage.process import stop_on_signals

        if self._first:
            self._follower.say(f"continuing after step {self._first} of {self._run.last}")
        try:
            with stop_on_signals(self._stop, self._take), self._follower:
                result = self._run.compute(self._on_step, self._stopping)
            if self._folder is not None and not self._aligned:
                self._align(self._folder, self._run.last)
            return result
        finally:
            if self._scalars is not None:
                self._scalars.close()

    def stopped(self, interrupted: Interrupted | None) -> int:
        """Say what was stopped and how to continue; return the exit code. None: in the middle of a step."""
        where = str(interrupted or f"stopped in step {self._step + 1} of {self._run.last}")
        if self._folder is None:
            how = "nothing was kept; with --out RUN a run can continue after a stop"
        else:
            again = [] if "--resume" in sys.argv else ["--resume"]
            how = f"continue with: {shlex.join(['assay', *sys.argv[1:], *again])}"
        if self._signal is None and self._health.broken and interrupted:
            where = f"{where}, because {self._health.broken}"
        self._follower.say(f"{where}; {how}")
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
            self._follower.say(f"step {state.step} of {self._run.last}  {words}")
            metrics = {**metrics, **self._evaluated}
        self._step, self._latest, self._ended = state.step, metrics, time.monotonic()
        for warning in self._health.see(state.step, metrics):
            self._follower.say(f"warning: {warning}")
        if self._folder is not None:
            seconds = self._before_s + self._ended - self._began
            self._folder.metrics.append(state.step, seconds, metrics)
        if self._scalars is not None:
            self._scalars.add(state.step, metrics)
        self._follower.step(state.step, metrics)

    def _align(self, folder: RunFolder, step: int) -> None:
        """Drop the metrics of steps that are computed again. NOTE: known only now, since a state may have been lost."""

        def row(step: int, metrics: Mapping[str, float]) -> None:
            self._health.see(step, metrics)
            self._latest = metrics

        self._aligned = True
        self._first = self._step = step
        last, self._before_s = folder.metrics.cut(step, row)
        if last < step:
            self._follower.say(f"warning: {folder.metrics.path} has no lines for steps {last + 1} to {step}")


def _check_place(folder: Path) -> None:
    """Raise InvalidInput if nothing can be written into a folder, or the folder cannot be made."""
    place = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise InvalidInput(
            f"{place} is not a folder that can be written to; name another place than {folder}"
        )


def _save(bundle: Bundle, state: State, path: Path, job: Path) -> Path:
    """Write a state as a safetensors file, by the names of its slots; return the path. Raises InvalidInput."""
    from safetensors.numpy import save_file

    names = _state_names(bundle, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(dict(zip(names, state.arrays, strict=True)), path, {"program": bundle.terms.hash().hex()})
    return path


def _state_names(bundle: Bundle, job: Path) -> Sequence[str]:
    """Return a name for each slot. Raises InvalidInput if the bundle has none, or one for two slots."""
    names, count = bundle.names.slots, len(bundle.program.slots)
    if len(set(names)) != count:
        raise InvalidInput(
            f"{len(set(names))} different names for {count} slots in {job / 'labels.json'}; build the bundle again"
        )
    return names
