"""`assay program run`: execute a program here, without a chain."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from referee_py.errors import InvalidInput

from .arithmetic import ModeFlags, mode_words, with_mode
from .common import HuggingFaceOption, OptimizerStateOption, show_rows
from .extensions import exporter
from .follow import Follower
from .worker import backends, serve_at

if TYPE_CHECKING:
    from referee_py.execute import State

    from ..local.bundle import Bundle


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
    workers: Annotated[
        int,
        typer.Option(
            help="Processes of this machine that compute a step together; any number gives the same.", min=1
        ),
    ] = 1,
    worker_timeout: Annotated[
        float, typer.Option(help="With --workers: seconds that a worker may let the others wait.", min=1)
    ] = 300.0,
    worker_checks: Annotated[
        int, typer.Option(help="With --workers: nodes of each committed step that are computed twice.", min=0)
    ] = 1,
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

    With --workers, or started by torchrun, several processes compute each step: the bits are the same.

    Ctrl-C and SIGTERM end the run after the current step; with --out it can continue from there. Exit codes: 130 after
    Ctrl-C, 143 after SIGTERM, 3 after --stop-on-nan.
    """
    import repops

    from ..local.bundle import Bundle
    from ..local.evaluation import Evaluation
    from ..local.local_run import LocalRun
    from ..local.provenance import local_run
    from ..local.run_folder import KeepRule, open_run
    from ..local.session import Session
    from ..run.replay import Interrupted
    from ..workers.launch import join, local_workers, under_torchrun
    from ..workers.partition import checked_marks

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
    if device not in ("cpu", "cuda"):
        raise InvalidInput(f"device {device!r}; choose cpu or cuda")
    place = under_torchrun()
    if place is not None and workers > 1:
        raise InvalidInput(f"--workers {workers} under torchrun, which starts the workers; leave it out")
    if workers > 1:
        checked_marks(bundle.program, workers)
    if threads is None and workers > 1:
        threads = max(1, repops.get_num_threads() // workers)
    if threads:
        repops.set_num_threads(threads)
    if place is not None and place.rank:
        means = backends(terms.mode, device, evaluator)
        serve_at(bundle, bundle.metrics, place, worker_timeout, means)
        return
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
        channel = None
        if place is not None and place.size > 1:
            channel = stack.enter_context(contextlib.closing(join(place, worker_timeout)))
        elif workers > 1:
            told = ["--mode", str(terms.mode), "--device", device, "--evaluator", evaluator]
            told += ["--threads", str(threads), "--timeout-s", str(worker_timeout)]
            command = ["worker", "run", str(job), *told]
            channel = stack.enter_context(local_workers(command, workers, worker_timeout))
        run = LocalRun(bundle, last, device, evaluator, root, folder, channel, worker_checks)
        done = 0 if folder is None else folder.step
        session = Session(
            run, Follower(done, last, every), stop_on_nan, tensorboard, evaluation, evaluate_every
        )
        try:
            result = session.compute()
        except Interrupted as interrupted:
            raise typer.Exit(session.stopped(interrupted, _again())) from None
        except KeyboardInterrupt:
            session.stopped(None, _again())
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


def _again() -> str:
    """Return this command with --resume."""
    again = [] if "--resume" in sys.argv else ["--resume"]
    return shlex.join(["assay", *sys.argv[1:], *again])


def _check_place(folder: Path) -> None:
    """Raise InvalidInput if nothing can be written into a folder, or the folder cannot be made."""
    place = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise InvalidInput(
            f"{place} is not a folder that can be written to; name another place than {folder}"
        )


def _save(bundle: Bundle, state: State, path: Path, job: Path) -> Path:
    """Write a state as a safetensors file, by the names of its slots; return the path. Raises InvalidInput and
    DiskFailed."""
    from ..storage.tensor_file import save_tensors

    names = _state_names(bundle, job)
    save_tensors(dict(zip(names, state.arrays, strict=True)), path, {"program": bundle.terms.hash().hex()})
    return path


def _state_names(bundle: Bundle, job: Path) -> Sequence[str]:
    """Return a name for each slot. Raises InvalidInput if the bundle has none, or one for two slots."""
    names, count = bundle.names.slots, len(bundle.program.slots)
    if len(set(names)) != count:
        raise InvalidInput(
            f"{len(set(names))} different names for {count} slots in {job / 'labels.json'}; build the bundle again"
        )
    return names
