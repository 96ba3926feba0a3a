"""Trials: the contract `Court` in Python (docs/adjudication.md).

state     what a trial is, and the moves
rules     what a move does, or why it is refused
solver    what to play
"""

from .rules import apply, late, open_trial, owing, places
from .state import (
    Answer,
    Compare,
    Dispute,
    JudgeStep,
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
    "Answer",
    "Compare",
    "Dispute",
    "JudgeStep",
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
