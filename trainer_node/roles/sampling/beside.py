"""Intervals whose data have come are replayed beside the work that brings the next ones, each root in its place.

    bringing    holds a lane:     bring 1 ── bring 2 ── bring 3 ── ...      what comes is handed over
    replaying   holds a place:         └─> replay 1 ──> replay 2 ──> ...    in the order in which it came

A place is a lane of another kind (`lanes`): its turn ends when others wait for theirs. What was computed of an interval
is lost then, and the next turn is twice as long.

INVARIANT: how often a root waits for a lane does not grow with its intervals: once, as long as no more than `AHEAD`
intervals and `AHEAD_BYTES` wait for their replay, and once more for each as much.

SAFETY: strangers say how many roots have brought their data. One that waits for its place has neither a thread nor a
tree, a program or a tensor in memory: numbers of intervals, and what they rest on is on disk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from referee_py.errors import Unavailable

from ...compute.lanes import Turn
from ...run.replay import Interrupted
from .part import Part

AHEAD = 1024
"""Intervals of a root whose data have come and that are not replayed yet, at most."""
AHEAD_BYTES = 1 << 30
"""Bytes that may have been fetched for them before the next interval is asked for."""
_GLANCE_S = 0.2
"""Seconds between two looks at the turn of a place in which nothing is to be replayed."""

Judge = Callable[[int, int], Part | None]
"""Takes the interval that was drawn and the one to replay, and returns one that is wrong. Raises Interrupted where its
turn is over, and is called again for the same in the next one."""


class Beside:
    """Replays the intervals of a root. ``submit`` queues for a place; ``replays`` returns what replays in a turn;
    ``outcome`` is given the error with which all has ended, or None, and returns what `all` is to raise.

    `all` is all work for the root: it is done once nothing is brought or replayed any more. To cancel it takes both
    from their queues.
    """

    def __init__(
        self,
        submit: Callable[[Callable[[Turn], None]], Future[None]],
        replays: Callable[[Turn], Judge],
        outcome: Callable[[BaseException | None], BaseException | None] = lambda error: error,
    ) -> None:
        self._submit, self._replays, self._outcome = submit, replays, outcome
        self._changed = threading.Condition()
        self._given = deque[tuple[int, int, int]]()
        self._bytes = 0
        self._placed = False
        """True while it has a place, or waits for one."""
        self._bringing: Future[None] | None = None
        self._error: BaseException | None = None
        self._concluded = False
        self.turn: threading.Event | None = None
        """The turn of what brings: set once nothing more is wanted."""
        self.found = False
        """True once one was wrong."""
        self.all = Future[None]()

    def begin(self, bring: Future[None]) -> Future[None]:
        """Note what brings the data; return `all`."""
        self._bringing = bring
        self.all.add_done_callback(lambda done: bring.cancel() if done.cancelled() else None)
        bring.add_done_callback(lambda _: self._conclude())
        return self.all

    def give(self, drawn: int, interval: int, fetched: int) -> None:
        """Have an interval replayed for one that was drawn, for which so many bytes were fetched."""
        with self._changed:
            self._given.append((drawn, interval, fetched))
            self._bytes += fetched
            placed, self._placed = self._placed, True
            self._changed.notify_all()
        if not placed:
            place = self._submit(self._run)
            self.all.add_done_callback(lambda done: place.cancel() if done.cancelled() else None)
            place.add_done_callback(self._placeless)

    @property
    def full(self) -> bool:
        """Whether no more is to be brought before something was replayed."""
        return len(self._given) >= AHEAD or self._bytes >= AHEAD_BYTES

    @property
    def over(self) -> bool:
        """Whether nothing more is wanted: an interval is wrong, or a replay has raised something."""
        return self.found or self._error is not None

    # ------------------------------------------------------------------ inside

    def _run(self, turn: Turn) -> None:
        """Replay what is given until no more comes. Raises Unavailable at the end of a turn."""
        try:
            replay = self._replays(turn)
            while not self.over and (given := self._next(turn)) is not None:
                drawn, interval, fetched = given
                self.found = replay(drawn, interval) is not None
                with self._changed:
                    self._given.popleft()
                    self._bytes -= fetched
        except (Interrupted, Unavailable) as error:
            if turn.over:
                raise Unavailable("its turn is over; what is left is replayed in the next one") from error
            self._error = error
        except BaseException as error:
            self._error = error
        if self.over and self.turn is not None:
            self.turn.set()

    def _next(self, turn: Turn) -> tuple[int, int, int] | None:
        """Return what is replayed next, once it is there; None if nothing more comes. Raises Interrupted."""
        with self._changed:
            while not self._given:
                if self.over or (self._bringing is not None and self._bringing.done()):
                    return None
                if turn.is_set():
                    raise Interrupted("nothing is to be replayed now")
                self._changed.wait(_GLANCE_S)
            return self._given[0]

    def _placeless(self, place: Future[Any]) -> None:
        if not place.cancelled() and (error := place.exception()) is not None:
            self._error = self._error or error
        with self._changed:
            self._placed = False
        self._conclude()

    def _conclude(self) -> None:
        bringing = self._bringing
        with self._changed:
            self._changed.notify_all()
            if self._placed or self._concluded or bringing is None or not bringing.done():
                return
            self._concluded = True
        if bringing.cancelled():
            self.all.cancel()
        if not self.all.set_running_or_notify_cancel():
            return
        error = self._error or bringing.exception()
        if self.found and isinstance(error, Unavailable):
            error = None
        if (error := self._outcome(error)) is None:
            self.all.set_result(None)
        else:
            self.all.set_exception(error)
