"""Replays of intervals whose data have come, in one thread per root, while others bring the next ones.

    work     holds a lane:  bring 1 ── bring 2 ── bring 3 ── ...         what comes is handed over
    beside   holds none:          └─> replay 1 ──> replay 2 ──> ...      in the order in which it came

INVARIANT: how often a root waits for a lane does not grow with its intervals: once, as long as no more than `AHEAD`
intervals and `AHEAD_BYTES` wait for their replay, and once more for each as much.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from types import TracebackType

from ...chain.threads import Threads
from .interval_run import Part

AHEAD = 1024
"""Intervals of a root whose data have come and that are not replayed yet, at most."""
AHEAD_BYTES = 1 << 30
"""Bytes that may have been fetched for them before the next interval is asked for."""


class Beside:
    """Replays intervals in a thread of ``threads``; ``replay`` takes the interval that was drawn and the one to replay,
    and returns one that is wrong. At its end it waits for what it was given, and raises what ``replay`` has raised.

    ``ended`` is called once nothing more is wanted: an interval is wrong, or ``replay`` has raised something.
    """

    def __init__(
        self, threads: Threads, replay: Callable[[int, int], Part | None], ended: Callable[[], None]
    ) -> None:
        self._threads, self._replay, self._ended = threads, replay, ended
        self._given: SimpleQueue[tuple[int, int, int] | None] = SimpleQueue()
        self._running: Future[None] | None = None
        self._lock = threading.Lock()
        self._count = self._bytes = 0
        self.found = False
        """True if one was wrong."""

    def __enter__(self) -> Beside:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        if self._running is not None:
            self._given.put(None)
            self._running.result()

    def give(self, drawn: int, interval: int, fetched: int) -> None:
        """Have an interval replayed for one that was drawn, for which so many bytes were fetched."""
        with self._lock:
            self._count, self._bytes = self._count + 1, self._bytes + fetched
        self._given.put((drawn, interval, fetched))
        if self._running is None:
            self._running = self._threads.begin(self._run)

    @property
    def full(self) -> bool:
        """True if nothing more may be brought before something was replayed."""
        return self._count >= AHEAD or self._bytes >= AHEAD_BYTES

    @property
    def over(self) -> bool:
        """True if nothing more is wanted."""
        return self.found or (self._running is not None and self._running.done())

    def _run(self) -> None:
        while (given := self._given.get()) is not None:
            drawn, interval, fetched = given
            try:
                self.found = self._replay(drawn, interval) is not None
            except BaseException:
                self._ended()
                raise
            if self.found:
                self._ended()
                return
            with self._lock:
                self._count, self._bytes = self._count - 1, self._bytes - fetched
