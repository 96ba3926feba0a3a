"""The opcodes that compiled code uses, and for each that not every chain has a few bytes of code that try it.

A trial is the code of a contract that returns a word. It has been passed if the word is the one expected: a chain that
lacks an opcode ends the call, and one that gives it another meaning returns another word.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

PUSH1, PUSH32 = 0x60, 0x7F
INVALID = 0xFE
"""The byte that the compiler puts between code and data."""

_FRONTIER = {
    *range(0x0C),
    *range(0x10, 0x1B),
    0x20,
    *range(0x30, 0x3D),
    *range(0x40, 0x46),
    *range(0x50, 0x5C),
    *range(PUSH1, 0xA5),
    *range(0xF0, 0xF5),
    0xFF,
}
"""Opcodes of every chain that executes contracts: those of Homestead."""
SHA256 = 0x102
"""The precompiled contract 2, which hashes and proofs call: counted as an opcode that all code uses."""


@dataclass(frozen=True, slots=True)
class Trial:
    """``name`` and the upgrade of Ethereum ``since`` which an opcode exists; ``code`` leaves a word on the stack, which
    must be ``want``."""

    name: str
    since: str
    code: bytes
    want: int

    @property
    def contract(self) -> bytes:
        """The code of a contract that returns the word."""
        return self.code + bytes.fromhex("60005260206000f3")


def _trial(name: str, since: str, code: str, want: int) -> Trial:
    return Trial(name, since, bytes.fromhex(code), want)


TRIALS = {
    SHA256: _trial(
        # NOTE: of no bytes. PUSH 32, 0, 0, 0, 2, GAS, STATICCALL, POP, then the word at 0.
        *("the precompiled contract SHA-256", "Frontier", "60206000600060006002 5afa 50 600051"),
        int.from_bytes(hashlib.sha256(b"").digest()),
    ),
    0x1B: _trial("SHL", "Constantinople", "6003 6002 1b", 12),
    0x1C: _trial("SHR", "Constantinople", "600c 6002 1c", 3),
    0x1D: _trial("SAR", "Constantinople", "600b19 6001 1d 19", 5),
    0x1E: _trial("CLZ", "Osaka", "6001 1e", 255),
    0x3D: _trial("RETURNDATASIZE", "Byzantium", "3d15", 1),
    0x3E: _trial("RETURNDATACOPY", "Byzantium", "6000 6000 6000 3e 6001", 1),
    0x3F: _trial("EXTCODEHASH", "Constantinople", "303f 1515", 1),
    0x46: _trial("CHAINID", "Istanbul", "46 1515", 1),
    0x47: _trial("SELFBALANCE", "Istanbul", "47 50 6001", 1),
    0x48: _trial("BASEFEE", "London", "48 50 6001", 1),
    0x5C: _trial("TLOAD", "Cancun", "6001 5c 15", 1),
    0x5D: _trial("TSTORE", "Cancun", "6007 6001 5d 6001 5c", 7),
    0x5E: _trial("MCOPY", "Cancun", "6007 600052 6020 6000 6020 5e 602051", 7),
    0x5F: _trial("PUSH0", "Shanghai", "5f15", 1),
    0xF5: _trial("CREATE2", "Constantinople", "6001 6000 6000 6000 f5 1515", 1),
    0xFA: _trial("STATICCALL", "Byzantium", "6000 6000 6000 6000 6004 5a fa", 1),
    # NOTE: what a CREATE gives whose code is PUSH 1, PUSH 0, REVERT: a byte of data, which no other failure has.
    0xFD: _trial("REVERT", "Byzantium", "6460016000fd 600052 6005 601b 6000 f0 50 3d", 1),
}
"""By opcode: trials of all that the compiler may use and Homestead does not have."""


@lru_cache(maxsize=128)  # NOTE: the nodes of one process have the same contracts
def opcodes_of(code: bytes) -> frozenset[int]:
    """Return the opcodes in code, up to the data that may follow it."""
    found, at = set(), 0
    while at < len(code) and code[at] != INVALID:
        found.add(code[at])
        at += 2 + code[at] - PUSH1 if PUSH1 <= code[at] <= PUSH32 else 1
    return frozenset(found)


def to_try(opcodes: Iterable[int]) -> tuple[int, ...]:
    """Return those that a chain may lack, in order, with SHA-256."""
    return tuple(sorted({*opcodes, SHA256} - _FRONTIER))


@dataclass(frozen=True, slots=True)
class Needs:
    """Needs of contracts on their chain: ``opcodes`` that not every chain has, and room for code, in bytes."""

    opcodes: tuple[int, ...]
    code_bytes: int

    @classmethod
    def of(cls, codes: Iterable[bytes], constructors: Iterable[bytes] = ()) -> Needs:
        """Return what contracts need that are given by their code on the chain, and by that which creates them."""
        every = list(codes)
        used = frozenset[int]().union(*map(opcodes_of, (*every, *constructors)))
        return cls(to_try(used), max(map(len, every), default=0))


def told(opcode: int) -> str:
    """Return an opcode's name, and the upgrade of Ethereum that brought it."""
    trial = TRIALS.get(opcode)
    return f"0x{opcode:02x}" if trial is None else f"{trial.name} (since {trial.since})"
