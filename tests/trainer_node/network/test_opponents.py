"""Opponents who stall, lie and drip cost a few seconds, then nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from referee_py.commit import Record, Tag, Tree
from trainer_node.limits.waits import TREES
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.network.fetcher import Fetcher
from trainer_node.network.opponents import BAN_S, BURST, MAX_BAN_S, Opponents
from trainer_node.storage.artifacts import Name
from trainer_node.storage.store import Store

TREE = Tree(Tag.RUN_TREE, [bytes([k]) * 32 for k in range(5)])
OTHER = Tree(Tag.RUN_TREE, [bytes([k]) * 32 for k in range(6)])
RECORD = Record(b"\1" * 32, (), (b"\2" * 32,))
PATIENCE_S = 1.0


def root_of(tree: Tree | None) -> bytes | None:
    return tree.root if tree else None


class Stalling:
    """Accepts connections, counts them and sends nothing."""

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


class Counting(Fetcher):
    """Counts requests, and those that came to an end."""

    asked = ended = 0

    def fetch(self, *named: Any, **options: Any) -> None:
        self.asked += 1
        try:
            super().fetch(*named, **options)
        finally:
            self.ended += 1


class Clock:
    """The real clock plus the seconds that a test adds."""

    def __init__(self) -> None:
        self.added = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.added


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fetcher(tmp_path: Path) -> Counting:
    return Counting(Store(tmp_path / "own"), timeout_s=120.0, attempts=1, budget_s=120.0)


@pytest.fixture
def opponents(fetcher: Counting, clock: Clock) -> Iterator[Opponents]:
    """Opponents with patience for every server that answers at all."""
    made = Opponents(fetcher, patience_s=60.0, clock=clock)
    yield made
    made.close()


@pytest.fixture
def impatient(fetcher: Counting, clock: Clock) -> Iterator[Opponents]:
    """Opponents with little patience, for servers that stall much longer."""
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
    impatient: Opponents, stalling: Stalling, clock: Clock, fetcher: Counting
) -> None:
    uris = [f"{stalling.uri}/{k}" for k in range(64)]
    asked = impatient.ask(uris)
    for leaves in range(5, 15):  # a batch asks at every position that it reaches
        assert asked.tree(TREE.tag, TREE.root, leaves) is None
        assert asked.record(RECORD.hash()) is None
    assert (fetcher.asked, fetcher.ended) == (1, 0), "nobody has waited for the end of it, or asked again"
    assert 0 < stalling.asked <= 4

    for number, ban in enumerate((BAN_S, 2 * BAN_S, 4 * BAN_S), 1):
        for _ in range(100):
            assert impatient.ask(uris).tree(TREE.tag, TREE.root, 5) is None
        assert fetcher.asked == number, "banned servers cost nothing"
        clock.added += ban + 1
        assert impatient.ask(uris).tree(TREE.tag, TREE.root, 5) is None  # once more, then banned for longer
    assert (fetcher.asked, fetcher.ended) == (4, 0)
    clock.added += MAX_BAN_S
    assert not impatient.banned(tuple(uris[:4]))


def test_one_opponent_who_stalls_does_not_silence_another(
    impatient: Opponents, stalling: Stalling, tmp_path: Path
) -> None:
    store = Store(tmp_path / "other")
    store.put_tree(TREE)
    assert impatient.ask([stalling.uri]).tree(TREE.tag, TREE.root, 5) is None
    assert impatient.banned((stalling.uri,))
    with ArtifactServer(store) as server:
        # NOTE: on a busy machine a server may exceed this patience; it is not banned because of the other one.
        assert not impatient.banned((server.uri,))
        answers = (root_of(impatient.ask([server.uri]).tree(TREE.tag, TREE.root, 5)) for _ in range(100))
        assert TREE.root in answers


def test_a_spokesman_who_stalls_does_not_hide_a_member_who_serves(stalling: Stalling, tmp_path: Path) -> None:
    store = Store(tmp_path / "other")
    store.put_tree(TREE)
    patient = Fetcher(Store(tmp_path / "own"), timeout_s=120.0, attempts=1, budget_s=120.0)
    opponents = Opponents(patient, patience_s=60.0)
    with ArtifactServer(store) as server:
        found = opponents.ask([stalling.uri, server.uri]).tree(TREE.tag, TREE.root, 5)
        assert root_of(found) == TREE.root
    opponents.close()


class Slow(Fetcher):
    """Gets the right tree, after seconds that pass on the test's clock alone, each time again."""

    def __init__(self, folder: Path, clock: Clock, takes_s: float) -> None:
        class Forgetful(Store):
            def has(self, name: Name) -> bool:  # noqa: ARG002
                return False

        super().__init__(Forgetful(folder))
        self._passing, self._takes_s = clock, takes_s

    def fetch(self, *_: Any, **__: Any) -> None:
        self._passing.added += self._takes_s
        self.store.put_tree(TREE)


@pytest.mark.parametrize("matches", [1, 64])
def test_right_answers_that_come_slowly_take_a_share_of_the_clock_however_many_matches(
    tmp_path: Path, clock: Clock, matches: int
) -> None:
    """Each answer comes just before our patience ends, and none is ever late."""
    opponents = Opponents(Slow(tmp_path, clock, 0.9 * 60.0), patience_s=60.0, clock=clock)
    began, waited, rounds = clock(), 0.0, 0
    while clock() - began < 36_000:
        before = clock()
        for number in range(matches):
            opponents.ask([f"http://slow{number}"]).tree(TREE.tag, TREE.root, 5)
        waited, rounds = waited + clock() - before, rounds + 1
        clock.added += 30.0
    # NOTE: an answer that is waited for is waited for to its end.
    assert waited <= BURST * 60.0 + 60.0 + float(TREES) * (clock() - began)
    assert rounds > (1 - float(TREES)) * 36_000 / 30.0 - 2 * BURST - 4, "all other time is ours"
    opponents.close()


def test_an_opponent_that_is_slow_and_right_is_asked_more_and_more_rarely(
    tmp_path: Path, clock: Clock
) -> None:
    opponents = Opponents(Slow(tmp_path, clock, 40.0), patience_s=60.0, clock=clock)
    servers = ("http://slow",)
    assert root_of(opponents.ask(servers).tree(TREE.tag, TREE.root, 5)) == TREE.root, "what has come is used"
    assert opponents.banned(servers)
    assert opponents.ask(servers).tree(TREE.tag, TREE.root, 5) is None
    clock.added += BAN_S + 1
    assert root_of(opponents.ask(servers).tree(TREE.tag, TREE.root, 5)) == TREE.root
    clock.added += BAN_S + 1
    assert opponents.banned(servers)
    opponents.close()


@pytest.mark.parametrize(
    "uris", [[], [""], ["file:///etc/passwd"], ["http://127.0.0.1:9"], ["\x00", "http://[::"]]
)
def test_what_is_no_server_is_no_answer(opponents: Opponents, uris: list[str]) -> None:
    assert opponents.ask(uris).tree(TREE.tag, TREE.root, 5) is None
    assert not opponents.banned(tuple(uris)), "a quick no"
