"""Demands as pure functions (docs/protocol.md, section 8): what a claim or a log commits to, published on the chain.

    state     what is demanded, and what answers it         solver    the answer of whoever has the run
    pieces    whether an answer is what a root commits to   contract  demands and credits, in order

`pieces` and `contract` are the contract Demands.
"""

from .state import Answer, Blocks, DemandState, Digests, LeafShown, Piece, Place, RecordShown, StepProof

__all__ = [
    "Answer",
    "Blocks",
    "DemandState",
    "Digests",
    "LeafShown",
    "Piece",
    "Place",
    "RecordShown",
    "StepProof",
]
