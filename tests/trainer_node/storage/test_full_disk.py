"""A disk that refuses, at each write point: a run is finished and can be defended, and nothing kept is wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import repops

from referee_py.errors import InvalidInput
from tests.support.small_disk import Filler, Refusal, small_disk
from tests.trainer_node.audit.runs import opened, publish
from trainer_node.audit.interval import Auditor, computes
from trainer_node.errors import DiskFailed, DiskFull
from trainer_node.observe.metrics import Metrics
from trainer_node.observe.problems import Problems
from trainer_node.roles.sampling.part import Part
from trainer_node.run.checkpoints import StoredCheckpoints
from trainer_node.run.replay import Replay
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.disk import Ballast, free_bytes
from trainer_node.storage.disk_estimate import Needs, disk_needed, needs_of, package_bytes, too_full
from trainer_node.storage.disk_keeper import Keeper
from trainer_node.storage.disk_report import DISK
from trainer_node.storage.retention import Policy, Retention, usage
from trainer_node.storage.store import Store
from trainer_node.storage.store_files import name_of, path_of

from ..desk import PROGRAM, STRIDES, TERMS, honest_run, put_package, tiny_package

N = TERMS.steps
CLAIM = honest_run().commit_run().claim()


def keeper(store: Store, database: Database, ballast: Ballast) -> tuple[Keeper, Problems, Metrics]:
    metrics = Metrics()
    problems = Problems(metrics)
    store.usage = usage(store.root)
    made = Keeper(
        store,
        database,
        ballast,
        policy=Policy(),
        store_bytes=0,
        every_s=1e9,
        metrics=metrics,
        problems=problems,
    )
    return made, problems, metrics


@pytest.mark.parametrize("after", range(0, 66, 3))
def test_a_run_is_finished_and_defended_whatever_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    store, database = Store(tmp_path, sync=False), Database(tmp_path / "node.sqlite3")
    told: list[DiskFailed | None] = []
    checkpoints = StoredCheckpoints(database, 1)
    run = Replay(tiny_package(), repops.backend("cpu"), store, checkpoints, unkept=told.append)
    refusal = Refusal(monkeypatch, after, database)
    assert run.train() == CLAIM
    honest = honest_run()
    interval = honest.commit_interval(honest.initial(), STRIDES[0], STRIDES[1])
    assert run.run_tree(1, 0, STRIDES[0]).root == interval.root
    assert run.step_tree(N).root == CLAIM.last
    run.publish(N, 1)
    if refusal.refuses:
        assert any(isinstance(error, DiskFull) for error in told)
    refusal.end()
    run.run_tree(0, 0, N)
    run.publish(N, 1)
    run.step_tree(N - 1)
    whole = Name(Kind.TREE, CLAIM.root, interval.tree.tag)
    assert store.find(whole) is not None, "once there is room, the tree is offered"
    assert told[-1] is None

    # A restart goes on after what is there, and finds the same.
    again = Replay(tiny_package(), repops.backend("cpu"), store, StoredCheckpoints(database, 1))
    assert again.train() == CLAIM
    database.close()


def test_a_run_on_the_users_own_disk_ends_with_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`assay program run` promises that it can go on; it must not pretend to."""
    store, database = Store(tmp_path, sync=False), Database(None)
    run = Replay(tiny_package(), repops.backend("cpu"), store, StoredCheckpoints(database, 1))
    Refusal(monkeypatch, 0)
    with pytest.raises(DiskFull, match="no space left"):
        run.train()


def test_a_real_full_disk_is_told_and_the_ballast_serves_the_database(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4 << 20) as disk:
        ballast = Ballast(disk, 1 << 20)
        store, database = Store(disk / "artifacts"), Database(disk / "node.sqlite3")
        kept, problems, metrics = keeper(store, database, ballast)
        kept.round()
        assert ballast.held
        assert problems.shown().ready
        filler = Filler(disk)
        filler.fill()
        with pytest.raises(DiskFull, match="make room"):
            store.put_blob(b"x" * 100_000)
        assert any(reason.startswith(f"{DISK}: no space left") for reason in problems.shown().reasons)
        assert metrics.value("disk_full") >= 1
        refused = 0
        for number in range(10):
            try:
                database.put(f"move {number}", "x" * 20_000)
            except DiskFull:
                refused += 1
        assert refused <= 1, "the first refusal drops the ballast, and the next moves have room"
        assert not ballast.held
        filler.free()
        kept._looked = float("-inf")
        kept.round()
        assert problems.shown().ready
        assert ballast.held, "once there is room, all is as before"
        store.put_blob(b"x" * 100_000)
        database.close()


def test_a_job_that_does_not_fit_is_left_and_what_others_may_take_is_kept_for_them(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16 << 20) as disk:
        store, database = Store(disk / "artifacts"), Database(disk / "node.sqlite3")
        kept, _, _ = keeper(store, database, Ballast(disk, 1 << 20))
        kept.round()
        free = free_bytes(disk)
        kept.needs(1, Needs(free // 2))
        kept.needs(2, Needs(free // 2 + (1 << 20)))
        assert kept.too_full(1) is None
        kept.stake(1, True)
        assert "make room" in str(kept.too_full(2))
        store.held_by(1).put_blob(b"x" * (1 << 20))
        assert kept.reserved == free // 2 - (1 << 20), "what it has taken is no longer reserved"
        kept.over(1)
        assert kept.too_full(2) is None
        database.close()


def test_the_estimate_covers_what_a_job_really_takes(tmp_path: Path) -> None:
    store, database = Store(tmp_path, sync=False), Database(None)
    put_package(store)
    assert usage(store.root).total <= package_bytes(PROGRAM)
    run = Replay(tiny_package(), repops.backend("cpu"), store, StoredCheckpoints(database, 1))
    run.train()
    for level in range(1, len(STRIDES)):
        run.run_tree(level, 0, STRIDES[level - 1])
    for node in range(TERMS.node_count):
        run.publish(N, node)
    assert usage(store.root).total <= disk_needed(PROGRAM, TERMS)


def test_a_refutation_asks_for_one_interval_and_not_for_the_whole_run(tmp_path: Path) -> None:
    """The attack: a lie was left alone where the disk had no room for the checkpoints of all intervals."""
    long = replace(TERMS, steps=1 << 16)
    needs = needs_of(PROGRAM, long)
    assert needs.whole == disk_needed(PROGRAM, long)
    assert needs.start + needs.disputes < needs.whole // 10
    with small_disk(tmp_path / "disk", 64 << 20) as disk:
        store, database = Store(disk / "artifacts"), Database(disk / "node.sqlite3")
        kept, _, _ = keeper(store, database, Ballast(disk, 1 << 20))
        kept.round()
        assert needs.start + needs.disputes < free_bytes(disk) < needs.whole
        kept.needs(1, needs)
        assert "make room" in str(kept.too_full(1))
        assert kept.too_full(1, part=True) is None
        # Once it is refuted, no more than that is kept from other jobs; and the whole is, where that is computed.
        kept.stake(1, True)
        kept.takes_part(1, True)
        assert kept.reserved == needs.start + needs.disputes
        kept.takes_part(1, False)
        assert kept.reserved == needs.whole
        kept.over(1)
        database.close()


def test_what_was_held_of_other_intervals_leaves_the_disputes_their_room() -> None:
    needs = Needs(1000, start=100, disputes=30)
    assert [needs.left(held, part=True) for held in (0, 60, 100, 900)] == [130, 70, 30, 30]
    assert [needs.left(held, part=False) for held in (0, 60, 2000)] == [1000, 940, 0]


def test_the_estimate_covers_what_a_refutation_really_takes(tmp_path: Path) -> None:
    run = opened(publish(tmp_path / "run", 12, 3, lie=8), tmp_path / "cache")
    store = run.source.store
    auditor = Auditor(run, 1 << 26, computes(run.terms.mode))
    list(auditor.bring(3))
    computed = auditor.replay(3)
    assert computed != run.tree.leaves[2]
    part = Part(auditor, 3, computed, store)
    part.run_tree(1, 6, 9)
    for node in range(run.terms.node_count):
        part.publish(8, node)
    needs = needs_of(run.program, run.terms)
    assert usage(store.root).total <= needs.start + needs.disputes


def test_what_somebody_puts_into_the_stores_folder_is_never_removed(tmp_path: Path) -> None:
    root = tmp_path / "artifacts"
    store, database = Store(root, sync=False), Database(None)
    ours = path_of(store.root, Name(Kind.BLOB, store.put_blob(b"ours")))
    theirs = [root / "incoming" / "notes", root / "my notes" / "thesis.tex", ours.parent / "readme"]
    left = root / "incoming" / "assay-left-by-a-crash"
    for path in (*theirs, left):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for path in (*theirs, left, ours):
        os.utime(path, (1, 1))
    Store(root, sync=False)
    assert not left.exists()
    Retention(store, database, Policy(0, 0)).urgent(frozenset(), lambda: False)
    assert not ours.exists()
    assert all(path.exists() for path in theirs)


def test_the_reason_names_what_is_wanted_and_what_is_there() -> None:
    assert too_full(5, 5) is None
    assert "6 bytes" in str(too_full(6, 5))
    assert "0 are free" in str(too_full(6, -5))


def test_a_name_that_is_no_artifact_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path, sync=False)
    with pytest.raises(InvalidInput):
        name_of(store.root, tmp_path / "tensor" / "aa" / "passwd")


def test_jobs_come_and_go_while_garbage_is_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop notes stakes while the collection, in a thread of its own, counts what the jobs may still take."""
    store, database = Store(tmp_path, sync=False), Database(None)
    kept, problems, metrics = keeper(store, database, Ballast(tmp_path, 0))
    for job in range(3):
        kept.needs(job, Needs(1 << 20))
        kept.stake(job, True)
        kept.stake(job + 100, False)
    coming, held = iter(range(1_000, 1_100)), store.holders.held

    def meanwhile(job: int) -> Iterator[tuple[str, str]]:
        kept.stake(next(coming), True)
        kept.over(job + 100)
        return held(job)

    def works_at(_: int) -> bool:
        kept.stake(next(coming), False)
        return False

    monkeypatch.setattr(store.holders, "held", meanwhile)
    kept.works_at = works_at
    kept.collect()
    kept._urgently(lambda: True)
    assert problems.shown().ready
    assert metrics.value("disk_reserved_bytes") == 3 << 20
