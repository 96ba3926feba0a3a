"""ElementaryBatch on a local chain: many values and brackets of the contract's functions at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .chain import Contract

BATCH = 20_000  # cases a call
FUNCTIONS = ("exp", "log", "rsqrt", "erf", "tanh", "sin", "cos", "log1p", "pow")

U32 = npt.NDArray[np.uint32]


class Bracket(NamedTuple):
    """A bracket; see contracts/float/ElementaryBracket.sol."""

    low: int
    high: int
    exponent: int
    sign: int


class Batch:
    """The contract, through eth_call. Operands are bits of binary32 values; only pow has b."""

    def __init__(self, url: str) -> None:
        self._contract = Contract(url, "ElementaryBatch")

    def values(self, name: str, a: U32, b: U32 | None = None) -> U32:
        """Return the bits of each value."""
        return self._batches("values", name, a, b)[:, -1].astype(np.uint32)

    def gas(self, name: str, a: U32, b: U32 | None = None) -> U32:
        """Return the gas of each value inside a contract."""
        return self._batches("gas", name, a, b)[:, -1].astype(np.uint32)

    def brackets(self, name: str, a: U32, b: U32 | None = None) -> list[Bracket]:
        """Return the bracket of each value."""
        words = self._batches("brackets", name, a, b).tobytes()
        number = [int.from_bytes(words[i : i + 32], "big") for i in range(0, len(words), 32)]
        return [
            Bracket(low, high, exponent - (exponent >> 255 << 256), sign)
            for low, high, exponent, sign in zip(*(number[k::4] for k in range(4)), strict=True)
        ]

    def _batches(self, function: str, name: str, a: U32, b: U32 | None) -> npt.NDArray[np.uint32]:
        """Return words of 256 bits, as rows of eight big-endian numbers, the highest first."""
        cases = np.stack([a, np.zeros_like(a) if b is None else b], axis=1).astype(">u4")
        pieces = [cases[start : start + BATCH].tobytes() for start in range(0, len(cases), BATCH)]
        words = b"".join(self._contract.call(function, name, piece) for piece in pieces)
        return np.frombuffer(words, dtype=">u4").reshape(-1, 8)
