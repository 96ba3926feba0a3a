"""Trials: the contract `Court` in Python (docs/adjudication.md).

state     what a trial is, and the moves
rules     what a move does, or why it is refused
solver    what to play
"""

from .rules import apply, late, open_trial, owing, places
from .state import (
    NO_BLOCK,
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
    ShowOutput,
    Stage,
    Tensor,
    Timeout,
    TrialState,
)

__all__ = [
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
    "ShowOutput",
    "Stage",
    "Tensor",
    "Timeout",
    "TrialState",
    "apply",
    "late",
    "open_trial",
    "owing",
    "places",
]
