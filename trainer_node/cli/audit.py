"""`assay audit`: check a part of a published run, with or without a chain."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from referee_py.errors import InvalidInput, Unavailable

from ..audit.interval import Finding, Verdict
from ..audit.location import Location
from ..audit.pool import Task, findings, threads_for
from ..audit.published import PublishedRun
from ..audit.selection import Selection, select
from ..pace import left_words
from ..process import exclusive
from ..store import Store
from .common import out, printable, show_rows

DIFFERS, UNCHECKED = 1, 4
"""Exit codes: an interval differs; none does, and some could not be checked."""


def audit_command(
    run: Annotated[str, typer.Argument(help="A published run: a folder, or an address (http, https, s3).")],
    intervals: Annotated[str, typer.Option(help="Which: 3,7-9 or all or sample.")] = "sample",
    detect: Annotated[float, typer.Option(help="With sample: the chance of finding a lie.")] = 0.95,
    lies: Annotated[
        int, typer.Option(help="With sample: of how many wrong intervals one is to be found.", min=1)
    ] = 1,
    seed: Annotated[int | None, typer.Option(help="Draw the sample from this number, to repeat it.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes.", min=1, max=256)] = 1,
    root: Annotated[str | None, typer.Option(help="The run root to check, known from elsewhere.")] = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for findings and fetched data, to go on from."),
    ] = None,
    memory: Annotated[int, typer.Option(help="Limit in bytes on tensors and one step.", min=1)] = 8 << 30,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Replay intervals of a published run, and compare the checkpoint that follows each.

    Exit codes: 0 all match; 1 an interval differs; 4 none differs, and some could not be checked.
    """
    wanted = bytes.fromhex(root) if root is not None and _is_hash(root) else None
    if root is not None and wanted is None:
        raise InvalidInput(f"--root {root[:80]!r} is not a hash of 64 hexadecimal digits")
    folder = to or Path(f"audit-{_plain(run)}")
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder / "lock", f"audit folder {folder}"):
        published = PublishedRun(Location(run), Store(folder / "cache", sync=False), wanted)
        chosen = select(intervals, published.count, detect, lies, seed)
        done = dict(_earlier(folder / "findings.jsonl", published.claim.root))
        task = Task(run, folder / "cache", published.claim.root, memory, device, threads=threads_for(jobs))
        left = [number for number in chosen.intervals if number not in done]
        out.print(
            f"{printable(published.claim.name)}  {printable(run)}  root {published.claim.root}",
            soft_wrap=True,
        )
        out.print(f"{chosen.why}; {len(chosen.intervals) - len(left)} were checked before", soft_wrap=True)
        _follow(task, left, jobs, folder / "findings.jsonl", done)
        _tell(published, chosen, done)


def _follow(task: Task, left: list[int], jobs: int, log: Path, done: dict[int, Finding]) -> None:
    began = time.monotonic()
    with log.open("a") as file:
        for number, finding in enumerate(findings(task, left, jobs), 1):
            done[finding.interval] = finding
            if finding.verdict is not Verdict.UNCHECKED:
                file.write(json.dumps({"root": task.root, **finding.to_json()}) + "\n")
                file.flush()
            took = time.monotonic() - began
            rest = left_words(took / number * (len(left) - number))
            out.print(f"{number} of {len(left)}, {rest}: {printable(_line(finding), 600)}", soft_wrap=True)


def _earlier(path: Path, root: str) -> Iterator[tuple[int, Finding]]:
    """Yield the findings of an earlier call about the same run. NOTE: a line that a kill has torn is checked again."""
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            known = json.loads(line)
            if known.pop("root") == root:
                finding = Finding(**{**known, "verdict": Verdict(known["verdict"])})
                yield finding.interval, finding
        except (ValueError, KeyError, TypeError):
            continue


def _line(finding: Finding) -> str:
    words = [f"interval {finding.interval} (steps {finding.start + 1} to {finding.end}): {finding.verdict}"]
    if finding.step is not None:
        words.append(f"step {finding.step}")
    if finding.node is not None:
        words.append(f"node {finding.node} ({finding.operator})")
    if finding.element is not None:
        words.append(
            f"output {finding.output}, element {finding.element}: claimed {finding.claimed!r}, "
            f"computed {finding.computed!r}"
        )
    if finding.reason:
        words.append(finding.reason)
    return ", ".join(words)


def _tell(published: PublishedRun, chosen: Selection, done: dict[int, Finding]) -> None:
    asked = [done[number] for number in chosen.intervals if number in done]
    counts = {verdict: sum(finding.verdict is verdict for finding in asked) for verdict in Verdict}
    show_rows(
        "audit",
        {
            "intervals": f"{len(asked)} of {published.count}",
            **{verdict.value: counts[verdict] for verdict in Verdict},
        },
    )
    if counts[Verdict.DIFFERS]:
        raise typer.Exit(DIFFERS)
    if counts[Verdict.UNCHECKED] or len(asked) < len(chosen.intervals):
        raise typer.Exit(UNCHECKED)


def _is_hash(text: str) -> bool:
    return len(text) == 64 and all(digit in "0123456789abcdef" for digit in text)


def _plain(address: str) -> str:
    name = "".join(c if c.isalnum() else "-" for c in address.rstrip("/").rpartition("/")[2])
    if not name:
        raise Unavailable(f"{address!r} has no name for a folder; add --out FOLDER")
    return name[:60]
