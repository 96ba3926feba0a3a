"""Events are read once, whatever happens to the process; a block that is replaced makes them be read anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainer_node.chain import ChainClient, Contracts
from trainer_node.chain.event_cache import MAX_QUERIES, SAVED_EVERY, EventCache
from trainer_node.chain.events import Event, Query, read_events
from trainer_node.db import Database
from trainer_node.errors import RpcUnavailable

from .endpoint import Endpoint
from .test_events import BLOCKS, MATCH, Logs, taken


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
        self.cache = EventCache(database)
        self.hashes: dict[int, bytes] = {}
        self.ranges: list[tuple[int, int]] = []
        self.down = False

    def read(self, last: int, *, keep: bool = True) -> list[Event]:
        return self.cache.read(self.query, 0, last, self._hash_of, self._fetch, keep=keep)

    def _hash_of(self, number: int) -> bytes:
        return self.hashes.get(number, number.to_bytes(32, "big"))

    def _fetch(self, first: int, last: int) -> list[Event]:
        if self.down:
            raise RpcUnavailable("the endpoint is down")
        self.ranges.append((first, last))
        return list(read_events(self._web3, self.query, first, last, 1000))


def blocks(events: list[Event]) -> list[int]:
    return [event.block for event in events]


def test_each_block_is_read_once(client: ChainClient) -> None:
    reader = Reader(client, Database(None))
    for last in (12, 12, 49, 50, 99):
        assert blocks(reader.read(last)) == [block for block in BLOCKS if block <= last]
    assert reader.ranges == [(0, 12), (13, 49), (50, 50), (51, 99)]
    assert blocks(reader.read(13)) == [block for block in BLOCKS if block <= 13], "an older look"
    assert len(reader.ranges) == 4


def test_another_process_goes_on_where_the_last_one_was(client: ChainClient, tmp_path: Path) -> None:
    database = Database(tmp_path / "node.sqlite3")
    first = Reader(client, database).read(60)
    database.close()
    again = Reader(client, Database(tmp_path / "node.sqlite3"))
    assert again.read(60) == first
    assert blocks(again.read(99)) == list(BLOCKS)
    assert again.ranges == [(61, 99)]


def test_a_block_that_was_replaced_expect_all_anew(client: ChainClient, tmp_path: Path) -> None:
    database = Database(tmp_path / "node.sqlite3")
    reader = Reader(client, database)
    reader.read(50)
    reader.hashes[50] = b"other" + bytes(27)
    assert blocks(reader.read(99)) == list(BLOCKS)
    assert reader.ranges == [(0, 50), (0, 99)]
    assert len(Reader(client, database).read(99)) == len(BLOCKS), "none twice"


def test_what_is_not_deep_enough_is_not_kept(client: ChainClient) -> None:
    reader = Reader(client, Database(None))
    reader.read(50)
    assert blocks(reader.read(99, keep=False)) == list(BLOCKS)
    assert blocks(reader.read(99)) == list(BLOCKS)
    assert reader.ranges == [(0, 50), (51, 99), (51, 99)]


def test_what_an_endpoint_has_hidden_is_read_again_once_it_is_forgotten(client: ChainClient) -> None:
    reader = Reader(client, Database(None))
    reader.read(99)
    reader.cache.forget(reader.query)
    assert blocks(reader.read(99)) == list(BLOCKS)
    assert reader.ranges == [(0, 99), (0, 99)]


def test_an_endpoint_that_fails_changes_nothing(client: ChainClient) -> None:
    reader = Reader(client, Database(None))
    reader.read(50)
    reader.down = True
    with pytest.raises(RpcUnavailable):
        reader.read(99)
    reader.down = False
    assert blocks(reader.read(99)) == list(BLOCKS)
    assert reader.ranges == [(0, 50), (51, 99)]


def test_idle_looks_write_nothing_for_long(client: ChainClient, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(None)
    reader, written = Reader(client, database), list[int]()
    reader.read(99)
    put = database.put_events

    def counted(*args: Any) -> None:
        written.append(args[1])
        put(*args)

    monkeypatch.setattr(database, "put_events", counted)
    for last in range(100, 100 + 2 * SAVED_EVERY, 100):
        reader.read(last)
    assert written == [1100]


def test_queries_that_nobody_asks_for_leave_memory_first(
    client: ChainClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_node.chain.event_cache.MAX_QUERIES", 2)
    assert MAX_QUERIES > 2
    reader = Reader(client, Database(None))
    contract = reader.query.contract
    queries = [Query(contract, (number,), ("Withdrawn",)) for number in range(3)]
    for query in (*queries, queries[1]):
        reader.cache.read(query, 0, 0, reader._hash_of, lambda _first, _last: [], keep=True)
    assert list(reader.cache._kept) == [queries[2].key, queries[1].key]
