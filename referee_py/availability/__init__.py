"""Data requests as pure functions (docs/protocol.md, section 8): data that a root commits to, published on the chain.

    state     what is requested, and what answers it         solver    the answer of whoever has the run
    pieces    whether an answer is what a root commits to   contract  requests and credits, in order

`pieces` and `contract` are the contract DataAvailability.
"""

from .state import Blocks, Digests, LeafShown, Piece, Place, RecordShown, RequestState, Response, StepProof

__all__ = [
    "Blocks",
    "Digests",
    "LeafShown",
    "Piece",
    "Place",
    "RecordShown",
    "RequestState",
    "Response",
    "StepProof",
]
