"""The reference of settings, metrics, log events and errors, from the modules that define them.

Their meanings are in the tables of the operating guide, once; the code has the rest: types, limits, defaults,
fields. A setting without a row in the guide is an error.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from pydantic import BaseModel, SecretStr

import referee_py.errors
import trainer_node.errors
from trainer_node.cli.app import application
from trainer_node.observe.metrics import TABLE
from trainer_node.settings.settings import Settings

from .words import cell, code_cell, rows_of, table

# ------------------------------------------------------------------ settings


def below(text: str) -> str:
    """Return words of the operating guide as they are a folder below it: with its links."""
    return re.sub(r"\]\(([\w-]+\.md)", r"](../\1", text).replace("](#", "](../operating.md#")


def settings(guide: str) -> str:
    """Return the page of settings. Raises ValueError for one that the operating guide leaves out."""
    meanings = rows_of(guide, "setting")
    flags = _flags()
    rows = []
    for name, field in _fields(Settings):
        if name not in meanings:
            raise ValueError(f"docs/operating.md, section 3, has no row for the setting {name}")
        variable = "ASSAY_" + name.upper().replace(".", "__")
        limits = ", ".join(
            str(limit) for limit in field.metadata if type(limit).__module__ == "annotated_types"
        )
        default = field.get_default(call_default_factory=True)
        shown = "none" if default is None or isinstance(default, SecretStr) else code_cell(str(default))
        flag = code_cell(flags.get(name, ""))
        rows.append(
            [f"`{name}`", flag, code_cell(variable), shown, code_cell(_limits(limits)), meanings[name]]
        )
    head = "# Settings\n\nGenerated from `trainer_node/settings/settings.py`. "
    head += "Flags override variables, and variables override the file. "
    head += "The [operating guide](../operating.md#3-settings) has more.\n"
    text = table(["setting", "flag", "variable", "default", "limits", "meaning"], rows)
    return head + "\n" + below(text)


def _fields(model: type[BaseModel], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _fields(kind, f"{before}{name}.")
        else:
            yield before + name, field


def _limits(text: str) -> str:
    for word, sign in {"Ge(ge=": "≥ ", "Gt(gt=": "> ", "Le(le=": "≤ ", "Lt(lt=": "< "}.items():
        text = text.replace(word, sign)
    return text.replace(")", "")


def _flags() -> dict[str, str]:
    """Return the flag of each setting that has one: those of a challenger, who has all, as its parser knows them."""
    challenger: Any = typer.main.get_command(application(["challenger"]))
    return {found.name: found.opts[0] for found in challenger.commands["challenger"].commands["run"].params}


# ------------------------------------------------------------------ metrics


def metrics(guide: str) -> str:
    """Return the page of metrics, as a node registers them."""
    meanings = {name.partition("{")[0]: text for name, text in rows_of(guide, "metric").items()}
    rows = []
    for row in TABLE:
        name = row.exported
        rows.append([code_cell(name), row.type.value, cell(row.text), meanings.get(name, "")])
    head = "# Metrics\n\nGenerated from `trainer_node/observe/metrics.py`. A daemon answers them at `/metrics`; the "
    head += "[operating guide](../operating.md#5-monitoring-a-daemon) says which to watch.\n\n"
    return head + table(["metric", "kind", "what it counts", "in the guide"], rows)


# ------------------------------------------------------------------ log events

_LEVELS = {"debug", "info", "warning", "error", "exception"}
_PACKAGES = ("trainer_node",)


@dataclass(frozen=True)
class LogEvent:
    """A place that logs an event: its name, level, fields and file."""

    name: str
    level: str
    fields: tuple[str, ...]
    file: str


def logged(root: Path) -> list[LogEvent]:
    """Return every event that the daemons' code logs, by name. Parts that are known only at run time are `<...>`."""
    found = []
    for package in _PACKAGES:
        for path in sorted(root.glob(f"{package}/**/*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and (event := _event(node, path.relative_to(root).as_posix())):
                    found.append(event)
    return sorted(found, key=lambda event: (event.name, event.file))


def _event(call: ast.Call, file: str) -> LogEvent | None:
    function = call.func
    fields = tuple(word.arg for word in call.keywords if word.arg)
    if isinstance(function, ast.Attribute) and function.attr in _LEVELS and call.args:
        owner = function.value
        name = _text(call.args[0])
        if isinstance(owner, ast.Name) and owner.id == "_log" and name:
            return LogEvent(name, function.attr.replace("exception", "error"), fields, file)
    return None


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else f"<{ast.unparse(part.value)}>"  # type: ignore[attr-defined]
            for part in node.values
        )
    return None


def events(root: Path, guide: str) -> str:
    meanings = rows_of(guide, "event")
    grouped: dict[str, list[LogEvent]] = {}
    for event in logged(root):
        grouped.setdefault(event.name, []).append(event)
    rows = []
    for name, places in grouped.items():
        fields = dict.fromkeys(field for event in places for field in event.fields)
        levels = dict.fromkeys(event.level for event in places)
        files = dict.fromkeys(event.file for event in places)
        rows.append(
            [
                code_cell(name),
                ", ".join(levels),
                ", ".join(code_cell(field) for field in fields),
                meanings.pop(name, ""),
                ", ".join(code_cell(file) for file in files),
            ]
        )
    head = "# Log events\n\nGenerated from the calls in `trainer_node/`. One event is one line on standard error; with "
    head += (
        "`--log-format json` it is one JSON object, with `event`, `level`, `timestamp` and the fields.\n\n"
    )
    text = head + table(["event", "level", "fields", "meaning", "logged in"], rows)
    if meanings:
        text += "\nEvents whose name is made up while the daemon runs:\n\n"
        text += table(
            ["event", "meaning"], [[code_cell(name), words] for name, words in sorted(meanings.items())]
        )
    return below(text)


# ------------------------------------------------------------------ errors


def errors() -> str:
    head = "# Errors\n\nGenerated from the two trees of errors."
    parts = [f"{head} Each message names the value, the limit and the remedy.\n"]
    for module in (referee_py.errors, trainer_node.errors):
        head, _, tree = (inspect.getdoc(module) or "").partition("\n\n")
        parts.append(f"## {module.__name__}\n\n{cell(head)}\n\n```\n{tree}\n```\n")
        parts.append(table(["error", "is a", "meaning"], [_error(kind) for kind in _classes(module)]))
    parts.append("The contracts' errors are in [contracts](contracts.md).\n")
    return "\n".join(parts)


def _classes(module: ModuleType) -> list[type[BaseException]]:
    return [
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, BaseException) and kind.__module__ == module.__name__
    ]


def _error(kind: type[BaseException]) -> list[str]:
    bases = ", ".join(code_cell(base.__name__) for base in kind.__bases__)
    return [code_cell(kind.__name__), bases, cell(inspect.getdoc(kind) or "")]
