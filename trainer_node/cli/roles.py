"""`assay trainer`, `assay challenger`, `assay verifier`: the daemons."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Annotated

import typer

from ..settings.extent import Mode
from .common import (
    ACCOUNT,
    CHALLENGER,
    DAEMON,
    JsonOption,
    ether,
    out,
    reader,
    sender,
    show_ether,
    show_json,
    with_settings,
)

if TYPE_CHECKING:
    from ..settings.settings import Settings

trainer = typer.Typer(no_args_is_help=True)
challenger = typer.Typer(no_args_is_help=True)
verifier = typer.Typer(no_args_is_help=True)


def _run(role: str, settings: Settings) -> None:
    importlib.import_module(f"trainer_node.roles.{role}").run(settings)


@trainer.command("run")
@with_settings(DAEMON)
def run_trainer(settings: Settings) -> None:
    """Take slots of open jobs, train, commit, reveal, defend. Runs until interrupted."""
    _run("trainer", settings)


@challenger.command("run")
@with_settings(CHALLENGER)
def run_challenger(settings: Settings) -> None:
    """Replay claims. With --mode watch (the default) it only logs disagreement and needs no key."""
    if settings.mode is Mode.WATCH:
        out.print("[dim]watching only; --mode defend or --mode challenge lets it act[/dim]")
    _run("challenger", settings)


@verifier.command("run")
@with_settings(DAEMON)
def run_verifier(settings: Settings) -> None:
    """Judge disputed operators of jobs that name this verifier, and defend its verdicts. Runs until interrupted."""
    _run("verifier", settings)


@verifier.command("register")
@with_settings(ACCOUNT)
def register(
    settings: Settings,
    bond: Annotated[str, typer.Option(help="Bond, in ether.")] = "1",
    uri: Annotated[str, typer.Option(help="Base URI of the verifier; may be empty.")] = "",
) -> None:
    """Register this account as a verifier. Its bond answers to the deployment's panel for false verdicts."""
    from ..chain.outbox import Call
    from ..network.uri import check_uri

    value = ether(bond)
    if uri:
        check_uri(uri)
    client = reader(settings)
    with sender(settings) as transactions:
        transactions.send(
            Call.of(client.contracts.registry, "register", client.deployment.panel, uri, value=value)
        )
        out.print(f"{transactions.address} is a verifier with a bond of {show_ether(value)}")


@verifier.command("leave")
@with_settings(ACCOUNT)
def leave(settings: Settings) -> None:
    """Stop being a verifier; the bond can be withdrawn after the registry's delay, once no hearing holds it."""
    from ..chain.outbox import Call

    client = reader(settings)
    with sender(settings) as transactions:
        transactions.send(Call.of(client.contracts.registry, "unregister"))
        out.print(f"{transactions.address} is leaving; take the bond with `assay verifier withdraw`")


@verifier.command("withdraw")
@with_settings(ACCOUNT)
def withdraw(settings: Settings) -> None:
    """Take back the bond of a verifier that has left."""
    from ..chain.outbox import Call

    client = reader(settings)
    with sender(settings) as transactions:
        transactions.send(Call.of(client.contracts.registry, "withdrawBond"))
        out.print(f"{transactions.address} has its bond back")


@verifier.command("list")
@with_settings(ACCOUNT)
def list_verifiers(settings: Settings, as_json: JsonOption = False) -> None:
    """List the registered verifiers."""
    found = reader(settings).snapshot().verifiers()
    if as_json:
        show_json([{"address": address, "bond": bond, "uri": uri} for address, bond, uri in found])
        return
    for address, bond, uri in found:
        out.print(f"{address}  {show_ether(bond):>14}  {uri}", markup=False)
