"""What strangers have waiting in the pools, and may take back before it is mined, keeps nobody from an act."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount

from trainer_node.chain import Call, TransactionManager
from trainer_node.chain import pending as pending_block
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.errors import Reverted, TransactionLost

from .outbox_bench import GWEI, ONCE, Bench, deployer

# Sets three storage slots, unless the first is set: whoever comes second takes little gas.
THRICE = bytes.fromhex("5f546013576001" + "5f55" + "6001600155" + "6001600255" + "5b00")


class Stranger:
    """An account whose call waits in the pools of a chain that mines when it is told."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._account = bench, Account.create()
        assert isinstance(self._account, LocalAccount)
        bench.rpc("anvil_setBalance", self._account.address, hex(10**18))
        self._nonce = 0

    def _send(self, to: str, data: bytes, tip: int) -> None:
        fields = {"type": 2, "chainId": 31337, "nonce": self._nonce, "to": to, "data": data, "value": 0}
        prices = {"gas": 200_000, "maxFeePerGas": 2 * tip * GWEI, "maxPriorityFeePerGas": tip * GWEI}
        self._bench.web3.eth.send_raw_transaction(
            self._account.sign_transaction({**fields, **prices}).raw_transaction
        )

    def waits(self, contract: str, data: bytes = b"") -> None:
        self._send(contract, data, 50)

    def takes_back(self) -> None:
        self._send(self._account.address, b"", 90)
        self._nonce += 1


def deployed(slow: Bench, manager: TransactionManager, runtime: bytes) -> str:
    waiting = manager.submit(Call("deploy", None, deployer(runtime)))
    slow.mine()
    contract = manager.wait(waiting).contract
    assert contract is not None
    return contract


def test_what_a_strangers_call_would_refuse_is_sent(slow: Bench) -> None:
    """The attack: for the gas of an empty transaction a block a daemon sent no refutation, no move and no vote."""
    manager, stranger = slow.manager(), Stranger(slow)
    contract = deployed(slow, manager, ONCE)
    stranger.waits(contract)
    ours = manager.submit(Call("act", contract, b""))
    stranger.takes_back()
    slow.mine()
    assert manager.wait(ours).gas_used > 40_000


def test_what_the_mined_state_refuses_is_not_sent(slow: Bench) -> None:
    manager, stranger = slow.manager(), Stranger(slow)
    contract = deployed(slow, manager, ONCE)
    stranger.waits(contract)
    slow.mine()
    with pytest.raises(Reverted):
        manager.submit(Call("act", contract, b""))
    with pytest.raises(Reverted):
        manager.simulate(Call("act", contract, b""))
    assert manager.open() == []


def test_what_our_own_call_refuses_waits_for_that_one_alone(slow: Bench) -> None:
    manager, stranger = slow.manager(), Stranger(slow)
    contract, other = deployed(slow, manager, ONCE), deployed(slow, manager, ONCE)
    mine, again = Call("act", contract, b""), Call("act", contract, b"\1")
    ours = manager.submit(mine)
    for ask in (manager.submit, manager.simulate, manager.gas_cost):
        with pytest.raises(Reverted):
            ask(again)
    # A stranger's conflicts with another act meanwhile. Once what waited of ours is mined, it counts no more.
    stranger.waits(other)
    with pytest.raises(Reverted):
        manager.submit(Call("act", other, b""))
    stranger.takes_back()
    slow.mine()
    manager.wait(ours)
    stranger.waits(other)
    manager.submit(slow.pay())
    second = manager.submit(Call("act", other, b""))
    stranger.takes_back()
    slow.mine()
    assert manager.wait(second).gas_used > 40_000


def test_gas_is_enough_if_what_waits_is_not_mined(slow: Bench) -> None:
    """The attack: a copy of an answer waited, after which ours took little; mined alone, it ran out of gas."""
    manager, stranger = slow.manager(), Stranger(slow)
    contract = deployed(slow, manager, THRICE)
    stranger.waits(contract)
    ours = manager.submit(Call("answer", contract, b""))
    stranger.takes_back()
    slow.mine()
    assert manager.wait(ours).gas_used > 80_000


def test_what_comes_after_a_call_of_ours_has_its_gas(slow: Bench) -> None:
    """On top of the latest block it would be refused."""
    manager = slow.manager()
    contract = deployed(
        slow, manager, bytes.fromhex("5f54600857" + "5f5ffd5b00")
    )  # it wants its first slot set
    with pytest.raises(Reverted):
        manager.submit(Call("act", contract, b""))
    slow.rpc("anvil_setStorageAt", contract, "0x" + "0" * 64, "0x" + "0" * 63 + "1")
    manager.submit(Call("act", contract, b""))


def test_what_was_wanted_until_a_second_that_has_passed_is_not_sent(slow: Bench) -> None:
    """The attack: a process stood still between its decision and the sending, and took a slot that was too late."""
    manager = slow.manager()
    now = int(slow.web3.eth.get_block("latest")["timestamp"])
    with pytest.raises(TransactionLost, match=f"until {now - 1}, and it is {now}"):
        manager.submit(replace(slow.pay(), until=now - 1))
    with pytest.raises(TransactionLost, match=f"it is {now}"):
        manager.submit(replace(slow.pay(), until=now))
    assert manager.open() == []
    assert slow.web3.eth.get_transaction_count(slow.address, "pending") == 0
    assert manager.submit(replace(slow.pay(), until=now + 1)) in manager.open()


def test_a_price_that_is_asked_before_makes_nothing_wait_again(slow: Bench) -> None:
    """The attack: who moves for others asks for a price first. What was sent in between counted as what waits."""
    manager, stranger = slow.manager(), Stranger(slow)
    contract = deployed(slow, manager, ONCE)
    act = Call("act", contract, b"")
    stranger.waits(contract)
    first = manager.submit(slow.pay())
    with pytest.raises(Reverted):
        manager.gas_cost(act)
    stranger.takes_back()
    slow.mine()
    manager.wait(first)
    stranger.waits(contract)
    manager.submit(slow.pay(2))
    assert manager.gas_cost(act) > 0
    ours = manager.submit(act)
    stranger.takes_back()
    slow.mine()
    assert manager.wait(ours).gas_used > 40_000


def test_ours_that_are_mined_and_not_shown_do_not_wait(slow: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """For hours, while an endpoint indexes."""
    manager, stranger = slow.manager(), Stranger(slow)
    contract = deployed(slow, manager, ONCE)
    hidden = manager.submit(slow.pay())
    slow.mine()
    monkeypatch.setattr(manager._reader, "_receipt", lambda *_: None)
    stranger.waits(contract)
    assert manager.open() == [hidden]
    assert manager.submit(Call("act", contract, b"")) > hidden


@pytest.mark.parametrize("words", ["too many arguments, want at most 1", "invalid params"])
def test_estimates_that_take_one_argument_will_do(
    slow: Bench, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    endpoint = endpoints_of(slow.web3).serving
    ask = endpoint._repeated

    def one(method: str, params: Any) -> Any:
        if method == "eth_estimateGas" and len(params) > 1:
            return {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": words}}
        return ask(method, params)

    monkeypatch.setattr(endpoint, "_repeated", one)
    manager = slow.manager()
    ours = manager.submit(slow.pay())
    slow.mine()
    assert manager.wait(ours).gas_used == 21_000


def test_refusals_that_are_remembered_are_few(slow: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_block, "_KEPT", 4)
    manager = slow.manager()
    contract = deployed(slow, manager, ONCE)
    manager.submit(Call("act", contract, b""))
    for number in range(1, 9):
        with pytest.raises(Reverted):
            manager.simulate(Call("act", contract, bytes([number])))
    assert len(manager.means._pending._waited) <= 5
