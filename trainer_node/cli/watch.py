"""`assay job watch`: the progress of a paid run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..local.metrics_file import json_number
from ..observe.pace import left_words, rate_words
from .common import CHAIN, JobNumber, moment, printable, reader, with_settings

if TYPE_CHECKING:
    from referee_py.program import SlotSource

    from ..chain import JobView
    from ..client.watched_job import Standing
    from ..settings.settings import Settings


@with_settings(CHAIN)
def watch(
    settings: Settings,
    job: JobNumber,
    trainer: Annotated[
        list[str] | None,
        typer.Option(help="Server (URI) of a trainer that no earlier claim reveals. Repeatable."),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="The job's bundle: its labels name the numbers.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON at each look.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 5.0,
) -> None:
    """Show the progress of a job until it ends: its phase, and its trainers' reports about their runs.

    The reports are not proven; only the result is.
    """
    from ..client.watched_job import Earlier, servers, standing

    client = reader(settings)
    names = _names(bundle, client.snapshot().job(job))
    before, earlier = "", Earlier()
    while True:
        snapshot = client.snapshot()
        found = snapshot.job(job)
        asked = servers(found, [*(trainer or []), *earlier.of(snapshot, found)])
        standings = [standing(found, uri) for uri in asked]
        if as_json:
            text = json.dumps(_row(found, standings, names))
        else:
            text = "\n".join(_lines(found, standings, names, snapshot.now))
        if text != before or as_json:
            typer.echo(text)
            before = text
        if found.phase.ended:
            return
        time.sleep(every)


def _names(path: Path | None, job: JobView) -> dict[SlotSource, str]:
    """Return the names of a bundle's metrics. Raises InvalidProgram for the bundle of another job."""
    from ..local.bundle import Bundle

    if path is None:
        return {}
    bundle = Bundle.read(path)
    job.program.check(bundle.program)
    return {source: name for name, source in bundle.metrics.items()}


_ENDS = {
    "TRAINING": "commit_end",
    "REVEAL": "reveal_end",
    "CHALLENGE": "challenge_end",
}
"""The instant at which a phase is over at the latest."""


def _lines(job: JobView, standings: list[Standing], names: dict[SlotSource, str], now: int) -> list[str]:
    from ..chain import JobPhase

    phase = job.phase.name.lower()
    if job.phase.name in _ENDS:
        end = getattr(job, _ENDS[job.phase.name])
        phase += f" until {moment(end)}, {left_words(max(end - now, 0))}"
    parts = [f"job {job.id}: {phase}", f"{len(job.trainers)} of {job.slots} trainers"]
    parts.append(f"{job.commitments} commitments, {len(job.claims)} claims, {job.open_matches} open matches")
    lines = ["  ".join(parts)]
    for found in standings:
        lines.append(f"  {printable(found.uri)}  {_words(found, names)}")
    if not standings and job.phase is JobPhase.TRAINING:
        lines.append(
            "  trainers name their address with their claim, and none of these has claimed in the jobs before; "
            "--trainer URI asks one"
        )
    return lines


def _words(found: Standing, names: dict[SlotSource, str]) -> str:
    report = found.report
    if report is None:
        return printable(found.reason, 200)
    numbers = [f"{printable(name)} {value:.6g}" for name, value in found.numbers(names).items()]
    pace = [rate_words(report.rate), left_words(found.left_s)] if report.step < report.steps else []
    return "  ".join([f"step {report.step} of {report.steps}", *numbers, *pace])


def _row(job: JobView, standings: list[Standing], names: dict[SlotSource, str]) -> dict[str, Any]:
    """Return one look for scripts. Numbers that are not finite are strings, since JSON has no others."""
    return {
        "job": job.id,
        "phase": job.phase.name.lower(),
        "until": getattr(job, _ENDS[job.phase.name]) if job.phase.name in _ENDS else None,
        "trainers": len(job.trainers),
        "commitments": job.commitments,
        "claims": len(job.claims),
        "runs": [_run(found, names) for found in standings],
    }


def _run(found: Standing, names: dict[SlotSource, str]) -> dict[str, Any]:
    report = found.report
    if report is None:
        return {"uri": found.uri, "reason": found.reason}
    # NOTE: only written as JSON does a report have words for numbers that are not finite.
    told = json.loads(report.model_dump_json(exclude={"job", "program", "nodes"}))
    numbers = {name: json_number(value) for name, value in found.numbers(names).items()}
    return {"uri": found.uri, **told, "left_s": found.left_s, "numbers": numbers}
