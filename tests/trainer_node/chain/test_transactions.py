"""The transaction manager against a real chain: reverts, nonces, restarts."""

from __future__ import annotations

import threading

import pytest
from eth_abi.abi import encode
from eth_account import Account
from sqlalchemy import select
from web3 import Web3

from trainer_node.chain import Call, connect
from trainer_node.errors import (
    Reverted,
    RpcUnavailable,
    TransactionFailed,
    TransactionLost,
    TransactionPending,
    WrongChain,
)
from trainer_node.observe.metrics import Metrics
from trainer_node.storage.database import Database
from trainer_node.storage.tables import Transaction

from .outbox_bench import GWEI, ONCE, OTHER, REVERTER, Bench, Clock, custom_error, deployer


def gas_by_action(bench: Bench) -> dict[str, tuple[int, int]]:
    """Return by action the number of mined transactions (reverted ones too), and their total gas."""
    found: dict[str, tuple[int, int]] = {}
    with Database(bench.folder / "node.sqlite3").session() as session:
        for row in session.scalars(select(Transaction).where(Transaction.gas_used.is_not(None))):
            count, gas = found.get(row.action, (0, 0))
            found[row.action] = count + 1, gas + (row.gas_used or 0)
    return found


def test_send_and_account_for_gas(bench: Bench) -> None:
    metrics = Metrics()
    manager = bench.manager(metrics=metrics)
    receipt = manager.send(bench.pay(5))
    assert receipt.gas_used == 21000
    assert bench.web3.eth.get_balance(OTHER) == 5
    manager.send(bench.pay())
    assert gas_by_action(bench) == {"pay": (2, 42000)}
    assert metrics.registry.get_sample_value("assay_gas_used_total", {"action": "pay"}) == 42000
    assert manager.open() == []


def test_deploy_and_decode_reverts(bench: Bench) -> None:
    manager = bench.manager()
    contract = manager.send(Call("deploy", None, deployer(REVERTER))).contract
    nonce = bench.chain_nonce()
    with pytest.raises(Reverted, match=r"Late\(matchId=7, mask=2\)") as caught:
        manager.send(Call("move", contract, custom_error(7, 2)))
    assert caught.value.name == "Late"
    assert caught.value.values == {"matchId": 7, "mask": 2}
    message = bytes.fromhex("08c379a0") + encode(["string"], ["no"])
    with pytest.raises(Reverted, match=r"Error\(message=no\)"):
        manager.send(Call("move", contract, message))
    panic = bytes.fromhex("4e487b71") + encode(["uint256"], [0x11])
    with pytest.raises(Reverted, match="overflow"):
        manager.send(Call("move", contract, panic))
    with pytest.raises(Reverted, match="unknown"):
        manager.send(Call("move", contract, b"\xde\xad\xbe\xef"))
    with pytest.raises(Reverted, match="Late"):
        manager.send(Call("move", contract, custom_error(7, 2)[:20]))
    assert bench.chain_nonce() == nonce, "what is refused in simulation costs nothing"


def test_failed_transaction_is_typed(slow: Bench) -> None:
    """Another account is faster: the simulation passed, the transaction reverts."""
    manager = slow.manager()
    waiting = manager.submit(Call("deploy", None, deployer(ONCE)))
    slow.mine()
    contract = manager.wait(waiting).contract
    second_key = Account.create()
    slow.rpc("anvil_setBalance", second_key.address, hex(10**18))
    late = manager.submit(Call("late", contract, b""))
    early = second_key.sign_transaction(
        {
            "type": 2,
            "chainId": 31337,
            "nonce": 0,
            "to": contract,
            "data": b"",
            "value": 0,
            "gas": 60000,
            "maxFeePerGas": 100 * GWEI,
            "maxPriorityFeePerGas": 50 * GWEI,
        }
    )
    slow.web3.eth.send_raw_transaction(early.raw_transaction)
    slow.mine()
    with pytest.raises(TransactionFailed) as caught:
        manager.wait(late)
    assert caught.value.gas_used > 0
    assert manager.open() == []


def test_many_in_flight_have_distinct_nonces(slow: Bench) -> None:
    manager = slow.manager()
    ids = [manager.submit(slow.pay()) for _ in range(5)]
    slow.mine()
    for transaction in ids:
        manager.wait(transaction)
    assert slow.chain_nonce() == 5


def test_threads_do_not_share_nonces(bench: Bench) -> None:
    manager = bench.manager()
    threads = [threading.Thread(target=lambda: manager.send(bench.pay())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bench.chain_nonce() == 8


def test_restart_finds_what_was_sent(slow: Bench) -> None:
    transaction = slow.manager().submit(slow.pay())
    second = slow.manager()
    assert second.recover() == [transaction]
    slow.mine()
    assert second.wait(transaction).gas_used == 21000
    assert slow.manager().recover() == []


def test_restart_confirms_what_was_mined_meanwhile(slow: Bench) -> None:
    slow.manager().submit(slow.pay())
    slow.mine()
    manager = slow.manager()
    assert manager.recover() == []
    assert gas_by_action(slow) == {"pay": (1, 21000)}


def test_crash_between_signing_and_sending(slow: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction is only in the outbox: its nonce is a gap until the restarted process sends it."""
    crashing = slow.manager()

    def die(_row: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(crashing, "_broadcast", die)
    with pytest.raises(KeyboardInterrupt):
        crashing.submit(slow.pay())
    manager = slow.manager()
    later = manager.submit(slow.pay())
    assert manager._outbox.row(later).nonce == 1
    slow.mine()
    assert slow.chain_nonce() == 0, "the gap holds everything up"
    manager.recover()
    slow.mine()
    manager.wait(later)
    assert slow.chain_nonce() == 2


def test_waiting_fills_a_gap_before_it(slow: Bench) -> None:
    manager = slow.manager()
    dropped = manager.submit(slow.pay())
    later = manager.submit(slow.pay())
    slow.rpc("anvil_dropTransaction", "0x" + manager._outbox.row(dropped).attempts[-1].hash.hex())
    with pytest.raises(TransactionPending):
        manager.wait(later, timeout_s=0.1)
    slow.mine()
    manager.wait(later)
    assert slow.chain_nonce() == 2


def test_nonce_used_by_somebody_else(slow: Bench) -> None:
    manager = slow.manager()
    transaction = manager.submit(slow.pay())
    foreign = Account.from_key(slow.key).sign_transaction(
        {
            "type": 2,
            "chainId": 31337,
            "nonce": 0,
            "to": OTHER,
            "value": 9,
            "gas": 21000,
            "maxFeePerGas": 100 * GWEI,
            "maxPriorityFeePerGas": 50 * GWEI,
        }
    )
    slow.web3.eth.send_raw_transaction(foreign.raw_transaction)
    slow.mine()
    with pytest.raises(TransactionLost, match="no other program"):
        manager.wait(transaction)
    assert manager.open() == []
    following = manager.submit(slow.pay())
    slow.mine()
    manager.wait(following)


def test_a_process_that_is_told_to_stop_does_not_wait_long(
    slow: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_node.chain.transactions._STOP_GRACE_S", 0.05)
    stop, clock = threading.Event(), Clock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.now >= 1:
            stop.set()

    manager = slow.manager(stop=stop, clock=clock, sleep=sleep)
    transaction = manager.submit(slow.pay())
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=100)
    assert 1 <= clock.now < 1.1
    assert slow.manager().recover() == [transaction]


def test_confirmations_are_waited_for(slow: Bench) -> None:
    manager = slow.manager(confirmations=2)
    transaction = manager.submit(slow.pay())
    slow.mine()
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=0.1)
    slow.mine()
    slow.mine()
    assert manager.wait(transaction).block == 1


def test_outage_is_typed() -> None:
    with pytest.raises(RpcUnavailable):
        connect("http://127.0.0.1:9", 31337)


def test_wrong_chain(anvil) -> None:
    with pytest.raises(WrongChain, match="31337"):
        connect(anvil.url, 1)
    assert isinstance(connect(anvil.url, 31337), Web3)


def test_what_is_open_is_not_sent_again(slow: Bench) -> None:
    """A round stops waiting for it after a minute; the next round decides the same."""
    waiting = slow.manager().submit(Call("deploy", None, deployer(REVERTER)))
    slow.mine()
    contract = slow.manager().wait(waiting).contract
    manager = slow.manager()
    first = manager.submit(Call("move", contract, b""))
    slow.rpc("anvil_setCode", contract, "0x00")  # accepts anything, including data
    moved = manager.submit(Call("move", contract, b"\1"))
    assert manager.submit(Call("the same by another name", contract, b"\1", 0)) == moved
    assert manager.submit(Call("move", contract, b"\2")) != moved
    assert manager.submit(Call("pay", contract, b"")) != first, "two payments are two"
    assert len(manager.open()) == 4
    slow.mine()
    manager.wait(moved)
    again = manager.submit(Call("move", contract, b"\1"))
    assert again != moved, "once it is mined it may be meant anew"
    slow.mine()
    manager.wait(again)


def test_a_transaction_that_a_reorganisation_takes_back_is_sent_again_as_it_was(bench: Bench) -> None:
    """Nonce and fees are those of before, and so is its hash."""
    manager = bench.manager()
    before = bench.rpc("evm_snapshot")
    first = manager.send(bench.pay())
    assert bench.rpc("evm_revert", before) is True
    again = manager.send(bench.pay())
    assert (again.tx_hash, manager.open()) == (first.tx_hash, [])
    assert bench.chain_nonce() == 1
