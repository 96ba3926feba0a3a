"""Connections to a server of ours: their number is bounded, and so is the time in which nothing comes or is taken.

    waits    for its next request: `REQUEST_S` for the whole head of it, however slowly the bytes come
    sends    a body: the application bounds the time
    served   takes its answer: 48 KiB every `STALL_S`, or it is cut off

Where all places are taken, a new connection takes that of the one whose request, head or body, has been coming for
longest; if all are served, of the youngest of the address that has most of them, if that has more than the new one's.
SAFETY: the server shares the table of files with everything else that its process does: the chain, the store, the
database. A connection takes at most two of it, itself and the artifact that it is sent.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from typing import Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 256
REQUEST_S = 10.0
"""Seconds for a request to be complete, from the connection or from the last answer on."""
STALL_S = 10.0
"""Seconds in which who is sent something has to take what is in our buffer."""
BACKLOG = 64
"""Connections that are accepted before the next look at their number."""
FILES = 4 * MAX_CONNECTIONS
"""Open files that a process with such a server should be allowed: half of them for all else."""

_log = structlog.get_logger(__name__)


class BoundedHttp(H11Protocol):
    """One connection. Its places are those of the server's ``connections``."""

    _timer: asyncio.TimerHandle | None = None
    since = 0.0
    """Instant at which it began to wait or to be served, by the clock of the loop."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        others: list[Any] = list(self.connections)
        super().connection_made(transport)
        self.since = self.loop.time()
        if len(others) >= MAX_CONNECTIONS:
            self._make_room(others)
        self._within(REQUEST_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._within(None)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        idle = self.idle
        super().handle_events()
        if idle and not self.idle:
            self.since = self.loop.time()
            self._within(None)

    def on_response_complete(self) -> None:
        self.since = self.loop.time()
        self._within(REQUEST_S)
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._within(STALL_S)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._within(REQUEST_S if self.idle else None)

    @property
    def idle(self) -> bool:
        """Whether it waits for a request."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def waits(self) -> bool:
        """Whether its request is not here yet, or not whole."""
        # SAFETY: who sends a body byte by byte would else hold a place as somebody who is served does.
        return self.idle or self.conn.their_state is h11.SEND_BODY

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    def cut(self) -> None:
        """End it at once. NOTE: to close it would wait for what it does not read."""
        self._within(None)
        self.connections.discard(self)
        self.transport.abort()

    def _within(self, seconds: float | None) -> None:
        """End it unless something happens within these seconds."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.cut)

    def _make_room(self, others: list[BoundedHttp]) -> None:
        waiting = [other for other in others if other.waits]
        if waiting:
            min(waiting, key=lambda other: other.since).cut()
            return
        held = Counter(other.address for other in others)
        address, most = held.most_common(1)[0]
        if most > held[self.address] + 1:
            max((other for other in others if other.address == address), key=lambda other: other.since).cut()
        else:
            self.cut()


def allow_files() -> None:
    """Let the process open as many files as it may ask for, and report if these are few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < FILES:
        _log.warning("files.few", limit=hard, wanted=FILES, before=soft)
