"""The reference of the contracts' interfaces, from the natspec that the compiler has read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .words import cell, code_cell, table

INTERFACES = "contracts/interfaces"
OUTPUT = ".build/forge/out"

_HEAD = """# Contracts

Generated from the natspec of `contracts/interfaces/`. The [protocol](../protocol.md) says how the contracts play
together; structures are in the sources.
"""


def page(root: Path) -> str:
    """Return the page. Raises ValueError where the contracts are not compiled."""
    parts = [_HEAD]
    for source in sorted((root / INTERFACES).glob("I*.sol")):
        path = root / OUTPUT / source.name / f"{source.stem}.json"
        if not path.exists():
            raise ValueError(f"{path.relative_to(root)} is missing; `make setup` compiles the contracts")
        artifact = json.loads(path.read_text())
        parts += _sections(source.stem, artifact["abi"], artifact["metadata"]["output"])
    return "\n".join(parts)


def _sections(name: str, abi: list[dict[str, Any]], output: dict[str, Any]) -> Iterator[str]:
    user, dev = output["userdoc"], output["devdoc"]
    yield f"## {name}\n"
    yield from _paragraphs(user.get("notice"), dev.get("details"))
    functions = [item for item in abi if item["type"] == "function"]
    for item in functions:
        signature = _signature(item)
        told = user.get("methods", {}).get(signature, {})
        more = dev.get("methods", {}).get(signature, {})
        yield f"### {name}.{item['name']}\n"
        yield f"```solidity\n{_declaration(item)}\n```\n"
        yield from _paragraphs(told.get("notice"), more.get("details"))
        yield from _parameters(more)
    for kind in ("event", "error"):
        rows = []
        for item in (item for item in abi if item["type"] == kind):
            signature = _signature(item)
            told = user.get(f"{kind}s", {}).get(signature, {})
            more = dev.get(f"{kind}s", {}).get(signature, {})
            # NOTE: the compiler lists the texts of an error, which may be declared several times.
            texts = [part for part in (_first(told).get("notice"), _first(more).get("details")) if part]
            arguments = ", ".join(f"{_type(part)} {part['name']}".strip() for part in item["inputs"])
            rows.append([code_cell(f"{item['name']}({arguments})"), cell(" ".join(texts))])
        if rows:
            yield f"**{kind.capitalize()}s**\n"
            yield table([kind, "meaning"], rows)


def _first(found: Any) -> dict[str, Any]:
    if isinstance(found, list):
        found = found[0] if found else {}
    return dict(found)


def _paragraphs(*texts: str | None) -> Iterator[str]:
    for text in texts:
        if text:
            yield f"{' '.join(text.split()).replace('<', '&lt;')}\n"


def _parameters(more: dict[str, Any]) -> Iterator[str]:
    for kind in ("params", "returns"):
        given = more.get(kind, {})
        if given:
            yield "\n".join(f"- `{name}`: {cell(text)}" for name, text in given.items()) + "\n"


def _canonical(part: dict[str, Any]) -> str:
    kind = str(part["type"])
    if kind.startswith("tuple"):
        return f"({','.join(_canonical(below) for below in part['components'])}){kind.removeprefix('tuple')}"
    return kind


def _signature(item: dict[str, Any]) -> str:
    return f"{item['name']}({','.join(_canonical(part) for part in item['inputs'])})"


def _type(part: dict[str, Any]) -> str:
    """Return a type as the source writes it: `struct IJobs.Claim[]` is `Claim[]`."""
    written = str(part.get("internalType") or part["type"])
    return written.rpartition(" ")[2].rpartition(".")[2]


def _declaration(item: dict[str, Any]) -> str:
    def listed(parts: list[dict[str, Any]]) -> str:
        return ", ".join(f"{_type(part)} {part['name']}".strip() for part in parts)

    state = "" if item["stateMutability"] == "nonpayable" else f" {item['stateMutability']}"
    returns = f" returns ({listed(item['outputs'])})" if item["outputs"] else ""
    return f"function {item['name']}({listed(item['inputs'])}) external{state}{returns}"
