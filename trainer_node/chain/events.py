"""Event logs, decoded and checked: of the right contract, about the right thing, in the right blocks, in order.

Old ones are kept, so that no look at the chain reads all blocks of a long job again:

    first ......... through ......... last
    kept, in memory and on disk       read again at every look

Strangers decide how many logs a range of blocks has, and how long they are. So a range that is too much for the
endpoint or for us is read in halves, down to single blocks, whose size the chain limits.
"""

from __future__ import annotations

import json
import threading
from binascii import unhexlify
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError
from web3 import Web3
from web3.contract import Contract
from web3.exceptions import Web3RPCError
from web3.types import RPCResponse

from ..errors import RpcCorrupt, RpcRefused, RpcTooLong
from ..storage.database import Database
from .coders import EventCoder, event_coders
from .endpoints import endpoints_of
from .log_range import LogRange
from .recorded_reads import LOGS
from .refusals import is_about_results
from .rpc import guarded

MAX_EVENTS = 100_000
"""More events than any match or job can cause; more of them are an error of the endpoint."""
MAX_QUERIES = 10_000
"""Queries kept in memory; the least recently used is dropped first."""
MIN_DEPTH = 32
"""Blocks that a daemon reads again at every look at least, however few the endpoint searches at once."""
IDLE_BLOCKS = 200_000
"""Blocks after which a query that nobody has asked is dropped from the database: a month of blocks of 12 s."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """A decoded log. ``args`` is keyed by the contract's parameter names; structs are named tuples."""

    name: str
    args: dict[str, Any]
    block: int
    tx_hash: bytes
    index: int
    raw: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """The log as the endpoint gave it, but for bytes and numbers in place of their digits."""


@dataclass(frozen=True, slots=True)
class Query:
    """Selects events of a contract by their indexed words (None: any word) and names (None: all of its events)."""

    contract: Contract
    words: tuple[int | None, ...]
    names: tuple[str, ...] | None = None

    @property
    def key(self) -> str:
        """A text that is the same for equal queries."""
        return json.dumps(
            [str(self.contract.address).lower(), [w and str(w) for w in self.words], self.names]
        )


def read_events(
    web3: Web3, query: Query, first: int, last: int, span: LogRange, most: int = MAX_EVENTS
) -> Iterator[Event]:
    """Yield the events in the blocks ``first..last``, in order; ``span``: how many blocks one request may name.

    Raises RpcUnavailable or RpcCorrupt; their message names a single block that is refused or too long.
    """
    count = 0
    for start, end, raw_logs in _logs(web3, query, first, last, span):
        count += len(raw_logs)
        if count > most:
            raise RpcCorrupt(f"eth_getLogs gave {count} logs; there cannot be more than {most}")
        yield from _checked(query, raw_logs, start, end)


def newest_events(web3: Web3, query: Query, first: int, last: int, span: LogRange) -> list[Event]:
    """Return the events in the blocks ``first..last``, in order; only in the last of them where the endpoint gives no
    more at once. Raises as `read_events`."""
    while True:
        first = max(first, last - span.length(endpoints_of(web3).asked) + 1)
        try:
            return _checked(query, _asked(web3, query, first, last, span), first, last)
        except RpcRefused:
            if first == last:
                raise
            first = (first + last + 1) // 2


def _logs(
    web3: Web3, query: Query, first: int, last: int, span: LogRange
) -> Iterator[tuple[int, int, Sequence[Any]]]:
    """Yield (from, to, logs) as the endpoint gives them for ``first..last``, in order."""
    endpoints, left = endpoints_of(web3), first
    while left <= last:
        ranges = [(left, min(left + span.length(endpoints.asked) - 1, last))]
        left = ranges[0][1] + 1
        while ranges:
            begin, end = ranges.pop()
            most = span.length(endpoints.asked)
            if end - begin >= most:
                ranges += [(begin + most, end), (begin, begin + most - 1)]
                continue
            try:
                found = _asked(web3, query, begin, end, span)
            # NOTE: each endpoint has its own error for a range that is too much, so every refusal halves the range. An
            # error with another cause comes back for each half, down to a single block, and is raised then.
            except (RpcRefused, RpcTooLong) as error:
                if begin == end:
                    remedy = (
                        "raise limits.rpc_bytes" if isinstance(error, RpcTooLong) else "set another rpc_url"
                    )
                    raise type(error)(f"{error}, for block {begin} alone; {remedy}") from error
                middle = (begin + end) // 2
                ranges += [(middle + 1, end), (begin, middle)]
            else:
                yield begin, end, found


def _asked(web3: Web3, query: Query, first: int, last: int, span: LogRange) -> Sequence[Any]:
    """Return the logs that the endpoint gives for all of these blocks at once. Raises as `read_events`."""
    known, endpoints = event_coders(query.contract), endpoints_of(web3)
    wanted = [topic for topic, coder in known.items() if query.names is None or coder.name in query.names]
    topics: list[Any] = [
        ["0x" + topic.hex() for topic in wanted],
        *(None if word is None else "0x" + word.to_bytes(32, "big").hex() for word in query.words),
    ]
    where = {
        "address": query.contract.address,
        "topics": topics,
        "fromBlock": hex(first),
        "toBlock": hex(last),
    }
    endpoint = endpoints.asked
    try:
        with guarded(LOGS):
            # NOTE: web3's own get_logs walks through each value of each log several times.
            found = _logs_in(endpoints.make_request(LOGS, [where]))
    except RpcRefused as error:
        # NOTE: a range with many logs says nothing about the others.
        if not is_about_results(str(error)):
            span.refused(endpoint, last - first + 1)
        raise
    span.worked(endpoints.source, last - first + 1)
    return found


def _logs_in(answer: RPCResponse) -> list[Any]:
    """Return the logs in an answer. Raises Web3RPCError for any error, also one that names a revert, and TypeError."""
    error: Any = answer.get("error")
    if error is not None:
        raise Web3RPCError(repr(error))
    found: Any = answer["result"]
    if not isinstance(found, list):
        raise TypeError(f"{type(found).__name__} instead of a list")
    return found


def _checked(query: Query, raw_logs: Sequence[Any], first: int, last: int) -> list[Event]:
    """Return the events of some logs, in order. Raises RpcCorrupt if one was not asked for, or two have one place."""
    words = [None if word is None else word.to_bytes(32, "big") for word in query.words]
    with guarded(LOGS):
        known = event_coders(query.contract)
        events = [_decode(query.contract, known, words, _read(log), first, last) for log in raw_logs]
        placed = {(event.block, event.index): event for event in events}
        if len(placed) != len(events):
            raise RpcCorrupt("eth_getLogs gave two logs at one place")
    return [placed[place] for place in sorted(placed)]


def _read(log: Mapping[str, Any]) -> dict[str, Any]:
    """Return a log of an answer with bytes and numbers in place of their digits. Raises the errors of `guarded`."""
    return {
        **log,
        **{name: _bytes_of(log[name]) for name in _BYTES},
        "topics": [_bytes_of(topic) for topic in log["topics"]],
        **{name: _number_of(log[name]) for name in _NUMBERS},
    }


def _bytes_of(digits: str | None) -> bytes:
    return b"" if digits is None else unhexlify(digits.removeprefix("0x"))


def _number_of(digits: str | int | None) -> int | None:
    return int(digits, 16) if isinstance(digits, str) else digits


def _decode(
    contract: Contract,
    known: Mapping[bytes, EventCoder],
    words: list[bytes | None],
    raw: Mapping[str, Any],
    start: int,
    end: int,
) -> Event:
    topics: list[bytes] = raw["topics"]
    matches = len(topics) > len(words) and all(
        word is None or word == topic for word, topic in zip(words, topics[1:], strict=False)
    )
    matches = matches and topics[0] in known and all(len(topic) == 32 for topic in topics)
    if str(raw["address"]).lower() != str(contract.address).lower() or not matches:
        raise RpcCorrupt("eth_getLogs gave a log that was not asked for")
    block, index = raw["blockNumber"], raw["logIndex"]
    if any(len(raw[name]) != 32 for name in _HASHES):
        raise RpcCorrupt("eth_getLogs gave a log without the hash of its block or transaction")
    if (
        type(block) is not int
        or type(index) is not int
        or not start <= block <= end
        or index < 0
        or raw.get("removed")
    ):
        raise RpcCorrupt(f"eth_getLogs gave a log of block {block}; asked for {start} to {end}")
    return _event(known[topics[0]], raw)


def _event(coder: EventCoder, raw: Mapping[str, Any]) -> Event:
    args = coder.args(raw["topics"], raw["data"])
    return Event(coder.name, args, raw["blockNumber"], raw["transactionHash"], raw["logIndex"], raw)


def packed(event: Event) -> str:
    """Return an event's log as text."""
    return json.dumps(event.raw, default=lambda value: "0x" + value.hex())


def unpacked(contract: Contract, text: str) -> Event:
    """Return the event of a log that was `packed`."""
    raw = _read(json.loads(text))
    return _event(event_coders(contract)[raw["topics"][0]], raw)


_HASHES = "transactionHash", "blockHash"
_BYTES = {"data", *_HASHES}
_NUMBERS = "blockNumber", "logIndex"


@dataclass(frozen=True, slots=True)
class _Kept:
    through: int
    hash: bytes
    events: list[Event]


class EventCache:
    """Keeps events that lie deep below the head. Safe for several threads. ``database`` may be in memory. ``depth``:
    blocks below the last one that are read again at every look, at least; twice that at most, so that one request for
    ``2 * depth`` blocks is enough.

    INVARIANT: the cache gives the events that a fresh reading of all blocks would give. A reorganisation that replaces
    the block `through` makes the query begin again.
    SAFETY: an endpoint may lack logs for a while: one machine of several is behind, or logs are indexed late. So the
    newest blocks are read at every look, and what is kept was read when it was hundreds or thousands of blocks old, by
    several endpoints where there are several. Views of the contracts expose an endpoint that lacks older events; then
    `forget` drops what it gave.
    """

    def __init__(self, database: Database, depth: int) -> None:
        self._database = database
        self._depth = depth
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.RLock()

    def read(
        self,
        query: Query,
        first: int,
        last: int,
        hash_of: Callable[[int], bytes],
        fetch: Callable[[int, int], Sequence[Event]],
        vouch: Callable[[int, int, Sequence[Event]], bool] = lambda *_: True,
    ) -> list[Event]:
        """Return the events in the blocks ``first..last``, in order.

        ``hash_of`` returns the hash of a block of the chain, ``fetch`` reads a range; their errors pass through. Only
        what others ``vouch`` for is kept.
        """
        with self._lock:
            kept = self._kept.pop(query.key, None) or self._load(query)
            if kept is not None and kept.through > last:
                # NOTE: an endpoint that is behind, or a chain that a reorganisation has made shorter; far behind it,
                # the head was never that high.
                if kept.through > last + self._depth:
                    self._drop(query)
                else:
                    self._kept[query.key] = kept
                return list(fetch(first, last))
            if kept is not None and kept.hash != hash_of(kept.through):
                self._drop(query)
                kept = None
            begin = first if kept is None else kept.through + 1
            events = [*([] if kept is None else kept.events), *fetch(begin, last)]
            if last - begin >= 2 * self._depth:
                through = last - self._depth
                deep = [event for event in events if event.block <= through]
                # SAFETY: what one endpoint hides or makes up must not outlast it.
                if vouch(begin, through, [event for event in deep if event.block >= begin]):
                    kept = self._keep(query, _Kept(through, hash_of(through), deep))
            if kept is not None:
                self._kept[query.key] = kept
            if len(self._kept) > MAX_QUERIES:
                del self._kept[next(iter(self._kept))]
            return events

    def forget(self, *queries: Query) -> None:
        """Drop the kept events of these queries."""
        with self._lock:
            for query in queries:
                self._kept.pop(query.key, None)
                self._drop(query)

    # NOTE: a database that cannot be written or read, as on a full disk, must not keep a node from reading the chain.

    def _keep(self, query: Query, kept: _Kept) -> _Kept:
        logs, oldest = [packed(event) for event in kept.events], kept.through - IDLE_BLOCKS
        try:
            self._database.put_events(query.key, kept.through, kept.hash, logs, oldest)
        except SQLAlchemyError as error:
            _log.warning("events.not_kept", reason=str(error))
        return kept

    def _load(self, query: Query) -> _Kept | None:
        try:
            found = self._database.get_events(query.key)
        except SQLAlchemyError as error:
            _log.warning("events.not_loaded", reason=str(error))
            return None
        if found is None:
            return None
        through, hash_, logs = found
        try:
            return _Kept(through, hash_, [unpacked(query.contract, log) for log in logs])
        except Exception as error:
            # NOTE: an endpoint chose the fields, and another version may have written them.
            _log.warning("events.not_loaded", error=type(error).__name__, reason=str(error))
            self._drop(query)
            return None

    def _drop(self, query: Query) -> None:
        try:
            self._database.drop_events(query.key)
        except SQLAlchemyError as error:
            _log.warning("events.not_dropped", reason=str(error))
