"""A party sends as many moves at once as a transaction holds, and the others once these are mined."""

from __future__ import annotations

import numpy as np
from web3 import Web3

from referee_py.program.playable import MAX_BYTES
from referee_py.trial import open_trial
from referee_py.trial.solver import plan
from referee_py.walk.dispute import TrialTerms, dispute_hash
from tests.referee_py.trial.parties import Known, Setting
from trainer_node.chain import Call, Contracts
from trainer_node.chain.codec.trial import trial_call
from trainer_node.chain.contracts import Deployment

PLAYERS = ("0x" + "11" * 20, "0x" + "22" * 20)


def test_a_trial_of_most_inputs_takes_more_than_one_transaction() -> None:
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(3).astype(np.float32) for _ in range(255)]
    for count, whole in ((2, True), (255, False)):
        setting = Setting.of("cat", inputs[:count], {"dim": 0}, 0.7, 0)
        assert setting is not None
        state = open_trial(setting.dispute, PLAYERS, (100, 100), 0)
        moves = plan(state, setting.dispute, 0, setting.sides[0], Known(setting.sides[1].outputs), 1)
        trial_terms = TrialTerms(PLAYERS[0], 1, PLAYERS, dispute_hash(setting.dispute))
        contracts = Contracts(Web3(), Deployment(1, 1, {"Court": PLAYERS[0]}, {}))
        made = [trial_call(move, trial_terms, setting.dispute, before) for move, before in moves]
        call = Call.batch(contracts.court, *made, inputs=count)
        sent = call.action.split("+")
        assert len(call.data) <= MAX_BYTES
        assert sent[0] == "showOutputs"
        assert (len(sent) == len(moves)) == whole, (sent, moves)
