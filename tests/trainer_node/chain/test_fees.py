"""Gas fees that are offered, and their replacements: rules of the network, and limits of the account."""

from __future__ import annotations

import pytest

from trainer_node.chain.fees import GWEI, LEAST_BUMP, MOST_TIPS, FeeRule, Offered, next_base_fee
from trainer_node.errors import FeeTooHigh

POLICY = FeeRule(max_fee=100 * GWEI, priority_fee=GWEI)
GAS = 21_000


def test_at_first_the_base_fee_may_double() -> None:
    assert POLICY.first(10 * GWEI, GAS, 10**18) == Offered(21 * GWEI, GWEI)
    assert POLICY.first(60 * GWEI, GAS, 10**18) == Offered(100 * GWEI, GWEI), "up to the cap"
    assert POLICY.first(99 * GWEI, GAS, 10**18) == Offered(100 * GWEI, GWEI)
    with pytest.raises(FeeTooHigh):
        POLICY.first(99 * GWEI + 1, GAS, 10**18)


def test_who_has_less_offers_what_the_next_block_takes() -> None:
    least = next_base_fee(8 * GWEI) + GWEI
    assert POLICY.first(8 * GWEI, GAS, GAS * least) == Offered(least, GWEI)
    assert POLICY.first(8 * GWEI, GAS, GAS * least - 1) is None


@pytest.mark.parametrize("tip", [0, 1, GWEI])
@pytest.mark.parametrize("base", [0, 1, GWEI, 90 * GWEI])
def test_a_replacement_is_one_that_the_network_takes(tip: int, base: int) -> None:
    """It is offered if both fees rise by at least an eighth and the tip rises at all; else it is not."""
    policy = FeeRule(max_fee=100 * GWEI, priority_fee=tip)
    offered: Offered | None = Offered(3 * GWEI, tip)
    for _ in range(200):
        assert offered is not None
        raised = policy.raised(offered, base, policy.max_fee)
        if raised is None:
            break
        assert raised.max_fee >= offered.max_fee * LEAST_BUMP
        assert raised.priority_fee >= offered.priority_fee * LEAST_BUMP
        assert offered.priority_fee < raised.priority_fee <= raised.max_fee <= policy.max_fee
        offered = raised
    else:
        raise AssertionError("it never ends")
    if base < GWEI:
        assert offered.priority_fee <= MOST_TIPS * max(tip, GWEI // 10), "the base fee was no hindrance"
    else:
        assert offered.max_fee > base


def test_no_more_is_offered_than_can_be_paid() -> None:
    old = Offered(10 * GWEI, GWEI)
    assert POLICY.raised(old, 50 * GWEI, 12 * GWEI) == Offered(12 * GWEI, int(GWEI * LEAST_BUMP) + 1)
    assert POLICY.raised(old, 50 * GWEI, 11 * GWEI) is None, "no replacement by the network's rule"
    assert POLICY.raised(old, 50 * GWEI, 0) is None
