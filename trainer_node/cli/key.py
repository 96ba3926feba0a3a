"""`assay key`: the account that signs and pays."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ..daemon.keys import WORK_FACTOR, create_key, read_address
from ..errors import KeystoreError
from ..settings.settings import Settings
from .common import ACCOUNT, interactive, out, with_settings

app = typer.Typer(no_args_is_help=True)


@app.command()
@with_settings(ACCOUNT)
def new(
    settings: Settings,
    from_stdin: Annotated[
        bool, typer.Option("--import", help="Encrypt the private key (hex) read from standard input.")
    ] = False,
    light: Annotated[
        bool, typer.Option(help="Weak encryption that opens fast: for development chains only.")
    ] = False,
) -> None:
    """Make a new key, encrypted with a password, and show its address."""
    password = settings.read_password()
    if password is None:
        if from_stdin or not interactive():
            raise KeystoreError("no terminal to ask for a password; set --password-file or ASSAY_PASSWORD")
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    key = sys.stdin.readline().strip() if from_stdin else None
    path = settings.keystore_path
    account = create_key(path, password, key=key, work_factor=1 << 12 if light else WORK_FACTOR)
    out.print(f"{account.address}  [dim]{path}[/dim]", soft_wrap=True)


@app.command()
@with_settings(ACCOUNT)
def show(settings: Settings) -> None:
    """Show the address of the key. Needs no password."""
    out.print(settings.signer_address or read_address(settings.keystore_path))
