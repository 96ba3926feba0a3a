"""`assay program run`: execute a program here, without a chain."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import repops
import typer
from safetensors.numpy import save_file

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.execute import (
    Backend,
    FastExecutor,
    Interpreter,
    Metrics,
    Run,
    State,
    StepTrace,
    machine_for,
)
from referee_py.program.mode import Rounding, is_rounded
from referee_py.rounding.backend import Rounded
from referee_py.rounding.log_source import MemoryLogs, run_log_tree
from referee_py.rounding.step_log import StepLog

from ..bundle import Bundle
from ..devices import backend_of, evaluator_of
from ..huggingface.card import local_run
from ..huggingface.export import export
from .arithmetic import ModeFlags, mode_words, with_mode
from .common import HuggingFaceOption, OptimizerStateOption, progress_bar, show_rows


@with_mode
def run_command(
    mode: ModeFlags,
    folder: Annotated[Path, typer.Argument(help="A bundle.")],
    steps: Annotated[int | None, typer.Option(help="Stop after this many steps.", min=1)] = None,
    root: Annotated[
        bool, typer.Option(help="Commit as a trainer does, and show the run root; needs all steps.")
    ] = True,
    save: Annotated[Path | None, typer.Option(help="Where to write the state, as safetensors.")] = None,
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
    """Execute a bundle's program on this machine: show its metrics, and the root that an honest trainer claims."""
    bundle = Bundle.read(folder)
    bundle = bundle.with_mode(mode.over(bundle.terms.mode))
    terms, last = bundle.terms, steps or bundle.terms.steps
    if last > terms.steps:
        raise InvalidInput(f"{last} steps of a program that has {terms.steps}")
    if threads:
        repops.set_num_threads(threads)
    if device not in ("cpu", "cuda"):
        raise InvalidInput(f"device {device!r}; choose cpu or cuda")
    log_source = MemoryLogs() if is_rounded(terms.mode) else None
    run, latest = _run(bundle, device, evaluator, log_source)
    began = time.monotonic()
    with progress_bar() as progress:
        bar = progress.add_task("", total=last)

        def tell(state: State, _trace: StepTrace | None) -> None:
            words = [f"{name} {_number(value)}" for name, value in sorted(latest.items())]
            progress.update(bar, completed=state.step, description="  ".join(words))

        rows: dict[str, object] = {"program hash": terms.hash().hex(), "arithmetic": mode_words(terms.mode)}
        if root and last == terms.steps:
            interval = run.commit_interval(
                run.initial(), last, terms.strides[0], snapshots=[last], on_step=tell
            )
            rows["run root"], state = interval.root.hex(), interval.snapshots[last]
        else:
            state = run.advance(run.initial(), last, tell)
    rows["steps"] = f"{last} of {terms.steps}, {last / (time.monotonic() - began):.3g} a second"
    rows |= {name: _number(value) for name, value in sorted(latest.items())}
    if log_source is not None:
        size = sum(len((log_source.get(step) or StepLog.empty()).encode()) for step in range(1, last + 1))
        logs = (
            run_log_tree(log_source.roots(terms.node_count)).root.hex() + "  " if last == terms.steps else ""
        )
        rows["rounding logs"] = f"{logs}{size:,} bytes"
    if save is not None:
        names = bundle.labels.get("slots", [])
        if len(names) != len(state.values):
            raise InvalidInput(
                f"{len(names)} names for {len(state.values)} slots in {folder / 'labels.json'}"
            )
        save.parent.mkdir(parents=True, exist_ok=True)
        save_file(dict(zip(names, state.arrays, strict=True)), save, {"program": terms.hash().hex()})
        rows["state"] = save
    if hf is not None:
        known = local_run({name: str(value) for name, value in rows.items()})
        rows["model"] = export(bundle, state.arrays, hf, known, optimizer_state=optimizer_state)
    show_rows(f"{bundle.name}  {folder}", rows)


def _run(
    bundle: Bundle, device: str, evaluator: str, log_source: MemoryLogs | None
) -> tuple[Run, Mapping[str, Array]]:
    """Return the run, and its metrics of the latest step. In rounded-f64, ``log_source`` receives the logs."""
    terms = bundle.terms
    tensors = bundle.program, bundle.constants
    if log_source is None:
        backend: Backend = backend_of(device, terms.mode)
    else:
        backend = Rounded(Rounding.of(terms.mode), log_source, evaluator_of(evaluator, device))
    machine = machine_for(backend)
    executor: FastExecutor | Interpreter
    latest: Mapping[str, Array]
    if machine is None:
        metrics = Metrics(bundle.metrics)
        executor, latest = Interpreter(*tensors, backend, metrics), metrics.latest
    else:
        executor = FastExecutor(*tensors, backend, bundle.metrics, machine)
        latest = executor.latest
    return Run(*tensors, bundle.initial, terms.steps, terms.strides, backend, executor=executor), latest


def _number(value: Array) -> str:
    return f"{float(value):.6g}" if value.ndim == 0 else f"{value.dtype} {list(value.shape)}"
