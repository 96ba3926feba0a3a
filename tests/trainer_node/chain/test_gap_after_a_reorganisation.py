"""A reorganisation takes back transactions that nobody does again, since others have made them unnecessary; what is
open behind them is mined all the same."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy import update

from tests.conftest import Anvil
from trainer_node.chain import Call
from trainer_node.play.data_responses import DataResponder
from trainer_node.storage.tables import Transaction

from .outbox_bench import OTHER, Bench


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
    unused: Any = None
    responder = DataResponder(unused, manager, unused, stopped)
    number = manager.submit(bench.pay())
    responder._sent[7] = number
    manager.wait(number)
    database = manager._outbox._database
    with database.session() as session:
        session.execute(update(Transaction).values(created="1970-01-01T00:00:10.000+00:00"))
    database.fold()
    assert manager.outcome(number) == ("lost", None)
    assert responder._on_its_way(7, 10**6) is False
