"""The persistent state of a node."""

from __future__ import annotations

import sqlite3
import tracemalloc
from pathlib import Path

import pytest

from trainer_node.errors import SchemaMismatch
from trainer_node.storage.database import Database

HUGE = (1 << 256) - 1


def h(number: int) -> bytes:
    return bytes([number]) * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "node.sqlite3"


def test_jobs_survive(path: Path) -> None:
    Database(path).put_job(HUGE, "seen")
    database = Database(path)
    database.put_job(2, "seen")
    database.put_job(HUGE, "refused")
    assert database.jobs() == [2, HUGE]
    assert database.jobs("refused") == [HUGE]
    assert database.jobs("seen") == [2]


def test_checkpoints(path: Path) -> None:
    database = Database(path)
    for step in (1000, 20, 3):
        database.put_checkpoint(1, step, h(step % 7), [h(1), h(2)])
    database.put_checkpoint(1, 2000, None, [])
    database.put_checkpoint(2, 5, h(5), [])
    assert database.checkpoints(1)[20] == (h(6), 2)
    assert database.state(1, 20) == [h(1), h(2)]
    assert database.checkpoints(1)[2000] == (None, 0)
    assert database.state(1, 2000) == database.state(1, 2001) == []
    assert list(database.checkpoints(1)) == [3, 20, 1000, 2000]
    database.put_checkpoint(1, 20, h(9), [h(3)])
    assert (database.checkpoints(1)[20], database.state(1, 20)) == ((h(9), 1), [h(3)])


def test_checkpoints_of_a_program_of_many_slots_are_read_without_them(path: Path) -> None:
    """A run has as many checkpoints as its terms say, and is resumed with all of them in memory."""
    database, slots = Database(path), [h(1)] * 65_534
    for step in range(1, 11):
        database.put_checkpoint(1, step, h(step), slots)
    tracemalloc.start()
    try:
        found = database.checkpoints(1)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {size for _, size in found.values()} == {len(slots)}
    assert most < 32 * len(slots)


def test_progress(path: Path) -> None:
    database = Database(path)
    assert database.get("cursor") is None
    database.put("cursor", {"block": 5})
    database.put("cursor", {"block": 6})
    assert Database(path).get("cursor") == {"block": 6}


def test_one_deployment_a_file(path: Path) -> None:
    Database(path).bind("31337:aa:jobs")
    Database(path).bind("31337:aa:jobs")
    with pytest.raises(SchemaMismatch, match="another data directory"):
        Database(path).bind("31337:bb:jobs")


def test_other_schema_is_refused(path: Path) -> None:
    Database(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("update meta set value = '999' where key = 'schema'")
    with pytest.raises(SchemaMismatch, match="schema 999"):
        Database(path)


def test_what_is_no_database(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(SchemaMismatch, match="not a database"):
        Database(path)


def test_integers_out_of_range(path: Path) -> None:
    with pytest.raises(Exception, match="256 bits"):
        Database(path).put_job(HUGE + 1, "seen")


def test_the_last_state_is_known_without_reading_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may have a million checkpoints, and the loop asks for the last of each job that it considers."""
    database = Database(tmp_path / "node.sqlite3")
    with monkeypatch.context() as patch:
        patch.setattr(Database, "checkpoints", lambda *_: pytest.fail("all of them are read"))
        assert database.last_state(1) == 0
        for step in (3, 1000, 20):
            database.put_checkpoint(1, step, h(6), [h(1)])
        assert database.last_state(1) == 1000, "a number, not its digits"
        database.put_checkpoint(1, 2000, h(6), [])
        assert database.last_state(1) == 1000, "no state is kept after step 2000"
        database.close()
        database = Database(tmp_path / "node.sqlite3")
        assert database.last_state(1) == 1000
        assert database.last_state(2) == 0
    database.drop_states(1, but=[20])
    assert database.last_state(1) == 20
    database.drop_states(1)
    assert database.last_state(1) == 0
    assert [root for root, state in database.checkpoints(1).values() if not state] == [h(6)] * 4
