"""A reorganisation takes back transactions that nobody does again, since others have made them unnecessary; what is
open behind them is mined all the same."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update

from tests.conftest import Anvil
from tests.support.clock import Clock
from trainer_node.chain import Call
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.errors import InsufficientFunds
from trainer_node.play.data_responses import DataResponder
from trainer_node.storage.tables import Transaction

from .liar import Liar
from .outbox_bench import OTHER, Bench, poor_with


def test_a_move_behind_what_was_taken_back_is_mined(anvil: Anvil, tmp_path: Path) -> None:
    bench = Bench(anvil.url, anvil.keys[0], tmp_path)
    manager = bench.manager(replace_after_s=45.0, poll_s=5.0)
    bench.rpc("evm_setAutomine", True)
    before = bench.rpc("evm_snapshot")
    for value in (1, 2, 3):
        manager.send(bench.pay(value))
    bench.rpc("evm_setAutomine", False)
    move = manager.submit(Call("move", OTHER, b"\1", 0))
    assert bench.rpc("evm_revert", before) is True
    bench.rpc("evm_setAutomine", True)
    assert bench.chain_nonce() == 0
    assert manager.wait(move, timeout_s=600.0).gas_used
    assert bench.chain_nonce() == 4


def test_a_clock_that_was_wrong_stops_no_answers(anvil: Anvil, tmp_path: Path) -> None:
    """The attack: a machine that comes up in 1970 sends an answer; the database drops it as an old one."""
    bench = Bench(anvil.url, anvil.keys[0], tmp_path)
    manager = bench.manager()
    stopped: Any = SimpleNamespace(is_set=lambda: False)
    contracts: Any = SimpleNamespace(data_availability=SimpleNamespace(address=OTHER))
    unused: Any = None
    responder = DataResponder(contracts, manager, unused, stopped)
    number = manager.submit(bench.pay())
    responder._sent[7] = number
    manager.wait(number)
    database = manager._outbox._database
    with database.session() as session:
        session.execute(update(Transaction).values(created="1970-01-01T00:00:10.000+00:00"))
    database.fold()
    assert manager._outbox.rows([number]) == []
    assert not responder._on_its_way(7)
    assert manager.counts_at(number, 0), "so nothing waits for it"


def test_each_open_transaction_is_looked_at_once_however_many_are_waited_for(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: sixty that are open behind one that is stuck made a round 1,900 looks long."""
    bench = Bench(anvil.url, anvil.keys[0], tmp_path)
    manager = bench.manager(replace_after_s=1e9)
    bench.rpc("evm_setAutomine", False)
    numbers = [manager.submit(Call("move", OTHER, bytes([number]), 0)) for number in range(1, 13)]
    looks, advance = list[int](), manager._advance

    def counted(row: Transaction) -> Any:
        looks.append(row.id)
        return advance(row)

    monkeypatch.setattr(manager, "_advance", counted)
    assert manager.wait_all(numbers, timeout_s=0.0) == {}
    assert looks == numbers
    bench.rpc("evm_setAutomine", True)
    bench.rpc("evm_mine")
    ended = manager.wait_all(numbers, timeout_s=60.0)
    assert list(ended) == numbers
    assert manager.wait_all(numbers, timeout_s=0.0).keys() == ended.keys(), "also of those that ended before"


def test_a_refusal_for_now_leaves_the_transaction_open_behind_others(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool has 16 places for an account: the 17th is sent again once there is one."""
    bench = Bench(anvil.url, anvil.keys[0], tmp_path)
    manager = bench.manager(poll_s=0.1)
    bench.rpc("evm_setAutomine", False)
    first = manager.submit(Call("first", OTHER, b"\1", 0))
    send = manager._send_raw
    monkeypatch.setattr(manager, "_send_raw", lambda _: "txpool is full")
    second = manager.submit(Call("second", OTHER, b"\2", 0))
    assert manager.open() == [first, second]
    monkeypatch.setattr(manager, "_send_raw", send)
    bench.rpc("evm_setAutomine", True)
    bench.rpc("evm_mine")
    assert len(manager.wait_all([first, second], timeout_s=60.0)) == 2


def test_transactions_of_others_with_our_key_are_known_once_all_jobs_were_read(
    anvil: Anvil, tmp_path: Path
) -> None:
    bench = Bench(anvil.url, anvil.keys[0], tmp_path)
    manager = bench.manager()
    bench.rpc("evm_setAutomine", True)
    by_hand = tmp_path / "by hand"
    by_hand.mkdir()
    Bench(anvil.url, anvil.keys[0], by_hand).manager().send(bench.pay())
    assert manager.means.lacks_sent()
    manager.means.know_sent()
    assert not bench.manager().means.lacks_sent()


def test_a_count_that_one_of_two_has_made_up_is_not_known(anvil: Anvil, tmp_path: Path) -> None:
    """The attack: it says once that there are a million, and no later loss would be found."""
    with Liar(anvil.url) as liar:
        bench = Bench([anvil.url, liar.url], anvil.keys[0], tmp_path)  # type: ignore[arg-type]
        manager = bench.manager()
        liar.lies["eth_getTransactionCount"] = hex(10**6)
        manager.means.know_sent()
        liar.lies.clear()
        bench.rpc("evm_setAutomine", True)
        by_hand = tmp_path / "by hand"
        by_hand.mkdir()
        Bench(anvil.url, anvil.keys[0], by_hand).manager().send(bench.pay())
        assert bench.manager().means.lacks_sent()


def test_what_open_transactions_pay_is_not_spent_twice(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: an endpoint simulates without what waits, so two bonds are signed where one is covered; the second is
    never mined, and holds up all that come after it."""
    bench = Bench(anvil.url, anvil.keys[0], tmp_path)
    manager, contract = poor_with(bench, 15 * 10**17)
    reader: Any = manager._reader
    without_pending: Any = endpoints_of(manager._web3).serving
    without_pending._no_pending_until = float("inf")
    monkeypatch.setattr(
        reader,
        "_estimate",
        lambda call, _: int(bench.web3.eth.estimate_gas(reader._request(call), "latest")),
    )
    bench.rpc("evm_setAutomine", False)
    manager.submit(Call("appeal", contract, b"\1", 10**18))
    with pytest.raises(InsufficientFunds):
        manager.submit(Call("appeal", contract, b"\2", 10**18))
    move = manager.submit(Call("move", OTHER, b"\3", 0))
    bench.rpc("evm_setAutomine", True)
    bench.rpc("evm_mine")
    assert manager.wait(move, timeout_s=60.0).gas_used


def test_what_was_taken_back_is_sent_again_though_an_earlier_receipt_is_late(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number is used, and it stays open for hours while an endpoint indexes."""
    bench, clock = Bench(anvil.url, anvil.keys[0], tmp_path), Clock()
    manager = bench.manager(replace_after_s=45.0, clock=clock, sleep=clock.sleep)
    bench.rpc("evm_setAutomine", False)
    early = manager.submit(Call("early", OTHER, b"\0", 0))
    bench.mine()
    shown = manager._reader._receipt
    monkeypatch.setattr(
        manager._reader, "_receipt", lambda row, attempt: None if row.id == early else shown(row, attempt)
    )
    before = bench.rpc("evm_snapshot")
    taken = [manager.submit(Call("move", OTHER, bytes([n]), 0)) for n in (1, 2, 3)]
    bench.mine()
    assert list(manager.wait_all(taken, timeout_s=0.0)) == taken
    assert bench.rpc("evm_revert", before) is True
    outbox, sent = manager._outbox, list[int]()
    behind = outbox.add(Call("behind", OTHER, b"\4", 0), 4, 30_000, 10**11, 10**9)
    monkeypatch.setattr(manager._empties, "_broadcast", lambda row: sent.append(row.nonce))
    manager._empties.fill_gap(behind)
    assert sent == [1, 2, 3]


def test_a_count_that_one_of_three_makes_up_does_not_keep_pools_as_they_are(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, sent = Bench(anvil.url, anvil.keys[0], tmp_path).manager(), list[int]()
    counts = {"latest": [2, 2, 10**9], "pending": [5, 5, 5]}
    monkeypatch.setattr(manager._reader, "nonces", lambda block: counts[block])
    row = manager._outbox.add(Call("move", OTHER, b"\1", 0), 5, 30_000, 10**11, 10**9)
    monkeypatch.setattr(manager._empties, "_broadcast", lambda row: sent.append(row.nonce))
    manager._empties.fill_gap(row)
    assert sent == [2, 3, 4]


def test_what_is_mined_while_a_call_is_priced_is_not_free(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The balance was read before, and what open transactions take after it."""
    bench = Bench(anvil.url, anvil.keys[0], tmp_path)
    bench.rpc("evm_setAutomine", False)
    bench.rpc("anvil_setBalance", bench.address, hex(10**19))
    manager = bench.manager()
    manager.submit(bench.pay(6 * 10**18))
    quote = manager._reader.quote

    def mined(call: Call, block: str) -> Any:
        found = quote(call, block)
        bench.mine()
        return found

    monkeypatch.setattr(manager._reader, "quote", mined)
    _, free, _ = manager.means.priced(Call("stake", OTHER, b"\1", 3 * 10**18, least=10**18))
    assert free <= manager.balance()
