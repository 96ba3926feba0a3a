"""Conditions of a pledge under which an honest challenge could fail, though the contract takes them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from assay_serve.pledge_job import Chain, job_lacks, needed, terms_of
from assay_serve.pledges import Conditions
from referee_py.jobs import Rules
from trainer_node.chain.fees import ETHER, GWEI
from trainer_node.client.default_nodes import Market
from trainer_node.client.posting import PUBLIC
from trainer_node.settings.settings import Settings

from . import tiny

STAKE_GAS = 46_000_000
CHAIN = Chain(Market(GWEI, STAKE_GAS, 48), STAKE_GAS * GWEI, GWEI)
USUAL = Conditions(
    signer=tiny.ACCOUNT.address,
    forfeit=STAKE_GAS * GWEI // 2,
    charge=STAKE_GAS * GWEI // 32,
    notice=7 * 86_400,
    stake=STAKE_GAS * GWEI,
    low_fee=GWEI,
    high_fee=25 * GWEI,
    train_period=3600,
    reveal_period=PUBLIC.reveal,
    challenge_period=PUBLIC.challenge,
    rules=Rules(0, PUBLIC.verdict, PUBLIC.appeal, PUBLIC.clock),
)


def node_of(**values: Any) -> Settings:
    return Settings(**values)


def found(run_s: float = 0.0, settings: dict[str, Any] | None = None, **other: Any) -> list[str]:
    node = node_of(chain_id=1, **settings or {})
    return job_lacks(dataclasses.replace(USUAL, **other), terms_of(1000), CHAIN, node, run_s)


def test_the_usual_conditions_lack_nothing() -> None:
    assert found() == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"train_period": 600}, "training period has 600 s"),
        ({"reveal_period": 600}, "reveal period has 600 s"),
        ({"challenge_period": 3600}, "challenge period has 3600 s"),
        ({"rules": Rules(0, PUBLIC.verdict, PUBLIC.appeal, 60)}, "clock has 60 s"),
        ({"rules": Rules(0, PUBLIC.verdict - 1, PUBLIC.appeal, PUBLIC.clock)}, "verdict period has"),
        ({"rules": Rules(0, PUBLIC.verdict, 60, PUBLIC.clock)}, "appeal period has 60 s"),
        ({"challenge_period": 300 * 86_400}, "limits.max_period_s"),
        ({"stake": 5 * STAKE_GAS * 2 * GWEI}, "its job takes stakes of"),
        ({"low_fee": 1000 * GWEI, "high_fee": 1000 * GWEI}, "its job takes stakes of 46 ether"),
        ({"high_fee": 24 * GWEI}, "where gas is dearer"),
        ({"forfeit": 2 * 899_999 * GWEI}, "more than half a forfeit"),
    ],
)
def test_what_the_owner_may_choose_and_a_challenger_cannot_bear_is_named(
    other: dict[str, Any], said: str
) -> None:
    assert any(said in line for line in found(**other)), found(**other)


def test_the_challengers_own_node_is_asked() -> None:
    assert any("max_stake_eth" in line for line in found(settings={"max_stake_eth": 0.01}))
    assert found(settings={"policy": {"clients": [tiny.ACCOUNT.address]}}) == []
    assert any("your node may take" in line for line in found(run_s=3000))
    assert found(run_s=60) == []


def test_what_a_challengers_account_has_covers_stake_and_dispute() -> None:
    """The attack: forfeit and stake are beyond what a challenger can pay, so that nobody claims in the job."""
    node = node_of(chain_id=1)
    least = needed(USUAL, terms_of(1000), CHAIN, node)
    assert least > USUAL.stake
    rich = dataclasses.replace(USUAL, forfeit=100 * ETHER, stake=200 * ETHER)
    assert job_lacks(rich, terms_of(1000), CHAIN, node) == []
    assert needed(rich, terms_of(1000), CHAIN, node) > 200 * ETHER


def test_on_a_development_chain_periods_may_be_short() -> None:
    short = dataclasses.replace(USUAL, challenge_period=600, stake=ETHER)
    assert job_lacks(short, terms_of(1000), CHAIN, node_of(chain_id=31337)) != []  # its stake, still
    assert (
        job_lacks(
            dataclasses.replace(short, stake=USUAL.stake), terms_of(1000), CHAIN, node_of(chain_id=31337)
        )
        == []
    )
