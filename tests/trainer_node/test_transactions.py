"""The transaction manager against a real chain: reverts, nonces, replacement, restarts."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from eth_abi import encode
from eth_account import Account
from eth_utils.crypto import keccak
from web3 import Web3

from trainer_node.chain import Call, FeePolicy, TransactionManager, connect
from trainer_node.chain.contracts import ErrorDecoder
from trainer_node.chain.fees import next_base_fee
from trainer_node.db import Attempt, Database
from trainer_node.errors import (
    FeeTooHigh,
    InsufficientFunds,
    Reverted,
    RpcUnavailable,
    TransactionFailed,
    TransactionLost,
    TransactionPending,
    WrongChain,
)
from trainer_node.metrics import Metrics

GWEI = 10**9
OTHER = "0x000000000000000000000000000000000000dEaD"

# Init code that leaves this program: revert with the calldata as it is, if there is any; else stop.
#   CALLDATASIZE PUSH1 5 JUMPI STOP JUMPDEST | CALLDATASIZE PUSH0 PUSH0 CALLDATACOPY CALLDATASIZE PUSH0 REVERT
REVERTER = bytes.fromhex("36600557005b365f5f37365ffd")
# Reverts while storage slot 0 is set, and sets it: the second of two such calls in one block fails.
ONCE = bytes.fromhex("5f54600a5760015f55005b5f5ffd")

ABI = [
    {
        "type": "error",
        "name": "Late",
        "inputs": [{"name": "matchId", "type": "uint256"}, {"name": "mask", "type": "uint8"}],
    }
]


def deployer(runtime: bytes) -> bytes:
    """Init code that returns the program that follows it."""
    return bytes([0x60, len(runtime), 0x60, 0x0B, 0x5F, 0x39, 0x60, len(runtime), 0x5F, 0xF3, 0x00]) + runtime


def custom_error(match_id: int, mask: int) -> bytes:
    return keccak(b"Late(uint256,uint8)")[:4] + encode(["uint256", "uint8"], [match_id, mask])


class Clock:
    """Time passes when somebody sleeps, however long it takes to look at the chain."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Bench:
    """A chain, a key and an outbox on disk; `manager()` is a process that starts on them."""

    def __init__(self, url: str, key: str, folder: Path) -> None:
        self.web3 = connect(url, 31337)
        self.key = key
        self.folder = folder
        self.address = Account.from_key(key).address

    def manager(self, **options: object) -> TransactionManager:
        clock = Clock()
        settings: dict = {
            "poll_s": 0.02,
            "decode": ErrorDecoder(ABI),
            "chain_id": 31337,
            "clock": clock,
            "sleep": clock.sleep,
            **options,
        }
        account = Account.from_key(self.key)
        return TransactionManager(self.web3, account, Database(self.folder / "node.sqlite3"), **settings)

    def rpc(self, method: str, *params: object) -> object:
        return self.web3.provider.make_request(method, list(params)).get("result")

    def mine(self) -> None:
        self.rpc("evm_mine")

    def pay(self, value: int = 1) -> Call:
        return Call("pay", OTHER, b"", value)

    def chain_nonce(self) -> int:
        return self.web3.eth.get_transaction_count(self.address)


@pytest.fixture
def bench(anvil, tmp_path: Path) -> Bench:
    return Bench(anvil.url, anvil.keys[0], tmp_path)


@pytest.fixture
def slow(start_anvil, tmp_path: Path) -> Bench:
    """A chain that mines only when told."""
    chain = start_anvil("--no-mining")
    return Bench(chain.url, chain.keys[0], tmp_path)


def test_send_and_account_for_gas(bench: Bench) -> None:
    metrics = Metrics()
    manager = bench.manager(metrics=metrics)
    receipt = manager.send(bench.pay(5))
    assert receipt.gas_used == 21000
    assert bench.web3.eth.get_balance(OTHER) == 5
    manager.send(bench.pay())
    assert Database(bench.folder / "node.sqlite3").gas_by_action() == {"pay": (2, 42000)}
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
    """Somebody is faster: the simulation passed, the transaction reverts."""
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
    manager = slow.manager(replace_after_s=0.02, fees=FeePolicy(max_fee=4 * GWEI))
    transaction = manager.submit(slow.pay())
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=0.4)
    assert all(attempt.max_fee <= 4 * GWEI for attempt in manager._outbox.row(transaction).attempts)


def test_restart_finds_what_was_sent(slow: Bench) -> None:
    transaction = slow.manager().submit(slow.pay())
    second = slow.manager()
    assert second.recover() == [transaction]
    slow.mine()
    assert second.wait(transaction).gas_used == 21000
    assert slow.manager().recover() == []


def test_restart_settles_what_was_mined_meanwhile(slow: Bench) -> None:
    slow.manager().submit(slow.pay())
    slow.mine()
    manager = slow.manager()
    assert manager.recover() == []
    assert Database(slow.folder / "node.sqlite3").gas_by_action() == {"pay": (1, 21000)}


def test_crash_between_signing_and_sending(slow: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction is in the outbox only: its nonce is a gap until the next life sends it."""
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


def test_not_enough_money(bench: Bench) -> None:
    poor = Account.create()
    manager = Bench(str(bench.web3.provider.endpoint_uri), poor.key.hex(), bench.folder).manager()
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


def test_outage_is_typed() -> None:
    with pytest.raises(RpcUnavailable):
        connect("http://127.0.0.1:9", 31337)


def test_wrong_chain(anvil) -> None:
    with pytest.raises(WrongChain, match="31337"):
        connect(anvil.url, 1)
    assert isinstance(connect(anvil.url, 31337), Web3)


# Credits what is sent, like contracts that credit what is too much; refuses less than 10^18 wei.
#   CALLVALUE PUSH8 10^18 GT PUSH1 16 JUMPI STOP | JUMPDEST PUSH0 PUSH0 REVERT
TAKES_AN_ETHER = bytes.fromhex("34" + "67" + f"{10**18:016x}" + "11" + "600f57" + "00" + "5b5f5ffd")


def poor_with(slow: Bench, wei: int) -> tuple[TransactionManager, str]:
    """A manager whose account has so much, and a contract that takes an ether."""
    deploying = slow.manager()
    waiting = deploying.submit(Call("deploy", None, deployer(TAKES_AN_ETHER)))
    slow.mine()
    contract = deploying.wait(waiting).contract
    assert contract is not None
    account = Account.create()
    slow.rpc("anvil_setBalance", account.address, hex(wei))
    poor = Bench(str(slow.web3.provider.endpoint_uri), account.key.hex(), slow.folder)
    return poor.manager(), contract


def test_who_has_less_than_is_wanted_sends_what_there_is(slow: Bench) -> None:
    """Twice as much would be safer, and what is taken is enough."""
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
    """Where there is not enough for gas twice as dear, what the next block may ask for is offered."""
    manager, contract = poor_with(slow, 10**18)
    call = Call("stake", contract, b"\1", 3 * 10**18, 10**18)
    with pytest.raises(InsufficientFunds, match="gas"):
        manager.submit(call)
    probe = slow.manager()
    gas = probe._estimate(replace(call, value=10**18))
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
    with pytest.raises(InsufficientFunds, match=str(10**18)):
        manager.submit(Call("stake", contract, b"\1", 3 * 10**18, 10**18))
    assert manager.open() == []


def test_what_is_open_is_not_sent_again(slow: Bench) -> None:
    """A round gives up waiting for it after a minute; the next one decides the same."""
    waiting = slow.manager().submit(Call("deploy", None, deployer(REVERTER)))
    slow.mine()
    contract = slow.manager().wait(waiting).contract
    manager = slow.manager()
    first = manager.submit(Call("move", contract, b""))
    slow.rpc("anvil_setCode", contract, "0x00")  # takes anything, data too
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


def test_a_fee_is_raised_up_to_the_cap(slow: Bench) -> None:
    """Twice the base fee is more than the cap, and the base fee is not."""
    manager = slow.manager(replace_after_s=0.02, fees=FeePolicy(max_fee=10 * GWEI))
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


def test_what_open_transactions_may_take_is_not_free(slow: Bench) -> None:
    manager = slow.manager(confirmations=1)
    have = manager.balance()
    assert manager.free() == have
    transaction = manager.submit(slow.pay(10**18))
    row = manager._outbox.row(transaction)
    assert manager.free() == have - 10**18 - row.gas_limit * row.attempts[0].max_fee
    slow.mine()
    assert manager.open() == [transaction], "it waits for confirmations"
    assert manager.free() == manager.balance() < have - 10**18, "and has been taken"


def test_what_a_node_forgets_is_raised_in_its_time(slow: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools drop what pays least while gas becomes dearer; to send it again does not put its replacement off."""
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
    """The fee is raised as far as the account goes, and what a node refuses does not keep it from the last it took."""
    manager, contract = poor_with(slow, 15 * 10**17)
    transaction = manager.submit(Call("stake", contract, b"\1", 2 * 10**18, 10**18))
    row = manager._outbox.row(transaction)
    manager._replace_after_s = 1.0
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=10)
    assert [a.hash for a in manager._outbox.row(transaction).attempts] == [row.attempts[0].hash]
    manager._outbox.bump(row, 900 * GWEI, 2 * GWEI)  # as if it had been richer
    slow.rpc("anvil_dropTransaction", "0x" + row.attempts[0].hash.hex())
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=3)
    slow.mine()
    assert manager.wait(transaction).tx_hash == row.attempts[0].hash


def test_a_tip_is_not_raised_for_ever_while_no_block_comes(slow: Bench) -> None:
    manager = slow.manager(replace_after_s=1.0, poll_s=0.5)
    transaction = manager.submit(slow.pay())
    with pytest.raises(TransactionPending):
        manager.wait(transaction, timeout_s=120)
    attempts = manager._outbox.row(transaction).attempts
    assert 8 * GWEI < attempts[-1].priority_fee <= 10 * GWEI
