"""The least stake: its tables match measurements, its counts the protocol, and the prize pays the winner."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import pytest
from repops.opset import MAX_STEPS
from web3 import Web3

from referee_py.game.state import Reveal, Timeout
from referee_py.gas_schedule import AMSTERDAM, OSAKA, SCHEDULES, Counts, Schedule
from referee_py.params import PRIZE_DIVISOR, VERDICT_DIVISOR
from referee_py.program.terms import Terms
from referee_py.trial import Stage, TrialState, places
from scripts.gas_schedules import transactions
from trainer_node.chain import connect
from trainer_node.chain.codec.job import MAX_STRIDES
from trainer_node.chain.outbox import Call
from trainer_node.errors import RpcCorrupt
from trainer_node.run.package import MAX_RUN_LEAVES
from trainer_node.stake import min_stake
from trainer_node.stake.min_stake import (
    GAME,
    Measured,
    chain_price,
    least_stake,
    match_moves,
    schedule_of,
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


def counted(move: str) -> Counts:
    """Return what a move was counted to leave behind, by Worst.t.sol or Slots.t.sol."""
    names = [f.name for f in fields(Counts)]
    wire = {"calldata": "bytes"}
    return Counts.of({name: measured("counts", f"{move} | {wire.get(name, name)}") for name in names})


def of_job(move: str) -> Counts:
    """Return the same of a move of the whole job in Slots.t.sol."""
    (found,) = [counts for name, (counts, _) in transactions().items() if name[3:] == move]
    return found


def test_the_table_is_what_moves_were_measured_to_cost() -> None:
    dispute = measured("worst", "submit") - measured("match", "submit")
    found = {
        "commitChallenge": measured("jobs", "commitChallenge"),
        "challenge": measured("jobs", "challenge and open a match"),
        "reveal": measured("worst", "reveal"),
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
    assert set(found) == set(GAME)
    for move, gas in found.items():
        assert gas <= GAME[move].gas <= SPARE * gas, (move, gas)


def test_the_table_has_the_words_and_bytes_that_moves_were_counted_to_leave() -> None:
    appeal, submit = of_job("appeal"), counted("submit")
    longer = submit.calldata - of_job("submit").calldata
    found = {
        **{
            move: counted(move)
            for move in ("commitChallenge", "challenge", "reveal", "refine", "openRecord", "submit")
        },
        "descend": counted("descend 4 levels to a checkpoint"),
        "appeal": replace(appeal, calldata=appeal.calldata + longer),
        "proceed": of_job("proceed: two bonds are taken"),
        "finalize": of_job("finalize"),
        "collect": of_job("collect"),
        "withdraw": of_job("withdraw, from Jobs").most(of_job("withdraw, from the Panel")),
    }
    assert set(found) == set(GAME)
    for move, counts in found.items():
        table = GAME[move].counts
        assert replace(table, calldata=0) == replace(counts, calldata=0), (move, counts)
        assert counts.calldata <= table.calldata <= SPARE * counts.calldata, (move, counts)


def test_no_other_conclusion_is_dearer() -> None:
    after = sum(GAME[move].gas for move in ("submit", "appeal", "proceed"))
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


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_prize_of_the_least_stake_pays_for_the_worst_dispute(schedule: Schedule) -> None:
    price = 7 * 10**9
    assert least_stake(price, schedule) // PRIZE_DIVISOR >= worst_gas(schedule) * price
    assert worst_gas(schedule) == sum(line.times * line.gas for line in worst_dispute(schedule))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_prize_pays_for_a_dispute_that_a_verdict_ends(schedule: Schedule) -> None:
    """Then the winner also gets the verifiers' share, but it has not played a trial."""
    price = 7 * 10**9
    stake = least_stake(price, schedule)
    lines = worst_dispute(schedule)
    assert stake // PRIZE_DIVISOR - stake // VERDICT_DIVISOR >= min_stake.verdict_gas(schedule) * price
    later = sum(line.total for line in lines if line.move.endswith("in the trial") or line.move == "appeal")
    assert min_stake.verdict_gas(schedule) == worst_gas(schedule) - later


def test_where_trials_are_cheap_the_verdict_sets_the_stake(monkeypatch: pytest.MonkeyPatch) -> None:
    # NOTE: such tables are another dispute, so they get a schedule of their own.
    other = replace(OSAKA, name="where trials are cheap")
    monkeypatch.setattr(min_stake, "TRIAL", dict.fromkeys(min_stake.TRIAL, Measured(1, Counts())))
    monkeypatch.setitem(GAME, "appeal", Measured(1, Counts()))
    for price in (1, 7, 10**9 + 7):
        stake = least_stake(price, other)
        assert stake // PRIZE_DIVISOR - stake // VERDICT_DIVISOR >= min_stake.verdict_gas(other) * price
        assert stake > PRIZE_DIVISOR * worst_gas(other) * price


def test_a_deployment_states_its_schedule_by_its_least_stake() -> None:
    for schedule in SCHEDULES:
        for factor in (0.95, 1, 1.05):
            assert schedule_of(int(factor * least_stake(1, schedule))) is schedule
    assert worst_gas(AMSTERDAM) > worst_gas(OSAKA)
    # What tests and private chains deploy: stakes worth nothing, or more than any dispute costs.
    assert (schedule_of(0), schedule_of(1), schedule_of(10**12)) == (OSAKA, OSAKA, AMSTERDAM)


def test_a_price_that_no_chain_asks_is_refused() -> None:
    endpoint = Endpoint()
    try:
        web3 = connect(endpoint.url, 31337, sleep=lambda _: None)
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
    town = Town(anvil.url, anvil.keys[:4], tmp_path, stake=least_stake(price, OSAKA))
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
    assert gained < 10**18 + least_stake(price, OSAKA) // PRIZE_DIVISOR


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
