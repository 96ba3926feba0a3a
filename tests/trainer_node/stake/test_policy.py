"""Jobs that the operator does not want."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_node.errors import ConfigError
from trainer_node.settings.sections import Policy
from trainer_node.settings.settings import load_settings
from trainer_node.stake.policy import crowded, underpaid, unwanted

from ..desk import TERMS, job

OURS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
OTHER = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
ETHER = 10**18


def test_all_jobs_are_wanted_unless_a_list_says_otherwise() -> None:
    assert unwanted(job(client=OTHER), Policy()) is None
    assert unwanted(job(client=OURS.lower()), Policy(clients=(OURS,))) is None
    assert unwanted(job(), Policy(programs=("0x" + TERMS.hash().hex(),))) is None


def test_a_refusal_names_the_value_the_limit_and_the_setting() -> None:
    reasons = [
        (unwanted(job(client=OTHER), Policy(clients=(OURS,))), [OTHER, OURS, "policy.clients"]),
        (
            unwanted(job(), Policy(programs=("ab" * 32,))),
            [TERMS.hash().hex(), "ab" * 32, "policy.programs"],
        ),
        (
            underpaid(job(reward=3 * ETHER, slots=2), Policy(min_reward_eth=1.6)),
            [str(3 * ETHER // 2), str(int(1.6 * ETHER)), "policy.min_reward_eth"],
        ),
        (crowded(job(9), {1, 2, 9}, Policy(max_open_jobs=2)), ["2 jobs", "allows 2", "policy.max_open_jobs"]),
    ]
    for reason, words in reasons:
        assert reason is not None
        for word in words:
            assert word in str(reason)


def test_what_is_just_enough_is_taken() -> None:
    assert underpaid(job(reward=3 * ETHER, slots=2), Policy(min_reward_eth=1.5)) is None
    assert crowded(job(9), {1, 2, 9}, Policy(max_open_jobs=3)) is None
    assert crowded(job(2), {1, 2}, Policy(max_open_jobs=2)) is None, "the job itself is one of them already"
    assert crowded(job(9), set(range(100)), Policy()) is None


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"clients": ["0x12"]}, "checksum"),
        ({"clients": [OURS.lower()]}, "checksum"),
        ({"programs": ["AB" * 32]}, "64 lower-case"),
        ({"min_reward_eth": -1}, "greater than or equal"),
        ({"max_gas_loss_eth": float("inf")}, "finite"),
        ({"least_reward": 1}, "not a setting"),
    ],
)
def test_wrong_settings_are_refused(policy: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_settings(policy=policy)
