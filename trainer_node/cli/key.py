"""`assay key`: the account that signs and pays."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import KeystoreError
from .common import ACCOUNT, JsonOption, interactive, out, show_json, with_settings

if TYPE_CHECKING:
    from ..settings.settings import Settings

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
    from ..daemon.keys import WORK_FACTOR, create_key

    password = settings.read_password()
    if password is None:
        if from_stdin or not interactive():
            raise KeystoreError("no terminal to ask for a password; set --password-file or ASSAY_PASSWORD")
        password = typer.prompt(
            "A new password, to encrypt this key with", hide_input=True, confirmation_prompt="The same again"
        )
    key = sys.stdin.readline().strip() if from_stdin else None
    path = settings.keystore_path
    account = create_key(path, password, key=key, work_factor=1 << 12 if light else WORK_FACTOR)
    out.print(f"{account.address}  [dim]{path}[/dim]", soft_wrap=True)


@app.command()
@with_settings(ACCOUNT)
def show(settings: Settings, as_json: JsonOption = False) -> None:
    """Show the address of the key. Needs no password."""
    from ..daemon.keys import read_address, require_key

    require_key(settings)
    address = settings.signer_address or read_address(settings.keystore_path)
    if as_json:
        show_json({"address": address})
        return
    out.print(address)
