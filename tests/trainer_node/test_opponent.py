"""Opponents who stall, lie and drip cost a few seconds, then nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from referee_py.commit import Record, Tag, Tree
from trainer_node.fetch import Fetcher
from trainer_node.opponent import BAN_S, MAX_BAN_S, Opponents
from trainer_node.server import ArtifactServer
from trainer_node.store import Store

TREE = Tree(Tag.RUN_TREE, [bytes([k]) * 32 for k in range(5)])
OTHER = Tree(Tag.RUN_TREE, [bytes([k]) * 32 for k in range(6)])
RECORD = Record(b"\1" * 32, (), (b"\2" * 32,))
PATIENCE_S = 1.2


def root_of(tree: Tree | None) -> bytes | None:
    return tree.root if tree else None


class Stalling:
    """Accepts connections and says nothing; counts them."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.uri = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def asked(self) -> int:
        return len(self._open)

    def _accept(self) -> None:
        while True:
            try:
                self._open.append(self._socket.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        self._socket.close()
        for connection in self._open:
            connection.close()


@pytest.fixture
def stalling() -> Iterator[Stalling]:
    server = Stalling()
    yield server
    server.close()


class Clock:
    """The real one, plus what a test adds."""

    def __init__(self) -> None:
        self.added = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.added


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opponents(tmp_path: Path, clock: Clock) -> Iterator[Opponents]:
    fetcher = Fetcher(Store(tmp_path / "own"), timeout_s=3.0, attempts=1, budget_s=4.0)
    made = Opponents(fetcher, patience_s=PATIENCE_S, clock=clock)
    yield made
    made.close()


def test_what_is_served_is_used(opponents: Opponents, tmp_path: Path) -> None:
    store = Store(tmp_path / "other")
    store.put_tree(TREE)
    store.put_record(RECORD)
    with ArtifactServer(store) as server:
        asked = opponents.ask([server.uri])
        assert root_of(asked.tree(TREE.tag, TREE.root, 5)) == TREE.root
        assert asked.record(RECORD.hash()) == RECORD
        assert asked.tree(OTHER.tag, OTHER.root, 6) is None, "what is not there is no answer, and no error"
        assert not opponents.banned((server.uri,))


def test_64_stalling_servers_cost_one_patience_and_then_nothing(
    opponents: Opponents, stalling: Stalling, clock: Clock
) -> None:
    uris = [f"{stalling.uri}/{k}" for k in range(64)]
    began = time.monotonic()
    asked = opponents.ask(uris)
    for leaves in range(5, 15):  # a batch asks at every position that it comes to
        assert asked.tree(TREE.tag, TREE.root, leaves) is None
        assert asked.record(RECORD.hash()) is None
    assert PATIENCE_S <= time.monotonic() - began < PATIENCE_S + 1
    assert 0 < stalling.asked <= 4

    for ban in (BAN_S, 2 * BAN_S, 4 * BAN_S):
        before = stalling.asked
        began = time.monotonic()
        for _ in range(100):
            assert opponents.ask(uris).tree(TREE.tag, TREE.root, 5) is None
        assert time.monotonic() - began < 0.5, "banned servers cost nothing"
        assert stalling.asked == before
        clock.added += ban + 1
        assert opponents.ask(uris).tree(TREE.tag, TREE.root, 5) is None  # once more, and banned for longer
    clock.added += MAX_BAN_S
    assert not opponents.banned(tuple(uris[:4]))


def test_one_opponent_who_stalls_does_not_silence_another(
    opponents: Opponents, stalling: Stalling, tmp_path: Path
) -> None:
    store = Store(tmp_path / "other")
    store.put_tree(TREE)
    assert opponents.ask([stalling.uri]).tree(TREE.tag, TREE.root, 5) is None
    with ArtifactServer(store) as server:
        assert root_of(opponents.ask([server.uri]).tree(TREE.tag, TREE.root, 5)) == TREE.root


def test_a_spokesman_who_stalls_does_not_hide_a_member_who_serves(stalling: Stalling, tmp_path: Path) -> None:
    store = Store(tmp_path / "other")
    store.put_tree(TREE)
    opponents = Opponents(Fetcher(Store(tmp_path / "own"), timeout_s=30.0, attempts=1, budget_s=30.0))
    with ArtifactServer(store) as server:
        found = opponents.ask([stalling.uri, server.uri]).tree(TREE.tag, TREE.root, 5)
        assert root_of(found) == TREE.root
    opponents.close()


@pytest.mark.parametrize(
    "uris", [[], [""], ["file:///etc/passwd"], ["http://127.0.0.1:9"], ["\x00", "http://[::"]]
)
def test_what_is_no_server_is_no_answer(opponents: Opponents, uris: list[str]) -> None:
    began = time.monotonic()
    assert opponents.ask(uris).tree(TREE.tag, TREE.root, 5) is None
    assert time.monotonic() - began < 1
