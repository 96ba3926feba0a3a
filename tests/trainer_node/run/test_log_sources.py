"""The two sources of logs: written logs never change, and followed logs are those that were committed to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from referee_py.commit import Tag, Tree
from referee_py.errors import HashMismatch, InvalidInput, Unavailable
from referee_py.rounding.log_source import run_log_tree
from referee_py.rounding.step_log import StepLog
from tests.referee_py.rounding.logs import node_log
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.network.fetcher import Fetcher
from trainer_node.run import fetched_logs, log_sources
from trainer_node.run.fetched_logs import MIN_LOG_BYTES, WINDOW, FetchedLogs, step_limit
from trainer_node.run.log_sources import OwnLogs
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .. import near

NODES, STEPS = 9, 3 * WINDOW + 5
LOGS = [
    StepLog({step % NODES: node_log(99, {}, {k: float(step) for k in range(10)})})
    for step in range(1, STEPS + 1)
]
TREE = run_log_tree([log.root(NODES) for log in LOGS])


def name_of(step: int) -> Name:
    return Name(Kind.LOG, TREE.leaves[step - 1], count=NODES)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "mine", sync=False)


@pytest.fixture
def written(stored: Database, store: Store) -> OwnLogs:
    return OwnLogs(stored, 7, store, NODES, STEPS)


class TestWritten:
    def test_what_was_written_is_followed_ever_after(
        self, written: OwnLogs, stored: Database, store: Store
    ) -> None:
        assert written.get(1) is None
        written.put(1, LOGS[0])
        assert written.get(1) == LOGS[0]
        assert OwnLogs(stored, 7, store, NODES, STEPS).get(1) is None, "it is not on disk yet"
        written.keep()
        assert OwnLogs(stored, 7, store, NODES, STEPS).get(1) == LOGS[0], "after a restart too"
        assert OwnLogs(stored, 8, store, NODES, STEPS).get(1) is None, "of another run"

    def test_the_run_commits_to_all_steps_or_none(self, written: OwnLogs) -> None:
        for step, log in enumerate(LOGS, 1):
            with pytest.raises(Unavailable, match=f"{step - 1} of {STEPS}"):
                _ = written.tree
            written.put(step, log)
            written.keep()
        assert written.tree.root == TREE.root

    def test_a_log_that_the_disk_has_lost_is_written_again(self, written: OwnLogs, store: Store) -> None:
        for step, log in enumerate(LOGS, 1):
            written.put(step, log)
        written.keep()
        store.forget(name_of(5))
        assert written.missing() == [5]
        assert written.get(5) is None
        with pytest.raises(HashMismatch, match="step 5 is lost"):
            written.put(5, LOGS[5])
        written.put(5, LOGS[4])
        written.keep()
        assert written.missing() == []
        assert written.tree.root == TREE.root

    def test_what_another_job_of_the_program_has_written_meanwhile_stays(
        self, written: OwnLogs, stored: Database, store: Store
    ) -> None:
        """A step that is executed twice may give two logs; a claim rests on the first that was kept."""
        other = OwnLogs(stored, 7, store, NODES, STEPS)
        written.put(1, LOGS[0])
        other.put(1, LOGS[0])
        written.put(2, LOGS[1])
        other.put(2, LOGS[4])
        other.keep()
        with pytest.raises(Unavailable, match="step 2 has the rounding log"):
            written.keep()
        assert stored.get_log(7, 2) == LOGS[4].root(NODES)
        again = OwnLogs(stored, 7, store, NODES, STEPS)
        assert again.get(2) == LOGS[4], "the next attempt follows it"

    def test_much_is_kept_before_it_is_more(
        self, written: OwnLogs, stored: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_sources, "MAX_WAITING", 4)
        monkeypatch.setattr(log_sources, "MAX_WAITING_BYTES", 3 * LOGS[0].size)
        for step in range(1, 4):
            written.put(step, LOGS[step - 1])
        assert stored.logs(7) == {}
        written.put(4, LOGS[3])
        assert list(stored.logs(7)) == [1, 2, 3, 4]
        for step in range(5, 8):
            written.put(step, LOGS[step - 1])
        assert list(stored.logs(7)) == [1, 2, 3, 4]
        monkeypatch.setattr(log_sources, "MAX_WAITING", 400)
        written.put(8, LOGS[7])
        assert list(stored.logs(7)) == list(range(1, 9))


class Served:
    """A trainer's server, and the log source of a follower."""

    def __init__(self, folder: Path, uri: str, threads: ThreadPoolExecutor) -> None:
        self.theirs = Store(folder / "theirs", sync=False)
        self.mine = Store(folder / "mine", sync=False)
        self.uri, self.threads = uri, threads

    def publish(self, *steps: int, tree: Tree = TREE) -> None:
        self.theirs.put_tree(tree)
        self.theirs.put_logs([LOGS[step - 1] for step in steps or range(1, STEPS + 1)], NODES)

    def log_source(self, **limits: Any) -> FetchedLogs:
        fetcher = Fetcher(self.mine, timeout_s=60.0, attempts=1)
        bounds = {"step_bytes": 1 << 20, "run_bytes": 1 << 20, **limits}
        return FetchedLogs(fetcher, lambda: [self.uri], TREE.root, STEPS, NODES, self.submit, **bounds)

    def submit(self, fetch: Callable[[threading.Event], None]) -> Future[None]:
        return self.threads.submit(fetch, threading.Event())

    @property
    def here(self) -> set[int]:
        """Return the steps whose logs have arrived."""
        return {step for step in range(1, STEPS + 1) if self.mine.has(name_of(step))}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with ArtifactServer(Store(tmp_path / "theirs", sync=False)) as server:
        threads = ThreadPoolExecutor(2)
        yield Served(tmp_path, server.uri, threads)
        threads.shutdown(wait=True, cancel_futures=True)


class TestFollowed:
    def test_every_step_is_followed_in_any_order(self, served: Served) -> None:
        served.publish()
        log_source = served.log_source()
        for step in (*range(1, STEPS + 1), 3, 40, STEPS, 1):
            assert log_source.get(step) == LOGS[step - 1]
        assert log_source.tree.root == TREE.root
        assert log_source.missing() == []

    def test_no_more_than_a_window_is_fetched_ahead(self, served: Served) -> None:
        served.publish()
        log_source = served.log_source()
        log_source.get(1)
        served.threads.submit(lambda: None).result()  # earlier requests are done or begun
        served.threads.shutdown(wait=True)
        assert served.here == set(range(1, 2 * WINDOW + 1))

    def test_what_nobody_serves_is_unavailable_and_asked_for_again(self, served: Served) -> None:
        log_source = served.log_source()
        with pytest.raises(Unavailable):
            log_source.get(1)
        served.publish(*(step for step in range(1, STEPS + 1) if step != 2))
        assert log_source.get(1) == LOGS[0], "a step does without the logs of others"
        with pytest.raises(Unavailable):
            log_source.get(2)
        served.publish()
        assert log_source.get(2) == LOGS[1]

    def test_other_logs_than_were_committed_to_are_not_followed(self, served: Served) -> None:
        served.publish()
        path = served.theirs.find(name_of(1))
        assert path is not None
        path.write_bytes(LOGS[1].encode())
        with pytest.raises(Unavailable, match="hash to"):
            served.log_source().get(1)
        assert 1 not in served.here

    def test_a_log_too_large_is_not_fetched(self, served: Served) -> None:
        served.publish()
        with pytest.raises(Unavailable, match="limit is 53"):
            served.log_source(step_bytes=53).get(1)
        assert not served.here

    def test_logs_that_take_too_much_disk_end_the_run(self, served: Served) -> None:
        served.publish()
        size = sum(
            path.stat().st_size
            for step in range(1, WINDOW + 1)
            if (path := served.theirs.find(name_of(step)))
        )
        log_source = served.log_source(run_bytes=size)
        assert log_source.get(WINDOW) == LOGS[WINDOW - 1]
        with pytest.raises(InvalidInput, match=r"limits\.log_bytes"):
            log_source.get(WINDOW + 1)

    def test_a_server_that_stalls_holds_nobody_up(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fetched_logs, "TURN_S", 0.05)
        served.publish()
        log_source, release = served.log_source(), threading.Event()
        for _ in range(2):
            served.threads.submit(release.wait, 20)
        with pytest.raises(Unavailable, match="on its way"):
            log_source.get(1)
        release.set()
        monkeypatch.setattr(fetched_logs, "TURN_S", 120)
        log_source.begin_turn()
        assert log_source.get(1) == LOGS[0]

    def test_there_is_nothing_to_write(self, served: Served) -> None:
        with pytest.raises(InvalidInput, match="another party"):
            served.log_source().put(1, LOGS[0])

    def test_the_tree_must_be_that_of_the_steps(self, served: Served) -> None:
        """Inner nodes of a tree can pass for its leaves unless their number is known."""
        shallow = Tree(Tag.LOG_RUN_TREE, [TREE.node(1, k) for k in range(1 << (TREE.depth - 1))])
        assert shallow.root == TREE.root
        served.theirs.put_tree(shallow)
        with pytest.raises(Unavailable):
            _ = served.log_source().tree


def test_the_logs_of_a_step_get_what_memory_is_left() -> None:
    program = near.PROGRAM
    needed = sum(19 + 12 + 11 * count for count in (0, 0, 0, 24, 8, 8))
    assert step_limit(program, 1 << 30) == needed
    assert step_limit(program, -5) == min(needed, MIN_LOG_BYTES), "there is always room for a little"
