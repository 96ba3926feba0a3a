"""Help for other parties: what it may cost, and what is sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import structlog.testing

from trainer_node.chain import Call
from trainer_node.daemon.due import Due
from trainer_node.daemon.helping import GasBudget, max_gas_loss
from trainer_node.daemon.job_turns import Sender
from trainer_node.errors import Reverted
from trainer_node.settings.extent import Mode
from trainer_node.settings.settings import load_settings
from trainer_node.stake.reserved_ether import Reserve
from trainer_node.storage.database import Database

OURS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
ETHER = 10**18


def test_help_costs_nothing_unless_it_is_the_purpose_or_is_asked_for() -> None:
    assert max_gas_loss(load_settings(mode=Mode.CHALLENGE)) == 0
    assert max_gas_loss(load_settings(mode=Mode.DEFEND)) is None
    assert max_gas_loss(load_settings(mode=Mode.DEFEND, policy={"max_gas_loss_eth": 0.5})) == ETHER // 2


class Account:
    """Sends everything: 100 units of gas at a price of 7 wei; an estimate expects 800 wei."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def gas_cost(self, call: Call) -> int:
        if call.action == "refused":
            raise Reverted("refused", "Late", {}, b"")
        return 800

    def submit(self, call: Call) -> int:
        self.sent.append(call.action)
        return len(self.sent)

    def wait_all(self, numbers: list[int], *, timeout_s: float) -> Any:
        assert timeout_s > 0
        return {number: SimpleNamespace(gas_used=100, gas_price=7) for number in numbers}


def helping(limit: int | None, database: Database | None = None) -> tuple[Account, Sender]:
    account: Any = Account()
    budget = GasBudget(database or Database(None), limit)
    return account, Sender(account, Reserve(lambda: 1, list), budget)


def due(action: str, **how: Any) -> Due:
    return Due(Call(action, OURS, b""), **how)


def test_help_ends_where_the_budget_of_the_job_does() -> None:
    account, sender = helping(2300)
    with structlog.testing.capture_logs() as logs:
        for move in ("first", "second", "third", "fourth"):
            sender.send(due(move, helps=1))
            sender.finish()
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
