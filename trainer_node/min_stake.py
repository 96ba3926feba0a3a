"""The least stake of a chain, from measured gas: the winner's prize pays for the worst dispute.

stake = price of gas x the larger of
    PRIZE_DIVISOR x sum over the moves that one side may have to send (times x gas)
    the same of the moves up to a verdict / (1 / PRIZE_DIVISOR - 1 / VERDICT_DIVISOR)

A winner has half of the stake. If a verdict has ended the match, a tenth of the stake is the verifiers', out of that
half; but then nobody has appealed, and there was no trial to play, or the appellant has lost the bond of the appeal, as
much as a stake, and half of that is the winner's, too.

The dispute is the dearest that the limits of the protocol allow: the other side publishes nothing, the operator has 255
inputs, the verifiers are silent or wrong, and the court judges it. Gas is that of transactions of one move each, as
measured by tests/contracts/Worst.t.sol, tests/contracts/Gas.t.sol (GAME_GAS) and tests/trial/test_worst.py (TRIAL_GAS);
tests/trainer_node/test_min_stake.py and the latter hold the tables against what is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from web3 import Web3

from referee_py.commit import depth_of
from referee_py.params import PRIZE_DIVISOR, REVEAL_LEVELS, VERDICT_DIVISOR
from referee_py.program.structure import MAX_NODES
from referee_py.program.terms import Terms

from .chain.rpc import guarded
from .chain.views import MAX_STRIDES
from .errors import RpcCorrupt

GAME_GAS = {
    "commitChallenge": 70_000,
    "challenge": 520_000,
    "reveal": 64_000,
    "descend": 93_000,
    "refine": 76_000,
    "openRecord": 375_000,
    "submit": 1_210_000,
    "appeal": 1_250_000,
    "proceed": 161_000,
    "finalize": 65_000,
    "collect": 69_000,
    "withdraw": 31_000,
}
"""Of moves of a job, a match and a hearing."""

TRIAL_GAS = {
    "showOutputs": 735_000,
    "reveal": 68_000,
    "descend": 750_000,
    "showLeaf": 75_000,
    "compare": 2_600_000,
    "post": 83_000,
    "answer": 78_000,
    "judge": 3_250_000,
}
"""Of moves of a trial."""

RUN_ROUNDS = 20
"""How often both sides publish and one concludes on the way down the run trees, which are 8 of height 20 at most
(package.MAX_RUN_LEAVES) and cover fewer than 2^48 steps."""
STEP_ROUNDS = -(-depth_of(MAX_NODES) // REVEAL_LEVELS)
DATA_ROUNDS = -(-33 // REVEAL_LEVELS)
"""A tensor has less than 2^40 elements of 8 bytes, in leaves of 1 KiB."""
CHAIN_ROUNDS = 10
"""A chain has at most 2^30 steps; states of 204 bytes, the longest, are posted for ten places at a time."""

PRICE_FACTOR = 4
"""Of the chain's price when it is deployed: what an honest party may have to pay on a bad day."""
_MAX_PRICE = 10**15


@dataclass(frozen=True, slots=True)
class Line:
    """So many moves of a kind, at most so much gas each."""

    move: str
    times: int
    gas: int

    @property
    def total(self) -> int:
        return self.times * self.gas


TRIAL_MOVES = 4 + 2 * DATA_ROUNDS + CHAIN_ROUNDS
"""That one side makes in a trial at most, one after the other: outputs, down the data trees, a leaf, `compare`,
answers, `judge`."""


def match_moves(terms: Terms) -> int:
    """How many moves one side makes in a match at most, one after the other, until an operator is submitted."""
    covered = [terms.steps, *terms.strides]
    counts = [-(-min(coarse, terms.steps) // fine) for coarse, fine in pairwise(covered)]
    rounds = sum(-(-depth_of(count) // REVEAL_LEVELS) for count in (*counts, terms.node_count))
    return 2 * rounds + len(terms.strides) + 2


def worst_dispute() -> tuple[Line, ...]:
    """What an honest challenger may have to send before it is paid. NOTE: of post and answer each side makes one."""
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
    """All of them together."""
    return sum(line.total for line in worst_dispute())


def verdict_gas() -> int:
    """Of these the moves of a dispute that a verdict ends, from which nobody appeals."""
    later = {"appeal", *(f"{move}, in the trial" for move in TRIAL_GAS)}
    return sum(line.total for line in worst_dispute() if line.move not in later)


def least_stake(price: int) -> int:
    """Wei, at that many wei for a unit of gas: the prize covers the winner's gas in the worst dispute."""
    # What is left of a stake's 1 / PRIZE_DIVISOR without its 1 / VERDICT_DIVISOR, rounded up to whole wei.
    after_verdict = -(
        -verdict_gas() * price * PRIZE_DIVISOR * VERDICT_DIVISOR // (VERDICT_DIVISOR - PRIZE_DIVISOR)
    )
    return max(PRIZE_DIVISOR * worst_gas() * price, after_verdict)


def chain_price(web3: Web3) -> int:
    """Wei for a unit of gas now. Raises RpcUnavailable, or RpcCorrupt for what no chain asks."""
    with guarded("eth_gasPrice"):
        price = int(web3.eth.gas_price)
        if not 0 < price <= _MAX_PRICE:
            raise RpcCorrupt(f"eth_gasPrice gave {price} wei; a price is from 1 to {_MAX_PRICE}")
    return price
