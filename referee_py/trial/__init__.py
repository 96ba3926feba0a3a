"""Trials: the contract `Court` in Python (docs/adjudication.md).

state     what a trial is, and the moves
shown     what moves show again, of which the contract keeps hashes
rules     what a move does, or why it is refused
solver    what to play
"""

from .calldata import TrialTerms, dispute_hash, dispute_wire
from .rules import apply, late, open_trial, owing, places
from .state import (
    NO_BLOCK,
    NOT_SHOWN,
    Answer,
    Compare,
    Dispute,
    JudgeStep,
    LogBlock,
    Move,
    NodesDescend,
    NodesReveal,
    Opening,
    Post,
    ShowLeaf,
    ShowOutputs,
    Stage,
    Tensor,
    Timeout,
    TrialState,
)

__all__ = [
    "NOT_SHOWN",
    "NO_BLOCK",
    "Answer",
    "Compare",
    "Dispute",
    "JudgeStep",
    "LogBlock",
    "Move",
    "NodesDescend",
    "NodesReveal",
    "Opening",
    "Post",
    "ShowLeaf",
    "ShowOutputs",
    "Stage",
    "Tensor",
    "Timeout",
    "TrialState",
    "TrialTerms",
    "apply",
    "dispute_hash",
    "dispute_wire",
    "late",
    "open_trial",
    "owing",
    "places",
]
