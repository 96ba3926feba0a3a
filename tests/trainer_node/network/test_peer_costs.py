"""Servers that only cost: what counts, what is forgiven, and when nothing more is asked of them."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest

from referee_py.errors import Unavailable
from tests.support.clock import Clock
from tests.support.local_server import LocalServer
from trainer_node.errors import Corrupt
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.network.budget import Budget
from trainer_node.network.fetcher import Fetcher
from trainer_node.network.peer_costs import DAY_S, MAX_HOSTS, MAX_SHOWN, Peers, host_of
from trainer_node.network.sources import Served
from trainer_node.observe.metrics import Metrics
from trainer_node.observe.problems import Problems
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from ..desk import until
from ..slow import Hand, SlowServer

MIB = 1 << 20
HOST = "peer.example:80"


class Desk:
    """A budget of 1000 bytes and 100 s a day, on a database that outlives it."""

    def __init__(self, database: Database | None = None, clock: Clock | None = None) -> None:
        self.database, self.clock = database or Database(None), clock or Clock(1e9)
        self.metrics, self.problems = Metrics(), Problems()
        self.peers = Peers(
            self.database, self.metrics, self.problems, max_bytes=1000, max_s=100, clock=self.clock
        )


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_budget_is_for_one_job_and_one_host(desk: Desk) -> None:
    desk.peers.failed(1, HOST, 999, 1)
    assert desk.peers.refusal(1, HOST) is None
    desk.peers.failed(1, HOST, 1, 1)
    assert desk.peers.refusal(1, HOST) is not None
    assert desk.peers.refusal(2, HOST) is None
    assert desk.peers.refusal(1, "other.example:80") is None


def test_time_counts_too(desk: Desk) -> None:
    for _ in range(10):
        desk.peers.failed(1, HOST, 1, 10)
    reason = desk.peers.refusal(1, HOST) or ""
    for words in (
        HOST,
        "10 bytes in 100 s",
        "limits.peer_bytes (1000)",
        "limits.peer_s (100)",
        "Its operator",
    ):
        assert words in reason


def test_a_restart_grants_no_new_budget(desk: Desk) -> None:
    desk.peers.failed(1, HOST, 1000, 0)
    again = Desk(desk.database, desk.clock)
    assert again.peers.refusal(1, HOST) is not None
    assert again.problems.topics()


def test_a_day_gives_a_budget_back_and_no_more(desk: Desk) -> None:
    desk.peers.failed(1, HOST, 3000, 0)
    reason = desk.peers.refusal(1, HOST) or ""
    assert "again in 48.0 h" in reason
    desk.clock.now += 2 * DAY_S - 1
    assert desk.peers.refusal(1, HOST) is not None
    desk.clock.now += 2
    assert desk.peers.refusal(1, HOST) is None
    assert not desk.problems.topics()
    desk.clock.now += 1000 * DAY_S
    desk.peers.failed(1, HOST, 1000, 0)
    assert desk.peers.refusal(1, HOST) is not None, "good days are not saved up"


def test_a_clock_that_is_set_back_gives_nothing(desk: Desk) -> None:
    desk.peers.failed(1, HOST, 1000, 0)
    desk.clock.now -= 10 * DAY_S
    assert desk.peers.refusal(1, HOST) is not None


def test_what_is_delivered_is_taken_off_once(desk: Desk) -> None:
    """So a small right artifact does not pay for a flood."""
    desk.peers.failed(1, HOST, 1500, 0)
    desk.peers.delivered(1, HOST, 400, 0)
    assert desk.peers.refusal(1, HOST) is not None
    desk.peers.delivered(1, HOST, 200, 0)
    assert desk.peers.refusal(1, HOST) is None
    for _ in range(100):
        desk.peers.delivered(1, HOST, 10**6, 0)
    desk.peers.failed(1, HOST, 1000, 0)
    assert desk.peers.refusal(1, HOST) is not None, "what was delivered before is not a credit"


def test_readyz_and_metrics_say_who_is_given_up_until_the_job_is_over(desk: Desk) -> None:
    desk.peers.failed(7, HOST, 5000, 3)
    (notice,) = desk.problems.shown().notices
    assert notice.startswith(f"job 7: server {HOST}: ")
    assert desk.problems.shown().ready, "anybody can name a bad server"
    assert desk.metrics.value("peers_given_up") == 1
    assert desk.metrics.value("wasted_bytes", HOST) == 5000
    assert desk.metrics.value("fetch_failures", HOST) == 1
    desk.peers.forget(7)
    assert not desk.problems.topics()
    assert desk.metrics.value("peers_given_up") == 0
    assert desk.peers.refusal(7, HOST) is None


def test_what_is_remembered_is_bounded_and_drops_who_has_cost_least(desk: Desk) -> None:
    desk.peers.failed(1, HOST, 5000, 0)
    for number in range(3 * MAX_HOSTS):
        desk.peers.failed(1, f"{number}.example:80", 1001, 0)
    assert desk.peers.refusal(1, HOST) is not None
    assert len(desk.database.get("servers of job 1")) == MAX_HOSTS
    assert len(desk.problems.topics()) == MAX_SHOWN


def test_ports_are_part_of_a_host() -> None:
    assert [host_of(uri) for uri in ("http://a.example", "https://a.example/x", "http://[::1]:7")] == [
        "a.example:80",
        "a.example:443",
        "::1:7",
    ]


# ------------------------------------------------------------------ over HTTP


class Flood(LocalServer):
    """Sends zeros without end, and counts the bytes that were taken."""

    def __init__(self) -> None:
        self.taken = self.asked = 0
        flood = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                flood.asked += 1
                self.send_response(200)
                self.end_headers()
                try:
                    for _ in itertools.count():
                        self.wfile.write(bytes(MIB))
                        flood.taken += MIB
                except OSError:
                    return

        super().__init__(Handler)


@pytest.fixture
def flood() -> Iterator[Flood]:
    with Flood() as flood:
        yield flood


def fetcher(folder: Path, database: Database, problems: Problems, job: int = 1) -> Fetcher:
    peers = Peers(database, Metrics(), problems, max_bytes=20 * MIB, max_s=600)
    store = Store(folder, sync=False)
    return Fetcher(store, timeout_s=60.0, attempts=3, backoff_s=0.01, peers=peers).for_job(job)


def test_a_flood_costs_its_budget_and_no_more(tmp_path: Path, flood: Flood) -> None:
    wanted, database, problems = hashlib.sha256(b"program").digest(), Database(None), Problems()
    for _ in range(20):  # restarts
        one = fetcher(tmp_path / "mine", database, problems)
        with pytest.raises(Unavailable):
            Served(one, [flood.uri]).blob(wanted, 8 * MIB)
    assert flood.asked == 3, "8 MiB each, until the 20 MiB are spent"
    assert flood.taken <= flood.asked * 32 * MIB, "what the sockets hold is taken, too"
    with pytest.raises(Unavailable, match="without delivering"):
        Served(one, [flood.uri]).blob(wanted, 8 * MIB)
    assert len(problems.topics()) == 1
    # Another job of an honest client is not touched, and neither is an honest server in this one.
    honest = Store(tmp_path / "honest", sync=False)
    honest.put_blob(b"program")
    with ArtifactServer(honest) as server:
        assert Served(one, [flood.uri, server.uri]).blob(wanted) == b"program"
    with pytest.raises(Corrupt):
        Served(fetcher(tmp_path / "mine", database, problems, job=2), [flood.uri]).blob(bytes(32), MIB)


def test_a_message_blames_the_server_where_no_setting_would_help(tmp_path: Path, flood: Flood) -> None:
    one = fetcher(tmp_path / "mine", Database(None), Problems())
    with pytest.raises(Corrupt, match="at most 1000 bytes, so the server sends something else") as caught:
        Served(one, [flood.uri]).blob(bytes(32), 1000)
    assert "raise" not in str(caught.value)
    small = Store(tmp_path / "small", max_bytes=MIB, sync=False)
    with pytest.raises(Corrupt, match=r"limits\.artifact_bytes allows 1048576; raise it"):
        Served(Fetcher(small, timeout_s=60.0, attempts=1), [flood.uri]).blob(bytes(32))


def test_a_server_that_is_down_costs_nothing(tmp_path: Path) -> None:
    database, problems = Database(None), Problems()
    for _ in range(5):
        with pytest.raises(Unavailable, match="ConnectError"):
            Served(fetcher(tmp_path / "mine", database, problems), ["http://127.0.0.1:9"]).blob(bytes(32))
    assert database.get("servers of job 1") is None


def test_a_call_that_takes_too_long_says_how_much_came(tmp_path: Path, flood: Flood) -> None:
    honest, database, problems = Store(tmp_path / "honest", sync=False), Database(None), Problems()
    good = honest.put_tensor(np.ones(5, np.float32))
    metrics = Metrics()
    peers = Peers(database, metrics, problems, max_bytes=1, max_s=600)
    mine = Store(tmp_path / "mine", max_bytes=1 << 40, sync=False)
    one = Fetcher(mine, timeout_s=60.0, attempts=1, budget_s=1.0, peers=peers).for_job(1)
    with ArtifactServer(honest) as server, pytest.raises(Unavailable) as caught:
        one.fetch_all([Name(Kind.TENSOR, good), Name(Kind.BLOB, bytes(32))], [server.uri, flood.uri])
    assert "1 of 2 artifacts came in the 1 s of limits.fetch_budget_s" in str(caught.value)
    assert mine.usage.received == (honest.find(Name(Kind.TENSOR, good)) or tmp_path).stat().st_size
    assert len(problems.topics()) == 1, "the flood was cut off because the time was over, which counts"


class TestTheTimeOfAWork:
    """Slow and right is the same as withheld once the time of a work is over."""

    @pytest.fixture
    def problems(self) -> Problems:
        return Problems()

    def stored(self, folder: Path, count: int) -> tuple[Store, list[Name]]:
        store = Store(folder, sync=False)
        return store, [Name(Kind.TENSOR, store.put_tensor(np.full(5, k, np.float32))) for k in range(count)]

    def node(self, folder: Path, clock: Hand, problems: Problems) -> Fetcher:
        peers = Peers(Database(None), Metrics(), problems, max_bytes=MIB, max_s=20.0)
        store = Store(folder, sync=False)
        fetcher = Fetcher(store, timeout_s=60.0, attempts=1, peers=peers, clock=clock)
        return fetcher.for_job(1)

    def test_right_answers_that_come_late_count_against_their_server_when_it_is_over(
        self, tmp_path: Path, problems: Problems
    ) -> None:
        """The attack: each answer right, 9 s late, one after the other, for hours; and nobody was given up."""
        clock = Hand()
        budget = Budget(25.0, "an interval", clock=clock)
        theirs, names = self.stored(tmp_path / "theirs", 9)
        node = self.node(tmp_path / "mine", clock, problems)
        work = node.within(budget)
        with SlowServer(theirs, clock, late=9.0) as slow:
            for name in names[:2]:
                work.fetch(name, [slow.uri])
            assert not problems.topics(), "it may come in time"
            with pytest.raises(Unavailable, match="an interval: the 25 s in which it had to come are over"):
                self.one_by_one(work, names[2:], slow.uri)
            assert len(slow.seen) == 3
            assert problems.topics() == {f"job 1: server {slow.uri[7:]}"}
            work.fetch(names[0], [slow.uri])  # what is here is here
            other = Budget(25.0, "another interval", clock=clock)
            with pytest.raises(Unavailable, match="without delivering"):
                node.within(other).fetch_all(names, [slow.uri])
            assert len(slow.seen) == 3, "another work of the job does not wait for it again"

    @staticmethod
    def one_by_one(work: Fetcher, names: list[Name], uri: str) -> None:
        for name in names:
            work.fetch(name, [uri])

    def test_a_work_that_is_done_in_time_blames_nobody(self, tmp_path: Path, problems: Problems) -> None:
        clock = Hand()
        budget = Budget(1e6, "an interval", clock=clock)
        theirs, names = self.stored(tmp_path / "theirs", 9)
        work = self.node(tmp_path / "mine", clock, problems).within(budget)
        with SlowServer(theirs, clock, late=9.0) as slow:
            for name in names:
                work.fetch(name, [slow.uri])
        assert not problems.topics()

    def test_a_download_is_cut_off_when_the_time_is_over(self, tmp_path: Path, problems: Problems) -> None:
        clock = Hand()
        budget = Budget(25.0, "an interval", clock=clock)
        _, names = self.stored(tmp_path / "theirs", 1)
        work = self.node(tmp_path / "mine", clock, problems).within(budget)
        with SlowServer(None, clock, holds=True) as stalling, ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(work.fetch, names[0], [stalling.uri])
            until(lambda: stalling.seen)
            clock.on(25.0)
            with pytest.raises(Unavailable, match="0 of 1 artifacts came"):
                waiting.result(60)
            assert len(problems.topics()) == 1, "it took 25 s, more than the 20 s of a day"

    def test_a_turn_that_ends_blames_nobody(self, tmp_path: Path, problems: Problems) -> None:
        clock = Hand()
        turn = Budget(25.0, "a turn", blames=False, clock=clock)
        _, names = self.stored(tmp_path / "theirs", 1)
        work = self.node(tmp_path / "mine", clock, problems).within(turn)
        with SlowServer(None, clock, holds=True) as stalling, ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(work.fetch, names[0], [stalling.uri])
            until(lambda: stalling.seen)
            clock.on(25.0)
            with pytest.raises(Unavailable, match="a turn: the 25 s"):
                waiting.result(60)
        assert not problems.topics()
