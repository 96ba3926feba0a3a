"""`assay program`: run programs, publish their runs, read them. Those that make programs are in `assay_capture`."""

from __future__ import annotations

import typer

from . import inspect
from .execute import run_command
from .publish import publish

app = typer.Typer(no_args_is_help=True)
app.command("run")(run_command)
app.command("publish")(publish)
app.command("show")(inspect.show)
app.command("stats")(inspect.stats_command)
app.command("diff")(inspect.diff)
app.command("canonicalise")(inspect.canonicalise)
