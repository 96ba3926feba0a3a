"""The dispute game as pure functions (docs/protocol.md, sections 5 to 7).

    state     what a match is, and its moves              view      what a player knows
    clock     who is late                                 solver    what to play: `plan`
    judge     what an open node decides                   model      jobs, claims, groups and money
    rules     `apply(state, terms, move, sender, now)`    refusals  why a move is refused
    jobs      what a job is                               escrow    credits

`rules` is the contract Referee and `model` is the contract Jobs; random play holds them to it
(tests/referee_py/game/test_random_play.py).

NOTE: `jobs` and `model` are not imported here: they are made of this package, of referee_py.trial and referee_py.panel.
"""

from .refusals import Refusal
from .rules import apply, opened, refinement
from .solver import plan
from .state import MatchState, MatchTerms, Move, Phase, ProgramHeader, Reason
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
    "ProgramHeader",
    "ProgramView",
    "Reason",
    "Refusal",
    "apply",
    "opened",
    "plan",
    "refinement",
]
