"""The compiled contracts as package data, `referee_py/abi/<Name>.json`, which scripts/build_contracts.py builds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ..errors import ConfigError


@dataclass(frozen=True)
class ContractArtifact:
    """A compiled contract."""

    name: str
    abi: list[dict[str, Any]]
    bytecode: bytes
    runtime: bytes


@cache
def load_artifact(name: str) -> ContractArtifact:
    """Return the compiled contract from package data. Raises ConfigError if it was never built."""
    path = resources.files("referee_py") / "abi" / f"{name}.json"
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(
            f"referee_py/abi/{name}.json is missing; build the contracts with `make setup`"
        ) from None
    return ContractArtifact(name, data["abi"], _code(data["bytecode"]), _code(data["deployedBytecode"]))


def abi_entry(contract: str, kind: str, name: str) -> dict[str, Any]:
    """Return the entry of a contract's function or event. Raises ConfigError if the contract has none or several."""
    entries = load_artifact(contract).abi
    found = [entry for entry in entries if (entry["type"], entry.get("name")) == (kind, name)]
    if len(found) != 1:
        raise ConfigError(
            f"{contract} has not one {kind} {name}, but {len(found)}; build it with `make setup`"
        )
    return found[0]


def _code(value: Any) -> bytes:
    text = value["object"] if isinstance(value, dict) else value
    return bytes.fromhex(text.removeprefix("0x"))
