"""The dispute game as pure functions: the contract `Referee` in Python (docs/protocol.md, sections 5 and 7).

state     a match and its moves                       player_data  the data that a player has
judge     the decision at an open node                solver       the moves to play: `plan`
rules     `apply(state, terms, move, sender, now)`    refusals     reasons for refusing a move
calldata  arguments that moves repeat

Random play compares it with the contract (tests/referee_py/game/test_random_play.py).
"""

from .rules import apply, opened
from .solver import plan
from .state import Move

__all__ = ["Move", "apply", "opened", "plan"]
