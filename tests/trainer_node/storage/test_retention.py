"""What jobs hold stays while they last; what nobody holds any more goes, the least valuable first."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.clock import Clock
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.ended_runs import forget_runs, note_run
from trainer_node.storage.retention import URGENT_GRACE_S, Policy, Retention, usage
from trainer_node.storage.store import Store
from trainer_node.storage.verify import verify_files

HOUR = 3600.0
POLICY = Policy(grace_s=HOUR, result_s=10 * HOUR)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "artifacts", sync=False)


def tensor(number: int) -> np.ndarray:
    return np.full(1000, number, np.float32)


def has(store: Store, tensor_hash: bytes) -> bool:
    return store.find(Name(Kind.TENSOR, tensor_hash)) is not None


def age(store: Store, seconds: float) -> None:
    """Let all files be that much older."""
    for path in store.root.rglob("*"):
        if path.is_file():
            then = path.stat().st_mtime - seconds
            os.utime(path, (then, then))


def test_a_job_that_goes_on_keeps_all_and_one_that_is_over_its_result_for_a_while(store: Store) -> None:
    clock, database = Clock(time.time()), Database(None)
    work, result = store.held_by(1).put_tensor(tensor(1)), store.held_by(1, result=True).put_tensor(tensor(2))
    other = store.held_by(2).put_tensor(tensor(3))
    database.put_checkpoint(7, 4, b"r" * 32, [work])
    database.put_checkpoint(7, 8, b"s" * 32, [result])
    retention = Retention(store, database, POLICY, clock=clock)
    age(store, 100 * HOUR)
    assert retention.collect().removed == 0, "both go on"

    store.holders.end(1)
    clock.now += 0.5 * HOUR
    assert retention.collect().removed == 0, "a reorganisation may bring it back"
    clock.now += HOUR
    swept = retention.collect()
    assert (swept.removed, swept.freed) == (1, 8192 - 4096)
    assert not has(store, work)
    assert has(store, result)
    assert has(store, other)
    assert database.checkpoints(7) == {4: (b"r" * 32, 0), 8: (b"s" * 32, 1)}, "roots stay"
    assert database.state(7, 8) == [result]
    clock.now += 10 * HOUR
    assert retention.collect().removed == 1
    assert not has(store, result)
    assert has(store, other)
    assert store.holders.jobs() == {2: None}


def test_rows_of_a_run_go_with_the_last_job_that_rests_on_it(store: Store, tmp_path: Path) -> None:
    """The attack: each stranger's run left a row for each checkpoint in the database, for good."""
    clock, database = Clock(time.time()), Database(tmp_path / "node.sqlite3")
    retention = Retention(store, database, POLICY, clock=clock)
    jobs = {1: 7, 2: 7, 3: 8, 4: 1 << 255}
    for job, run in jobs.items():
        store.held_by(job, result=True).put_tensor(tensor(job))
        note_run(database, job, run)
        database.put_checkpoint(run, 4, b"r" * 32, [b"s" * 32])
        database.put_logs(run, {4: b"l" * 32})

    def rows() -> set[int]:
        assert {run for run in set(jobs.values()) if database.logs(run)} == set(database.runs())
        return set(database.runs())

    def ends(*over: int) -> set[int]:
        for job in over:
            store.holders.end(job)
        clock.now += 11 * HOUR
        age(store, 11 * HOUR)
        retention.collect()
        return rows()

    assert ends() == {7, 8, 1 << 255}
    assert ends(1, 4) == {7, 8}, "another job rests on it"
    assert ends(3) == {7}
    store.held_by(3).put_tensor(tensor(5))
    assert ends(3) == {7}, "nothing is known of the same job's next run"
    assert ends(2) == set()
    assert database.last_state(7) == 0


def test_rows_of_more_runs_go_at_once_than_a_statement_takes_values() -> None:
    database = Database(None)
    for job in (1, 40_000):
        note_run(database, job, job)
        database.put_checkpoint(job, 4, b"r" * 32, [])
    forget_runs(database, range(1, 40_001))
    assert database.runs() == []


def test_a_full_disk_keeps_the_roots_of_a_job_that_is_open(store: Store) -> None:
    clock, database = Clock(time.time()), Database(None)
    store.held_by(1).put_tensor(tensor(1))
    note_run(database, 1, 7)
    database.put_checkpoint(7, 4, b"r" * 32, [])
    age(store, HOUR)
    Retention(store, database, POLICY, clock=clock).urgent(frozenset({1}), lambda: False)
    assert store.holders.jobs() == {}
    assert database.checkpoints(7) == {4: (b"r" * 32, 0)}


def test_what_two_jobs_hold_stays_for_the_second(store: Store) -> None:
    clock = Clock(time.time())
    shared = store.held_by(1).put_tensor(tensor(1))
    assert store.held_by(2).put_tensor(tensor(1)) == shared
    store.holders.end(1)
    age(store, 100 * HOUR)
    clock.now += 50 * HOUR
    Retention(store, None, POLICY, clock=clock).collect()
    assert has(store, shared)


def test_what_no_job_holds_stays_while_an_older_job_goes_on(store: Store) -> None:
    """It may be what an opponent has served once, or an artifact whose line a crash has lost."""
    clock = Clock(time.time())
    store.held_by(1).put_tensor(tensor(1))
    loose = store.put_tensor(tensor(2))
    clock.now += 50 * HOUR
    retention = Retention(store, None, POLICY, clock=clock)
    assert retention.collect().removed == 0
    store.holders.end(1)
    clock.now += HOUR
    retention.collect()
    assert not has(store, loose)


def test_a_full_disk_gives_up_what_is_over_then_results_then_strangers_and_never_what_is_staked(
    store: Store,
) -> None:
    clock = Clock(time.time())
    staked, stranger = store.held_by(1).put_tensor(tensor(1)), store.held_by(2).put_tensor(tensor(2))
    work, result = store.held_by(3).put_tensor(tensor(3)), store.held_by(3, result=True).put_tensor(tensor(4))
    store.holders.end(3)
    age(store, HOUR)
    retention = Retention(store, None, POLICY, clock=clock)
    retention.urgent(frozenset(), lambda: True)
    assert [has(store, t) for t in (staked, stranger, work, result)] == [True, True, False, True]
    retention.urgent(frozenset(), lambda: False)
    assert [has(store, t) for t in (staked, stranger, work, result)] == [True, True, False, False]
    retention.urgent(frozenset({2}), lambda: True)
    assert [has(store, t) for t in (staked, stranger)] == [True, False]


def test_on_a_full_disk_too_a_reorganisation_finds_all_of_a_job_that_has_just_ended(store: Store) -> None:
    held, clock = store.held_by(1).put_tensor(tensor(1)), Clock(time.time())
    age(store, HOUR)
    store.holders.end(1)
    retention = Retention(store, None, POLICY, clock=clock)
    retention.urgent(frozenset(), lambda: False, over_s=URGENT_GRACE_S)
    assert has(store, held)
    clock.now += 2 * URGENT_GRACE_S
    retention.urgent(frozenset(), lambda: False, over_s=URGENT_GRACE_S)
    assert not has(store, held)


def test_a_reorganisation_brings_a_job_back(store: Store) -> None:
    held = store.held_by(1).put_tensor(tensor(1))
    store.holders.end(1)
    store.holders.revive(1)
    age(store, 100 * HOUR)
    clock = Clock(time.time())
    clock.now += 50 * HOUR
    Retention(store, None, POLICY, clock=clock).collect()
    assert has(store, held)


def test_what_is_used_again_while_it_is_about_to_go_stays(store: Store) -> None:
    loose = store.put_tensor(tensor(1))
    age(store, 100 * HOUR)
    path = store.find(Name(Kind.TENSOR, loose))
    assert path is not None
    before = time.time() - HOUR
    assert store.has(Name(Kind.TENSOR, loose))
    assert store.remove(path, before) == 0
    assert has(store, loose)


def test_a_torn_line_of_a_holder_is_left_out(store: Store) -> None:
    store.held_by(1).put_tensor(tensor(1))
    path = store.holders.folder / "1"
    path.write_text(path.read_text() + "w tensor/aa/to")
    assert len(list(store.holders.held(1))) == 1


def test_usage_is_counted_as_files_come_and_go(store: Store) -> None:
    store.put_blob(b"x" * 5000)
    name = Name(Kind.TENSOR, store.put_tensor(tensor(1)))
    store.put_tensor(tensor(1))
    found = usage(store.root)
    assert (store.usage.bytes, store.usage.files) == (found.bytes, found.files)
    store.forget(name)
    assert store.usage.bytes["tensor"] == 0
    assert store.usage.total == usage(store.root).total == 8192


def test_verify_finds_what_the_disk_has_damaged(store: Store) -> None:
    store.put_blob(b"fine")
    good = list(verify_files(store))
    assert [reason for _, reason in good] == [None]
    bad = Name(Kind.TENSOR, store.put_tensor(tensor(1)))
    path = store.find(bad)
    assert path is not None
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (store.root / "blob" / "aa").mkdir(exist_ok=True)
    (store.root / "blob" / "aa" / "notes.txt").write_text("not an artifact")
    wrong = {found.name for found, reason in verify_files(store) if reason is not None}
    assert wrong == {path.name, "notes.txt"}
