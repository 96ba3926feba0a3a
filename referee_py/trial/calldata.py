"""Trial terms and position, which moves of a trial show again because the contract keeps only their hashes.

trial terms  do not change: client, the client's id, players, hash of the dispute. Their hash is the trial's id.
position     nodes, values, and hashes of states, as long as they still count (`TrialPosition` of ICourt.sol)
"""

from __future__ import annotations

from eth_utils.crypto import keccak

from ..commit.structs import hash_of, words
from ..walk.dispute import ZERO
from .state import TrialState

TRIAL_POSITION = "(bytes32[2],uint64[2],bytes32,bytes32[2],bytes32)"


def position(state: TrialState) -> tuple[object, ...]:
    """Return the position as the ABI coder takes it (type `TRIAL_POSITION`)."""
    agreed, one, other, offer = (
        keccak(text) if text else ZERO for text in (state.agreed, *state.states, state.offer)
    )
    values = state.values if state.steps else (0, 0)
    return tuple(words((state.nodes, values, agreed, (one, other), offer)))


def position_hash(state: TrialState) -> bytes:
    """Return the hash that the contract keeps as `Trial.position`."""
    return hash_of([TRIAL_POSITION], position(state))
