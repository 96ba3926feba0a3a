"""`assay release`: the versions of the contracts that a publisher has listed on the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from referee_py.errors import InvalidInput

from .common import ACCOUNT, CHAIN, JsonOption, out, plain, send, show_json, with_settings

if TYPE_CHECKING:
    from ..chain import Releases
    from ..settings.settings import Settings

app = typer.Typer(no_args_is_help=True)

Version = Annotated[str, typer.Argument(help="The version, as `assay release list` shows it.")]
Reason = Annotated[str, typer.Argument(help="Reason for the users of this version: at most 256 bytes.")]


def _list(settings: Settings) -> Releases:
    from ..chain import Releases
    from ..daemon.access import open_web3

    if settings.releases is None:
        raise InvalidInput("no list is named; set --releases to the address that `assay deploy` has shown")
    return Releases(open_web3(settings), settings.releases)


@app.command("list")
@with_settings(CHAIN)
def list_releases(settings: Settings, as_json: JsonOption = False) -> None:
    """List all releases, oldest first."""
    releases = _list(settings)
    if as_json:
        fields = "version", "opset", "published", "addresses", "reason"
        show_json(
            [
                {name: getattr(release, name) for name in fields} | {"status": release.status.name.lower()}
                for release in releases.every()
            ]
        )
        return
    table = Table("version", "status", "opset", "Jobs", "block", "reason", box=None)
    for release in releases.every():
        # SAFETY: versions and reasons are a publisher's text; no markup or control character in them is read.
        words = (release.version, release.status.name.lower(), str(release.opset), release.addresses["Jobs"])
        row = (*words, str(release.published), release.reason)
        table.add_row(*(Text(plain(word)) for word in row))
    out.print(table)


@app.command()
@with_settings(ACCOUNT)
def supersede(settings: Settings, version: Version, reason: Reason) -> None:
    """Mark a version as superseded: nodes that use it warn. Only for the publisher."""
    send(settings, _list(settings).supersede(version, reason))


@app.command()
@with_settings(ACCOUNT)
def withdraw(settings: Settings, version: Version, reason: Reason) -> None:
    """Withdraw a version: nodes refuse to start on it. Its jobs continue unchanged. Only for the publisher."""
    send(settings, _list(settings).withdraw(version, reason))
