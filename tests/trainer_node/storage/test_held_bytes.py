"""What each job's artifacts take on the disk, counted as they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainer_node.desk import keeper_of
from trainer_node.observe.metrics import Metrics
from trainer_node.observe.problems import Problems
from trainer_node.storage import held_bytes
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.disk import Ballast, on_disk
from trainer_node.storage.disk_estimate import Needs
from trainer_node.storage.disk_keeper import Keeper
from trainer_node.storage.drawn import rests_on
from trainer_node.storage.held_bytes import HeldBytes
from trainer_node.storage.retention import Policy
from trainer_node.storage.store import Store
from trainer_node.storage.store_files import path_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "artifacts", sync=False)


def test_counts_are_those_of_the_files(store: Store) -> None:
    held = HeldBytes(store)
    assert held.of(1) == 0
    view = store.held_by(1)
    first = view.put_blob(b"a" * 10_000)
    assert held.of(1) == on_disk(10_000)
    view.put_blob(b"b" * 100)
    store.held_by(2).put_blob(b"c" * 5_000)
    assert held.of(1) == on_disk(10_000) + on_disk(100)
    assert held.of(2) == on_disk(5_000)
    path_of(store.root, Name(Kind.BLOB, first)).unlink()
    held.recount()
    assert held.of(1) == on_disk(100)
    view.put_blob(b"a" * 10_000)
    assert held.of(1) == on_disk(10_000) + on_disk(100), "it has come again"


def test_a_line_counts_once_its_artifact_is_there(store: Store) -> None:
    """A line is written before its artifact, and may be torn while it is read."""
    held = HeldBytes(store)
    path = path_of(store.root, Name(Kind.BLOB, bytes(32)))
    line = f"w {path.relative_to(store.root)}\n".encode()
    lines = store.root / "jobs" / "3"
    lines.parent.mkdir(parents=True, exist_ok=True)
    lines.write_bytes(b"b 1764043580\n" + line[:9])
    assert held.of(3) == 0
    with lines.open("ab") as file:
        file.write(line[9:])
    assert held.of(3) == 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 100)
    assert held.of(3) == on_disk(100)


def test_the_room_for_jobs_is_known_without_a_look_at_every_file(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, looked = 200, 0

    def counted(size: int) -> int:
        nonlocal looked
        looked += 1
        return on_disk(size)

    monkeypatch.setattr(held_bytes, "on_disk", counted)
    view = store.held_by(1)
    for k in range(files):
        view.put_blob(k.to_bytes(4, "big"))
    metrics = Metrics()
    keeper = Keeper(
        store,
        Database(None),
        Ballast(tmp_path),
        policy=Policy(),
        store_bytes=0,
        every_s=1e9,
        metrics=metrics,
        problems=Problems(metrics),
    )
    keeper.needs(1, Needs(1 << 40))
    keeper.stake(1, True)
    assert keeper.reserved == (1 << 40) - files * on_disk(4)
    for job in range(2, 66):
        keeper.too_full(job)
    assert looked == files


def test_what_is_drawn_is_no_part_of_what_a_stake_takes(store: Store, tmp_path: Path) -> None:
    """The attack: what a sampler drew of many claims of a job counted as its own whole run, of which less room was kept
    then."""
    held = HeldBytes(store)
    store.held_by(1).put_blob(b"a" * 100)
    drawn = store.held_by(1, drawn=True)
    name = Name(Kind.BLOB, drawn.put_blob(b"b" * 50_000))
    assert held.of(1) == on_disk(100) + on_disk(50_000)
    assert held.of(1, drawn=False) == on_disk(100)
    keeper = keeper_of(tmp_path, store, Database(None))[0]
    keeper.needs(1, Needs(1 << 20))
    keeper.stake(1, True)
    assert keeper.reserved == (1 << 20) - on_disk(100)
    rests_on(store.held_by(1), name)
    assert held.of(1, drawn=False) == held.of(1) == on_disk(100) + on_disk(50_000)
    assert keeper.reserved == (1 << 20) - on_disk(100) - on_disk(50_000)
