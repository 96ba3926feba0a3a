"""`assay quickstart`: a folder to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import out


def quickstart_command(
    folder: Annotated[Path, typer.Argument(help="The folder; it must not exist, or be empty.")],
    rpc_url: Annotated[str, typer.Option(help="JSON-RPC endpoint of the chain.")] = "http://127.0.0.1:8545",
    chain_id: Annotated[int, typer.Option(help="Id of the chain; 31337 is a local one.", min=1)] = 31337,
) -> None:
    """Make a folder to start from: settings, password, keys.

    Prints the commands that come next, to be pasted into a shell. On a local chain they play a whole job; elsewhere
    they lead to a trainer.
    """
    from ..operate.quickstart import answers, quickstart
    from ..settings.settings import load_settings

    load_settings(rpc_url=rpc_url, chain_id=chain_id)  # refuses what no command would take
    started = quickstart(folder, rpc_url, chain_id, answers=answers(rpc_url))
    for party, address in started.addresses.items():
        out.print(f"# {party:10} {address}", markup=False, soft_wrap=True)
    for command in started.commands:
        # NOTE: plain lines, so that they can be pasted, or piped into a shell.
        typer.echo(command)
