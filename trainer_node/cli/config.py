"""`assay config`: which settings apply, where each comes from, and whether their chain is fit."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import typer
from rich.table import Table

from .common import CHALLENGER, out, plain
from .doctor import print_finding, row
from .flags import with_flags

if TYPE_CHECKING:
    from ..settings.settings import Settings

app = typer.Typer(no_args_is_help=True)
MASK = "***"
PUBLIC = frozenset({"public_uri"})
"""Settings with a URI that is published."""


class Told(NamedTuple):
    """A setting as it is shown: without secrets."""

    value: Any
    origin: str


class Read(NamedTuple):
    """The settings, and how each is shown."""

    settings: Settings
    told: dict[str, Told]


@app.callback()
def _group() -> None:
    """Settings: what applies, and where it comes from."""


def _read(**flags: Any) -> Read:
    from ..settings.config_file import config_file
    from ..settings.settings import load_settings

    settings = load_settings(**flags)
    path, values = config_file(flags.get("config"))
    given = {name for name, value in flags.items() if value is not None}
    told = {name: Told(value, _origin(name, given, path, values)) for name, value in _shown(settings)}
    return Read(settings, told)


@app.command()
@with_flags("read", CHALLENGER, _read)
def show(
    read: Read,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the chain.")] = False,
) -> None:
    """Show all settings as they apply, with their origin: flag, environment, file or default. Secrets are masked.

    Then the chain is asked, if it answers, whether it has what the contracts and honest parties need.
    """
    from ..operate.doctor import examine_chain

    settings, told = read
    findings = [] if offline else examine_chain(settings)
    if as_json:
        shown = {name: {"value": t.value, "origin": t.origin} for name, t in told.items()}
        if not offline:
            shown["chain"] = {"value": [row(finding) for finding in findings], "origin": "the chain"}
        typer.echo(json.dumps(shown))
        return
    table = Table("setting", "value", "from", box=None)
    for name, (value, origin) in told.items():
        table.add_row(name, plain("" if value is None else value), plain(origin))
    out.print(table, soft_wrap=True)
    for finding in findings:
        print_finding(finding)


def _shown(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Yield all settings with the values that apply, safe to show. Paths that are not set have their real values."""
    from ..settings.settings import setting_names

    effective = {"deployment": settings.deployment_file, "keystore": settings.keystore_path}
    for name in setting_names():
        value: Any = settings
        for part in name.split("."):
            value = getattr(value, part)
        yield name, _safe(name, effective.get(name, value))


def _safe(name: str, value: Any) -> Any:
    """Return a value as JSON has it, without passwords and API keys."""
    from pydantic import BaseModel, SecretStr

    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, list | tuple):
        return [_safe(name, item) for item in value]
    if isinstance(value, str) and "://" in value and name not in PUBLIC:
        return ",".join(map(_endpoint, value.split(",")))
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _endpoint(url: str) -> str:
    """SAFETY: user, path and query of an endpoint may hold a key."""
    from ..chain.rpc import show_endpoint

    shown = show_endpoint(url.strip())
    parts = urlsplit(url)
    hidden = parts.path.strip("/") or parts.query or "@" in parts.netloc
    return f"{shown}/{MASK}" if hidden else shown


def _origin(name: str, given: set[str], path: Path | None, values: Mapping[str, Any]) -> str:
    if name in given:
        return "flag"
    section, _, inner = name.partition(".")
    variables = {variable.upper(): variable for variable in os.environ}
    for wanted in (f"ASSAY_{name.upper().replace('.', '__')}", f"ASSAY_{section.upper()}"):
        if wanted in variables:
            return f"${variables[wanted]}"
    found = values.get(section)
    if section in values and (not inner or (isinstance(found, dict) and inner in found)):
        return str(path)
    return "default"
