"""What the disk refuses is kept in memory for its job, within a limit, and moves to the disk once there is room."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.small_disk import Refusal
from trainer_node.errors import Corrupt, DiskFull
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.network.fetcher import Fetcher
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.refused_by_disk import Memory
from trainer_node.storage.store import Store
from trainer_node.storage.store_files import path_of

JOB, OTHER = 1, 2
TENSOR = np.arange(5, dtype=np.float32)
LIMIT = 1 << 12


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "mine", sync=False)


@pytest.fixture
def served(tmp_path: Path) -> Store:
    return Store(tmp_path / "theirs", sync=False)


def test_what_is_fetched_into_memory_is_read_from_there_and_moves_to_the_disk_once_there_is_room(
    store: Store, served: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, memory = Name(Kind.TENSOR, served.put_tensor(TENSOR)), Memory(lambda: LIMIT)
    view = store.held_by(JOB, memory=memory)
    refusal = Refusal(monkeypatch, 0)
    with ArtifactServer(served) as server:
        fetcher = Fetcher(store, timeout_s=60.0, attempts=1)
        with pytest.raises(DiskFull):
            fetcher.for_job(JOB).fetch(name, [server.uri])
        fetcher.for_job(JOB, store=view).fetch(name, [server.uri])
    assert view.has(name)
    assert np.array_equal(view.get_tensor(name.hash), TENSOR)
    assert not store.has(name), "only the job's view knows of it"
    assert not store.held_by(OTHER, memory=memory).has(name)
    with pytest.raises(DiskFull):
        store.unload(JOB, memory)
    assert memory.names(JOB) == (name,)
    refusal.end()
    store.unload(JOB, memory)
    assert (memory.names(JOB), memory.size) == ((), 0)
    assert np.array_equal(store.get_tensor(name.hash), TENSOR)
    assert [path for _, path in store.holders.held(JOB)] == [
        str(path_of(store.root, name).relative_to(store.root))
    ]


def test_wrong_bytes_are_not_kept(store: Store) -> None:
    memory = Memory(lambda: LIMIT)
    view = store.held_by(JOB, memory=memory)
    with pytest.raises(Corrupt), view.incoming(Name(Kind.BLOB, bytes(32))) as incoming:
        incoming.write(b"other")
    assert memory.size == 0


def test_the_limit_is_for_all_jobs_together_and_what_is_let_go_makes_room() -> None:
    memory, names = Memory(lambda: 10), [Name(Kind.BLOB, bytes([k]) * 32) for k in range(3)]
    memory.put(JOB, names[0], b"x" * 6)
    memory.put(JOB, names[0], b"x" * 6)
    with pytest.raises(DiskFull, match=r"memory_bytes allows 10"):
        memory.put(OTHER, names[1], b"x" * 5)
    memory.put(OTHER, names[1], b"x" * 4)
    memory.release(JOB)
    assert (memory.names(JOB), memory.size) == ((), 4)
    memory.drop(OTHER, *names)
    assert memory.size == 0


def test_what_is_fetched_for_a_job_is_held_by_it(store: Store, served: Store) -> None:
    names = [Name(Kind.TENSOR, served.put_tensor(TENSOR)), Name(Kind.BLOB, served.put_blob(b"here"))]
    store.put_blob(b"here")
    with ArtifactServer(served) as server:
        Fetcher(store, timeout_s=60.0, attempts=1).for_job(JOB).fetch_all(names, [server.uri])
    held = {path for _, path in store.holders.held(JOB)}
    assert held == {str(path_of(store.root, name).relative_to(store.root)) for name in names}
