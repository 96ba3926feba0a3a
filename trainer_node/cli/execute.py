"""`assay program run`: execute a program here, without any chain."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import repops
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors.numpy import save_file

from referee_py.commit.tensor import Array
from referee_py.compiled import Cuda
from referee_py.errors import InvalidInput
from referee_py.execute import FastExecutor, Run, State, StepTrace

from ..bundle import Bundle
from ..devices import backend_of
from .common import show_rows


def run_command(
    folder: Annotated[Path, typer.Argument(help="A bundle.")],
    steps: Annotated[int | None, typer.Option(help="Stop after so many steps.", min=1)] = None,
    root: Annotated[
        bool, typer.Option(help="Commit as a trainer would, and show the run root; needs all steps.")
    ] = True,
    save: Annotated[Path | None, typer.Option(help="Where to write the state, as safetensors.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of a kernel.", min=1)] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Execute a bundle's program on this machine: metrics, and the root that an honest trainer claims."""
    bundle = Bundle.read(folder)
    terms, last = bundle.terms, steps or bundle.terms.steps
    if last > terms.steps:
        raise InvalidInput(f"{last} steps of a program that has {terms.steps}")
    if threads:
        repops.set_num_threads(threads)
    tensors = bundle.program, bundle.constants
    if device not in ("cpu", "cuda"):
        raise InvalidInput(f"device {device!r}; choose cpu or cuda")
    backend = backend_of(device)
    machine = Cuda() if device == "cuda" else None
    executor = FastExecutor(*tensors, backend, bundle.metrics, machine)
    run = Run(*tensors, bundle.initial, terms.steps, terms.strides, backend, executor=executor)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    began = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("", total=last)

        def tell(state: State, _trace: StepTrace | None) -> None:
            words = [f"{name} {_number(value)}" for name, value in sorted(executor.latest.items())]
            progress.update(bar, completed=state.step, description="  ".join(words))

        rows: dict[str, object] = {"program hash": terms.hash().hex()}
        if root and last == terms.steps:
            interval = run.commit_interval(
                run.initial(), last, terms.strides[0], snapshots=[last], on_step=tell
            )
            rows["run root"], state = interval.root.hex(), interval.snapshots[last]
        else:
            state = run.advance(run.initial(), last, tell)
    rows["steps"] = f"{last} of {terms.steps}, {last / (time.monotonic() - began):.3g} a second"
    rows |= {name: _number(value) for name, value in sorted(executor.latest.items())}
    if save is not None:
        names = bundle.labels.get("slots", [])
        if len(names) != len(state.values):
            raise InvalidInput(
                f"{len(names)} names for {len(state.values)} slots in {folder / 'labels.json'}"
            )
        save.parent.mkdir(parents=True, exist_ok=True)
        save_file(dict(zip(names, state.arrays, strict=True)), save, {"program": terms.hash().hex()})
        rows["state"] = save
    show_rows(f"{bundle.name}  {folder}", rows)


def _number(value: Array) -> str:
    return f"{float(value):.6g}" if value.ndim == 0 else f"{value.dtype} {list(value.shape)}"
