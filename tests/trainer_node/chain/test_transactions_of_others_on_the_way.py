"""What is open is looked at, and what was taken back is sent again, whatever an endpoint says of other transactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tests.conftest import Anvil
from tests.support.clock import Clock
from trainer_node.chain import Call, FeeRule
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.errors import TransactionLost
from trainer_node.storage.tables import Attempt, Transaction

from .liar import Liar
from .outbox_bench import GWEI, OTHER, Bench


def test_an_endpoint_that_counts_too_few_has_not_all_sent_again(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: one of two endpoints shows the account as it was long ago. Whatever waits for its block then had each
    transaction that was ever mined sent again, one after the other, and no move meanwhile."""
    with Liar(anvil.url) as liar:
        bench = Bench([anvil.url, liar.url], anvil.keys[0], tmp_path)  # type: ignore[arg-type]
        clock = Clock()
        manager = bench.manager(replace_after_s=45.0, clock=clock, sleep=clock.sleep)
        bench.rpc("evm_setAutomine", True)
        for value in range(40):
            manager.send(bench.pay(value))
        bench.rpc("evm_setAutomine", False)
        moves = [manager.submit(Call("move", OTHER, bytes([number]), 0)) for number in range(1, 6)]
        liar.lies["eth_getTransactionCount"] = "0x0"
        sent, send = list[bytes](), manager._send_raw

        def counted(attempt: Attempt) -> str | None:
            sent.append(attempt.hash)
            return send(attempt)

        monkeypatch.setattr(manager, "_send_raw", counted)
        clock.sleep(60)
        assert manager.wait_all(moves, timeout_s=0.0) == {}
        assert len(sent) <= 40, "the moves, and few others"


def test_whoever_does_not_answer_about_transactions_keeps_no_round_from_its_jobs(
    anvil: Anvil, tmp_path: Path
) -> None:
    """Geth answers so for hours after some restarts: "transaction indexing is in progress"."""
    with Liar(anvil.url) as liar:
        bench = Bench(liar.url, anvil.keys[0], tmp_path)
        manager = bench.manager()
        bench.rpc("evm_setAutomine", False)
        move = manager.submit(Call("move", OTHER, b"\1", 0))
        words = {"result": None, "error": {"code": -32000, "message": "transaction indexing is in progress"}}
        liar.lies["eth_getTransactionReceipt"] = lambda _: words
        assert manager.recover() == [move]
        liar.lies.clear()
        bench.rpc("evm_setAutomine", True)
        bench.mine()
        assert manager.recover() == []


def test_what_the_database_has_dropped_is_lost_and_keeps_no_round_from_its_jobs(
    anvil: Anvil, tmp_path: Path
) -> None:
    """The attack: a machine comes up in 1970, or a transaction is that old."""
    bench = Bench(anvil.url, anvil.keys[0], tmp_path)
    manager = bench.manager()
    bench.rpc("evm_setAutomine", True)
    number = manager.submit(bench.pay())
    manager.recover()
    database = manager._outbox._database
    with database.session() as session:
        session.execute(update(Transaction).values(created="1970-01-01T00:00:10.000+00:00"))
    database.fold()
    ended = manager.wait_all([number], timeout_s=0.0)
    assert isinstance(ended[number], TransactionLost)


def test_ether_of_a_transaction_that_is_mined_in_that_moment_is_not_free(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(anvil.url, anvil.keys[0], tmp_path)
    manager = bench.manager()
    bench.rpc("evm_setAutomine", False)
    manager.submit(bench.pay(10**18))
    reader: Any = manager._reader
    steps = [bench.mine]

    def then_mined(read: Any) -> Any:
        def reads(*given: Any) -> Any:
            found = read(*given)
            if steps:
                steps.pop()()
            return found

        return reads

    monkeypatch.setattr(reader, "_balance", then_mined(reader._balance))
    monkeypatch.setattr(reader, "_nonce", then_mined(reader._nonce))
    free = manager.means.free()
    assert free <= manager.balance()


def test_what_a_lost_database_has_sent_for_little_holds_up_nothing(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction waits in the pools since gas is dear; the database that would offer more for it is lost. Whatever
    is sent afterwards has a later number, and would wait for it as long as gas stays dear."""
    lost = tmp_path / "lost"
    lost.mkdir()
    before = Bench(anvil.url, anvil.keys[0], lost)
    before.rpc("evm_setAutomine", False)
    cheap = before.manager(fees=FeeRule(max_fee=3 * GWEI))
    cheap.submit(before.pay())
    before.rpc("anvil_setNextBlockBaseFeePerGas", hex(20 * GWEI))
    before.mine()
    assert before.chain_nonce() == 0
    bench = Bench(anvil.url, anvil.keys[0], tmp_path)
    clock = Clock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        bench.rpc("anvil_setNextBlockBaseFeePerGas", hex(20 * GWEI))
        bench.mine()

    manager = bench.manager(replace_after_s=45.0, poll_s=5.0, clock=clock, sleep=sleep)
    reader: Any = manager._reader
    count = reader._nonce
    # NOTE: as Geth does; anvil leaves out what pays less than the base fee.
    monkeypatch.setattr(reader, "_nonce", lambda block: max(count(block), int(block == "pending")))
    move = manager.submit(Call("move", OTHER, b"\1", 0))
    assert manager._outbox.row(move).nonce == 1
    assert manager.wait(move, timeout_s=600.0).gas_used
    assert bench.chain_nonce() == 2


def test_slow_endpoints_make_no_wait_longer(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: one of two endpoints answers each request at the last moment, and whoever lets many of ours wait for
    a block decides how long a round is."""
    bench, clock = Bench(anvil.url, anvil.keys[0], tmp_path), Clock()
    manager = bench.manager(replace_after_s=1e9, clock=clock, sleep=clock.sleep)
    bench.rpc("evm_setAutomine", False)
    numbers = [manager.submit(Call("move", OTHER, bytes([number]), 0)) for number in range(1, 9)]
    look = manager._advance

    def slow(row: Transaction) -> Any:
        clock.sleep(25)
        return look(row)

    monkeypatch.setattr(manager, "_advance", slow)
    manager.wait_all(numbers, timeout_s=60.0)
    assert clock() <= 60 + 25
    bench.mine()
    assert list(manager.wait_all(numbers, timeout_s=0.0)) == numbers, "each is looked at before a round"


@pytest.mark.parametrize("never_sent", [True, False])
def test_what_is_open_is_sent_and_raised_while_endpoints_cannot_say_whether_it_was_mined(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, never_sent: bool
) -> None:
    """A number that is free has no receipt. One was noted and never sent, or waits with too low a fee; all later ones
    wait behind it."""
    with Liar(anvil.url) as liar:
        bench = Bench(liar.url, anvil.keys[0], tmp_path)
        bench.rpc("evm_setAutomine", False)
        if never_sent:
            died = bench.manager()
            monkeypatch.setattr(died, "_broadcast", lambda _: None)
            died.submit(Call("move", OTHER, b"\1", 0))

        def indexing(true: dict[str, Any]) -> dict[str, Any]:
            words = {"code": -32000, "message": "transaction indexing is in progress"}
            return {"result": true["result"]} if true.get("result") else {"result": None, "error": words}

        liar.lies |= dict.fromkeys(["eth_getTransactionReceipt", "eth_getTransactionByHash"], indexing)
        clock = Clock()
        manager = bench.manager(replace_after_s=45.0, poll_s=5.0, clock=clock, sleep=clock.sleep)
        for endpoint in endpoints_of(bench.web3).every:
            monkeypatch.setattr(endpoint, "_sleep", clock.sleep)
        manager.recover()
        later = manager.submit(Call("move", OTHER, b"\2", 0))
        tried = manager._outbox.row(later)
        for _ in range(3):
            clock.sleep(60)
            manager.wait_all([later], timeout_s=0.0)
            manager.recover()
        if never_sent:
            bench.mine()
            assert bench.chain_nonce() == tried.nonce + 1 == 2, "the first one was sent, and the later one"
        else:
            assert len(manager._outbox.row(later).attempts) > 1, "its fee was raised"


def test_what_lies_behind_one_that_endpoints_cannot_tell_of_is_looked_at_and_raised(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number is used by an attempt that is not the newest, as after a process that ended before it sent that; and one
    by a transaction of another outbox. Geth indexes meanwhile."""
    with Liar(anvil.url) as liar:
        bench = Bench(liar.url, anvil.keys[0], tmp_path)
        bench.rpc("evm_setAutomine", False)
        died = bench.manager()
        raised = died.submit(Call("move", OTHER, b"\1", 0))
        died._outbox.bump(died._outbox.row(raised), 100 * GWEI, 50 * GWEI)
        bench.mine()
        taken = {"from": bench.address, "to": OTHER, "nonce": "0x1", "gas": hex(100_000)}
        bench.rpc("anvil_impersonateAccount", bench.address)
        bench.rpc("eth_sendTransaction", taken)
        with monkeypatch.context() as patch:
            patch.setattr(died, "_broadcast", lambda _: None)
            patch.setattr(died, "_next_nonce", lambda _: 1)
            other = died.submit(Call("move", OTHER, b"\2", 0))
        bench.mine()
        assert bench.chain_nonce() == 2

        def indexing(true: dict[str, Any]) -> dict[str, Any]:
            words = {"code": -32000, "message": "transaction indexing is in progress"}
            return {"result": true["result"]} if true.get("result") else {"result": None, "error": words}

        liar.lies |= dict.fromkeys(["eth_getTransactionReceipt", "eth_getTransactionByHash"], indexing)
        clock = Clock()
        manager = bench.manager(replace_after_s=45.0, poll_s=5.0, clock=clock, sleep=clock.sleep)
        for endpoint in endpoints_of(bench.web3).every:
            monkeypatch.setattr(endpoint, "_sleep", clock.sleep)
        manager.recover()
        assert (manager._outbox.row(raised).status, manager._outbox.row(other).status) == ("mined", "open")
        answer = manager.submit(Call("answer", OTHER, b"\3", 0))
        bench.mine()
        manager.recover()
        assert manager._outbox.row(answer).status == "mined"
        waits = manager.submit(Call("move", OTHER, b"\4", 0))
        for _ in range(3):
            clock.sleep(60)
            manager.recover()
        assert len(manager._outbox.row(waits).attempts) > 1, "its fee was raised"
        assert manager.open() == manager.open(OTHER) == [other, waits]
        assert manager.open(bench.address) == []


def test_a_receipt_in_a_block_that_nobody_has_come_to_is_none(anvil: Anvil, tmp_path: Path) -> None:
    """Whatever comes after that block would wait for good, also once the endpoint tells no more lies."""
    with Liar(anvil.url) as liar:
        bench = Bench(liar.url, anvil.keys[0], tmp_path)
        manager = bench.manager()
        bench.rpc("evm_setAutomine", True)
        liar.lies["eth_getTransactionReceipt"] = lambda true: {
            "result": true["result"] and {**true["result"], "blockNumber": hex(1 << 60)}
        }
        sent = manager.submit(Call("move", OTHER, b"\1", 0))
        assert manager.wait_all([sent], timeout_s=0.0) == {}
        liar.lies.clear()
        assert manager.wait(sent, timeout_s=60).block < 1 << 20
