"""The table of all commands. Each group is a separate file that is loaded only when it is called: the groups import the
chain's libraries, which takes seconds."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import typer

from .command import Command

GROUP = "assay.commands"
"""Entry points: each a table like `COMMANDS`. "program build" is the command `build` of the group `program`."""


COMMANDS = {
    "key": Command("trainer_node.cli.key:app", "Make and show the encrypted key of a node."),
    "deploy": Command(
        "trainer_node.cli.deploy:deploy_command",
        "Deploy the contracts, list them as a release, and write their addresses.",
    ),
    "release": Command("trainer_node.cli.release:app", "Versions of the contracts in a list on the chain."),
    "clocks": Command(
        "trainer_node.cli.clocks:app", "The clocks of the contracts, which a guardian can stop."
    ),
    "program": Command("trainer_node.cli.program:app", "Programs: training steps as operator graphs."),
    "run": Command("trainer_node.cli.run:app", "Runs: compare two of them, and certify one."),
    "worker": Command("trainer_node.cli.worker:app", "Processes of a run on many."),
    "calibrate": Command(
        "trainer_node.cli.calibrate:calibrate_command", "Compare evaluators of rounded-f64."
    ),
    "job": Command("trainer_node.cli.job:app", "Jobs: programs that clients pay to have trained."),
    "artifacts": Command(
        "trainer_node.cli.artifacts:app", "Programs, tensors, trees, records and rounding logs by hash."
    ),
    "store": Command("trainer_node.cli.store:app", "Disk space of artifacts: what takes it, what may go."),
    "backup": Command("trainer_node.cli.backup:backup_command", "Copy a node's database into one file."),
    "restore": Command("trainer_node.cli.backup:restore_command", "Make a data directory from a backup."),
    "audit": Command(
        "trainer_node.cli.audit:app",
        "Check a part of a published run, and what receipts of others say about it.",
    ),
    "trainer": Command("trainer_node.cli.roles:trainer", "Train jobs for a reward, and defend the result."),
    "challenger": Command(
        "trainer_node.cli.roles:challenger", "Check the claims of others, and dispute wrong ones."
    ),
    "verifier": Command(
        "trainer_node.cli.roles:verifier", "Re-execute disputed operators, and sign verdicts."
    ),
    "dispute": Command("trainer_node.cli.dispute:app", "Disputes: matches between two claims."),
    "doctor": Command(
        "trainer_node.cli.doctor:doctor_command",
        "Check this machine, its settings, the chain and its own address.",
    ),
    "config": Command("trainer_node.cli.config:app", "Settings: what applies, and where it comes from."),
    "quickstart": Command(
        "trainer_node.cli.quickstart:quickstart_command",
        "Make a folder to start from: settings, password, keys.",
    ),
    "monitor": Command(
        "trainer_node.cli.monitor:monitor_command",
        "Watch all jobs of a deployment: what happens if nobody moves, and what to look at.",
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
        epilog="Settings come from flags, ASSAY_* variables and assay.toml, in this order. "
        "Start with `assay quickstart`.",
    )
    app.callback()(root)
    groups = {"": app}
    for path, command in _commands().items():
        above, _, name = path.rpartition(" ")
        if above not in groups:  # NOTE: a group that is not loaded shows no commands
            continue
        if not complete and name not in arguments:
            groups[above].command(name, help=command.help)(_not_loaded)
            continue
        module, attribute = command.place.split(":")
        found = getattr(importlib.import_module(module), attribute)
        if isinstance(found, typer.Typer):
            groups[path] = _copied(found)
            groups[above].add_typer(groups[path], name=name, help=command.help)
        else:
            groups[above].command(name, short_help=command.help)(found)
    return app


def _commands() -> dict[str, Command]:
    """Those of this package, and of others that are installed and offer some by the entry points of this group.

    INVARIANT: a group comes before the commands that another package adds to it.
    """
    found = dict(COMMANDS)
    for entry in metadata.entry_points(group=GROUP):
        found |= entry.load()
    return dict(sorted(found.items(), key=lambda item: item[0].count(" ")))


def _copied(group: typer.Typer) -> typer.Typer:
    """Return a group to add commands to. NOTE: the group itself is a module's, and this process may parse again."""
    copied = copy.copy(group)
    copied.registered_commands = list(group.registered_commands)
    return copied


def _show_version(wanted: bool) -> None:
    if wanted:
        from ..observe.build import Build

        build = Build.this()
        typer.echo(f"assay {build.version}")
        typer.echo(f"build      {build.source}")
        typer.echo(f"kernels    {build.kernels}")
        typer.echo(f"contracts  {build.version}, code {build.contracts}")
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
