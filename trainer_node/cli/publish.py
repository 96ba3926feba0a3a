"""`assay program publish`: more of a published run, for auditors who have found an interval that differs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from .arithmetic import ModeFlags, mode_words, with_mode
from .common import out


@with_mode
def publish(
    mode: ModeFlags,
    job: Annotated[Path, typer.Argument(help="The run's bundle.")],
    run: Annotated[Path, typer.Argument(help="The folder that `assay program run` has written.")],
    interval: Annotated[int, typer.Option(help="Publish the finer run trees of this interval.", min=1)],
    step: Annotated[
        int | None, typer.Option(help="Only those on the way to this step, and all its records.", min=1)
    ] = None,
    node: Annotated[
        int | None, typer.Option(help="With --step: also this operator's inputs and outputs.", min=0)
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Compute an interval of a finished run again and publish more of it, so that an audit finds where it differs."""
    from ..local.bundle import Bundle
    from ..local.local_run import LocalRun
    from ..local.run_folder import KeepRule, open_run

    bundle = Bundle.read(job)
    bundle = bundle.with_mode(mode.over(bundle.terms.mode))
    terms = bundle.terms
    keeps = KeepRule(every=1)  # NOTE: nothing that the folder has is dropped here
    opened = open_run(run, terms, mode_words(terms.mode), resume=True, keep_s=math.inf, keeps=keeps)
    with opened as folder:
        LocalRun(bundle, terms.steps, device, folder=folder).show(interval, step, node)
    what = f"interval {interval}" + ("" if step is None else f", step {step}")
    out.print(
        f"{run}  [dim]{what}{'' if node is None else f', operator {node}'}[/dim]",
        soft_wrap=True,
    )
