"""Ether goes to the withdrawal address: what is above the floor, and never what a job may need."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from eth_account import Account
from eth_utils.address import to_checksum_address

from trainer_node.chain import Call, TransactionManager, connect
from trainer_node.daemon.forwarding import AGAIN_S, TRANSFER_GAS, WORTH, Forwarder
from trainer_node.daemon.helping import GasBudget
from trainer_node.daemon.job_turns import Sender
from trainer_node.daemon.loop import _forwarder
from trainer_node.errors import ConfigError
from trainer_node.settings.settings import load_settings
from trainer_node.stake.gas_patience import Market
from trainer_node.stake.reserved_ether import Reserve
from trainer_node.storage.database import Database

COLD = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
ETHER = 10**18
FEE = 10**9
LEAST = WORTH * TRANSFER_GAS * FEE


def at(now: int = 100, number: int = 10) -> Any:
    return SimpleNamespace(now=now, block=SimpleNamespace(number=number, base_fee=FEE))


@pytest.fixture
def forwarder() -> Forwarder:
    return Forwarder(COLD, ETHER, 10, lambda base_fee: Market(base_fee, 0))


def sums(forwarder: Forwarder, spare: int, snapshot: Any = None, *, known: bool = True) -> list[int]:
    return [due.call.value for due in forwarder.due(snapshot or at(), spare, known=known)]


def test_only_what_is_above_the_floor_and_worth_its_gas_goes(forwarder: Forwarder) -> None:
    assert sums(forwarder, 3 * ETHER) == [2 * ETHER]
    assert sums(forwarder, ETHER + LEAST) == [LEAST]
    assert sums(forwarder, ETHER + LEAST - 1) == []
    assert sums(forwarder, -ETHER) == [], "jobs may take more than there is"


def test_nothing_goes_while_it_is_not_known_what_jobs_may_take(forwarder: Forwarder) -> None:
    assert sums(forwarder, 3 * ETHER, known=False) == []
    assert sums(forwarder, 3 * ETHER, at(number=9)) == [], "a block of before the start"


def test_a_refusal_is_tried_again_later(forwarder: Forwarder) -> None:
    (due,) = forwarder.due(at(100), 3 * ETHER, known=True)
    due.then(None)
    assert sums(forwarder, 3 * ETHER, at(100 + AGAIN_S - 1)) == []
    assert sums(forwarder, 3 * ETHER, at(100 + AGAIN_S)) == [2 * ETHER]


def test_nothing_goes_again_before_a_look_must_show_the_last_transfer(forwarder: Forwarder) -> None:
    """A reorganisation gives the account back what it has sent, for the moment."""
    (due,) = forwarder.due(at(number=10), 3 * ETHER, known=True)
    due.then(SimpleNamespace(block=13))  # type: ignore[arg-type]
    assert sums(forwarder, 3 * ETHER, at(number=12)) == []
    assert sums(forwarder, 3 * ETHER, at(number=13)) == [2 * ETHER]


def test_settings_name_both_the_account_and_the_floor() -> None:
    with pytest.raises(ConfigError, match="withdrawal_address and keep_eth go together"):
        load_settings(withdrawal_address=COLD)
    with pytest.raises(ConfigError, match="checksum"):
        load_settings(withdrawal_address=COLD.lower(), keep_eth=1)


def test_an_account_does_not_pay_itself() -> None:
    node: Any = SimpleNamespace(
        settings=load_settings(withdrawal_address=COLD, keep_eth=1), transactions=True, address=COLD
    )
    with pytest.raises(ConfigError, match="is the daemon's own account"):
        _forwarder(node)


def test_the_chain_pays_it_and_reserves_stay(anvil: Any) -> None:
    web3, account = connect(anvil.url, anvil.chain_id), Account.from_key(anvil.keys[0])
    manager = TransactionManager(web3, account, Database(None), chain_id=anvil.chain_id, poll_s=0.01)
    reserve = Reserve(lambda: 1, list)
    reserve.staking(7, 40 * ETHER)
    sender = Sender(manager, reserve, GasBudget(Database(None), 0))
    forwarder = Forwarder(COLD, 10 * ETHER, 0, lambda base_fee: Market(base_fee, 0))
    before, had = web3.eth.get_balance(to_checksum_address(COLD)), manager.balance()
    for _ in range(2):
        for due in forwarder.due(at(), manager.means.free() - reserve.for_others(), known=True):
            assert isinstance(due.call, Call)
            sender.send(due)
    moved = web3.eth.get_balance(to_checksum_address(COLD)) - before
    assert moved == had - 50 * ETHER
    assert 50 * ETHER - manager.balance() < 10**15, "the gas of one transfer came from the floor"
