"""A contract of tests/contracts/float on a local chain, called over JSON-RPC with many cases at once."""

from __future__ import annotations

from typing import Any

import httpx
from eth_utils.crypto import keccak

from tests.support.solidity import compiled

ADDRESS = "0x" + "f1" * 20
ANVIL_OPTIONS = ("--disable-block-gas-limit", "--memory-limit", str(1 << 30))


class Contract:
    """``name`` on the chain at ``url``. Its functions take a name and packed cases, and return packed results."""

    def __init__(self, url: str, name: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=240)
        code = compiled(f"tests/contracts/float/{name}.sol", name).runtime
        self._rpc("anvil_setCode", [ADDRESS, "0x" + code.hex()])

    def call(self, function: str, operation: str, cases: bytes) -> bytes:
        """Return the answer of `function(bytes32 operation, bytes cases) returns (bytes)`; a revert fails the test."""
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
