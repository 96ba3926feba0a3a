"""What moves of a trial show again, because the contract keeps only its hash: the trial's terms, and its position.

terms     what does not change: who opened it and by which id, the players, the dispute. Its hash is the trial's id.
position  nodes, values, and hashes of states, where they still count (`TrialPosition` of ICourt.sol)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from ..commit import Record
from ..errors import AssayError
from .rules import apply
from .state import ZERO, Dispute, Move, TrialState

_RECORD = "(bytes32,bytes32[],bytes32[],bytes32)"
DISPUTE = f"({_RECORD}[2],bytes,uint8)"
TRIAL_TERMS = "(address,uint256,address[2],bytes32)"
TRIAL_POSITION = "(bytes32[2],uint64[2],bytes32,bytes32[2],bytes32)"


@dataclass(frozen=True, slots=True)
class TrialTerms:
    """What a trial is about. ``dispute`` is `dispute_hash` of it."""

    client: str
    id: int
    players: tuple[str, str]
    dispute: bytes

    def wire(self) -> tuple[object, ...]:
        """As the ABI coder takes it."""
        return self.client, self.id, list(self.players), self.dispute

    def trial(self) -> int:
        """The trial's id."""
        return int.from_bytes(keccak(encode([TRIAL_TERMS], [self.wire()])), "big")


def dispute_hash(dispute: Dispute) -> bytes:
    """What a submission and a trial_terms have of a dispute."""
    return keccak(encode([DISPUTE], [dispute_wire(dispute)]))


def dispute_wire(dispute: Dispute) -> tuple[list[object], bytes, int]:
    """As the ABI coder takes it."""
    return [record_wire(record) for record in dispute.records], dispute.structure, dispute.mode


def record_wire(record: Record) -> tuple[object, ...]:
    """As the ABI coder takes it."""
    return record.structure, list(record.inputs), list(record.outputs), record.log


def position(state: TrialState) -> tuple[object, ...]:
    """As the ABI coder takes it."""
    agreed, one, other, offer = (
        keccak(text) if text else ZERO for text in (state.agreed, *state.states, state.offer)
    )
    values = state.values if state.steps else (0, 0)
    return list(state.nodes), list(values), agreed, [one, other], offer


def position_hash(state: TrialState) -> bytes:
    """`Trial.position` of the contract."""
    return keccak(encode([TRIAL_POSITION], [position(state)]))


def led(
    state: TrialState, dispute: Dispute, moves: Iterable[Move], sender: str, now: int
) -> Iterator[tuple[Move, TrialState]]:
    """Moves that are made in one transaction, each with the state that it is made in.

    NOTE: what follows a move that the rules refuse comes with that move's state; the transaction fails before.
    """
    for move in moves:
        yield move, state
        try:
            state = apply(state, dispute, move, sender, now)
        except AssayError:
            continue
