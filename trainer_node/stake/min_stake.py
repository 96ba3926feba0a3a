"""The least stake of a chain, from measured gas: the winner's prize pays for the worst dispute.

stake = price of gas x the larger of
    PRIZE_DIVISOR x sum over the moves that one side may have to send (times x gas)
    that sum over the moves up to a verdict / (1 / PRIZE_DIVISOR - 1 / VERDICT_DIVISOR)

A winner gets half of the stake. If a verdict ended the match, the verifiers get a tenth of the stake out of that half.
But then either nobody appealed and there was no trial to play, or the appellant lost the bond of the appeal, which is
as much as a stake, and half of the bond goes to the winner, too.

The dispute is the dearest that the limits of the protocol allow: the other side publishes nothing, the operator has 255
inputs, the verifiers are silent or wrong, and the court judges it. Each move is a transaction of its own. Its gas under
Osaka is measured, and so is what it leaves behind, from which its gas under the schedule of a deployment follows
(`referee_py/gas_schedule.py`): by tests/contracts/Worst.t.sol, Slots.t.sol and Gas.t.sol (GAME) and
tests/twins/trial/test_worst.py (TRIAL). tests/trainer_node/stake/test_min_stake.py and tests/twins/trial/test_worst.py
compare the tables with what was measured.

A deployment states its schedule by `STAKE_GAS`, which the least stake of its jobs follows: `schedule_of`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from web3 import Web3

from referee_py.commit import depth_of
from referee_py.gas_schedule import SCHEDULES, Counts, Schedule
from referee_py.params import PRIZE_DIVISOR, REVEAL_LEVELS, VERDICT_DIVISOR
from referee_py.program.structure import MAX_NODES
from referee_py.program.terms import Terms

from ..chain.codec.job import MAX_STRIDES
from ..chain.rpc import guarded
from ..errors import RpcCorrupt


@dataclass(frozen=True, slots=True)
class Measured:
    """A move as it was measured: its gas under Osaka, rounded up, and its counts."""

    gas: int
    counts: Counts


GAME = {
    "commitChallenge": Measured(50_000, Counts(new=1, calldata=68)),
    "challenge": Measured(310_000, Counts(new=8, overwritten=3, calldata=330, value=1)),
    "reveal": Measured(64_000, Counts(overwritten=1, calldata=810)),
    "descend": Measured(93_000, Counts(overwritten=3, calldata=2_200)),
    "refine": Measured(76_000, Counts(overwritten=2, calldata=1_700)),
    "openRecord": Measured(375_000, Counts(overwritten=1, calldata=9_000)),
    "submit": Measured(1_210_000, Counts(new=3, overwritten=1, calldata=27_400)),
    "appeal": Measured(1_205_000, Counts(new=4, overwritten=1, calldata=26_900, value=1)),
    "proceed": Measured(161_000, Counts(new=2, overwritten=6, cleared=6, calldata=360)),
    "finalize": Measured(60_000, Counts(overwritten=1, calldata=36)),
    "collect": Measured(69_000, Counts(overwritten=2, calldata=68)),
    "withdraw": Measured(36_000, Counts(overwritten=1, calldata=4)),
}
"""The moves of a job, a match and a hearing."""

TRIAL = {
    "showOutputs": Measured(735_000, Counts(overwritten=2, calldata=19_300)),
    "reveal": Measured(68_000, Counts(overwritten=1, calldata=1_200)),
    "descend": Measured(750_000, Counts(overwritten=2, calldata=19_800)),
    "showLeaf": Measured(75_000, Counts(overwritten=1, calldata=1_700)),
    "compare": Measured(2_600_000, Counts(new=1, overwritten=2, calldata=53_100)),
    "post": Measured(86_000, Counts(overwritten=2, calldata=2_500)),
    "answer": Measured(82_000, Counts(overwritten=3, calldata=2_800)),
    "judge": Measured(3_250_000, Counts(new=1, overwritten=8, calldata=45_300)),
}
"""The moves of a trial."""

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
    """``times`` moves of one kind, of at most ``gas`` each under the schedule that was asked for."""

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


@cache
def worst_dispute(schedule: Schedule) -> tuple[Line, ...]:
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

    def line(name: str, times: int, move: Measured) -> Line:
        return Line(name, times, schedule.gas(move.gas, move.counts))

    lines = [line(move, times, GAME[move]) for move, times in game.items()]
    lines += [line(f"{move}, in the trial", times, TRIAL[move]) for move, times in trial.items()]
    return (*lines, line("withdraw, at both contracts", 2, GAME["withdraw"]))


def worst_gas(schedule: Schedule) -> int:
    """Return the gas of the whole worst dispute."""
    return sum(line.total for line in worst_dispute(schedule))


def verdict_gas(schedule: Schedule) -> int:
    """Return the gas of a worst dispute that ends with a verdict without an appeal."""
    later = {"appeal", *_in_trial()}
    return sum(line.total for line in worst_dispute(schedule) if line.move not in later)


def trial_gas(schedule: Schedule) -> int:
    """Return the gas of the worst trial."""
    return sum(line.total for line in worst_dispute(schedule) if line.move in _in_trial())


def _in_trial() -> set[str]:
    return {f"{move}, in the trial" for move in TRIAL}


def least_stake(price: int, schedule: Schedule) -> int:
    """Return the least stake, at ``price`` wei for a unit of gas: its prize covers the winner's worst dispute."""
    # The winner keeps 1 / PRIZE_DIVISOR - 1 / VERDICT_DIVISOR of the stake; rounded up to whole wei.
    after_verdict = -(
        -verdict_gas(schedule) * price * PRIZE_DIVISOR * VERDICT_DIVISOR // (VERDICT_DIVISOR - PRIZE_DIVISOR)
    )
    return max(PRIZE_DIVISOR * worst_gas(schedule) * price, after_verdict)


def schedule_of(stake_gas: int) -> Schedule:
    """Return the schedule that a deployment counts by: that whose least stake is nearest to ``stake_gas``, the units of
    gas that a stake is worth at least (`STAKE_GAS` of the Notary), as a ratio.

    NOTE: it is read from the chain and not from a deployment file, because a list of releases has no file, and a file
    could say what the contracts do not do.
    """
    return min(SCHEDULES, key=lambda one: abs(math.log(max(stake_gas, 1) / least_stake(1, one))))


def chain_price(web3: Web3) -> int:
    """Return wei for a unit of gas now. Raises RpcUnavailable, or RpcCorrupt for an absurd price."""
    with guarded("eth_gasPrice"):
        price = int(web3.eth.gas_price)
        if not 0 < price <= _MAX_PRICE:
            raise RpcCorrupt(f"eth_gasPrice gave {price} wei; a price is from 1 to {_MAX_PRICE}")
    return price
