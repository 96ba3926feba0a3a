"""Contracts that only tests need: compiled by scripts/solc, with the settings of foundry.toml."""

from __future__ import annotations

import json
import runpy
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Compiled:
    abi: list[dict[str, Any]]
    bytecode: bytes
    runtime: bytes


@cache
def compiled(source: str, name: str) -> Compiled:
    """A contract of a file, which is named from the project's root and compiled once a process."""
    settings = runpy.run_path(str(ROOT / "scripts/build_contracts.py"))["compiler_settings"]()
    wanted = ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"]
    request = {
        "language": "Solidity",
        "sources": {source: {"content": (ROOT / source).read_text()}},
        "settings": settings | {"outputSelection": {source: {name: wanted}}},
    }
    command = [ROOT / "scripts/solc", "--standard-json", "--base-path", ROOT]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=True)
    output = json.loads(done.stdout[done.stdout.index("{") :])
    assert "contracts" in output, output["errors"]
    found = output["contracts"][source][name]
    code = (bytes.fromhex(found["evm"][kind]["object"]) for kind in ("bytecode", "deployedBytecode"))
    return Compiled(found["abi"], *code)
