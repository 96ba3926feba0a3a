"""The least stake: its tables match measurements, its counts the protocol, and the prize pays the winner."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import pytest
from repops.opset import MAX_STEPS
from web3 import Web3

from referee_py.game.state import Reveal, Timeout
from referee_py.params import PRIZE_DIVISOR, VERDICT_DIVISOR
from referee_py.program.terms import Terms
from referee_py.trial import Stage, TrialState, places
from trainer_node.chain import connect
from trainer_node.chain.codec.job import MAX_STRIDES
from trainer_node.chain.outbox import Call
from trainer_node.errors import RpcCorrupt
from trainer_node.run.package import MAX_RUN_LEAVES
from trainer_node.stake import min_stake
from trainer_node.stake.min_stake import (
    GAME_GAS,
    chain_price,
    least_stake,
    match_moves,
    worst_dispute,
    worst_gas,
)

from ..chain.endpoint import Endpoint, result
from ..chain.test_client import RUN, Town

SNAPSHOTS = Path(__file__).parents[2] / "contracts/snapshots"
SPARE = 1.15
"""Factor by which the table may exceed the measurement: contracts change by a few units of gas."""


def measured(group: str, move: str) -> int:
    return int(json.loads((SNAPSHOTS / f"{group}.json").read_text())[move])


def test_the_table_is_what_moves_were_measured_to_cost() -> None:
    dispute = measured("worst", "submit") - measured("match", "submit")
    found = {
        "commitChallenge": measured("jobs", "commitChallenge"),
        "challenge": measured("jobs", "challenge and open a match"),
        "reveal": measured("match", "reveal 16 children"),
        "descend": measured("worst", "descend 4 levels to a checkpoint"),
        "refine": measured("worst", "refine"),
        "openRecord": measured("worst", "openRecord"),
        "submit": measured("worst", "submit"),
        # An appeal shows, and the court reports, what was submitted.
        "appeal": measured("panel", "appeal") + dispute,
        "proceed": measured("panel", "proceed, two bonds taken"),
        "finalize": measured("jobs", "finalize"),
        "collect": measured("jobs", "collect, a slot"),
        "withdraw": measured("jobs", "withdraw"),
    }
    assert set(found) == set(GAME_GAS)
    for move, gas in found.items():
        assert gas <= GAME_GAS[move] <= SPARE * gas, (move, gas)


def test_no_other_conclusion_is_dearer() -> None:
    after = GAME_GAS["submit"] + GAME_GAS["appeal"] + GAME_GAS["proceed"]
    assert max(measured("worst", "judgeStructure"), measured("worst", "judgeInput")) < after


@cache
def rounds_of(height: int, trees: int) -> int:
    """Return the most rounds in this many run trees with this total height."""
    if not trees or not height:
        return 0
    highest = (MAX_RUN_LEAVES - 1).bit_length()
    return max(
        -(-own // 4) + rounds_of(height - own, trees - 1) for own in range(1, min(height, highest) + 1)
    )


def test_the_counts_are_the_protocols() -> None:
    # Each tree may be one level higher than its part of the 48 bits of a step number.
    assert rounds_of(48 + MAX_STRIDES, MAX_STRIDES) == min_stake.RUN_ROUNDS
    assert min_stake.STEP_ROUNDS == 6
    state = TrialState(("", ""), Stage.POST, 0, (0, 0), 0, state_bytes=204)
    left, rounds = MAX_STEPS, 0
    while left > 1:
        at = [0, *places(replace(state, hi=left, steps=left))]
        left, rounds = max(b - a for a, b in pairwise(at)), rounds + 1
    assert rounds == min_stake.CHAIN_ROUNDS


def test_the_prize_of_the_least_stake_pays_for_the_worst_dispute() -> None:
    price = 7 * 10**9
    assert least_stake(price) // PRIZE_DIVISOR >= worst_gas() * price
    assert worst_gas() == sum(line.times * line.gas for line in worst_dispute())


def test_the_prize_pays_for_a_dispute_that_a_verdict_ends() -> None:
    """Then the winner also gets the verifiers' share, but it has not played a trial."""
    price = 7 * 10**9
    stake = least_stake(price)
    assert stake // PRIZE_DIVISOR - stake // VERDICT_DIVISOR >= min_stake.verdict_gas() * price
    trial = sum(line.total for line in worst_dispute() if line.move.endswith("in the trial"))
    assert min_stake.verdict_gas() == worst_gas() - trial - min_stake.GAME_GAS["appeal"]


def test_where_trials_are_cheap_the_verdict_sets_the_stake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(min_stake, "TRIAL_GAS", dict.fromkeys(min_stake.TRIAL_GAS, 1))
    monkeypatch.setitem(min_stake.GAME_GAS, "appeal", 1)
    for price in (1, 7, 10**9 + 7):
        stake = least_stake(price)
        assert stake // PRIZE_DIVISOR - stake // VERDICT_DIVISOR >= min_stake.verdict_gas() * price
        assert stake > PRIZE_DIVISOR * worst_gas() * price


def test_a_price_that_no_chain_asks_is_refused() -> None:
    endpoint = Endpoint()
    try:
        web3 = endpoint.client().web3
        for answer in ("0x0", "0x" + "f" * 40, "high", None):
            endpoint.answer = partial(lambda answer, request: (200, result(request, answer)), answer)
            with pytest.raises(RpcCorrupt):
                chain_price(web3)
        endpoint.answer = lambda request: (200, result(request, "0x3b9aca00"))
        assert chain_price(web3) == 10**9
    finally:
        endpoint.close()


def test_who_wins_against_one_who_withholds_ends_with_more(anvil, tmp_path: Path) -> None:
    """On a chain whose least stake follows from its price, all payments of the winner are less than its prize."""
    price = chain_price(connect(anvil.url, 31337))
    town = Town(anvil.url, anvil.keys[:4], tmp_path, stake=least_stake(price))
    before = town.web3.eth.get_balance(Web3.to_checksum_address(town.people[1].address))
    job_id = town.post()
    town.claim_two(job_id)
    one = town.people[1]
    town.play(job_id, one, [Reveal(0, tuple(RUN.leaves))])
    town.rpc("evm_increaseTime", 200)
    town.rpc("evm_mine")
    town.play(job_id, one, [Timeout()])
    town.rpc("evm_increaseTime", 1000)
    town.rpc("evm_mine")
    one.send(Call.of(town.contracts.jobs, "finalize", job_id))
    claim = town.client.snapshot().job(job_id).claim_of(one.address)
    assert claim is not None
    one.send(Call.of(town.contracts.jobs, "collect", job_id, claim.index))
    one.send(Call.of(town.contracts.jobs, "withdraw"))
    gained = town.web3.eth.get_balance(Web3.to_checksum_address(one.address)) - before
    assert gained > 10**18, "the reward, and the prize pays for all gas"
    assert gained < 10**18 + least_stake(price) // PRIZE_DIVISOR


@pytest.mark.parametrize(
    ("steps", "strides", "nodes", "rounds"),
    [
        (1, (1,), 1, 0),
        (10, (4, 2, 1), 5, 1 + 1 + 1 + 1),
        (1 << 20, (1 << 16, 1 << 8, 1), 300, 1 + 2 + 2 + 3),
        (100, (1 << 40, 1), 2, 0 + 2 + 1),
    ],
)
def test_a_side_publishes_and_concludes_in_every_round_of_the_walk(
    steps: int, strides: tuple[int, ...], nodes: int, rounds: int
) -> None:
    """Four generations a round; in addition it refines each level, opens the record and submits."""
    root = bytes(32)
    terms = Terms(1, 1, nodes, 1, 1, steps, root, root, root, root, strides)
    assert match_moves(terms) == 2 * rounds + len(strides) + 2
