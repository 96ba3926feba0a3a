"""The dispute game as pure functions: the contract `Referee` in Python (docs/protocol.md, sections 5 and 7).

state     a match and its moves                       view      the data that a player has
judge     the decision at an open node                solver    the moves to play: `plan`
rules     `apply(state, terms, move, sender, now)`    refusals  reasons for refusing a move
calldata  arguments that moves repeat

Random play compares it with the contract (tests/referee_py/game/test_random_play.py).
"""

from ..walk.reason import Reason
from ..walk.refusals import Refusal
from .rules import apply, opened, refinement
from .solver import plan
from .state import MatchState, MatchTerms, Move, Phase
from .view import ChainLog, LoggedView, OpponentView, OwnRun, ProgramView

__all__ = [
    "ChainLog",
    "LoggedView",
    "MatchState",
    "MatchTerms",
    "Move",
    "OpponentView",
    "OwnRun",
    "Phase",
    "ProgramView",
    "Reason",
    "Refusal",
    "apply",
    "opened",
    "plan",
    "refinement",
]
