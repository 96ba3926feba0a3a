"""Prices under two schedules of gas: the rule, the files that it makes, and what a job may cost."""

from __future__ import annotations

import pytest

from scripts import gas_schedules
from trainer_node.stake.gas_schedule import AMSTERDAM, OSAKA, SCHEDULES, Counts


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


def test_counts_add_up() -> None:
    job = gas_schedules.transactions()
    whole = sum((counts for counts, _ in job.values()), Counts())
    assert whole.new == sum(counts.new for counts, _ in job.values())
    for schedule in SCHEDULES:
        priced = gas_schedules.priced()[schedule.name]
        assert priced["the whole job"] == sum(gas for name, gas in priced.items() if name != "the whole job")
