"""Fees that transactions offer, against a real chain: replacement, and limits of the account."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from eth_account import Account

from trainer_node.chain import Call, FeeRule
from trainer_node.chain.fees import next_base_fee
from trainer_node.errors import (
    FeeTooHigh,
    InsufficientFunds,
    RpcUnavailable,
    TransactionPending,
)
from trainer_node.storage.tables import Attempt

from .outbox_bench import GWEI, OTHER, Bench, poor_with, url_of


def test_replacement_raises_the_fee(slow: Bench) -> None:
    manager = slow.manager(replace_after_s=0.05)
    transaction = manager.submit(slow.pay())
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=0.3)
    row = manager._outbox.row(transaction)
    assert len(row.attempts) == 6, "once, and five times as time passed"
    assert row.attempts[-1].max_fee >= row.attempts[0].max_fee * 1.125
    assert row.attempts[-1].priority_fee >= row.attempts[0].priority_fee * 1.125
    slow.mine()
    receipt = manager.wait(transaction)
    assert receipt.tx_hash == manager._outbox.row(transaction).attempts[-1].hash
    assert slow.chain_nonce() == 1


def test_replacement_stops_at_the_cap(slow: Bench) -> None:
    manager = slow.manager(replace_after_s=0.02, fees=FeeRule(max_fee=4 * GWEI))
    transaction = manager.submit(slow.pay())
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=0.4)
    assert all(attempt.max_fee <= 4 * GWEI for attempt in manager._outbox.row(transaction).attempts)


def test_a_fee_is_raised_up_to_the_cap(slow: Bench) -> None:
    """The cap lies between the base fee and twice the base fee."""
    manager = slow.manager(replace_after_s=0.02, fees=FeeRule(max_fee=10 * GWEI))
    transaction = manager.submit(slow.pay())
    assert manager._outbox.row(transaction).attempts[0].max_fee == 3 * GWEI
    slow.rpc("anvil_setNextBlockBaseFeePerGas", hex(8 * GWEI))
    slow.mine()
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=0.4)
    assert slow.chain_nonce() == 0, "gas was dearer than it offered"
    attempts = manager._outbox.row(transaction).attempts
    assert attempts[-1].max_fee == 10 * GWEI
    for before, after in pairwise(attempts):
        assert after.max_fee >= before.max_fee * 1.125
        assert before.priority_fee * 1.125 <= after.priority_fee <= after.max_fee
    slow.mine()
    assert manager.wait(transaction).gas_used == 21000


def test_what_a_node_forgets_is_raised_in_its_time(slow: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools drop the lowest bids when gas becomes dearer; sending one again does not delay its replacement."""
    manager = slow.manager(poll_s=0.5, replace_after_s=45.0)
    transaction = manager.submit(slow.pay())
    slow.rpc("anvil_dropTransaction", "0x" + manager._outbox.row(transaction).attempts[0].hash.hex())
    send, refused = manager._send_raw, list[bytes]()

    def choosy(attempt: Attempt) -> str | None:
        if attempt.max_fee > 3 * GWEI:
            return send(attempt)
        refused.append(attempt.hash)
        return "no room"

    monkeypatch.setattr(manager, "_send_raw", choosy)
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=44)
    assert len(refused) > 40
    assert len(manager._outbox.row(transaction).attempts) == 1
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=3)
    assert len(manager._outbox.row(transaction).attempts) == 2
    slow.mine()
    assert manager.wait(transaction).gas_used == 21000


def test_what_a_node_calls_underpriced_is_raised_at_once(
    slow: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = slow.manager(poll_s=0.5, replace_after_s=45.0)
    transaction = manager.submit(slow.pay())
    slow.rpc("anvil_dropTransaction", "0x" + manager._outbox.row(transaction).attempts[0].hash.hex())
    send = manager._send_raw
    dear = 4 * GWEI
    monkeypatch.setattr(
        manager, "_send_raw", lambda a: send(a) if a.max_fee > dear else "transaction underpriced"
    )
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=12)
    assert manager._outbox.row(transaction).attempts[-1].max_fee > dear
    slow.mine()
    manager.wait(transaction)


def test_a_replacement_that_cannot_be_paid_leaves_the_first(slow: Bench) -> None:
    """The fee rises as far as the account allows. A bid that a node refuses does not replace the last it accepted."""
    manager, contract = poor_with(slow, 15 * 10**17)
    transaction = manager.submit(Call("stake", contract, b"\1", 2 * 10**18, 10**18))
    row = manager._outbox.row(transaction)
    manager._replace_after_s, manager._poll_s = 1.0, 0.5
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=10)
    assert [a.hash for a in manager._outbox.row(transaction).attempts] == [row.attempts[0].hash]
    manager._outbox.bump(row, 900 * GWEI, 2 * GWEI)  # as if the account had been richer
    slow.rpc("anvil_dropTransaction", "0x" + row.attempts[0].hash.hex())
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=3)
    slow.mine()
    assert manager.wait(transaction).tx_hash == row.attempts[0].hash


def test_a_tip_is_not_raised_for_ever_while_no_block_comes(slow: Bench) -> None:
    manager = slow.manager(replace_after_s=1.0, poll_s=1.0)
    transaction = manager.submit(slow.pay())
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=120)
    attempts = manager._outbox.row(transaction).attempts
    assert 8 * GWEI < attempts[-1].priority_fee <= 10 * GWEI


def test_not_enough_money(bench: Bench) -> None:
    poor = Account.create()
    manager = Bench(url_of(bench.web3), poor.key.hex(), bench.folder).manager()
    with pytest.raises((InsufficientFunds, RpcUnavailable)):
        manager.send(bench.pay())
    bench.rpc("anvil_setBalance", poor.address, hex(21000 * GWEI))
    with pytest.raises(InsufficientFunds, match=poor.address):
        manager.send(Call("pay", OTHER, b"", 1))


def test_fee_above_cap(bench: Bench) -> None:
    bench.rpc("anvil_setNextBlockBaseFeePerGas", hex(500 * GWEI))
    bench.mine()
    with pytest.raises(FeeTooHigh, match="max_fee"):
        bench.manager().send(bench.pay())


def test_what_open_transactions_may_take_is_not_free(slow: Bench) -> None:
    manager = slow.manager(confirmations=1)
    have = manager.balance()
    assert manager.means.free() == have
    transaction = manager.submit(slow.pay(10**18))
    row = manager._outbox.row(transaction)
    assert manager.means.free() == have - 10**18 - row.gas_limit * row.attempts[0].max_fee
    slow.mine()
    assert manager.open() == [transaction], "it waits for confirmations"
    assert manager.means.free() == manager.balance() < have - 10**18, "and has been taken"


def test_who_has_less_than_is_wanted_sends_what_there_is(slow: Bench) -> None:
    """Twice as much would be safer, but the accepted amount suffices."""
    manager, contract = poor_with(slow, 15 * 10**17)
    transaction = manager.submit(Call("stake", contract, b"\1", 2 * 10**18, 10**18))
    row = manager._outbox.row(transaction)
    assert 149 * 10**16 < row.value < 15 * 10**17, "all but the gas"
    assert row.value + row.gas_limit * row.attempts[0].max_fee <= 15 * 10**17
    slow.mine()
    assert manager.wait(transaction).gas_used > 0
    rich = slow.manager()
    assert (
        rich._outbox.row(rich.submit(Call("stake", contract, b"\2", 2 * 10**18, 10**18))).value == 2 * 10**18
    )


def test_the_last_wei_will_do(slow: Bench) -> None:
    """If gas at twice the price cannot be paid, the most that the next block may ask for is offered."""
    manager, contract = poor_with(slow, 10**18)
    call = Call("stake", contract, b"\1", 3 * 10**18, 10**18)
    with pytest.raises(InsufficientFunds, match="gas"):
        manager.submit(call)
    probe = slow.manager()
    gas, _ = probe._reader.cost(replace(call, value=10**18), "latest")
    base = slow.web3.eth.get_block("latest")["baseFeePerGas"]
    least = gas * (next_base_fee(base) + GWEI)
    for spare in (least - 1, least):
        slow.rpc("anvil_setBalance", manager.address, hex(10**18 + spare))
        if spare < least:
            with pytest.raises(InsufficientFunds, match="gas"):
                manager.submit(call)
    transaction = manager.submit(call)
    assert manager._outbox.row(transaction).value == 10**18
    slow.mine()
    manager.wait(transaction)


def test_less_than_is_taken_is_not_tried(slow: Bench) -> None:
    manager, contract = poor_with(slow, 10**18 - 1)
    with pytest.raises(InsufficientFunds, match=r"stake needs 1 ether; .* has 0.9+ ether; send it 1 wei"):
        manager.submit(Call("stake", contract, b"\1", 3 * 10**18, 10**18))
    assert manager.open() == []
