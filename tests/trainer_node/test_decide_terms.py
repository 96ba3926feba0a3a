"""Jobs whose terms do not pay a dispute, or hold what is at stake for too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from referee_py.panel.state import Rules
from trainer_node import bonds
from trainer_node.chain import Job
from trainer_node.chain.transactions import GWEI
from trainer_node.decide import too_long, unpaid

from .desk import job

STAKE_GAS = bonds.least_stake(1)
TERMS: dict[str, Any] = {
    "low_fee": 20 * GWEI,
    "high_fee": 400 * GWEI,
    "watch_period": 0,
    "base_fee": 30 * GWEI,
    "stake_gas": STAKE_GAS,
}
DEAR = 1000 * GWEI


def offered(**changes: Any) -> Job:
    return job(**{**TERMS, **changes})


def test_a_stake_that_follows_what_gas_costs_is_taken() -> None:
    assert unpaid(offered(), 0, DEAR) is None
    assert unpaid(offered(base_fee=200 * GWEI), 0, DEAR) is None, (
        "twice as much is just what the bound allows"
    )


def test_a_bound_below_what_gas_costs_is_refused_with_its_numbers() -> None:
    reason = unpaid(offered(high_fee=40 * GWEI), 0, DEAR)
    assert reason is not None
    for number in ("high_fee is 40 gwei", "at 60 gwei", str(60 * GWEI * bonds.worst_gas())):
        assert number in reason
    assert str(40 * GWEI * bonds.worst_gas()) in reason, "what the prize pays"


def test_a_large_stake_needs_no_bound() -> None:
    assert unpaid(offered(high_fee=40 * GWEI, stake=STAKE_GAS * 60 * GWEI), 0, DEAR) is None
    assert unpaid(offered(high_fee=40 * GWEI, stake=STAKE_GAS * 60 * GWEI - 1), 0, DEAR) is not None


def test_what_we_never_pay_is_not_asked_of_a_job() -> None:
    assert unpaid(offered(high_fee=40 * GWEI), 0, 40 * GWEI) is None
    assert unpaid(offered(), 1000 * GWEI, 20 * GWEI) is None


def test_what_we_expect_the_lower_bound_must_pay() -> None:
    """Whoever claims when gas is cheap stakes what the lower bound asks for, and gas may be dear in the dispute."""
    assert unpaid(offered(), 20 * GWEI, DEAR) is None
    reason = unpaid(offered(), 21 * GWEI, DEAR)
    assert reason is not None
    assert "low_fee is 20 gwei" in reason
    assert "expected_fee_gwei" in reason
    assert unpaid(offered(stake=21 * GWEI * STAKE_GAS), 21 * GWEI, DEAR) is None


LONG = 1000
RULES = Rules(1, LONG, LONG, LONG)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"train_period": LONG + 1}, "training period has 1001 s"),
        ({"watch_period": LONG + 1}, "watch period has 1001 s"),
        ({"reveal_period": LONG + 1}, "reveal period has 1001 s"),
        ({"challenge_period": LONG + 1}, "challenge period has 1001 s"),
        ({"rules": replace(RULES, verdict_period=LONG + 1)}, "verdict period has 1001 s"),
        ({"rules": replace(RULES, appeal_period=LONG + 1)}, "appeal period has 1001 s"),
        ({"rules": replace(RULES, clock=LONG + 1)}, "clock has 1001 s"),
    ],
)
def test_a_period_that_is_too_long_is_named(changes: dict[str, Any], name: str) -> None:
    assert too_long(offered(rules=RULES), LONG) is None
    reason = too_long(offered(**{"rules": RULES, **changes}), LONG)
    assert reason is not None
    assert name in reason
    assert "max_period_s allows 1000" in reason
