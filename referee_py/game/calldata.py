"""Match terms and position, which moves of a match show again because the contract keeps only their hashes.

match terms  do not change: roots, spokesmen, clock, number, program. Their hash, with the job's, begins the match's id.
position     roots of the current tree, both sides' nodes, the agreed checkpoint (contracts/interfaces/IReferee.sol)
"""

from __future__ import annotations

from typing import Any

from ..commit.structs import hash_of, words
from .state import MatchState, MatchTerms

PROGRAM = "(uint32,uint8,uint32,uint32,uint32,uint64,bytes32,bytes32,bytes32,bytes32,uint64[])"
MATCH_TERMS = f"(bytes32[2],address[2],uint32,uint256,{PROGRAM})"
NUMBER_BITS = 48
POSITION = "(bytes32[2],bytes32[2],bytes32)"


def match_terms(terms: MatchTerms) -> tuple[Any, ...]:
    """Return the match terms as the ABI coder takes them (type `MATCH_TERMS`)."""
    return tuple(words((terms.roots, terms.players, terms.clock, terms.number, terms.program)))


def position(state: MatchState) -> tuple[Any, ...]:
    """Return the position as the ABI coder takes it (type `POSITION`)."""
    return tuple(words((state.root, state.node, state.agreed)))


def match_id(jobs: str, job_id: int, terms: MatchTerms) -> int:
    """Return the id of a match: keccak256 of Jobs address, job id and match terms, with the match's number as its last
    48 bits (docs/protocol.md, section 7)."""
    types = "address", "uint256", MATCH_TERMS
    digest = int.from_bytes(hash_of(types, jobs, job_id, match_terms(terms)), "big")
    return digest >> NUMBER_BITS << NUMBER_BITS | terms.number


def position_hash(state: MatchState) -> bytes:
    """Return the hash that the contract keeps as `Match.position`."""
    return hash_of([POSITION], position(state))
