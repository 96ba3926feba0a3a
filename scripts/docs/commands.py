"""The reference of commands, from the parsers of `assay` itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from trainer_node.cli.app import COMMANDS, application

from .words import cell, code_cell, table

_HEAD = """# Commands

Generated from the parsers of `assay`. Settings that commands share are in [settings](settings.md); `assay COMMAND
--help` shows the same words. Expected errors are one line on standard error and exit code 2; `--debug`, anywhere, shows
the traceback.
"""
SHARED = "Settings"
"""Panel of the flags that set settings."""


def page() -> str:
    root: Any = typer.main.get_command(application([], complete=True))
    order = [*COMMANDS, *(name for name in root.commands if name not in COMMANDS)]
    parts = [_HEAD]
    for name in order:
        parts += _sections(root.commands[name], f"assay {name}", 2)
    return "\n".join(parts)


def _sections(command: Any, name: str, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    yield f"{_plain(command.help or '')}\n"
    if hasattr(command, "commands"):
        for below, found in command.commands.items():
            yield from _sections(found, f"{name} {below}", level + 1)
        return
    usage = [name, "[OPTIONS]", *(_usage(p) for p in command.params if p.param_type_name == "argument")]
    yield f"```\n{' '.join(usage)}\n```\n"
    given = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
    own = [p for p in given if getattr(p, "rich_help_panel", None) != SHARED]
    if own:
        yield table(["argument or flag", "default", "meaning"], [_row(parameter) for parameter in own])
    if shared := [p.opts[0] for p in given if p not in own]:
        yield f"Settings: {', '.join(f'`{name}`' for name in shared)}.\n"


def _usage(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).upper()
    return name if parameter.required else f"[{name}]"


def _row(parameter: Any) -> list[str]:
    if parameter.param_type_name == "argument":
        names = f"`{_usage(parameter)}`"
    else:
        names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    default = parameter.default
    shown = (
        "" if default is None or callable(default) or default in ((), [], False) else code_cell(str(default))
    )
    if getattr(parameter, "required", False):
        shown = "required"
    return [names, shown, cell(_plain(getattr(parameter, "help", None) or ""))]


def _plain(text: str) -> str:
    """Return help as one paragraph for each of its paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
