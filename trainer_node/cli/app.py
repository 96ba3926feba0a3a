"""The table of all commands. Each group is a separate file that is loaded only when it is called: the groups import the
chain's libraries, which takes seconds."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Annotated

import typer

DISTRIBUTION = "assay-referee"


@dataclass(frozen=True, slots=True)
class Command:
    """A command or a group of them: its module, its attribute there, and its help."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "key": Command("key", "app", "Make and show the encrypted key of a node."),
    "deploy": Command(
        "deploy", "deploy_command", "Deploy the contracts, list them as a release, and write their addresses."
    ),
    "release": Command("release", "app", "Versions of the contracts in a list on the chain."),
    "clocks": Command("clocks", "app", "The clocks of the contracts, which a guardian can stop."),
    "data": Command("data", "app", "Data sets: committed tensors, and proofs of their rows."),
    "program": Command("program", "app", "Programs: training steps as operator graphs."),
    "calibrate": Command("calibrate", "calibrate_command", "Compare evaluators of rounded-f64."),
    "job": Command("job", "app", "Jobs: programs that clients pay to have trained."),
    "artifacts": Command("artifacts", "app", "Programs, tensors, trees, records and rounding logs by hash."),
    "trainer": Command("roles", "trainer", "Train jobs for a reward, and defend the result."),
    "challenger": Command("roles", "challenger", "Check the claims of others, and dispute wrong ones."),
    "verifier": Command("roles", "verifier", "Re-execute disputed operators, and sign verdicts."),
    "dispute": Command("dispute", "app", "Disputes: matches between two claims."),
    "demo": Command(
        "demo", "demo", "Start a chain, deploy, train, cheat, dispute, and check that the truth has won."
    ),
}


def application(arguments: Sequence[str], *, complete: bool = False) -> typer.Typer:
    """Return the app. Only commands named in ``arguments`` are loaded, or all if ``complete``; others are names."""
    app = typer.Typer(
        name="assay",
        help="Train neural networks for others, check what others trained, and let a contract decide who is right.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        epilog="Settings come from flags, ASSAY_* variables and assay.toml, in this order. Start with `assay key new`.",
    )
    app.callback()(root)
    for name, command in COMMANDS.items():
        if importlib.util.find_spec(f"{__package__}.{command.module}") is None:
            continue
        if not complete and name not in arguments:
            app.command(name, help=command.help)(_not_loaded)
            continue
        found = getattr(importlib.import_module(f".{command.module}", __package__), command.attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, help=command.help)
        else:
            app.command(name, short_help=command.help)(found)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"assay {metadata.version(DISTRIBUTION)}")
        raise typer.Exit


def root(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error. Can stand anywhere.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version of this build.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """NOTE: `main` takes --debug from the command line."""
    _ = debug, version


def _not_loaded() -> None:
    raise AssertionError("a command was called that the arguments do not name")
