"""Data requests as pure functions (docs/protocol.md, section 8): data that a root commits to, published on the chain.

state     places, requests and responses                 solver    the response of a party that has the run
pieces    checks of a response against a root            prices    the costs of a request
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
