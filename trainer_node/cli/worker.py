"""`assay worker run`: one of the processes of a run on many; worker 0 is the command or the daemon that starts them."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from referee_py.errors import InvalidInput

if TYPE_CHECKING:
    from referee_py.execute import Prepared
    from referee_py.program import SlotSource

    from ..workers.launch import Place
    from ..workers.lead import BackendOf

app = typer.Typer(no_args_is_help=True, help="Processes of a run on many.")


@app.callback()
def group() -> None:
    """Processes of a run on many."""


@app.command("run")
def run_worker(
    job: Annotated[
        Path, typer.Argument(help="A bundle: that of worker 0; with --program, the artifacts of its node.")
    ],
    rank: Annotated[int, typer.Option(help="This worker's number, from 1.", min=1)],
    of: Annotated[int, typer.Option(help="Number of workers.", min=2)],
    meet: Annotated[Path, typer.Option(help="Folder in which the workers of this machine find each other.")],
    mode: Annotated[int, typer.Option(help="Mode byte of the run.", min=0)],
    program: Annotated[
        str | None, typer.Option(help="For a daemon's job: SHA-256 of its program file.")
    ] = None,
    steps: Annotated[int, typer.Option(help="With --program: steps of the job.", min=1)] = 1,
    stride: Annotated[list[int] | None, typer.Option(help="With --program: each of its strides.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    evaluator: Annotated[str, typer.Option(help="Evaluator in rounded-f64.")] = "torch",
    calibration: Annotated[
        Path | None, typer.Option(help="Thresholds in rounded-f64, from `assay calibrate`.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Number of threads of a kernel.", min=1)] = None,
    timeout_s: Annotated[float, typer.Option(help="Seconds to wait for another worker.", min=1)] = 300.0,
) -> None:
    """Compute as one of the workers of `assay program run --workers`, or of a daemon, which start this command."""
    import repops

    from ..workers.launch import Place

    if rank >= of:
        raise InvalidInput(f"worker {rank} of {of}; workers are numbered from 0")
    if threads:
        repops.set_num_threads(threads)
    if program is None:
        from ..local.bundle import Bundle

        bundle = Bundle.read(job).with_mode(mode)
        found: tuple[Prepared, Mapping[str, SlotSource]] = bundle, bundle.metrics
    else:
        found = _package(job, program, steps, stride or [], mode)
    serve_at(*found, Place(rank, of, meet), timeout_s, backends(mode, device, evaluator, calibration))


def _package(
    artifacts: Path, program: str, steps: int, strides: list[int], mode: int
) -> tuple[Prepared, Mapping[str, SlotSource]]:
    """Return a job from the artifacts of a node, which has fetched and checked it, with the numbers that it tells."""
    from referee_py.program.read import read_program
    from referee_py.program.terms import Terms

    from ..observe.run_reports import told_outputs
    from ..run.package import Package
    from ..storage.artifacts import parse_hash
    from ..storage.store import Store

    store = Store(artifacts)
    read = read_program(store.get_blob(parse_hash(program)))
    constants, initial = (
        tuple(store.get_tensor(tensor.hash) for tensor in tensors)
        for tensors in (read.constants, read.initial)
    )
    return Package(Terms.of(read, steps, strides, mode), read, constants, initial), told_outputs(read)


def backends(mode: int, device: str, evaluator: str, calibration: Path | None = None) -> BackendOf:
    """Return what makes a worker's backend over the logs of a step."""
    from functools import partial

    from referee_py.rounding.thresholds import fixed

    from ..rounded.calibration import Calibration
    from ..run.modes import backend_here

    thresholds = fixed if calibration is None else Calibration.read(calibration).tau
    return partial(backend_here, mode, device, evaluator, thresholds=thresholds)


def serve_at(
    job: Prepared,
    metrics: Mapping[str, SlotSource],
    place: Place,
    timeout_s: float,
    backend_of: BackendOf,
) -> None:
    """Compute what worker 0 says until it says stop. Raises WorkerLost."""
    from ..workers.launch import join
    from ..workers.lead import worker_of
    from ..workers.serve import serve

    # NOTE: Ctrl-C reaches all processes of a terminal, and SIGTERM all of a service. Worker 0 decides: it ends the run
    # after its step, and its end closes the connection.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    channel = join(place, timeout_s)
    try:
        serve(*worker_of(job, metrics, channel, backend_of))
    finally:
        channel.close()
