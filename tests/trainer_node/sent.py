"""The moves in the calldata that a node sends."""

from __future__ import annotations

from web3 import Web3

from referee_py.game.state import Move
from referee_py.panel.state import Move as HearingMove
from referee_py.trial import Move as TrialMove
from trainer_node.chain import Call, Contracts
from trainer_node.chain.codec.base import calls_in
from trainer_node.chain.codec.hearing import hearing_move
from trainer_node.chain.codec.match import match_move
from trainer_node.chain.codec.trial import trial_move

from .chain.endpoint import DEPLOYMENT

CONTRACTS = Contracts(Web3(), DEPLOYMENT)
"""For calldata only: nothing answers."""


def moves_of_match(call: Call) -> list[Move]:
    """Return the moves of a match in a call of the referee."""
    found = [match_move(name, given) for name, given in calls_in(CONTRACTS.referee, call.data)]
    return [move for move in found if move is not None]


def moves_of_trial(call: Call) -> list[TrialMove]:
    """Return the moves of a trial in a call of the court."""
    found = [trial_move(name, given) for name, given in calls_in(CONTRACTS.court, call.data)]
    return [one[1] for one in found if one is not None]


def move_of_hearing(call: Call) -> HearingMove:
    """Return the move of a hearing in a call of the panel."""
    ((name, given),) = calls_in(CONTRACTS.panel, call.data)
    return hearing_move(name, given)
