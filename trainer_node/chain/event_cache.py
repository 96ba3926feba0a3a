"""Keeps events that were read, with the last block of the reading, until that block is replaced.

    first ......... through ......... snapshot
    kept, in memory and in the database    read now, and kept from then on

INVARIANT: the cache gives the events that a fresh reading of all blocks from the first one would give, unless the
endpoint hides events. A reorganisation that replaces the block `through` makes the query begin anew.
SAFETY: the hashes that the contracts keep expose an endpoint that hides events; then `forget` drops what it gave.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..db import Database
from .events import Event, Query, packed, unpacked

SAVED_EVERY = 1_000
"""Blocks without an event after which `through` is saved: most idle ticks write nothing to the database."""
MAX_QUERIES = 10_000
"""Queries kept in memory; the least recently used is dropped first."""


@dataclass(slots=True)
class _Kept:
    through: int
    hash: bytes
    events: list[Event]
    saved: int
    """The value of `through` in the database."""


class EventCache:
    """Safe for several threads. ``database`` may be in memory."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.RLock()

    def read(
        self,
        query: Query,
        first: int,
        last: int,
        hash_of: Callable[[int], bytes],
        fetch: Callable[[int, int], Sequence[Event]],
        *,
        keep: bool,
    ) -> list[Event]:
        """Return the events in the blocks ``first..last``, in order.

        ``hash_of`` returns the hash of a block of the chain, ``fetch`` reads a range; their errors pass through.
        ``keep``: True if ``last`` is deep enough that events up to it may be kept.
        """
        with self._lock:
            kept = self._kept.pop(query.key, None) or self._load(query)
            if kept is not None and kept.hash != hash_of(kept.through):
                self._drop(query)
                kept = None
            if kept is not None:
                self._kept[query.key] = kept
            if kept is not None and last <= kept.through:
                return [event for event in kept.events if event.block <= last]
            known = [] if kept is None else kept.events
            new = list(fetch(first if kept is None else kept.through + 1, last))
            if keep:
                self._keep(query, known, new, last, hash_of(last), 0 if kept is None else kept.saved)
            return [*known, *new]

    def forget(self, *queries: Query) -> None:
        """Drop the kept events of these queries."""
        with self._lock:
            for query in queries:
                self._kept.pop(query.key, None)
                self._drop(query)

    def _keep(
        self, query: Query, known: list[Event], new: list[Event], through: int, hash_: bytes, saved: int
    ) -> None:
        if new or through - saved >= SAVED_EVERY:
            self._database.put_events(query.key, through, hash_, [packed(event) for event in new])
            saved = through
        self._kept[query.key] = _Kept(through, hash_, [*known, *new], saved)
        if len(self._kept) > MAX_QUERIES:
            del self._kept[next(iter(self._kept))]

    def _load(self, query: Query) -> _Kept | None:
        found = self._database.get_events(query.key)
        if found is None:
            return None
        through, hash_, events = found
        return _Kept(through, hash_, [unpacked(query.contract, text) for text in events], through)

    def _drop(self, query: Query) -> None:
        self._database.drop_events(query.key)
