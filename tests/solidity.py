"""Contracts that only tests need: compiled by scripts/solc, with the settings of foundry.toml.

What was compiled is kept in .build, by the hash of all that it may be made of: every source, and the settings.
"""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".build/tests"


@dataclass(frozen=True)
class Compiled:
    abi: list[dict[str, Any]]
    bytecode: bytes
    runtime: bytes


@cache
def compiled(source: str, name: str) -> Compiled:
    """A contract of a file, which is named from the project's root."""
    settings = runpy.run_path(str(ROOT / "scripts/build_contracts.py"))["compiler_settings"]()
    kept = KEPT / f"{name}-{_key(settings)}.json"
    if not kept.exists():
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
        KEPT.mkdir(parents=True, exist_ok=True)
        # NOTE: several test processes may get here at once; each renames a file of its own.
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(output["contracts"][source][name]))
        partial.rename(kept)
    found = json.loads(kept.read_text())
    code = (bytes.fromhex(found["evm"][kind]["object"]) for kind in ("bytecode", "deployedBytecode"))
    return Compiled(found["abi"], *code)


@cache
def _sources() -> str:
    paths = sorted([*ROOT.glob("contracts/**/*.sol"), *ROOT.glob("tests/contracts/**/*.sol")])
    parts = [path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() for path in paths]
    # The lock file stands for the sources of the libraries, and for the compiler.
    return hashlib.sha256(b"\0".join([*parts, (ROOT / "package-lock.json").read_bytes()])).hexdigest()


def _key(settings: dict[str, Any]) -> str:
    return hashlib.sha256((_sources() + json.dumps(settings, sort_keys=True)).encode()).hexdigest()[:32]
