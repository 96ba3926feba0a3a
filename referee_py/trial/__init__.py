"""Trials: the contract `Court` in Python (docs/adjudication.md).

state         a trial and its moves
calldata      the position, which moves repeat because the contract keeps only its hash
chain_states  the states of an element's chain
rules         the result of a move, or its refusal
solver        the moves to play
"""

from .rules import apply, open_trial, places
from .state import (
    NO_BLOCK,
    NOT_SHOWN,
    Answer,
    Compare,
    Inputs,
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
    "Inputs",
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
    "apply",
    "open_trial",
    "places",
]
