"""`assay monitor`: all jobs of a deployment, from outside."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..errors import ConfigError, RpcUnavailable
from .common import CHAIN, ether, moment, out, plain, reader, with_settings

if TYPE_CHECKING:
    from ..chain import ChainClient
    from ..monitor.alerts import Level
    from ..monitor.lines import JobLine
    from ..monitor.rounds import Board, Standing
    from ..settings.settings import Settings


ALERT, UNCHECKED = 1, 3
"""Exit codes of --once: an alert stands; none does, but something could not be read."""
MAX_SHOWN = 40
"""Jobs that the terminal view shows: those with alerts or matches first, then the newest."""
_COLOURS = {"CRITICAL": "bold red", "WARNING": "yellow", "INFO": "cyan"}


@with_settings(CHAIN)
def monitor_command(
    settings: Settings,
    interval: Annotated[float, typer.Option(help="Seconds between two rounds.", min=0.1)] = 12.0,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Look once. Exit code 0: no alert; 1: alerts; 3: something could not be read."
        ),
    ] = False,
    fail_on: Annotated[
        str, typer.Option(help="With --once: least level that gives exit code 1: info, warning or critical.")
    ] = "warning",
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each round.")] = False,
    near: Annotated[
        float,
        typer.Option(help="Share of a clock or period that is left when its end is near.", min=0, max=1),
    ] = 0.25,
    grace: Annotated[
        int, typer.Option(help="Seconds that money or a due move may lie about before it is an alert.", min=0)
    ] = 600,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            help="JOB=ROOT, or JOB=FOLDER of a run of your own: compare the job's claims with it. Repeatable."
        ),
    ] = None,
    findings: Annotated[
        list[Path] | None,
        typer.Option(
            help="Log of a challenger of your own, with --log-format json: compare claims with it. Repeatable."
        ),
    ] = None,
    account: Annotated[
        list[str] | None,
        typer.Option(
            help="ADDRESS=ETHER: an account of your own, with the least that it should have. Repeatable."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port for /metrics, on --metrics-host.", min=1, max=65535)
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="Address on which /metrics listens.")] = "127.0.0.1",
) -> None:
    """Watch all jobs of a deployment: what happens if nobody moves, and what to look at.

    It needs no key and computes nothing, so it cannot know by itself which claim is right: see --trust and --findings.
    """
    from prometheus_client import start_http_server

    from ..monitor.accounts import Named
    from ..monitor.alerts import Level, Rules
    from ..monitor.gauges import Gauges
    from ..monitor.rounds import Monitor
    from ..monitor.trusted import Trusted
    from ..storage.process import stop_on_signals

    levels = {level.name.lower(): level for level in Level}
    if fail_on not in levels:
        raise ConfigError(f"--fail-on {fail_on[:40]!r} is not a level; choose one of {', '.join(levels)}")
    trusted = Trusted.of_flags(trust or (), findings or ())
    pairs = (text.partition("=")[::2] for text in account or ())
    named = Named.of((address, ether(least or "0")) for address, least in pairs)
    gauges, stop = Gauges(), threading.Event()
    if metrics_port is not None:
        try:
            start_http_server(metrics_port, metrics_host, gauges.registry)
        except OSError as error:
            raise ConfigError(
                f"metrics cannot be served at {metrics_host}:{metrics_port}: {error.strerror}; "
                "give another --metrics-port"
            ) from error
    with stop_on_signals(stop):
        watched = Monitor(_client(settings, stop, once), Rules(near, grace), trusted, named=named)
        while True:
            board = watched.round()
            gauges.show(board)
            _show(board, as_json=as_json)
            if once:
                raise typer.Exit(_code(board, levels[fail_on]))
            if stop.wait(interval):
                return


def _client(settings: Settings, stop: threading.Event, once: bool) -> ChainClient:
    """Return a client whose events are kept in memory; unless ``once``, wait for an endpoint that does not answer."""
    from ..chain.events import MIN_DEPTH, EventCache
    from ..storage.database import Database

    while True:
        try:
            client = reader(settings)
        except RpcUnavailable as error:
            if once:
                typer.echo(f"unchecked: deployment: {error}", err=True)
                raise typer.Exit(UNCHECKED) from error
            if stop.is_set():
                raise
            typer.echo(f"waiting for the chain: {error}", err=True)
            stop.wait(5)
            continue
        client.cache = EventCache(Database(None), depth=max(settings.limits.log_range // 2, MIN_DEPTH))
        return client


def _code(board: Board, least: Level) -> int:
    if board.worst is not None and board.worst >= least:
        return ALERT
    return UNCHECKED if board.unchecked else 0


# ---------------------------------------------------------------------- JSON


def _show(board: Board, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(row_of(board)))
    else:
        if out.is_terminal:
            out.clear()
        out.print(render(board))


def row_of(board: Board) -> dict[str, Any]:
    """Return a round for scripts."""
    return {
        "block": board.block,
        "now": board.now,
        "time": int(time.time()),
        "head_age_s": round(board.head_age_s, 1) if math.isfinite(board.head_age_s) else None,
        "jobs": board.jobs,
        "phases": board.phases,
        "alerts": [_alert(standing) for standing in board.alerts],
        "cleared": [standing.alert.id for standing in board.cleared],
        "unchecked": {str(job): list(reasons) for job, reasons in board.unchecked.items()},
        "open": [_line(line) for line in board.lines],
    }


def _line(line: JobLine) -> dict[str, Any]:
    from ..monitor.lines import JobLine

    return {name: getattr(line, name) for name in JobLine.__slots__}


def _alert(standing: Standing) -> dict[str, Any]:
    alert = standing.alert
    return {
        "id": alert.id,
        "kind": alert.kind.value,
        "level": alert.level.name.lower(),
        "job": alert.job,
        "at": alert.at or None,
        "since": standing.since,
        "unchecked": standing.unchecked,
        "text": alert.text,
    }


# ---------------------------------------------------------------------- the terminal


def render(board: Board) -> Group:
    """Return the view of a round. NOTE: everything in it may be a stranger's, so it is plain text."""
    phases = ", ".join(f"{count} {phase}" for phase, count in sorted(board.phases.items())) or "none"
    head = Text(
        f"block {board.block}  contracts' time {moment(board.now)}  {board.jobs} jobs: {phases}", "bold"
    )
    parts: list[Any] = [head]
    for standing in board.alerts:
        parts.append(_alert_words(standing))
    for job, reasons in sorted(board.unchecked.items()):
        where = f"job {job}" if job else "deployment"
        parts += [Text(plain(f"unchecked: {where}: {reason}"), "magenta") for reason in reasons]
    if not board.alerts:
        parts.append(Text("no alert" + (", as far as could be read" if board.unchecked else ""), "green"))
    if board.lines:
        parts.append(_table(board))
    return Group(*parts)


def _alert_words(standing: Standing) -> Text:
    alert = standing.alert
    where = f"job {alert.job}" if alert.job else "deployment"
    stale = " (unchecked now)" if standing.unchecked else ""
    words = f"{alert.level.name.lower()} {alert.kind} {where}, since {moment(standing.since)}{stale}: {alert.text}"
    return Text(plain(words), _COLOURS[alert.level.name])


def _table(board: Board) -> Table:
    alarmed = {standing.alert.job for standing in board.alerts}
    order = sorted(board.lines, key=lambda line: (line.job not in alarmed, not line.matches, -line.job))
    table = Table("job", "phase", "until", "claims", "matches", "if nobody moves", box=None)
    for line in order[:MAX_SHOWN]:
        roots = f"{sum(root['claims'] for root in line.roots)} of {len(line.roots)} roots, {line.knowledge}"
        matches = "; ".join(_match_words(match, board.now) for match in line.matches)
        table.add_row(
            *map(plain, (str(line.job), line.phase, moment(line.until), roots, matches, _end_words(line)))
        )
    if len(order) > MAX_SHOWN:
        table.caption = f"{len(order) - MAX_SHOWN} more open jobs; --json has all"
    return table


def _match_words(match: dict[str, Any], now: int) -> str:
    phase = match["hearing"] or match["phase"]
    if match["trial"]:
        phase = f"trial, {match['trial']}"
    left = ", ".join(f"{player[:8]}… {seconds} s" for player, seconds in match["left"].items())
    until = f", {match['until'] - now} s left" if match.get("until") else ""
    return f"{phase}{until}" + (f" ({left})" if left else "")


def _end_words(line: JobLine) -> str:
    end = line.outcome
    if end is None:
        return "unchecked"
    root = f" {end['root'][:12]}…" if end["root"] else ""
    return f"{end['phase']}{root} at {moment(end['at'])}"
