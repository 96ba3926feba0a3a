"""Prices under two schedules of gas: the rule, the files that it makes, and what a job may cost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from referee_py.gas_schedule import AMSTERDAM, OSAKA, SCHEDULES, Counts, Schedule, dearest, schedule_like
from referee_py.params import ANSWER_GAS, BYTE_GAS, MAX_REQUEST_PLACES, STEP
from referee_py.program.playable import MAX_GAS
from scripts import gas_schedules
from trainer_node.stake.funds import WATCH


def test_the_files_are_up_to_date() -> None:
    for path, text in gas_schedules.files().items():
        assert path.read_text() == text, f"{path}: run python -m scripts.gas_schedules"


def test_osaka_costs_what_was_measured() -> None:
    counts = Counts(new=3, overwritten=2, cleared=1, accounts=1, code=700, calldata=5_000, value=1)
    assert OSAKA.gas(1_000_000, counts) == 1_000_000


@pytest.mark.parametrize(
    ("counts", "more"),
    [
        (Counts(value=1), 0),
        (Counts(), -6_000),
        (Counts(new=1, value=1), 87_920),
        (Counts(overwritten=1, value=1), 7_100),
        (Counts(cleared=1, value=1), 284),
        (Counts(accounts=1, code=100, value=1), 163_600 + 133_000),
    ],
)
def test_amsterdam_adds_the_difference_of_each_price(counts: Counts, more: int) -> None:
    assert AMSTERDAM.gas(500_000, counts) == 500_000 + more


def test_calldata_costs_its_floor_at_least() -> None:
    counts = Counts(calldata=10_000)
    assert AMSTERDAM.gas(100_000, counts) == 15_000 + 640_000
    assert AMSTERDAM.gas(700_000, counts) == 694_000


def test_the_dearest_schedule_sets_a_bound() -> None:
    assert dearest(100_000, Counts(new=1)) == 100_000 + 87_920 - 6_000
    assert dearest(100_000, Counts()) == 100_000, "Osaka takes more of a transaction that writes nothing"


def test_a_measured_price_is_that_of_a_schedule_or_of_none() -> None:
    assert schedule_like(22_106) is OSAKA
    assert schedule_like(1.015 * AMSTERDAM.new) is AMSTERDAM
    assert (schedule_like(50_000), schedule_like(20), schedule_like(10**6)) == (None, None, None)


def test_counts_add_up() -> None:
    job = gas_schedules.transactions()
    whole = sum((counts for counts, _ in job.values()), Counts())
    assert whole.new == sum(counts.new for counts, _ in job.values())
    for schedule in SCHEDULES:
        priced = gas_schedules.priced()[schedule.name]
        assert priced["the whole job"] == sum(gas for name, gas in priced.items() if name != "the whole job")


# ---------------------------------------------------------------------- requests


def requests() -> dict[str, int]:
    found = json.loads((gas_schedules.COUNTED.parent / "Requests.json").read_text())
    return {name: int(value) for name, value in found.items()}


def counted(move: str) -> Counts:
    """Return what a move was counted to leave behind, by RequestGas.t.sol."""
    rows = json.loads((gas_schedules.COUNTED.parent / "counts.json").read_text())
    found = {key.split(" | ")[1]: int(value) for key, value in rows.items() if key.split(" | ")[0] == move}
    return Counts.of(found | {"calldata": found["bytes"]})


ANSWERS = [f"answer {number}" for number in range(16)]
LONGEST = ["digests", "blocks", "record", "leaf"]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_costs_less_than_it_is_paid(answer: str, schedule: Schedule) -> None:
    counts = counted(answer)
    # NOTE: the first answer of an account in a deployment writes the word of its credits, once.
    assert counts.new == (answer == ANSWERS[0])
    counts = replace(counts, new=0, overwritten=counts.overwritten + counts.new)
    assert schedule.gas(requests()[answer], counts) < requests()[f"{answer}, paid"]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", LONGEST)
def test_the_longest_answers_cost_less_than_they_are_paid(name: str, schedule: Schedule) -> None:
    most = Counts()
    for answer in ANSWERS[1:]:
        most = most.most(replace(counted(answer), calldata=0))
    counts = replace(most, cleared=0, calldata=requests()[f"longest {name}, bytes"])
    assert schedule.gas(requests()[f"longest {name}"], counts) < requests()[f"longest {name}, paid"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_a_node_requests_at_once_fits_into_a_transaction(schedule: Schedule) -> None:
    """A node requests `STEP` places at most, and the contract takes no more than fit."""
    assert (STEP, MAX_REQUEST_PLACES) == (64, 96)
    for places in STEP, MAX_REQUEST_PLACES:
        counts = counted(f"request of {places} places")
        assert counts.new >= places
        assert schedule.gas(requests()[f"request of {places} places"], counts) <= MAX_GAS


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_a_batch_of_answers_is_taken_to_cost_is_a_bound(schedule: Schedule) -> None:
    """A node fills a transaction by what answers are paid (`data_responses`): each for itself costs less."""
    for answer in ANSWERS:
        counts = counted(answer)
        assert counts.overwritten + counts.new <= 5
        assert (
            schedule.gas(requests()[answer], counts) <= ANSWER_GAS + schedule.new + BYTE_GAS * counts.calldata
        )


# ---------------------------------------------------------------------- watching


def test_what_a_watcher_sends_is_in_the_table() -> None:
    moves = "watch", "show", "collect of a watcher", "withdraw of a watcher"
    whole = sum((counted(move) for move in moves), Counts())
    assert replace(whole, calldata=0) == WATCH.counts
