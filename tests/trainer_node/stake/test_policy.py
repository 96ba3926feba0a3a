"""Jobs that the operator does not want, and gas for other parties."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing

from trainer_node.chain import Call
from trainer_node.daemon.due import Due
from trainer_node.daemon.helping import GasBudget, max_gas_loss
from trainer_node.daemon.loop import Sender
from trainer_node.errors import ConfigError, Reverted
from trainer_node.settings.sections import Policy
from trainer_node.settings.settings import Mode, load_settings
from trainer_node.stake.policy import crowded, underpaid, unwanted
from trainer_node.stake.reserved_ether import Reserve
from trainer_node.storage.database import Database

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


def test_help_costs_nothing_unless_it_is_the_purpose_or_is_asked_for() -> None:
    assert max_gas_loss(load_settings(mode=Mode.CHALLENGE)) == 0
    assert max_gas_loss(load_settings(mode=Mode.DEFEND)) is None
    assert max_gas_loss(load_settings(mode=Mode.DEFEND, policy={"max_gas_loss_eth": 0.5})) == ETHER // 2


# ------------------------------------------------------------------ gas for others


class Account:
    """Sends everything: 100 units of gas at a price of 7 wei; an estimate expects 800 wei."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def gas_cost(self, call: Call) -> int:
        if call.action == "refused":
            raise Reverted("refused", "Late", {}, b"")
        return 800

    def send(self, call: Call, *, timeout_s: float) -> Any:
        assert timeout_s > 0
        self.sent.append(call.action)
        return SimpleNamespace(gas_used=100, gas_price=7)


def helping(limit: int | None, database: Database | None = None) -> tuple[Account, Sender]:
    account: Any = Account()
    budget = GasBudget(database or Database(None), limit)
    return account, Sender(account, Reserve(lambda: 1, lambda: False), budget)


def due(action: str, **how: Any) -> Due:
    return Due(Call(action, OURS, b""), **how)


def test_help_ends_where_the_budget_of_the_job_does() -> None:
    account, sender = helping(2300)
    with structlog.testing.capture_logs() as logs:
        for move in ("first", "second", "third", "fourth"):
            sender.send(due(move, helps=1))
    assert account.sent == ["first", "second", "third"], "700 each, of which the third was estimated at 800"
    refused = [line for line in logs if line["event"] == "gas.not_paid"]
    assert len(refused) == 1
    for word in ("800 wei", "2100 wei", "max_gas_loss_eth allows 2300"):
        assert word in refused[0]["reason"]
    sender.send(due("another job", helps=2))
    sender.send(due("ours"))
    assert account.sent[3:] == ["another job", "ours"]


def test_a_restart_grants_no_new_budget() -> None:
    database = Database(None)
    for _ in range(3):
        account, sender = helping(1000, database)
        sender.send(due("move", helps=1))
    assert account.sent == []


def test_without_a_budget_nothing_is_estimated_or_sent() -> None:
    account, sender = helping(0)
    sender.send(due("refused", helps=1))
    sender.send(due("move", helps=1))
    assert account.sent == []


def test_what_somebody_else_has_done_already_is_no_error() -> None:
    account, sender = helping(None)
    sender.send(due("refused", helps=1, dispute=True))
    sender.send(due("move", helps=1))
    assert account.sent == ["move"]
