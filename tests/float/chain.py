"""A contract of tests/contracts/float on a local chain, called over JSON-RPC with many cases at once.

It is compiled by scripts/solc with the settings of foundry.toml, as what is deployed.
"""

from __future__ import annotations

import json
import runpy
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from eth_utils.crypto import keccak

ROOT = Path(__file__).resolve().parent.parent.parent
ADDRESS = "0x" + "f1" * 20
ANVIL_OPTIONS = ("--disable-block-gas-limit", "--memory-limit", str(1 << 30))


@cache
def runtime_code(name: str) -> str:
    """The deployed bytecode of tests/contracts/float/<name>.sol."""
    source = f"tests/contracts/float/{name}.sol"
    settings = runpy.run_path(str(ROOT / "scripts/build_contracts.py"))["compiler_settings"]()
    request = {
        "language": "Solidity",
        "sources": {source: {"content": (ROOT / source).read_text()}},
        "settings": settings | {"outputSelection": {source: {name: ["evm.deployedBytecode.object"]}}},
    }
    command = [ROOT / "scripts/solc", "--standard-json", "--base-path", ROOT]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=True)
    output = json.loads(done.stdout[done.stdout.index("{") :])
    assert "contracts" in output, output["errors"]
    return "0x" + str(output["contracts"][source][name]["evm"]["deployedBytecode"]["object"])


class Contract:
    """``name`` on the chain at ``url``. Its functions take a name and packed cases, and give packed results."""

    def __init__(self, url: str, name: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=240)
        self._rpc("anvil_setCode", [ADDRESS, runtime_code(name)])

    def call(self, function: str, operation: str, cases: bytes) -> bytes:
        """The answer of `function(bytes32 operation, bytes cases) returns (bytes)`; a revert fails the test."""
        selector = keccak(text=f"{function}(bytes32,bytes)")[:4]
        head = operation.encode().ljust(32, b"\0") + (64).to_bytes(32, "big") + len(cases).to_bytes(32, "big")
        data = selector + head + cases + bytes(-len(cases) % 32)
        call = {"to": ADDRESS, "data": "0x" + data.hex(), "gas": hex(1 << 50)}
        answer = bytes.fromhex(self._rpc("eth_call", [call, "latest"])[2:])
        return answer[64 : 64 + int.from_bytes(answer[32:64], "big")]

    def _rpc(self, method: str, parameters: list[Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        answer = self._http.post("/", json=body).json()
        assert "error" not in answer, answer["error"]
        return answer["result"]
