"""Groups of flags that several commands share, or that a command passes on together."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

CommandFunction = Callable[..., None]

FILLED_IN = {"Settings": Any}
"""Types of parameters that a decorator fills in. NOTE: a command's flags do not depend on them, and loading the
settings takes longer than showing the flags."""


def flag(annotation: Any, name: str, text: str, panel: str | None, **limits: Any) -> Any:
    """Return the annotation of a flag that may be left out; then its value is None."""
    return Annotated[
        annotation | None,
        typer.Option(name, help=text, rich_help_panel=panel, show_default=False, **limits),
    ]


def with_flags(
    parameter: str, group: dict[str, Any], make: Callable[..., Any]
) -> Callable[[CommandFunction], CommandFunction]:
    """Give a command a group of flags, by name. In their place it gets ``make`` of their values, as ``parameter``."""

    def decorate(command: CommandFunction) -> CommandFunction:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            flags = {name: given.pop(name) for name in group}
            command(**{parameter: make(**flags)}, **given)

        own = inspect.signature(command, locals=FILLED_IN, eval_str=True).parameters.values()
        parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in own if p.name != parameter]
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in group.items()
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        del run.__wrapped__
        return run

    return decorate


def only_given(**flags: Any) -> dict[str, Any]:
    """Return the values of the flags that were given."""
    return {name: value for name, value in flags.items() if value is not None}
