"""Recipes by name: `load_recipe`, and the table of built-in ones."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from referee_py.errors import AssayError
from trainer_node.suggest import did_you_mean

from ... import recipe_names
from ..errors import CaptureError
from ..recipe import Recipe, RecipeJob
from . import digits, models

MAX_WORDS = 400
"""Length of an error of somebody's code on its line."""

BUILTIN: dict[str, Callable[..., Recipe]] = {
    name: getattr(room, name.replace("-", "_"))
    for room, names in ((digits, recipe_names.DIGITS), (models, recipe_names.MODELS))
    for name in names
}


def load_recipe(spec: str, **overrides: Any) -> Recipe | RecipeJob:
    """Return a recipe by built-in name (`digits-mlp`) or `path/to/file.py:function`. The file is run: trust it first.
    It can import the files beside it, as `python file.py` can.

    `overrides` are passed to the function, for example `steps=100`; those that are None are left out. Raises
    CaptureError, also for an error in the file, with its line.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    if spec in BUILTIN:
        recipe: Any = _called(spec, BUILTIN[spec], given)
    elif ":" in spec:
        file, name = spec.rsplit(":", 1)
        with _placed(Path(file)), _importing_from(Path(file).absolute().parent):
            recipe = _called(spec, _from_file(file, name), given)
    else:
        raise CaptureError(
            f"no recipe {spec!r}{did_you_mean(spec, BUILTIN)}; give path/to/file.py:function or one of "
            f"{', '.join(sorted(BUILTIN))}"
        )
    if not isinstance(recipe, Recipe | RecipeJob):
        raise CaptureError(f"recipe {spec} gives {type(recipe).__name__}; it must give a Recipe")
    return recipe


def _called(spec: str, function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Call a recipe's function. Raises CaptureError if it does not take what is given."""
    try:
        return function(**given)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # NOTE: the call has reached the function's own lines
        raise CaptureError(f"recipe {spec}: {error}") from error


@contextlib.contextmanager
def _placed(file: Path) -> Iterator[None]:
    """Raise an error of somebody's file as CaptureError: one line, with the last line of the file that it went through.
    Errors of ours are raised as they are."""
    try:
        yield
    except AssayError:
        raise
    except Exception as error:
        name = str(file.absolute())
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name
        ]
        said = str(error)
        if isinstance(error, SyntaxError) and error.filename == name:
            lines, said = [error.lineno], error.msg
        place = f"{file}:{lines[-1]}" if lines else str(file)
        words = " ".join(f"{type(error).__name__}: {said}".rstrip(": ").split())[:MAX_WORDS]
        raise CaptureError(f"recipe {place}: {words}; --debug shows the traceback") from error


@contextlib.contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Look for imports in a folder first."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        # NOTE: the file may have added others, or taken ours away.
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


def _from_file(file: str, name: str) -> Callable[..., Recipe]:
    path = Path(file).absolute()
    if not path.is_file():
        raise CaptureError(f"recipe file {file} does not exist")
    spec = importlib.util.spec_from_file_location(f"assay_recipe_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise CaptureError(f"recipe file {file} is not a Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # NOTE: dataclasses and pickling in the file look it up there
    spec.loader.exec_module(loaded)
    function = getattr(loaded, name, None)
    if not callable(function):
        own = [one for one, value in vars(loaded).items() if getattr(value, "__module__", "") == spec.name]
        raise CaptureError(f"recipe file {file} has no function {name}{did_you_mean(name, own)}")
    return function  # type: ignore[no-any-return]
