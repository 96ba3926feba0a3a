"""`assay audit`: check a part of a published run, with or without a chain, and say so under a key."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from referee_py.errors import InvalidEncoding, InvalidInput

from ..audit.selection import Selection, select
from ..observe.pace import left_words
from .audit_receipts import coverage, folder_for, hash_of, verify
from .common import CHAIN, out, printable, reader, show_rows
from .default_command import DefaultCommand
from .flags import flag, only_given, with_flags

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

    from ..audit.engine import IntervalReport
    from ..audit.interval import Finding
    from ..audit.pool import Task
    from ..audit.published import PublishedRun
    from ..settings.settings import Settings


class Engine(StrEnum):
    """Ways to check intervals."""

    PROCESSES = "processes"
    RAY = "ray"


DIFFERS, UNCHECKED = 1, 4
"""Exit codes: an interval differs; none does, and some could not be checked."""

_CHECK_HELP = "Check a published run, with or without a chain: `assay audit RUN`, or `assay audit check RUN`."


OWN = {
    **{name: CHAIN[name] for name in ("config", "rpc_url", "chain_id", "deployment", "releases", "release")},
    "keystore": flag(
        Path, "--keystore", "Sign what is written with this encrypted key of `assay key new`.", "Receipts"
    ),
    "password_file": flag(
        Path, "--password-file", "File with the keystore's password; or set ASSAY_PASSWORD.", "Receipts"
    ),
}


@dataclass(frozen=True)
class Own:
    """The flags about a key and a chain. NOTE: settings are read only where they are needed: an audit needs none."""

    flags: dict[str, Any]

    @cached_property
    def settings(self) -> Settings:
        from ..settings.settings import load_settings

        return load_settings(**only_given(**self.flags))

    def account(self) -> LocalAccount | None:
        """Open the key of receipts; None without one."""
        from ..daemon.keys import load_account

        if self.flags["keystore"] is None:
            if self.flags["password_file"] is not None:
                raise InvalidInput("--password-file opens a key for receipts; add --keystore KEY")
            return None
        return load_account(self.settings)


@with_flags("own", OWN, lambda **flags: Own(flags))
def _check(
    own: Own,
    run: Annotated[
        str | None, typer.Argument(help="A published run: a folder, or an address (http, https, s3).")
    ] = None,
    job: Annotated[
        int | None,
        typer.Option(help="In place of RUN: the job of this number on the chain.", min=1, max=(1 << 64) - 1),
    ] = None,
    intervals: Annotated[str, typer.Option(help="Which: 3,7-9 or all or sample.")] = "sample",
    detect: Annotated[float, typer.Option(help="With sample: the chance of finding a lie.")] = 0.95,
    lies: Annotated[
        int, typer.Option(help="With sample: of how many wrong intervals one must be found.", min=1)
    ] = 1,
    seed: Annotated[int | None, typer.Option(help="Draw the sample from this number, to repeat it.")] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", help="Processes; with ray: on each machine.", min=1, max=256)
    ] = 1,
    root: Annotated[str | None, typer.Option(help="The run root to check, known from elsewhere.")] = None,
    to: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for findings, receipts and fetched data, to continue from."),
    ] = None,
    back: Annotated[
        int,
        typer.Option(
            help="Where the state before an interval was not kept: how many intervals may be computed to reach it.",
            min=0,
        ),
    ] = 0,
    memory: Annotated[int, typer.Option(help="Limit in bytes on tensors and one step.", min=1)] = 8 << 30,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    engine: Annotated[
        Engine, typer.Option(help="What checks: processes of this machine, or a Ray cluster.")
    ] = Engine.PROCESSES,
    address: Annotated[
        str | None, typer.Option(help="With ray: the cluster's address, or local for one on this machine.")
    ] = None,
) -> None:
    """Replay intervals of a published run, or of a job's, and compare the checkpoint that follows each.

    With --keystore, what is found of each interval is written as a signed receipt to OUT/receipts.
    Exit codes: 0 all match; 1 an interval differs; 4 none differs, and some could not be checked.
    """

    from ..audit.folder import audit_folder
    from ..audit.job import claim_of_job
    from ..audit.pool import Task, threads_for

    if device not in ("cpu", "cuda"):
        raise InvalidInput(f"device {device!r}; choose cpu or cuda")
    if (address is None) is (engine is Engine.RAY):
        raise InvalidInput(
            "--engine ray needs --address, the cluster's or local, and no other engine has one"
        )
    if (run is None) is (job is None):
        raise InvalidInput("name a published run, or a job on the chain with --job")
    account, wanted = own.account(), hash_of(root)
    task = Task(run or "", Path(), root or "", memory, device, back=back)
    if job is not None:
        claim, servers = claim_of_job(reader(own.settings).snapshot().job(job), wanted)
        task = replace(task, root=claim.root, claim=claim.model_dump_json(), servers=tuple(servers))
    where = run or f"job {job}"
    with audit_folder(to or folder_for(where)) as folder:
        task = replace(task, cache=folder / "cache")
        published = task.published()
        chosen = select(intervals, published.count, detect, lies, seed)
        known = {report.finding.interval: report for report in _earlier(folder, published)}
        # NOTE: an interval whose difference was not found is checked again: by now more of it may be published.
        done = {number: report for number, report in known.items() if not report.finding.sought}
        threads = threads_for(jobs) if engine is Engine.PROCESSES else None
        task = replace(task, root=published.claim.root, threads=threads)
        left = [number for number in chosen.intervals if number not in done]
        names = dict.fromkeys(
            (printable(published.claim.name), printable(where))
        )  # those of a job are the same
        _say(f"{'  '.join(names)}  root {published.claim.root}")
        if published.terms.arithmetic.follows_logs:
            _say(f"follows the rounding logs with root {published.logs.hex()}")
        _say(f"{chosen.why}; {len(chosen.intervals) - len(left)} were checked before")
        signer = _Signer(published, account, folder / "receipts")
        for number in chosen.intervals:
            if number in done:
                signer.sign(done[number])
        found = _reports(published, task, left, jobs, address)
        _follow(found, len(left), folder, known, done, signer)
        _tell(published, chosen, {number: report.finding for number, report in done.items()}, signer)


app = typer.Typer(cls=DefaultCommand, no_args_is_help=True)
app.command("check", short_help=_CHECK_HELP)(_check)
app.command("verify")(verify)
app.command("coverage")(coverage)


class _Signer:
    """Writes receipts with the key that was given; without one, none."""

    def __init__(self, run: PublishedRun, account: LocalAccount | None, folder: Path) -> None:
        self._run, self._account, self.folder = run, account, folder
        self.written = 0
        if account is not None:
            folder.mkdir(exist_ok=True)

    def sign(self, report: IntervalReport) -> None:
        """Write the receipt of a report. NOTE: also where there is one: what was found may be more by now."""
        from ..audit.receipt import receipt_of
        from ..audit.receipt_file import Signed

        if self._account is None:
            return
        receipt = receipt_of(self._run, report, self._account.address)
        if receipt is None:
            return
        Signed.by(self._account, receipt).write(self.folder)
        self.written += 1


def _reports(
    run: PublishedRun, task: Task, left: Sequence[int], jobs: int, address: str | None
) -> Iterator[IntervalReport]:
    from ..audit.engine import reports

    if address is None:
        return reports(run, task, left, jobs)
    from ..audit.engine_ray import reports_by_ray

    return reports_by_ray(run, task, left, jobs, address)


def _follow(
    found: Iterator[IntervalReport],
    count: int,
    folder: Path,
    known: dict[int, IntervalReport],
    done: dict[int, IntervalReport],
    signer: _Signer,
) -> None:
    from ..audit.folder import FINDINGS, append
    from ..audit.interval import Verdict

    began, log = time.monotonic(), folder / FINDINGS
    torn = log.exists() and not log.read_bytes().endswith(b"\n")
    with log.open("ab") as file:
        file.write(b"\n" * torn)
        for number, report in enumerate(found, 1):
            finding = report.finding
            if finding.verdict is not Verdict.UNCHECKED:
                append(file, folder, report.to_json())
            elif finding.interval in known:
                # SAFETY: whoever withdraws data after an interval was found wrong does not take that back.
                report = known[finding.interval]
            done[finding.interval] = report
            if report.finding.verdict is not Verdict.UNCHECKED:
                signer.sign(report)
            took = time.monotonic() - began
            rest = left_words(took / number * (count - number))
            _say(f"{number} of {count}, {rest}: {printable(_line(report.finding), 600)}")


def _earlier(folder: Path, run: PublishedRun) -> Iterator[IntervalReport]:
    """Yield the reports of earlier calls about the same claim."""
    from ..audit.engine import MAX_REPORT_BYTES, IntervalReport
    from ..audit.folder import reports_in

    for line in reports_in(folder, MAX_REPORT_BYTES):
        with contextlib.suppress(InvalidEncoding):
            yield IntervalReport.read(line, run)


def _say(text: str) -> None:
    """Print a line. SAFETY: names and reasons are a publisher's text; no markup in them is read."""
    out.print(text, soft_wrap=True, markup=False)


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


def _tell(published: PublishedRun, chosen: Selection, done: dict[int, Finding], signer: _Signer) -> None:
    from ..audit.interval import Verdict

    asked = [done[number] for number in chosen.intervals if number in done]
    counts = {verdict: sum(finding.verdict is verdict for finding in asked) for verdict in Verdict}
    rows: dict[str, object] = {"intervals": f"{len(asked)} of {published.count}"}
    rows |= {verdict.value: counts[verdict] for verdict in Verdict}
    if signer.written:
        rows["receipts"] = f"{signer.written} in {signer.folder}"
    show_rows("audit", rows)
    if counts[Verdict.DIFFERS]:
        raise typer.Exit(DIFFERS)
    if counts[Verdict.UNCHECKED] or len(asked) < len(chosen.intervals):
        raise typer.Exit(UNCHECKED)
