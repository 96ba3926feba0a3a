"""Keeps events that lie deep below the head, so that no look at the chain reads all blocks of a long job again.

    first ......... through ......... last
    kept, in memory and on disk       read anew at every look

INVARIANT: the cache gives the events that a fresh reading of all blocks would give. A reorganisation that replaces the
block `through` makes the query begin anew.
SAFETY: an endpoint may lack logs for a while: one machine of several is behind, or logs are indexed late. So the newest
blocks are read at every look, and what is kept was read when it was hundreds or thousands of blocks old. Views of the
contracts expose an endpoint that lacks older events; then `forget` drops what it gave.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy.exc import SQLAlchemyError

from ..db import Database
from .events import Event, Query, packed, unpacked

MAX_QUERIES = 10_000
"""Queries kept in memory; the least recently used is dropped first."""
IDLE_BLOCKS = 200_000
"""Blocks after which a query that nobody has asked is dropped from the database: a month of blocks of 12 s."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    through: int
    hash: bytes
    events: list[Event]


class EventCache:
    """Safe for several threads. ``database`` may be in memory. ``depth``: blocks below the last one that are read anew
    at every look, at least; twice that at most, so that one request for ``2 * depth`` blocks is enough."""

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
    ) -> list[Event]:
        """Return the events in the blocks ``first..last``, in order.

        ``hash_of`` returns the hash of a block of the chain, ``fetch`` reads a range; their errors pass through.
        """
        with self._lock:
            kept = self._kept.pop(query.key, None) or self._load(query)
            if kept is not None and kept.through > last:
                # NOTE: an endpoint that is behind, or a chain that a reorganisation has made shorter.
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
        return _Kept(through, hash_, [unpacked(query.contract, log) for log in logs])

    def _drop(self, query: Query) -> None:
        try:
            self._database.drop_events(query.key)
        except SQLAlchemyError as error:
            _log.warning("events.not_dropped", reason=str(error))
