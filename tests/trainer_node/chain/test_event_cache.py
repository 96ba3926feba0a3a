"""Old events are read once, whatever happens to the process, and new ones at every look. A block that is replaced makes
all of them be read anew."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from trainer_node.chain import ChainClient, Contracts
from trainer_node.chain.events import IDLE_BLOCKS, MAX_QUERIES, Event, EventCache, Query, read_events
from trainer_node.chain.log_range import LogRange
from trainer_node.errors import RpcUnavailable
from trainer_node.storage.database import Database

from .endpoint import Endpoint
from .test_events import BLOCKS, MATCH, Logs, taken

DEPTH = 10


@pytest.fixture
def client() -> Iterator[ChainClient]:
    endpoint = Endpoint()
    client = endpoint.client()
    endpoint.answer = Logs(client, taken).answer
    yield client
    endpoint.close()


class Reader:
    """Reads the withdrawals of `Logs`. ``hashes`` are those of blocks that were replaced."""

    def __init__(self, client: ChainClient, database: Database) -> None:
        self._web3 = client.web3
        contract = Contracts(client.web3, client.deployment).data_availability
        self.query = Query(contract, (MATCH,), ("Withdrawn",))
        self.cache = EventCache(database, DEPTH)
        self.hashes: dict[int, bytes] = {}
        self.ranges: list[tuple[int, int]] = []
        self.down = False
        self.height = 1 << 30
        """The newest block."""
        self.known = 1 << 30
        """The newest block whose logs the endpoint has."""

    def read(self, last: int) -> list[int]:
        """Return the blocks of the events."""
        return [event.block for event in self.events(last)]

    def events(self, last: int) -> list[Event]:
        return self.cache.read(self.query, 0, last, self.hash_of, self.fetch)

    def hash_of(self, number: int) -> bytes:
        if number > self.height:
            raise RpcUnavailable(f"the RPC endpoint does not have block {number}")
        return self.hashes.get(number, number.to_bytes(32, "big"))

    def fetch(self, first: int, last: int) -> list[Event]:
        if self.down:
            raise RpcUnavailable("the endpoint is down")
        self.ranges.append((first, last))
        found = read_events(self._web3, self.query, first, last, LogRange(1000))
        return [event for event in found if event.block <= self.known]


def until(last: int) -> list[int]:
    return [block for block in BLOCKS if block <= last]


def test_old_blocks_are_read_once_and_new_ones_at_every_look(client: ChainClient) -> None:
    reader = Reader(client, Database(None))
    for last in (12, 13, 49, 50, 99, 99):
        assert reader.read(last) == until(last)
    assert reader.ranges == [(0, 12), (0, 13), (0, 49), (40, 50), (40, 99), (90, 99)]
    assert reader.read(12) == until(12), "an older look"


def test_an_answer_that_lacked_events_is_made_good(client: ChainClient) -> None:
    """By a machine that was behind, or had not indexed its newest logs yet."""
    reader = Reader(client, Database(None))
    for last in range(1, 100):
        reader.known = last - random.Random(last).randrange(DEPTH)
        assert reader.read(last) == until(reader.known)
    reader.known = 99
    assert reader.read(99) == until(99)


def test_another_process_goes_on_where_the_last_one_was(client: ChainClient, tmp_path: Path) -> None:
    database = Database(tmp_path / "node.sqlite3")
    first = Reader(client, database).events(60)
    database.close()
    again = Reader(client, Database(tmp_path / "node.sqlite3"))
    assert again.events(60) == first
    assert again.read(99) == until(99)
    assert again.ranges == [(51, 60), (51, 99)]


def test_a_block_that_was_replaced_expect_all_anew(client: ChainClient, tmp_path: Path) -> None:
    database = Database(tmp_path / "node.sqlite3")
    reader = Reader(client, database)
    reader.read(50)
    reader.hashes[40] = b"other" + bytes(27)
    assert reader.read(99) == until(99)
    assert reader.ranges == [(0, 50), (0, 99)]
    assert Reader(client, database).read(99) == until(99), "none twice"


def test_a_chain_that_is_shorter_is_read_all_the_same(client: ChainClient) -> None:
    reader = Reader(client, Database(None))
    reader.read(90)
    reader.height = 75
    assert reader.read(75) == until(75)
    reader.height = 99
    assert reader.read(99) == until(99)
    assert reader.ranges == [(0, 90), (0, 75), (81, 99)]


def test_what_an_endpoint_has_hidden_is_read_again_once_it_is_forgotten(client: ChainClient) -> None:
    reader = Reader(client, Database(None))
    reader.read(99)
    reader.cache.forget(reader.query)
    assert reader.read(99) == until(99)
    assert reader.ranges == [(0, 99), (0, 99)]


def test_an_endpoint_that_fails_changes_nothing(client: ChainClient) -> None:
    reader = Reader(client, Database(None))
    reader.read(50)
    reader.down = True
    with pytest.raises(RpcUnavailable):
        reader.read(99)
    reader.down = False
    assert reader.read(99) == until(99)
    assert reader.ranges == [(0, 50), (41, 99)]


@pytest.mark.parametrize("method", ["put_events", "get_events", "drop_events"])
def test_a_full_disk_does_not_keep_us_from_reading(
    client: ChainClient, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def full(*_: object) -> None:
        raise OperationalError("INSERT", {}, Exception("database or disk is full"))

    reader = Reader(client, Database(None))
    monkeypatch.setattr(reader.cache._database, method, full)
    assert reader.read(60) == until(60)
    reader.hashes[50] = b"other" + bytes(27)
    assert reader.read(99) == until(99)


def test_a_row_that_nobody_can_read_is_dropped(client: ChainClient, tmp_path: Path) -> None:
    database = Database(tmp_path / "node.sqlite3")
    reader = Reader(client, database)
    database.put_events(reader.query.key, 50, reader.hash_of(50), ['{"topics": null}'], 0)
    assert reader.read(99) == until(99)
    assert reader.ranges == [(0, 99)]


def test_a_head_that_never_was_is_forgotten(client: ChainClient) -> None:
    reader = Reader(client, Database(None))
    reader.read(99)
    assert [reader.read(60), reader.read(60)] == [until(60)] * 2
    assert reader.ranges == [(0, 99), (0, 60), (0, 60)]
    assert reader.read(70) == until(70)
    assert reader.ranges[-1] == (51, 70)


def test_two_caches_on_one_file_do_not_give_events_twice(client: ChainClient, tmp_path: Path) -> None:
    one, two = (Reader(client, Database(tmp_path / "node.sqlite3")) for _ in range(2))
    for last in (30, 60, 99):
        one.read(last)
        two.read(last)
    assert Reader(client, Database(tmp_path / "node.sqlite3")).read(99) == until(99)


def test_few_looks_write_and_queries_that_nobody_asks_are_dropped(
    client: ChainClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(None)
    reader, written = Reader(client, database), list[int]()
    idle = Query(reader.query.contract, (MATCH + 1,), ("Withdrawn",))
    reader.cache.read(idle, 0, 50, reader.hash_of, lambda _first, _last: [])
    put = database.put_events

    def counted(*args: Any) -> None:
        written.append(args[1])
        put(*args)

    monkeypatch.setattr(database, "put_events", counted)
    for last in range(99, 99 + 5 * DEPTH):
        reader.read(last)
    assert written == [89, 100, 111, 122, 133]
    assert database.get_events(idle.key) is not None
    reader.read(IDLE_BLOCKS + 99)
    assert database.get_events(idle.key) is None


def test_queries_that_nobody_asks_for_leave_memory_first(
    client: ChainClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_node.chain.events.MAX_QUERIES", 2)
    assert MAX_QUERIES > 2
    reader = Reader(client, Database(None))
    contract = reader.query.contract
    queries = [Query(contract, (number,), ("Withdrawn",)) for number in range(3)]
    for query in (*queries, queries[1]):
        reader.cache.read(query, 0, 50, reader.hash_of, lambda _first, _last: [])
    assert list(reader.cache._kept) == [queries[2].key, queries[1].key]


def test_random_chains_expect_at_least_what_a_fresh_reading_gives(client: ChainClient) -> None:
    """With reorganisations, restarts, machines that are behind, and a chain that gets shorter."""
    for seed in range(12):
        rng, database = random.Random(seed), Database(None)
        reader, hashes, last = Reader(client, database), dict[int, bytes](), 0
        for _ in range(30):
            last = min(99, max(0, last + rng.randrange(-4, 14)))
            if rng.random() < 0.2:
                fork = max(0, last - rng.randrange(2 * DEPTH))
                hashes.update({n: rng.randbytes(32) for n in range(fork, 100)})
            if rng.random() < 0.2:
                reader = Reader(client, database)
            reader.hashes, reader.height = hashes, last
            reader.known = last - rng.randrange(DEPTH) * (rng.random() < 0.3)
            found = reader.read(last)
            assert found[: len(until(reader.known))] == until(reader.known)
            assert found == until(last)[: len(found)], "none twice"
