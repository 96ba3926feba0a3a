"""A job is left to others if not all that strangers may request in it at once could be answered in time."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from referee_py.availability.state import Piece
from referee_py.params import LOG_SECONDS, MAX_OPEN, RECORD_SECONDS
from referee_py.rounding import Rounding
from trainer_node.run.cost_estimate import MARGIN, CostEstimate
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.stake.deadlines import too_slow
from trainer_node.stake.flood import LEAST_BATCH

from ..desk import TERMS, job, rules

ESTIMATE = CostEstimate(1.0, 1.0, NO_TRIAL)
LOGGED = replace(TERMS, mode=Rounding(32).mode)
BLOCK_S = 12.5
"""Seconds of a block of the main chain, and until it is seen."""


def test_a_match_and_a_flood_at_once_fit_twice_into_the_verdict_period() -> None:
    long = replace(TERMS, steps=1000, strides=(60, 10, 1))
    needed = math.ceil(MARGIN * (ESTIMATE.match_s(long) + ESTIMATE.answer_s(long)))
    roomy = rules(10**6)
    assert too_slow(job(program=long, rules=replace(roomy, verdict_period=needed)), ESTIMATE) is None
    reason = too_slow(job(program=long, rules=replace(roomy, verdict_period=needed - 1)), ESTIMATE)
    assert reason is not None
    for told in (
        f"verdict period has {needed - 1} s",
        f"{needed} s",
        "124 s of that for what may be requested",
    ):
        assert told in str(reason)


@pytest.mark.parametrize(
    ("terms", "slowest"),
    [
        (TERMS, MAX_OPEN * RECORD_SECONDS / (MARGIN * -(-MAX_OPEN // LEAST_BATCH))),
        (LOGGED, 1 / (MARGIN * (1 / LOG_SECONDS + 1 / (LEAST_BATCH * RECORD_SECONDS)))),
    ],
    ids=["records and leaves", "logs, too"],
)
def test_the_pieces_of_a_flood_must_be_sent_in_the_seconds_that_the_protocol_gives(
    terms: object, slowest: float
) -> None:
    given = job(program=terms, rules=rules(10**6))
    assert slowest > BLOCK_S, "the main chain is quick enough"
    assert too_slow(given, ESTIMATE, mined_s=slowest - 0.1) is None
    reason = too_slow(given, ESTIMATE, mined_s=slowest + 0.1)
    assert reason is not None
    assert f"{MAX_OPEN} pieces" in str(reason)
    assert "block_s" in str(reason)


def test_logs_that_are_read_more_slowly_than_a_page_each_minute_are_left_to_others() -> None:
    """Each page may be of another step."""
    given = job(program=LOGGED, rules=replace(rules(10**6), verdict_period=10**6, appeal_period=10**6))
    assert too_slow(given, CostEstimate(1.0, LOG_SECONDS / MARGIN, NO_TRIAL)) is None
    reason = too_slow(given, CostEstimate(1.0, LOG_SECONDS / MARGIN + 1, NO_TRIAL))
    assert reason is not None
    assert "512 pages of logs" in str(reason)


def test_a_transaction_takes_seven_of_the_longest_records() -> None:
    """As docs/protocol.md reckons with, section 8."""
    assert LEAST_BATCH == 7
    assert Piece.RECORD.of_logs is False
