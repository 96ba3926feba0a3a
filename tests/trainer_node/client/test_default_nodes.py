"""What a client is told before it posts a job is what nodes with default settings answer to it then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from referee_py.program.terms import Terms
from referee_py.rounding import Rounding
from tests.trainer_node.desk import TERMS
from tests.trainer_node.stake.test_occupation import STAKE_GAS, lie, settings
from trainer_node.chain import JobView
from trainer_node.chain.fees import ETHER, GWEI
from trainer_node.client.default_nodes import CHECKS, Answer, Market, answers, as_posted
from trainer_node.client.posting import LOCAL, PUBLIC, Offer, default_periods
from trainer_node.roles.acceptance import never
from trainer_node.run.cost_estimate import CostEstimate
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.stake.deterrence import Useless
from trainer_node.stake.funds import Unpaid
from trainer_node.stake.judge import first
from trainer_node.stake.occupation import TooCheap, TooMuchKept

MARKET = Market(base_fee=GWEI // 2, stake_gas=STAKE_GAS, commit_age=48)
USUAL = Offer(
    reward=ETHER // 100,
    stake=ETHER // 10,
    low_fee=GWEI,
    high_fee=25 * GWEI,
    challenge_period=PUBLIC.challenge,
    clock=PUBLIC.clock,
    verdict_period=PUBLIC.verdict,
    appeal_period=PUBLIC.appeal,
    verifiers=("0x",),
)
LONG = replace(TERMS, steps=1000, strides=(100, 10, 1))


def told(
    offer: Offer = USUAL, terms: Terms = TERMS, market: Market = MARKET, **own: Any
) -> dict[str, Answer]:
    return {answer.check: answer for answer in answers(offer, terms, market, settings(**own))}


def kinds(*given: Any, **own: Any) -> list[list[type]]:
    return [[type(reason) for reason in answer.reasons] for answer in told(*given, **own).values()]


def takes(job: JobView, check: str, estimate: CostEstimate) -> bool:
    return first(never(job, settings(check=check), estimate, MARKET.commit_age)) is None


def test_a_job_posted_as_by_default_is_taken_by_both() -> None:
    assert default_periods(1) == PUBLIC
    assert default_periods(1337) == LOCAL
    assert kinds() == [[], []]
    assert not told(chain_id=1337), "nobody asks for a price there"


@pytest.mark.parametrize("terms", [LONG, replace(LONG, mode=Rounding(32).mode)], ids=["repops", "rounded"])
@pytest.mark.parametrize("check", CHECKS)
def test_up_to_the_seconds_that_are_told_nodes_take_the_job(check: str, terms: Terms) -> None:
    """Answers under a checkpoint, logs and commitments are in them."""
    job, most_s = as_posted(USUAL, terms, MARKET), told(terms=terms)[check].most_s
    assert 0 < most_s < 5
    all_of = CostEstimate(0.99 * most_s, 0.99 * most_s, replace(NO_TRIAL, seconds=0.99 * most_s))
    assert takes(job, check, all_of)
    assert takes(job, check, replace(all_of, step_s=most_s / 3))
    more = 1.01 * most_s
    assert not takes(job, check, CostEstimate(more, more, replace(NO_TRIAL, seconds=more), right_s=more))


def test_where_gas_is_dearer_than_the_terms_count_it_both_leave_the_job() -> None:
    assert kinds(USUAL, TERMS, replace(MARKET, base_fee=12 * GWEI)) == [[], []]
    assert kinds(USUAL, TERMS, replace(MARKET, base_fee=13 * GWEI)) == [[Unpaid], [Unpaid]]


def test_a_reward_that_a_sample_does_not_protect_is_told() -> None:
    assert kinds(replace(USUAL, reward=ETHER)) == [[], [Useless]]
    assert kinds(replace(USUAL, reward=ETHER, stake=4 * ETHER)) == [[], []]


def test_short_periods_and_a_wide_range_of_fees_are_told() -> None:
    assert kinds(replace(USUAL, clock=7200)) == [[TooCheap], [TooCheap]]
    assert kinds(replace(USUAL, stake=0, high_fee=100 * GWEI)) == [[TooMuchKept], [TooMuchKept]]


@pytest.mark.parametrize(
    "own",
    [
        {"finality": "safe"},
        {"finality": "finalized"},
        {"confirmations": 100},
        {"policy": {"node_price_eth": 0}, "fees": {"max_fee_gwei": 1}},
        {"limits": {"max_period_s": 60}, "max_stake_eth": 0.001, "samplers": 9},
    ],
    ids=str,
)
def test_the_client_s_own_choices_do_not_change_what_others_answer(own: dict[str, Any]) -> None:
    assert told(**own) == told()
    assert kinds(replace(USUAL, clock=7200), **own) == [[TooCheap], [TooCheap]]


def test_the_job_is_asked_about_as_nodes_see_it() -> None:
    job = as_posted(USUAL, TERMS, MARKET)
    seen = lie(stake=ETHER // 10, reward=ETHER // 100)
    for of in (job, seen):
        assert (of.stake_at(0), of.rules.clock, of.rules.has_verifiers) == (ETHER // 10, PUBLIC.clock, True)
