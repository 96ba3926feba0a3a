"""ElementaryBatch on a local chain: many values and brackets of the contract's functions at once.

The contract is compiled by scripts/solc with the settings of foundry.toml, as what is deployed.
"""

from __future__ import annotations

import json
import runpy
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import numpy.typing as npt
from eth_utils.crypto import keccak

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = "tests/contracts/float/ElementaryBatch.sol"
ADDRESS = "0x" + "e1" * 20
ANVIL_OPTIONS = ("--disable-block-gas-limit", "--memory-limit", str(1 << 30))
BATCH = 20_000  # cases a call
OPERATORS = {"exp": 9, "log": 10, "erf": 12, "tanh": 13, "sin": 14, "cos": 15, "log1p": 16, "pow": 17}

U32 = npt.NDArray[np.uint32]


class Bracket(NamedTuple):
    """See contracts/float/ElementaryBracket.sol."""

    low: int
    high: int
    exponent: int
    sign: int


@cache
def runtime_code() -> str:
    """The deployed bytecode of ElementaryBatch."""
    settings = runpy.run_path(str(ROOT / "scripts/build_contracts.py"))["compiler_settings"]()
    request = {
        "language": "Solidity",
        "sources": {SOURCE: {"content": (ROOT / SOURCE).read_text()}},
        "settings": settings | {"outputSelection": {SOURCE: {"*": ["evm.deployedBytecode.object"]}}},
    }
    command = [ROOT / "scripts/solc", "--standard-json", "--base-path", ROOT]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=True)
    output = json.loads(done.stdout[done.stdout.index("{") :])
    assert "contracts" in output, output["errors"]
    return "0x" + str(output["contracts"][SOURCE]["ElementaryBatch"]["evm"]["deployedBytecode"]["object"])


class Batch:
    """The contract, through eth_call. Operands are bits of binary32 values; b is only pow's."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=240)
        self._rpc("anvil_setCode", [ADDRESS, runtime_code()])

    def values(self, name: str, a: U32, b: U32 | None = None) -> U32:
        """The bits of each value."""
        return self._batches("values", name, a, b)[:, -1].astype(np.uint32)

    def gas(self, name: str, a: U32, b: U32 | None = None) -> U32:
        """What each value costs inside a contract."""
        return self._batches("gas", name, a, b)[:, -1].astype(np.uint32)

    def brackets(self, name: str, a: U32, b: U32 | None = None) -> list[Bracket]:
        """The bracket of each value."""
        words = self._batches("brackets", name, a, b).astype(">u4").tobytes()
        number = [int.from_bytes(words[i : i + 32], "big") for i in range(0, len(words), 32)]
        return [
            Bracket(low, high, exponent - (exponent >> 255 << 256), sign)
            for low, high, exponent, sign in zip(*(number[k::4] for k in range(4)), strict=True)
        ]

    def _batches(self, function: str, name: str, a: U32, b: U32 | None) -> U32:
        """Words of 256 bits, as rows of eight numbers, the highest first."""
        cases = np.stack([a, np.zeros_like(a) if b is None else b], axis=1).astype(">u4")
        pieces = [cases[start : start + BATCH] for start in range(0, len(cases), BATCH)]
        return np.concatenate([self._call(function, OPERATORS[name], piece.tobytes()) for piece in pieces])

    def _call(self, function: str, operator: int, cases: bytes) -> U32:
        head = [operator, 64, len(cases)]
        selector = keccak(text=f"{function}(uint256,bytes)")[:4]
        data = (
            selector + b"".join(word.to_bytes(32, "big") for word in head) + cases + bytes(-len(cases) % 32)
        )
        call = {"to": ADDRESS, "data": "0x" + data.hex(), "gas": hex(1 << 50)}
        answer = bytes.fromhex(self._rpc("eth_call", [call, "latest"])[2:])
        return np.frombuffer(answer, dtype=">u4").reshape(-1, 8)[2:].astype(np.uint32)

    def _rpc(self, method: str, parameters: list[Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        answer = self._http.post("/", json=body).json()
        assert "error" not in answer, answer["error"]
        return answer["result"]
