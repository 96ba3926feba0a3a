"""KulischBatch on a local chain: many sums and decisions of the contracts at once, as Python numbers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from eth_abi.abi import decode, encode
from eth_utils.crypto import keccak

from referee_py.rounding.grid import Ball

from .chain import ADDRESS, Contract

UNDECIDED = 0xFFFFFFFF
BATCH = 1000  # cases a call

# The high words of sums that are not finite (contracts/float/Kulisch.sol).
_SPECIAL = {1 << 254: float("inf"), 3 << 254: float("-inf"), 1 << 255: float("nan")}

U32 = npt.NDArray[np.uint32]
Sum = int | float  # in units of 2^-298; or infinite, or NaN


class Batch(Contract):
    """The contract, through eth_call."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "KulischBatch")

    def sums(self, terms: bytes, piece: int = 1 << 20) -> tuple[Sum, Sum]:
        """Return sum and magnitude of terms, added in pieces of `piece` bytes."""
        (data,) = self._call("sums(bytes,uint256)", ["bytes"], terms, piece)
        return read_sum(data[:96]), read_sum(data[96:])

    def steps(self, terms: bytes) -> tuple[Sum, int]:
        """Return the sum, term by term, and the set of exponents of the first factors."""
        data, exponents = self._call("steps(bytes)", ["bytes", "uint256"], terms)
        return read_sum(data), exponents

    def pairs(self, sums: Sequence[tuple[Sum, Sum]]) -> list[tuple[Sum, Sum, Sum, int]]:
        """Return a + b, -a, |a| and the comparison."""
        packed = b"".join(write_sum(a) + write_sum(b) for a, b in sums)
        (data,) = self._call("pairs(bytes)", ["bytes"], packed)
        found = []
        for i in range(0, len(data), 320):
            a, b, c = (read_sum(data[k : k + 96]) for k in range(i, i + 288, 96))
            found.append((a, b, c, int.from_bytes(data[i + 288 : i + 320], "big", signed=True)))
        return found

    def decide(self, cases: Sequence[tuple[Sum, int, tuple[int, int], int, int, int]]) -> U32:
        """Decide cases (sum, magnitude, (numerator, denominator), kind, bits of the value, b)."""
        return self.decide_and_cost(cases)[:, 0]

    def decide_and_cost(self, cases: Sequence[tuple[Sum, int, tuple[int, int], int, int, int]]) -> U32:
        """Return decisions and their gas, [cases, 2]."""
        packed = [
            write_sum(s) + write_sum(m) + struct.pack(">QQBB10xI32x", *fraction, kind, b, value)
            for s, m, fraction, kind, value, b in cases
        ]
        return self._batches("decide(bytes)", packed).reshape(-1, 2)

    def decide_bracket(self, cases: Sequence[tuple[int, int, int, int, int, int]]) -> U32:
        """Decide cases (lo, hi, exponent, kind, bits of the value, b); UNDECIDED if the bracket is too wide."""
        packed = [
            b"".join(v.to_bytes(32, "big", signed=True) for v in (lo, hi, exponent))
            + struct.pack(">16xBB10xI", kind, b, value)
            for lo, hi, exponent, kind, value, b in cases
        ]
        return self._batches("decideBracket(bytes)", packed)

    def round_bits64(self, x: npt.NDArray[np.float64], b: int) -> U32:
        """Return the bits of the rounded values."""
        (data,) = self._call("roundBits64(bytes,uint256)", ["bytes"], x.astype(">f8").tobytes(), b)
        return np.frombuffer(data, dtype=">u4").astype(np.uint32)

    def to_grid(self, total: Sum, b: int) -> tuple[int, int, int]:
        """Return the bits of the sum rounded down, to nearest, up."""
        down, nearest, up = self._call("toGrid(bytes,uint256)", ["uint256"] * 3, write_sum(total), b)
        return down, nearest, up

    def gamma(self, counts: Sequence[int], probable: bool) -> list[tuple[int, int]]:
        """Return (numerator, denominator) of each."""
        (words,) = self._call("gamma(uint256[],bool)", ["uint256[]"], list(counts), probable)
        return [(word >> 128, word & ((1 << 128) - 1)) for word in words]

    def is_added_exactly(self, exponents: int, magnitude: int) -> bool:
        (answer,) = self._call("isAddedExactly(uint256,bytes)", ["bool"], exponents, write_sum(magnitude))
        return bool(answer)

    def _batches(self, function: str, packed: Sequence[bytes]) -> U32:
        found = []
        for start in range(0, len(packed), BATCH):
            (data,) = self._call(function, ["bytes"], b"".join(packed[start : start + BATCH]))
            found.append(np.frombuffer(data, dtype=">u4").astype(np.uint32))
        return np.concatenate(found)

    def _call(self, function: str, outputs: Sequence[str], *arguments: object) -> tuple[Any, ...]:
        types = function[function.index("(") + 1 : -1].split(",")
        data = keccak(text=function)[:4] + encode(types, arguments)
        answer = self._rpc(
            "eth_call", [{"to": ADDRESS, "data": "0x" + data.hex(), "gas": hex(1 << 50)}, "latest"]
        )
        return decode(outputs, bytes.fromhex(answer[2:]))


def write_sum(total: Sum) -> bytes:
    """Return the 96 bytes of Kulisch.encode."""
    if isinstance(total, int):
        return total.to_bytes(96, "big", signed=True)
    for word, value in _SPECIAL.items():
        if value == total or (value != value and total != total):
            return word.to_bytes(32, "big") + bytes(64)
    raise ValueError(f"{total} is not a sum")


def read_sum(data: bytes) -> Sum:
    """Read a sum from 96 bytes."""
    special = _SPECIAL.get(int.from_bytes(data[:32], "big"))
    return int.from_bytes(data, "big", signed=True) if special is None or any(data[32:]) else special


def write_terms(a: U32, b: U32) -> bytes:
    """Return pairs of bits, big-endian."""
    return np.stack([a, b], axis=-1).astype(">u4").tobytes()


def ball(total: int, magnitude: int, fraction: tuple[int, int]) -> Ball:
    """Return the argument of referee_py's `decide`."""
    numerator, denominator = fraction
    return Ball(total * denominator, magnitude * numerator, denominator, -298)


def bits_of(value: float) -> int:
    """Return the bits of a binary32 value."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return int(bits)


def value_of(bits: int) -> float:
    """Return the value of binary32 bits."""
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    return float(value)
