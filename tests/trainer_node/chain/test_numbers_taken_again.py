"""A node that has sent nothing for 90 days numbers its transactions from 1 again: nothing that was kept about an
earlier one of that number is taken for what is kept of the new one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from eth_account import Account

from trainer_node.chain.empty_transactions import EmptyTransactions
from trainer_node.chain.fees import FeeRule
from trainer_node.chain.outbox import Call, Outbox
from trainer_node.observe.metrics import Metrics
from trainer_node.storage.database import KEPT_DAYS, Database
from trainer_node.storage.tables import Progress, Transaction

TO = "0x" + "11" * 20


@pytest.mark.parametrize("status", ["lost", "refused", "mined", "failed"])
def test_a_move_is_not_taken_back_because_an_old_slot_had_its_number(status: str) -> None:
    database = Database(None)
    outbox = Outbox(Account.from_key(b"\1" * 32), database, 1, Metrics())
    reader: Any = SimpleNamespace(time=lambda: 10**9)

    def is_late(row: Transaction) -> bool:
        return EmptyTransactions(outbox, reader, FeeRule(), lambda _: None).is_late(row)

    slot = outbox.add(Call("join", TO, b"\1", until=100), 0, 10**6, 10, 1)
    assert is_late(slot)
    outbox.finish(slot, status)
    with database.session() as session:
        assert not session.query(Progress).all(), "what is kept ends with the transaction"
        row = session.get(Transaction, slot.id)
        assert row is not None
        row.created = (datetime.now(UTC) - timedelta(days=KEPT_DAYS + 1)).isoformat(timespec="milliseconds")
    database._drop_old()
    move = outbox.add(Call("descend", TO, b"\2"), 1, 10**6, 10, 1)
    assert move.id == slot.id
    assert not is_late(move)
