"""An operator that two sides disagree on, the terms of its trial, and the hashes by which the contracts name them.

Panel and Court both use these hashes, and neither needs the rules of the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..commit import HASH_BYTES, Record
from ..commit.structs import hash_of

ZERO = bytes(HASH_BYTES)
_RECORD = "(bytes32,bytes32[],bytes32[],bytes32)"
DISPUTE = f"({_RECORD}[2],bytes,uint8)"
TRIAL_TERMS = "(address,uint256,address[2],bytes32)"


@dataclass(frozen=True)
class Dispute:
    """Both sides' records of an operator on whose inputs and log they agree, its structure, and the mode byte."""

    records: tuple[Record, Record]
    structure: bytes
    """The structure's encoding (docs/protocol.md, section 4)."""
    mode: int


@dataclass(frozen=True, slots=True)
class TrialTerms:
    """The facts of a trial that never change: client, the client's id, players, and `dispute_hash` of the dispute."""

    client: str
    id: int
    players: tuple[str, str]
    dispute: bytes

    def trial(self) -> int:
        """Return the trial's id: keccak256 of the encoded terms."""
        return int.from_bytes(hash_of([TRIAL_TERMS], self), "big")


def dispute_hash(dispute: Dispute) -> bytes:
    """Return keccak256 of the encoded dispute, which submissions and trial terms contain."""
    return hash_of([DISPUTE], dispute)
