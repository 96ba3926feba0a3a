"""The commands, put together. Each group is a file of its own."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer

from . import artifacts, calibrate, clocks, data, deploy, dispute, execute, job, key, program, release, roles

app = typer.Typer(
    name="assay",
    help="Train neural networks for others, check what others trained, and let a contract decide who is right.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Settings come from flags, ASSAY_* variables and assay.toml, in this order. Start with `assay key new`.",
)


@app.callback()
def root(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error. Works anywhere.")
    ] = False,
) -> None:
    _ = debug  # taken from the command line by `main`


app.add_typer(key.app, name="key")
app.command("deploy")(deploy.deploy_command)
app.add_typer(release.app, name="release")
app.add_typer(clocks.app, name="clocks")
app.add_typer(data.app, name="data")
program.app.command("run")(execute.run_command)
app.add_typer(program.app, name="program")
app.command("calibrate")(calibrate.calibrate_command)
app.add_typer(job.app, name="job")
app.add_typer(artifacts.app, name="artifacts")
app.add_typer(roles.trainer, name="trainer")
app.add_typer(roles.challenger, name="challenger")
app.add_typer(roles.verifier, name="verifier")
app.add_typer(dispute.app, name="dispute")

if importlib.util.find_spec("trainer_node.cli.demo") is not None:
    from . import demo

    demo.attach(app)
