"""`assay doctor`: is this machine ready to run a daemon?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from .common import DAEMON, out, plain, with_settings

if TYPE_CHECKING:
    from ..observe.findings import Finding
    from ..settings.settings import Settings

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@with_settings(DAEMON)
def doctor_command(
    settings: Settings,
    open_key: Annotated[
        bool, typer.Option("--open-key/--no-open-key", help="Open the key file, to try the password.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each check.")] = False,
) -> None:
    """Check this machine, its settings, the chain and its own address. Exit code 1 if a check fails.

    Kernels, GPU, disk, database, key files, chain, code of the contracts, what they need of the chain, ether, and the
    public address.
    """
    from ..observe.findings import State
    from ..operate.doctor import examine

    failed = False
    for finding in examine(settings, key=open_key):
        failed = failed or finding.state is State.FAIL
        print_finding(finding, as_json=as_json)
    if failed:
        raise typer.Exit(1)


def row(finding: Finding) -> dict[str, str]:
    """Return a finding as JSON has it."""
    return {
        "check": finding.name,
        "state": finding.state.value,
        "text": finding.text,
        "remedy": finding.remedy,
    }


def print_finding(finding: Finding, *, as_json: bool = False) -> None:
    """Print a finding, with its remedy below it."""
    if as_json:
        typer.echo(json.dumps(row(finding)))
        return
    line = Text.assemble(
        (f"{finding.state:5}", _COLOURS[finding.state]), f"{finding.name:17}", plain(finding.text)
    )
    out.print(line, soft_wrap=True)
    if finding.remedy:
        out.print(Text(f"{'':5}{'':17}-> {plain(finding.remedy)}", "dim"), soft_wrap=True)
