"""The real command line, as tests ask it whether it takes a command."""

from __future__ import annotations

import functools
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from trainer_node.cli.app import application


def parsed(words: list[str]) -> Any:
    """Have the real command line read a command, its flags and values too; return the context of its last group. Raises
    what it says if it does not take it."""
    command: Any = _command(*words[:2])
    context = command.make_context("assay", list(words))
    while isinstance(command, TyperGroup):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)
    return context


@functools.cache
def _command(*words: str) -> Any:
    return get_command(application(words))


def flags() -> set[str]:
    """Return the flags of all commands."""

    def below(command: Any) -> set[str]:
        own = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        return own.union(*(below(one) for one in getattr(command, "commands", {}).values()))

    return {name for name in below(get_command(application([], complete=True))) if name.startswith("--")}
