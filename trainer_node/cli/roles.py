"""`assay trainer`, `assay challenger`, `assay verifier`: the daemons."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer

from ..chain.outbox import Call
from ..config import Mode, Settings
from ..faults import Fault, Lie
from ..fetch import check_uri
from .common import ACCOUNT, CHALLENGER, DAEMON, ether, out, reader, sender, show_ether, with_settings

trainer = typer.Typer(help="Train jobs for a reward, and defend the result.", no_args_is_help=True)
challenger = typer.Typer(help="Check what others claim, and dispute what is wrong.", no_args_is_help=True)
verifier = typer.Typer(help="Re-execute disputed operators, and sign verdicts.", no_args_is_help=True)


_LIE: dict[str, Any] = {
    "help": "Cheat in this way, on a chain of your own.",
    "rich_help_panel": "Demonstration",
    "show_default": False,
}
FaultOption = Annotated[Fault, typer.Option("--fault", **_LIE)]
FaultStep = Annotated[
    int, typer.Option("--fault-step", **{**_LIE, "help": "The step in which the lie begins."}, min=1)
]
FaultNode = Annotated[
    int | None,
    typer.Option("--fault-node", **{**_LIE, "help": "The operator that wrong-op-output is about."}, min=0),
]


def _run(role: str, settings: Settings, **options: Any) -> None:
    importlib.import_module(f"trainer_node.{role}").run(settings, **options)


@trainer.command("run")
@with_settings(DAEMON)
def run_trainer(
    settings: Settings,
    fault: FaultOption = Fault.NONE,
    fault_step: FaultStep = 1,
    fault_node: FaultNode = None,
) -> None:
    """Take slots of open jobs, train, commit, reveal, defend. Runs until interrupted."""
    _run("trainer", settings, lie=Lie(fault, fault_step, fault_node))


@challenger.command("run")
@with_settings(CHALLENGER)
def run_challenger(
    settings: Settings,
    fault: FaultOption = Fault.NONE,
    fault_step: FaultStep = 1,
    fault_node: FaultNode = None,
) -> None:
    """Replay claims. With --mode watch (the default) it only logs disagreement and needs no key."""
    if settings.mode is Mode.WATCH:
        out.print("[dim]watching only; --mode defend or --mode challenge lets it act[/dim]")
    _run("challenger", settings, lie=Lie(fault, fault_step, fault_node))


@verifier.command("run")
@with_settings(DAEMON)
def run_verifier(settings: Settings) -> None:
    """Answer calls for a verdict in jobs that name this verifier. Runs until interrupted."""
    _run("verifier", settings)


@verifier.command("register")
@with_settings(ACCOUNT)
def register(
    settings: Settings,
    bond: Annotated[str, typer.Option(help="Bond, in ether.")] = "1",
    uri: Annotated[str, typer.Option(help="Base URI at which the verifier is reached; may be empty.")] = "",
) -> None:
    """Register this account as a verifier, with a bond."""
    value = ether(bond)
    if uri:
        check_uri(uri)
    client = reader(settings)
    with sender(settings) as transactions:
        transactions.send(Call.of(client.contracts.registry, "register", uri, value=value))
        out.print(f"{transactions.address} is a verifier with a bond of {show_ether(value)}")


@verifier.command("leave")
@with_settings(ACCOUNT)
def leave(settings: Settings) -> None:
    """Stop being a verifier; the bond can be withdrawn after the registry's delay."""
    client = reader(settings)
    with sender(settings) as transactions:
        transactions.send(Call.of(client.contracts.registry, "unregister"))
        out.print(f"{transactions.address} is leaving; take the bond with `assay verifier withdraw`")


@verifier.command("withdraw")
@with_settings(ACCOUNT)
def withdraw(settings: Settings) -> None:
    """Take back the bond of a verifier that has left."""
    client = reader(settings)
    with sender(settings) as transactions:
        transactions.send(Call.of(client.contracts.registry, "withdrawBond"))
        out.print(f"{transactions.address} has its bond back")


@verifier.command("list")
@with_settings(ACCOUNT)
def list_verifiers(settings: Settings) -> None:
    """List the registered verifiers."""
    for address, bond, uri in reader(settings).snapshot().verifiers():
        out.print(f"{address}  {show_ether(bond):>14}  {uri}", markup=False)
