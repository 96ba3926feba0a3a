"""`assay program`: capture a training job into a bundle. The commands that read one are in `inspect`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from referee_py.errors import InvalidInput

from ..bundle import Bundle
from ..errors import ConfigError
from . import inspect
from .common import out

app = typer.Typer(help="Programs: training steps as operator graphs.", no_args_is_help=True)


def _capture() -> Any:
    try:
        from .. import capture
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "trainer_node":
            raise
        raise ConfigError(
            f"capture needs {error.name}; install it with: pip install 'assay-referee[capture]'"
        ) from error
    return capture


@app.command()
def build(
    recipe: Annotated[
        str, typer.Argument(help="A built-in recipe, or path/to/file.py:function. That file is run.")
    ],
    folder: Annotated[Path, typer.Argument(help="Where to write the bundle.")],
    steps: Annotated[int | None, typer.Option(help="Number of training steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of initial weights and data order.")] = None,
    strides: Annotated[
        str | None, typer.Option(help='Checkpoint strides, such as "100,10,1"; suggested if not given.')
    ] = None,
) -> None:
    """Capture a PyTorch training job into a bundle: program, terms and tensors."""
    capture = _capture()
    training = capture.load_recipe(recipe, steps=steps, seed=seed)
    if strides is not None:
        training = dataclasses.replace(training, strides=_strides(strides))
    bundle: Bundle = capture.build(training)
    bundle.write(folder)
    inspect.show_summary(inspect.Opened.read(folder))


def _strides(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(stride) for stride in text.split(","))
    except ValueError:
        raise InvalidInput(f"strides {text!r} are not numbers; write 100,10,1") from None


@app.command()
def recipes() -> None:
    """List the built-in recipes."""
    for name in sorted(_capture().BUILTIN):
        out.print(name)


app.command("show")(inspect.show)
app.command("stats")(inspect.stats_command)
app.command("diff")(inspect.diff)
app.command("canonicalise")(inspect.canonicalise)
