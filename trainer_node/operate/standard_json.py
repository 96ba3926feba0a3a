"""Files with which explorers verify the source of a deployment, written beside its own.

    deployments/<chain id>.sources/<Name>.json      input of solc, of which it makes the bytecode (standard JSON)
    deployments/<chain id>.sources/contracts.json   by name: address, file and name of the contract, compiler, and the
                                                    constructor's arguments as the ABI encodes them

The input of a contract has only the files that it depends on. scripts/build_contracts.py has put all of them into
referee_py/abi/input/sources.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ..chain.abi import Build
from ..errors import ConfigError

INDEX = "contracts.json"
_OUTPUTS = ["abi", "evm.bytecode.object", "evm.deployedBytecode.object", "metadata"]


def standard_json(name: str, build: Build) -> dict[str, Any]:
    """Return solc's standard JSON input for a contract of a build. Raises ConfigError if it was never built."""
    kept = _kept()
    one = kept["builds"][build][name]
    return {
        "language": "Solidity",
        "sources": {path: {"content": kept["sources"][path]} for path in one["sources"]},
        "settings": one["settings"] | {"outputSelection": {one["file"]: {name: _OUTPUTS}}},
    }


def write(folder: Path, build: Build, addresses: Mapping[str, str], arguments: Mapping[str, bytes]) -> None:
    """Write the inputs of the contracts at these addresses, and their index. ``arguments``: each constructor's."""
    folder.mkdir(parents=True, exist_ok=True)
    kept, index = _kept(), {}
    for name, address in addresses.items():
        (folder / f"{name}.json").write_text(json.dumps(standard_json(name, build), indent=1) + "\n")
        index[name] = {
            "address": address,
            "contract": f"{kept['builds'][build][name]['file']}:{name}",
            "compiler": f"v{kept['compiler']}",
            "constructorArguments": arguments[name].hex(),
        }
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")


@cache
def _kept() -> dict[str, Any]:
    path = resources.files("referee_py") / "abi" / "input" / "sources.json"
    try:
        kept: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(
            "referee_py/abi/input/sources.json is missing; build the contracts with `make setup`"
        ) from None
    return kept
