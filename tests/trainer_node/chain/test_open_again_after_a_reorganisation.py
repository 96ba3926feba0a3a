"""A reorganisation takes back what counts as mined. Pools have it still, where neither outbox nor head show it: it
would be sent twice, and if its fee is too low by now, all that is sent later waits behind it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from tests.conftest import Anvil
from tests.support.clock import Clock
from trainer_node.chain import Call, TransactionManager
from trainer_node.chain.account import REPLACED
from trainer_node.chain.empty_transactions import RESENT
from trainer_node.storage.tables import Transaction

from .liar import Liar
from .outbox_bench import GWEI, OTHER, Bench

REFUTE, MOVE = Call("refute", OTHER, b"\7", 0), Call("move", OTHER, b"\1", 0)


@pytest.fixture
def bench(anvil: Anvil, tmp_path: Path) -> Bench:
    made = Bench(anvil.url, anvil.keys[0], tmp_path)
    made.rpc("evm_setAutomine", False)
    fee(made, 1)
    return made


def fee(bench: Bench, gwei: int) -> None:
    """Mine a block with this base fee."""
    bench.rpc("anvil_setNextBlockBaseFeePerGas", hex(gwei * GWEI))
    bench.mine()


def head(bench: Bench) -> int:
    return int(bench.web3.eth.block_number)


def mined_and_taken_back(bench: Bench, manager: TransactionManager, *calls: Call) -> list[int]:
    before = bench.rpc("evm_snapshot")
    sent = [manager.submit(call) for call in calls]
    bench.mine()
    assert len(manager.wait_all(sent, timeout_s=0.0)) == len(calls)
    assert manager.open() == []
    assert bench.rpc("evm_revert", before) is True
    fee(bench, 1)
    return sent


def test_its_fee_is_raised_and_what_comes_later_is_mined(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        fee(bench, 20)

    manager = bench.manager(replace_after_s=45.0, poll_s=20.0, clock=clock, sleep=sleep)
    (first,) = mined_and_taken_back(bench, manager, REFUTE)
    fee(bench, 20)
    count = manager._reader._nonce
    # the pools have it, though anvil drops what a block has taken back
    monkeypatch.setattr(manager._reader, "_nonce", lambda block: max(count(block), int(block == "pending")))
    manager.recover(head(bench))
    assert manager._outbox.row(first).status == "open"
    move = manager.submit(MOVE)
    assert len(manager.wait_all([first, move], timeout_s=600.0)) == 2
    assert bench.chain_nonce() == 2


def test_the_same_is_not_sent_twice(bench: Bench) -> None:
    """A refutation would be taken again, at twice the price."""
    manager = bench.manager()
    (first,) = mined_and_taken_back(bench, manager, REFUTE)
    manager.recover(head(bench))
    assert manager.submit(replace(REFUTE, value=2)) == first
    bench.mine()
    manager.recover(head(bench))
    assert (manager.open(), bench.chain_nonce()) == ([], 1)


def test_few_at_a_time_and_none_whose_number_is_taken(bench: Bench) -> None:
    manager = bench.manager()
    calls = [Call("move", OTHER, bytes([n]), 0) for n in range(RESENT + 3)]
    sent = mined_and_taken_back(bench, manager, *calls)
    other = manager.submit(MOVE)
    assert manager._outbox.row(other).nonce == 0
    manager.recover(head(bench))
    assert manager.open() == [other, *sent[1:RESENT]]
    for _ in range(2):
        bench.mine()
        manager.recover(head(bench))
    bench.mine()
    manager.recover(head(bench))
    assert (manager.open(), bench.chain_nonce()) == ([], RESENT + 3)


def test_a_stake_is_wanted_no_longer_than_before(bench: Bench) -> None:
    clock = Clock()
    manager = bench.manager(clock=clock)
    now = bench.web3.eth.get_block("latest")["timestamp"]
    (stake,) = mined_and_taken_back(bench, manager, replace(bench.pay(10**18), action="join", until=now + 60))
    bench.rpc("evm_increaseTime", 100)
    bench.mine()
    had = bench.web3.eth.get_balance(OTHER)
    manager.recover(head(bench))
    assert len(manager.open()) == 2, "an empty one is sent instead"
    bench.mine()
    for _ in range(4):
        clock.sleep(30)
        manager.recover(head(bench))
    assert manager._outbox.row(stake).status == "lost"
    assert bench.web3.eth.get_balance(OTHER) == had


def test_what_says_how_long_a_stake_was_wanted_goes_with_it(bench: Bench) -> None:
    manager = bench.manager()
    database, now = manager._outbox._database, bench.web3.eth.get_block("latest")["timestamp"]
    stakes = [manager.submit(replace(bench.pay(n), action="join", until=now + 10**6)) for n in (1, 2)]
    bench.mine()
    manager.wait_all(stakes, timeout_s=0.0)
    rows = [manager._outbox.row(one) for one in stakes]
    with database.session() as session:
        old = update(Transaction).where(Transaction.id == stakes[0])
        session.execute(old.values(created="1970-01-01T00:00:10.000+00:00"))
    database.fold()
    assert [manager._outbox.until(row) for row in rows] == [None, now + 10**6]


@pytest.mark.parametrize("place", [0, 1])
def test_an_old_count_of_one_of_two_opens_nothing(anvil: Anvil, tmp_path: Path, place: int) -> None:
    with Liar(anvil.url) as liar:
        urls = [anvil.url, anvil.url]
        urls[place] = liar.url
        bench = Bench(urls, anvil.keys[0], tmp_path)  # type: ignore[arg-type]
        manager = bench.manager()
        bench.rpc("evm_setAutomine", True)
        sent = manager.submit(REFUTE)
        manager.wait(sent)
        liar.lies["eth_getTransactionCount"] = "0x0"
        liar.lies["eth_getTransactionReceipt"] = None
        manager.recover(head(bench))
        assert manager.open() == []


def test_what_is_older_than_any_reorganisation_is_not_asked_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = bench.manager()
    (first,) = mined_and_taken_back(bench, manager, REFUTE)
    monkeypatch.setattr(manager._reader, "nonces", lambda _: pytest.fail("an idle node asks for little"))
    block = manager._outbox.row(first).block
    assert block is not None
    manager.recover(block + REPLACED + 1)
    assert manager.open() == []
