"""Reads one block through endpoints that may change, lack it, or give senseless answers.

view       what a contract says
events     what contracts have emitted up to this block, kept for later looks
sensible   checks what is made of them: if it makes no sense, another endpoint is asked
whole      the same for what lacks events

Whatever is read is noted, so that other endpoints can confirm it (:mod:`trainer_node.chain.agreement`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from web3.contract import Contract

from ..errors import RpcCorrupt, RpcUnavailable
from .block import Block
from .codec.hearing import HearingInfo
from .codec.job import JobView
from .codec.match import MatchInfo
from .codec.trial import TrialInfo
from .coders import view_coder
from .connection import Connection
from .events import MAX_EVENTS, Event, Query, newest_events, read_events
from .recorded_reads import CALL, Notes
from .rpc import guarded

Info = TypeVar("Info", JobView, MatchInfo, HearingInfo, TrialInfo)


class Reader:
    """Reads at one block. Every method raises RpcUnavailable or RpcCorrupt. ``notes``: what was read."""

    def __init__(self, client: Connection, block: Block) -> None:
        self._client = client
        self.block = block
        self.notes = Notes()
        self._sources = {client.endpoints.serving}
        """The endpoints that have this block."""
        self._hashes = {block.number: block.hash}

    def view(self, contract: Contract, function: str, *args: Any) -> Any:
        """Return what a view of a contract says at this block."""
        with self.sensible(), self._noting(), guarded(function, self._client.contracts.decode_error):
            view = view_coder(contract, function)
            return view.result(
                self._client.endpoints.make_request(CALL, view.request(args, self.block.number))
            )

    def events(
        self, query: Query, job: JobView | None = None, most: int = MAX_EVENTS, *, cached: bool = True
    ) -> list[Event]:
        """Return the events up to this block, in order. Queries with long results pass ``cached=False``.

        If the client has a cache, events of a ``job`` are looked for from its first block on.
        """
        client, last = self._client, self.block.number
        first = client.deployment.block
        if job is not None and client.cache is not None:
            first = client.first_block(job, self.block)

        def read(begin: int, end: int) -> list[Event]:
            return list(read_events(client.web3, query, begin, end, client.log_range, most))

        def fetch(begin: int, end: int) -> list[Event]:
            with self.sensible(), self._noting() as notes:
                found = read(begin, end)
                # SAFETY: what two endpoints have given together, others cannot compare with what either one gives.
                if len({note.source for note in notes.kept}) > 1 and client.endpoints.source is not None:
                    notes.kept.clear()
                    with client.endpoints.through(client.endpoints.source):
                        found = read(begin, end)
                return found

        if client.cache is None or not cached:
            return fetch(first, last)

        def vouch(begin: int, end: int, events: Sequence[Event]) -> bool:
            with self.sensible():
                source = client.endpoints.source
                return client.agreement.vouches(lambda: read(begin, end), list(events), source)

        return client.cache.read(query, first, last, self._hash_of, fetch, vouch)

    def recent(self, query: Query, since: int | None) -> list[int]:
        """Return the numbers of the jobs that events name after block ``since``, in the last blocks that one request
        spans. They are not noted, so no other endpoint has to confirm them."""
        client, last = self._client, self.block.number
        first = max(client.deployment.block, 0 if since is None else since + 1)
        if first > last:
            return []
        events = newest_events(client.web3, query, first, last, client.log_range)
        return list(dict.fromkeys(int(event.args["jobId"]) for event in events))

    @contextlib.contextmanager
    def sensible(self, *queries: Query) -> Iterator[None]:
        """SAFETY: if what was read makes no sense, another endpoint serves the next look, and events of these queries
        are not kept: another endpoint may have them all."""
        try:
            yield
        except RpcCorrupt as error:
            self._client.agreement.distrust(self._client.endpoints.source, str(error))
            if queries and self._client.cache is not None:
                self._client.cache.forget(*queries)
            raise

    def whole(self, query: Query, found: Info) -> Info:
        """Return what was read; forget its events if some are hidden, so that another endpoint may show them."""
        if found.hidden is not None and self._client.cache is not None:
            self._client.cache.forget(query)
        return found

    def still_canonical(self) -> bool:
        """Return whether the block is still part of the chain."""
        return self._client.block(self.block.number).hash == self.block.hash

    # ------------------------------------------------------------------ inside

    @contextlib.contextmanager
    def _noting(self) -> Iterator[Notes]:
        """Note what is read. SAFETY: another endpoint that takes over must have this block, or two chains are mixed."""
        endpoints, notes = self._client.endpoints, Notes()
        with endpoints.noting(notes.add):
            yield notes
        self.notes.extend(notes)
        source = endpoints.source
        if source is not None and source not in self._sources:
            with endpoints.through(source):
                if not self.still_canonical():
                    endpoints.leave(source)
                    raise RpcUnavailable(
                        f"RPC {source.name} has another block {self.block.number}; the chain is read again"
                    )
            self._sources.add(source)

    def _hash_of(self, number: int) -> bytes:
        if number not in self._hashes:
            self._hashes[number] = self._client.block(number).hash
        return self._hashes[number]
