"""The cost of a job, now and later; and jobs on which no node should stake because of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from referee_py.gas_schedule import AMSTERDAM, OSAKA
from trainer_node.chain import ClaimView, Group, JobPhase, JobView, Trainer
from trainer_node.chain.fees import GWEI, next_base_fee
from trainer_node.stake import min_stake
from trainer_node.stake.funds import kept, kept_to_watch, offer, quarrel, too_poor, top_up, trial_wei, unpaid
from trainer_node.stake.policy import too_dear

from ..desk import job, rules

ME, OTHER = "0x" + "aa" * 20, "0x" + "bb" * 20
RIGHT, WRONG = b"\x01" * 32, b"\x02" * 32


def claimed(followers: int = 0, **changes: Any) -> JobView:
    """Return a job in which another party has claimed the wrong root, and so many challengers behind it."""
    claims = tuple(ClaimView(k, OTHER, 1, 0, k == 0, False, False, "") for k in range(1 + followers))
    group = Group(0, WRONG, bytes(32), 0, 0, 0, 0, tuple(range(1 + followers)))
    return job(**{"phase": JobPhase.CHALLENGE, "claims": claims, "groups": (group,), **changes})


@pytest.mark.parametrize(
    ("stake", "most", "dear"), [(1, 0, False), (1, 1, False), (2, 0, False), (2, 1, True)]
)
def test_no_more_is_staked_than_is_allowed(stake: int, most: int, dear: bool) -> None:
    """Zero is no limit. The choice of verifiers does not matter: the court has the last word."""
    assert (too_dear(stake, most) is not None) == dear


@pytest.mark.parametrize(
    ("founded", "followers", "root", "want"),
    [
        (0, 0, RIGHT, 1250),
        (11, 0, RIGHT, 1999),  # 1,687 and a quarter suffices for a second claim of the root
        (15, 0, RIGHT, 1999),
        (16, 0, RIGHT, 2500),
        (16, 1, RIGHT, 2500),
        (0, 0, WRONG, 2000),
        (16, 3, WRONG, 16_000),
    ],
)
def test_a_new_root_is_claimed_for_a_little_more_than_its_price(
    founded: int, followers: int, root: bytes, want: int
) -> None:
    situation = claimed(followers, stake=1000, founded=founded)
    assert offer(situation, root).wanted == want


def test_a_root_that_nobody_has_claimed_is_priced_as_one_whatever_is_claimed() -> None:
    """Where a run has one interval its root can be any, also zeros: claims of that one would make all others dear."""
    situation = claimed(3, stake=1000)
    zeros = replace(situation.groups[-1], root=bytes(32))
    situation = replace(situation, groups=(*situation.groups[:-1], zeros))
    assert offer(situation, bytes(32)).wanted == 16_000
    assert offer(situation, None).wanted == 1250


def test_a_claimed_root_takes_twice_as_much_with_each_challenger_that_has_claimed_it() -> None:
    """Whoever founded it, and however many slot holders share it: claims of another root do not count."""
    sharing = [
        ClaimView(0, OTHER, 1, 0, True, False, False, ""),
        ClaimView(1, OTHER, 1, 0, True, False, False, ""),
    ]
    others = [ClaimView(k, OTHER, 1, 1, False, False, False, "") for k in range(2, 6)]
    groups = (
        Group(0, RIGHT, bytes(32), 0, 0, 0, 0, (0, 1)),
        Group(1, WRONG, bytes(32), 0, 0, 0, 0, (2, 3, 4, 5)),
    )
    situation = job(phase=JobPhase.CHALLENGE, stake=1000, claims=(*sharing, *others), groups=groups)
    assert (situation.followers_of(RIGHT), situation.price_of(RIGHT)) == (0, 2000)
    assert (situation.followers_of(WRONG), situation.price_of(WRONG)) == (3, 16_000)


def test_what_a_watcher_keeps_pays_for_a_root_that_was_given_away() -> None:
    """However many claims are behind the lie that has won, `RACED` stakes are enough."""
    claims = tuple(ClaimView(k, OTHER, 1, min(k, 1), k == 0, k == 0, False, "") for k in range(8))
    groups = (
        Group(0, RIGHT, bytes(32), 0, 1, 1, 0, (0,)),
        Group(1, WRONG, bytes(32), 0, 0, 0, 0, tuple(range(1, 8))),
    )
    situation = offered(phase=JobPhase.CHALLENGE, claims=claims, groups=groups)
    dear = replace(situation, base_fee=DEAR)
    assert dear.price_of(RIGHT) <= kept_to_watch(situation, DEAR) - quarrel(situation, DEAR)


def test_each_stake_in_a_job_keeps_what_its_dispute_may_take() -> None:
    """A claim and two refutations may be disputed side by side; what is lost keeps nothing."""
    claims = tuple(ClaimView(k, ME, 1, k, False, k == 3, False, "") for k in range(4))
    groups = tuple(
        Group(k, bytes([k]) * 32, bytes(32), 0, int(k == 3), 0, 0, (k,), None if k == 0 else 0)
        for k in range(4)
    )
    situation = job(phase=JobPhase.CHALLENGE, claims=claims, groups=groups)
    one = quarrel(situation, DEAR)
    assert kept(situation, ME, DEAR) == 3 * one
    assert kept(situation, ME, DEAR, more=2) == 5 * one
    assert kept(situation, OTHER, DEAR) == kept(situation, OTHER, DEAR, more=1) == one


STAKE_GAS = min_stake.least_stake(1, OSAKA)
TERMS: dict[str, Any] = {
    "low_fee": 20 * GWEI,
    "high_fee": 400 * GWEI,
    "watch_period": 0,
    "base_fee": 30 * GWEI,
    "stake_gas": STAKE_GAS,
}
DEAR = 1000 * GWEI


def offered(**changes: Any) -> JobView:
    return job(**{**TERMS, **changes})


def test_a_stake_that_follows_what_gas_costs_is_taken() -> None:
    assert unpaid(offered(), 0, DEAR) is None
    assert unpaid(offered(base_fee=200 * GWEI), 0, DEAR) is None, (
        "twice as much is just what the bound allows"
    )


def test_a_bound_below_what_gas_costs_is_refused_with_its_numbers() -> None:
    reason = unpaid(offered(high_fee=40 * GWEI), 0, DEAR)
    assert reason is not None
    for number in ("high_fee is 40 gwei", "at 60 gwei", str(60 * GWEI * min_stake.worst_gas(OSAKA))):
        assert number in str(reason)
    assert str(40 * GWEI * min_stake.worst_gas(OSAKA)) in str(reason), "what the prize pays"


def test_a_large_stake_pays_for_disputes_and_not_for_answers() -> None:
    """Requests are paid at the price that gas counts for, whatever the stake."""
    reason = unpaid(offered(high_fee=40 * GWEI, stake=100 * STAKE_GAS * 60 * GWEI), 0, DEAR)
    assert reason is not None
    assert "a response costs more than it earns" in str(reason)
    assert unpaid(offered(stake=21 * GWEI * STAKE_GAS), 21 * GWEI, DEAR) is not None


def test_what_we_never_pay_is_not_asked_of_a_job() -> None:
    assert unpaid(offered(high_fee=40 * GWEI), 0, 40 * GWEI) is None
    assert unpaid(offered(), 1000 * GWEI, 20 * GWEI) is None


def test_what_we_expect_the_lower_bound_must_pay() -> None:
    """A claim made while gas is cheap stakes by the lower bound, and gas may be dear in the dispute."""
    assert unpaid(offered(), 20 * GWEI, DEAR) is None
    reason = unpaid(offered(), 21 * GWEI, DEAR)
    assert reason is not None
    assert "low_fee is 20 gwei" in str(reason)
    assert "expected_fee_gwei" in str(reason)


# ---------------------------------------------------------------------- what is sent


@pytest.mark.parametrize("base", [0, 1, 7, 8, 9, 30 * GWEI])
def test_as_much_as_the_next_block_may_take_will_do(base: int) -> None:
    """EIP-1559: the base fee rises by at most an eighth, and at least by 1."""
    assert next_base_fee(base) >= base + max(base // 8, 1)
    situation = offered(base_fee=base, stake=0, low_fee=0)
    sent = situation.stake_sent
    assert situation.stake_now <= sent.least == situation.stake_at(next_base_fee(base))
    assert sent.wanted == situation.stake_at(2 * base)


def slot_of(taken: int, *, revealed: bool = False) -> tuple[Trainer, ...]:
    return (Trainer(ME, revealed, taken, b"\7" * 32),)


def test_a_reveal_brings_what_a_slot_has_risen_by() -> None:
    taken = STAKE_GAS * 50 * GWEI
    sent = top_up(offered(trainers=slot_of(taken)), ME)
    assert sent.wanted == STAKE_GAS * 120 * GWEI - taken
    assert sent.least == STAKE_GAS * 2 * next_base_fee(30 * GWEI) - taken
    assert top_up(offered(trainers=slot_of(STAKE_GAS * 400 * GWEI)), ME) == (0, 0)


def test_of_a_claim_no_less_is_sent_than_it_takes() -> None:
    for founded in (0, 15, 16):
        situation = offered(founded=founded, phase=JobPhase.CHALLENGE)
        sent = offer(situation, RIGHT)
        assert situation.price_of(RIGHT) <= sent.least <= sent.wanted


# ---------------------------------------------------------------------- what is kept


def test_a_slot_keeps_what_the_reveal_and_a_dispute_may_take() -> None:
    """Gas may rise to our cap; from the reveal on nothing more is kept for the slot."""
    taken, dear = STAKE_GAS * 60 * GWEI, 100 * GWEI
    bond, gas = STAKE_GAS * 200 * GWEI, min_stake.worst_gas(OSAKA) * dear
    situation = offered(trainers=slot_of(taken))
    assert quarrel(situation, dear) == 2 * bond + gas
    assert kept(situation, ME, dear) == 2 * bond + gas + bond - taken
    assert kept(replace(situation, trainers=slot_of(bond, revealed=True)), ME, dear) == 2 * bond + gas
    assert kept(situation, OTHER, dear) == 2 * bond + gas + bond - taken, "of who is about to join"
    assert kept(replace(situation, phase=JobPhase.CHALLENGE), OTHER, dear) == 2 * bond + gas, (
        "of a challenger"
    )
    assert kept(replace(situation, rules=rules(threshold=0)), ME, dear) == gas + bond - taken


def test_no_more_gas_is_kept_than_the_prize_pays_for() -> None:
    assert quarrel(offered(rules=rules(threshold=0)), DEAR) == min_stake.worst_gas(OSAKA) * 400 * GWEI


def test_what_is_kept_follows_the_schedule_by_which_the_deployment_counts() -> None:
    """There half of a stake still pays for the worst dispute, and the account keeps its gas."""
    stake_gas = min_stake.least_stake(1, AMSTERDAM)
    there = offered(rules=rules(threshold=0), stake_gas=stake_gas)
    gas = min_stake.worst_gas(AMSTERDAM) * 100 * GWEI
    assert quarrel(there, 100 * GWEI) == gas > 1.4 * quarrel(offered(rules=rules(threshold=0)), 100 * GWEI)
    assert gas <= there.stake_at(100 * GWEI) // 2
    assert trial_wei(there, 100 * GWEI) == min_stake.trial_gas(AMSTERDAM) * 100 * GWEI
    assert unpaid(there, 0, DEAR) is None
    refused = unpaid(offered(high_fee=40 * GWEI, stake_gas=stake_gas), 0, DEAR)
    assert str(60 * GWEI * min_stake.worst_gas(AMSTERDAM)) in str(refused)


def test_a_watcher_keeps_what_a_claim_after_fifteen_others_takes() -> None:
    situation = offered(phase=JobPhase.CHALLENGE, founded=15)
    dear = situation.stake_at(DEAR)
    last = replace(situation, base_fee=DEAR).price_of(RIGHT)
    assert dear < last <= kept_to_watch(situation, DEAR) - quarrel(situation, DEAR)


@pytest.mark.parametrize(("spare", "poor"), [(14, True), (15, False)])
def test_who_cannot_go_through_with_it_does_not_stake(spare: int, poor: bool) -> None:
    reason = too_poor(10, 5, spare)
    assert (reason is not None) == poor
    if reason is not None:
        assert all(words in str(reason) for words in ("10 wei", "5 wei", "14 wei", "fees.max_fee_gwei"))
