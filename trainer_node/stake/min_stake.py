"""The least stake of a chain, from measured gas: the winner's prize pays for the worst dispute.

stake = price of gas x the larger of
    PRIZE_DIVISOR x sum over the moves that one side may have to send (times x gas)
    that sum over the moves up to a verdict / (1 / PRIZE_DIVISOR - 1 / VERDICT_DIVISOR)

A winner gets half of the stake. If a verdict ended the match, the verifiers get a tenth of the stake out of that half.
But then either nobody appealed and there was no trial to play, or the appellant lost the bond of the appeal, which is
as much as a stake, and half of the bond goes to the winner, too.

The dispute is the dearest that the limits of the protocol allow: the other side publishes nothing, the operator has 255
inputs, the verifiers are silent or wrong, and the court judges it. The gas is that of transactions of one move each, as
measured by tests/contracts/Worst.t.sol and Gas.t.sol (GAME_GAS) and tests/twins/trial/test_worst.py (TRIAL_GAS).
tests/trainer_node/stake/test_min_stake.py and tests/twins/trial/test_worst.py compare the tables with the measured gas.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from web3 import Web3

from referee_py.commit import depth_of
from referee_py.params import PRIZE_DIVISOR, REVEAL_LEVELS, VERDICT_DIVISOR
from referee_py.program.structure import MAX_NODES
from referee_py.program.terms import Terms

from ..chain.codec.job import MAX_STRIDES
from ..chain.rpc import guarded
from ..errors import RpcCorrupt

GAME_GAS = {
    "commitChallenge": 50_000,
    "challenge": 310_000,
    "reveal": 64_000,
    "descend": 93_000,
    "refine": 76_000,
    "openRecord": 375_000,
    "submit": 1_210_000,
    "appeal": 1_205_000,
    "proceed": 161_000,
    "finalize": 60_000,
    "collect": 69_000,
    "withdraw": 36_000,
}
"""Gas of the moves of a job, a match and a hearing."""

TRIAL_GAS = {
    "showOutputs": 735_000,
    "reveal": 68_000,
    "descend": 750_000,
    "showLeaf": 75_000,
    "compare": 2_600_000,
    "post": 86_000,
    "answer": 82_000,
    "judge": 3_250_000,
}
"""Gas of the moves of a trial."""

RUN_ROUNDS = 20
"""Rounds on the way down the run trees: both sides publish, and one concludes. There are at most 8 trees of height 20
(package.MAX_RUN_LEAVES), and they cover fewer than 2^48 steps."""
STEP_ROUNDS = -(-depth_of(MAX_NODES) // REVEAL_LEVELS)
DATA_ROUNDS = -(-33 // REVEAL_LEVELS)
"""A tensor has fewer than 2^40 elements of 8 bytes, in leaves of 1 KiB."""
CHAIN_ROUNDS = 10
"""A chain has at most 2^30 steps; states of 204 bytes, the longest, are posted for ten places at a time."""

_MAX_PRICE = 10**15


@dataclass(frozen=True, slots=True)
class Line:
    """``times`` moves of one kind, of at most ``gas`` each."""

    move: str
    times: int
    gas: int

    @property
    def total(self) -> int:
        return self.times * self.gas


TRIAL_MOVES = 4 + 2 * DATA_ROUNDS + CHAIN_ROUNDS
"""The most moves that one side makes in a trial, one after the other: outputs, down the data trees, a leaf, `compare`,
answers, `judge`."""


def match_moves(terms: Terms) -> int:
    """Return the most moves that one side makes in a match, one after the other, until an operator is submitted."""
    covered = [terms.steps, *terms.strides]
    counts = [-(-min(coarse, terms.steps) // fine) for coarse, fine in pairwise(covered)]
    rounds = sum(-(-depth_of(count) // REVEAL_LEVELS) for count in (*counts, terms.node_count))
    return 2 * rounds + len(terms.strides) + 2


def worst_dispute() -> tuple[Line, ...]:
    """Return what an honest challenger may have to send before it is paid. NOTE: one side posts, the other answers."""
    rounds = RUN_ROUNDS + STEP_ROUNDS
    game = {
        "commitChallenge": 1,
        "challenge": 1,
        "reveal": rounds,
        "descend": rounds,
        "refine": MAX_STRIDES - 1,
    }
    game |= dict.fromkeys(("openRecord", "submit", "appeal", "proceed", "finalize", "collect"), 1)
    trial = {"showOutputs": 1, "reveal": DATA_ROUNDS, "descend": DATA_ROUNDS, "showLeaf": 1, "compare": 1}
    trial |= {"answer": CHAIN_ROUNDS, "judge": 1}
    lines = [Line(move, times, GAME_GAS[move]) for move, times in game.items()]
    lines += [Line(f"{move}, in the trial", times, TRIAL_GAS[move]) for move, times in trial.items()]
    return (*lines, Line("withdraw, at both contracts", 2, GAME_GAS["withdraw"]))


def worst_gas() -> int:
    """Return the gas of the whole worst dispute."""
    return sum(line.total for line in worst_dispute())


def verdict_gas() -> int:
    """Return the gas of a worst dispute that ends with a verdict without an appeal."""
    later = {"appeal", *_in_trial()}
    return sum(line.total for line in worst_dispute() if line.move not in later)


def trial_gas() -> int:
    """Return the gas of the worst trial."""
    return sum(line.total for line in worst_dispute() if line.move in _in_trial())


def _in_trial() -> set[str]:
    return {f"{move}, in the trial" for move in TRIAL_GAS}


def least_stake(price: int) -> int:
    """Return the least stake, at ``price`` wei for a unit of gas: its prize covers the winner's worst dispute."""
    # The winner keeps 1 / PRIZE_DIVISOR - 1 / VERDICT_DIVISOR of the stake; rounded up to whole wei.
    after_verdict = -(
        -verdict_gas() * price * PRIZE_DIVISOR * VERDICT_DIVISOR // (VERDICT_DIVISOR - PRIZE_DIVISOR)
    )
    return max(PRIZE_DIVISOR * worst_gas() * price, after_verdict)


def chain_price(web3: Web3) -> int:
    """Return wei for a unit of gas now. Raises RpcUnavailable, or RpcCorrupt for an absurd price."""
    with guarded("eth_gasPrice"):
        price = int(web3.eth.gas_price)
        if not 0 < price <= _MAX_PRICE:
            raise RpcCorrupt(f"eth_gasPrice gave {price} wei; a price is from 1 to {_MAX_PRICE}")
    return price
