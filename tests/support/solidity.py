"""Contracts that only tests need: compiled by scripts/solc, with the settings of foundry.toml.

Results are kept in .build, under the hash of every source and of the settings. The first test that needs one of these
contracts compiles all that forge skips and that is not kept yet, since most of the time of a solc-js run is its start.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import runpy
import subprocess
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".build/tests"


@dataclass(frozen=True)
class Compiled:
    abi: list[dict[str, Any]]
    bytecode: bytes
    runtime: bytes


@cache
def compiled(source: str, name: str) -> Compiled:
    """Return contract ``name`` of the file ``source``, a path relative to the project's root."""
    settings = runpy.run_path(str(ROOT / "scripts/build_contracts.py"))["compiler_settings"]()
    key = _key(settings)
    kept = _kept(source, name, key)
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with (KEPT / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one test process compiles, the others wait
            if not kept.exists():
                others = {
                    one for one in _skipped_by_forge() if not any(KEPT.glob(f"{Path(one).stem}.*-{key}.json"))
                }
                _compile(sorted({source, *others}), settings, key)
    found = json.loads(kept.read_text())
    code = (bytes.fromhex(found["evm"][kind]["object"]) for kind in ("bytecode", "deployedBytecode"))
    return Compiled(found["abi"], *code)


def _compile(sources: list[str], settings: dict[str, Any], key: str) -> None:
    wanted = {"*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"]}
    request = {
        "language": "Solidity",
        "sources": {source: {"content": (ROOT / source).read_text()} for source in sources},
        "settings": settings | {"outputSelection": dict.fromkeys(sources, wanted)},
    }
    command: list[str | Path] = [ROOT / "scripts/solc", "--standard-json", "--base-path", ROOT]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=True)
    output = json.loads(done.stdout[done.stdout.index("{") :])
    assert "contracts" in output, output["errors"]
    for source, contracts in output["contracts"].items():
        for name, contract in contracts.items():
            kept = _kept(source, name, key)
            # NOTE: readers take no lock, so a file must appear complete.
            partial = kept.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(contract))
            partial.rename(kept)


def _skipped_by_forge() -> set[str]:
    patterns = tomllib.loads((ROOT / "foundry.toml").read_text())["profile"]["default"]["skip"]
    return {path.relative_to(ROOT).as_posix() for pattern in patterns for path in ROOT.glob(pattern)}


def _kept(source: str, name: str, key: str) -> Path:
    return KEPT / f"{Path(source).stem}.{name}-{key}.json"


@cache
def _sources() -> str:
    paths = sorted([*ROOT.glob("contracts/**/*.sol"), *ROOT.glob("tests/contracts/**/*.sol")])
    parts = [path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() for path in paths]
    # The lock file stands for the sources of the libraries, and for the compiler.
    return hashlib.sha256(b"\0".join([*parts, (ROOT / "package-lock.json").read_bytes()])).hexdigest()


def _key(settings: dict[str, Any]) -> str:
    return hashlib.sha256((_sources() + json.dumps(settings, sort_keys=True)).encode()).hexdigest()[:32]
