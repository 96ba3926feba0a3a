"""An index of the contracts' events in SQLite, which follows the chain.

    deployment's block ......... through ......... head
    events, kept                 read at the next look

Besides the events it keeps the hashes of some blocks (`marks`): of each block with an event, and of the last block of
each look. A reorganisation shows by a mark that the chain no longer has. Then everything above the newest mark that the
chain still has is dropped, and read again.

INVARIANT: the index holds what a fresh reading of the blocks up to `through` would give. Each look is one transaction
of the database, so a killed process continues where it was.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hexbytes import HexBytes
from web3.contract import Contract

from trainer_node.chain.block import Block
from trainer_node.chain.connection import Connection
from trainer_node.chain.events import Event, EventCache, Query, packed, read_events, unpacked
from trainer_node.chain.rpc import guarded
from trainer_node.errors import RpcCorrupt, RpcUnavailable

from .named import WORDS, words_in

FORMAT = "2"
MARKS = 256
"""Marks that are kept, the newest; a deeper reorganisation begins the index again."""

MAX_DECODED = 20_000
"""Events kept decoded in memory: decoding takes longer than reading."""

_TABLES = """
create table if not exists meta (key text primary key, value text not null);
create table if not exists marks (number integer primary key, hash blob not null);
create table if not exists events (
    block integer, place integer, address text not null, topic text, name text not null, raw text not null,
    primary key (block, place)
) without rowid;
create index if not exists events_by_topic on events (address, topic, block, place);
create index if not exists events_by_name on events (address, name, block, topic);
create table if not exists named (
    word text, block integer, place integer, primary key (word, block, place)
) without rowid;
create table if not exists transactions (hash blob primary key, block integer not null, raw text not null);
"""

_OF_THE_CHAIN = ("marks", "events", "named", "transactions")


@dataclass(frozen=True, slots=True)
class Sent:
    """A transaction that was mined. ``value`` and ``fee`` are wei, ``instant`` is the block's time in unix seconds."""

    hash: bytes
    block: int
    instant: int
    sender: str
    to: str
    value: int
    gas: int
    fee: int
    data: bytes
    """Calldata."""


class Index(EventCache):
    """Safe for several threads. ``path``: the database; None keeps it in memory.

    It takes the place of a daemon's event cache, so that snapshots read events from it.
    """

    def __init__(self, path: Path | None) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._rows = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
        if path is not None:
            self._rows.execute("pragma journal_mode = wal")
        self._rows.executescript(_TABLES)
        self._last: dict[str, Event] = {}

    def close(self) -> None:
        with self._lock:
            self._rows.close()

    def belong_to(self, identity: str) -> None:
        """Say whose events these are. Those of another chain or deployment, or of another format, are dropped."""
        with self._lock, self._rows:
            known = self._rows.execute("select value from meta where key = 'identity'").fetchone()
            if known is None or known[0] != f"{FORMAT} {identity}":
                for table in _OF_THE_CHAIN:
                    self._rows.execute(f"delete from {table}")  # names of our own
                self._rows.execute(
                    "insert or replace into meta values ('identity', ?)", (f"{FORMAT} {identity}",)
                )

    @property
    def through(self) -> int | None:
        """The last block that was read; None before the first look."""
        with self._lock:
            found = self._rows.execute("select max(number) from marks").fetchone()[0]
        return None if found is None else int(found)

    # ------------------------------------------------------------------ following the chain

    def follow(self, client: Connection) -> Block:
        """Read the chain up to its head. Returns the block that the index is about now.

        Raises RpcUnavailable and RpcCorrupt; then nothing of this look is kept.
        """
        with self._lock:
            head = client.block()
            self._drop_replaced(client, head)
            last = self.through
            begin = client.deployment.block if last is None else last + 1
            while begin <= head.number:
                # NOTE: a piece at a time, so that a long first look continues where it was stopped.
                end = min(begin + client.log_range.most - 1, head.number)
                self._take(client, begin, head if end == head.number else client.block(end))
                begin = end + 1
            return head

    def _take(self, client: Connection, begin: int, last: Block) -> None:
        contracts = client.contracts
        watched = (
            *(contracts.jobs, contracts.referee, contracts.panel, contracts.court),
            *(contracts.registry, contracts.data_availability, contracts.watch, contracts.timekeeper),
        )
        found = [
            (contract, event)
            for contract in watched
            for event in read_events(client.web3, Query(contract, ()), begin, last.number, client.log_range)
        ]
        # SAFETY: had the block been replaced meanwhile, these would be events of two chains.
        if client.block(last.number).hash != last.hash:
            raise RpcUnavailable(f"block {last.number} was replaced while it was read; it is read again")
        searched = _searched(client)
        with self._transaction():
            for contract, event in found:
                topics = event.raw["topics"]
                word = bytes(topics[1]).hex() if len(topics) > 1 else None
                row = (event.block, event.index, str(contract.address).lower(), word, event.name)
                self._rows.execute(
                    "insert or replace into events values (?, ?, ?, ?, ?, ?)", (*row, packed(event))
                )
                if event.name in WORDS and contract in searched:
                    places = [(word, event.block, event.index) for word in words_in(event)]
                    self._rows.executemany("insert or ignore into named values (?, ?, ?)", places)
                self._mark(event.block, bytes(event.raw["blockHash"]))
            self._mark(last.number, last.hash)
            self._rows.execute(
                "delete from marks where number not in (select number from marks order by number desc limit ?)",
                (MARKS,),
            )

    def _mark(self, number: int, hash_: bytes) -> None:
        self._rows.execute("insert or replace into marks values (?, ?)", (number, hash_))

    def _drop_replaced(self, client: Connection, head: Block) -> None:
        """Drop what lies above the newest mark that is still in the chain."""
        marks = self._rows.execute("select number, hash from marks order by number desc").fetchall()
        if not marks:
            return
        kept: int | None = None
        for number, hash_ in marks:
            if number <= head.number and client.block(number).hash == hash_:
                kept = number
                break
        if kept == marks[0][0]:
            return
        above = -1 if kept is None else kept
        with self._transaction():
            for table in _OF_THE_CHAIN:
                column = "number" if table == "marks" else "block"
                self._rows.execute(f"delete from {table} where {column} > ?", (above,))

    def _transaction(self) -> sqlite3.Connection:
        self._rows.execute("begin immediate")
        return self._rows

    # ------------------------------------------------------------------ reading

    def read(
        self,
        query: Query,
        first: int,
        last: int,
        hash_of: Callable[[int], bytes],  # noqa: ARG002
        fetch: Callable[[int, int], Sequence[Event]],
        vouch: Callable[[int, int, Sequence[Event]], bool] = lambda *_: True,  # noqa: ARG002
    ) -> list[Event]:
        """Return the events up to the block ``last``, in order; from the endpoint if the index has not come so far."""
        through = self.through
        if through is None or last > through:
            return list(fetch(first, last))
        words = [None if word is None else word.to_bytes(32, "big").hex() for word in query.words]
        sql, values = (
            "select raw from events where address = ? and block <= ?",
            [
                str(query.contract.address).lower(),
                last,
            ],
        )
        if words and words[0] is not None:
            sql, values = f"{sql} and topic = ?", [*values, words[0]]
        if query.names is not None:
            sql = f"{sql} and name in ({','.join('?' * len(query.names))})"
            values += list(query.names)
        with self._lock:
            rows = self._rows.execute(f"{sql} order by block, place", values).fetchall()
        events = [self._decoded(query.contract, raw) for (raw,) in rows]
        return [event for event in events if _fits(event, words)]

    def forget(self, *queries: Query) -> None:
        """Begin again: a view of the contracts has shown that the endpoint had not given all events."""
        _ = queries
        with self._lock, self._transaction():
            for table in _OF_THE_CHAIN:
                self._rows.execute(f"delete from {table}")

    def naming(self, client: Connection, digits: str, last: int, most: int) -> list[Event]:
        """Return the newest ``most`` events up to the block ``last`` that name something whose hexadecimal digits begin
        so (`named.words_in`), the newest first."""
        contracts = {str(one.address).lower(): one for one in _searched(client)}
        with self._lock:
            # NOTE: "g" comes after every digit.
            rows = self._rows.execute(
                "select address, raw from events natural join "
                "(select distinct block, place from named where word >= ? and word < ? and block <= ? "
                "order by block desc, place desc limit ?) order by block desc, place desc",
                (digits, f"{digits}g", last, most),
            ).fetchall()
        return [self._decoded(contracts[address], raw) for address, raw in rows]

    def jobs_with(self, client: Connection, names: Sequence[str], last: int) -> set[int]:
        """Return the jobs that have an event of Jobs with one of these names, up to the block ``last``."""
        address = str(client.contracts.jobs.address).lower()
        with self._lock:
            rows = self._rows.execute(
                "select distinct topic from events where address = ? and block <= ? "
                f"and name in ({','.join('?' * len(names))})",
                (address, last, *names),
            ).fetchall()
        return {int(topic, 16) for (topic,) in rows}

    def events_in(self, client: Connection, blocks: Sequence[int]) -> list[tuple[str, Event]]:
        """Return contract name and event of all events in these blocks, in order."""
        names = {address.lower(): name for name, address in client.deployment.addresses.items()}
        contracts = client.contracts
        found = []
        with self._lock:
            for block in sorted(set(blocks)):
                rows = self._rows.execute(
                    "select address, raw from events where block = ? order by place", (block,)
                )
                found += rows.fetchall()
        by_name = {
            "Jobs": contracts.jobs,
            "Referee": contracts.referee,
            "Panel": contracts.panel,
            "Court": contracts.court,
            "VerifierRegistry": contracts.registry,
            "DataAvailability": contracts.data_availability,
            "Watch": contracts.watch,
            "Timekeeper": contracts.timekeeper,
        }
        return [(names[address], self._decoded(by_name[names[address]], raw)) for address, raw in found]

    def _decoded(self, contract: Contract, raw: str) -> Event:
        """Decode an event, or take it from those that were decoded last. The hash of its block is part of ``raw``."""
        with self._lock:
            event = self._last.pop(raw, None) or unpacked(contract, raw)
            self._last[raw] = event
            if len(self._last) > MAX_DECODED:
                del self._last[next(iter(self._last))]
        return event

    def sent(self, client: Connection, tx_hash: bytes) -> Sent:
        """Return a transaction of an event. Raises RpcUnavailable or RpcCorrupt."""
        with self._lock:
            row = self._rows.execute("select raw from transactions where hash = ?", (tx_hash,)).fetchone()
        if row is not None:
            block, instant, sender, to, value, gas, fee, data = json.loads(row[0])
            return Sent(tx_hash, block, instant, sender, to, int(value), gas, int(fee), bytes.fromhex(data))
        with guarded("a transaction"):
            raw = client.web3.eth.get_transaction(HexBytes(tx_hash))
            receipt = client.web3.eth.get_transaction_receipt(HexBytes(tx_hash))
            number, gas = int(receipt["blockNumber"]), int(receipt["gasUsed"])
            if raw["blockNumber"] != number:
                raise RpcCorrupt(f"transaction {tx_hash.hex()} is in two blocks")
            fee = gas * int(receipt.get("effectiveGasPrice", 0))
            instant = client.block(number).timestamp
            to, value, data = str(raw.get("to") or ""), int(raw["value"]), bytes(raw["input"])
            found = Sent(tx_hash, number, instant, str(raw["from"]), to, value, gas, fee, data)
        words = [
            number,
            found.instant,
            found.sender,
            found.to,
            str(found.value),
            gas,
            str(fee),
            found.data.hex(),
        ]
        with self._lock, self._transaction():
            # NOTE: a transaction moves to another block in a reorganisation; so one above `through` is not kept.
            if number <= (self.through or 0):
                self._rows.execute(
                    "insert or replace into transactions values (?, ?, ?)",
                    (tx_hash, number, json.dumps(words)),
                )
        return found


def _searched(client: Connection) -> tuple[Contract, ...]:
    """Return the contracts with events about jobs that the search knows."""
    return client.contracts.jobs, client.contracts.panel


def _fits(event: Event, words: Sequence[str | None]) -> bool:
    topics = [bytes(topic).hex() for topic in event.raw["topics"][1:]]
    return len(topics) >= len(words) and all(
        word is None or word == topic for word, topic in zip(words, topics, strict=False)
    )
