"""Works that wait for strangers, in threads and in turns: one that lasts makes room for the next.

    first turns    `count` at a time, first come, first served. A turn is over after what the least patient of those
                   that wait allows (`turn_s`), and after TURN_S at the latest
    later turns    `count` lanes for the second turns of works, as many for their third ones, and so on; each is twice
                   as long as the one before
    the end        a turn ends only if somebody waits for it. Then the work is asked to stop, and waits for its next
                   turn. What it has fetched stays in the store, so a slow and right server still gets through
    leaving        what only computes from now on needs no lane, and none again; one that cannot be stopped continues
                   outside its lane, which is free

INVARIANT: nobody waits for the end of a turn that is longer than his own. So neither the number of those that stall nor
the time for which they have stalled keeps out a new one: it has a first turn after a share of its own period.

SAFETY: whoever makes a work last chooses his server's pace and the length of his job's periods. So the length of a
first turn depends on the periods of those that wait, and not on his.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from referee_py.errors import Unavailable

from ..chain.threads import Threads
from ..limits.waits import LANE, TURN_S, later_turn_s

T = TypeVar("T")
_GLANCE_S = 0.2
"""Seconds between two looks at the lanes that running works cause, all together."""


def turn_s(began: float, waiting: Sequence[tuple[float, float]], lanes: int) -> float:
    """Return the seconds for which a work that began at ``began`` may keep its first turn; infinite if none waits.

    ``waiting``: since when each of those that wait has waited, and the period that it serves, in seconds, in the order
    of their turns.

    INVARIANT: with turns of this length each of them has a lane after `LANE` of its period: before the one at place k,
    1 + k // lanes turns are left, and they divide what is left of its share. NOTE: whose share is over, because of
    works that cannot be stopped, waits as if it had come again; turns of no length would bring nobody on.
    """
    turns = [TURN_S] if waiting else []
    for place, (since, period) in enumerate(waiting):
        share = float(LANE) * period
        left = since + share - began
        turns.append((left if left > 0 else share) / (1 + place // lanes))
    return min(turns, default=float("inf"))


class Turn(threading.Event):
    """Tells a work whether to stop, as the event that ends its downloads: its turn is over, or nobody wants it."""

    def __init__(self, lanes: Lanes, work: _Work[Any]) -> None:
        super().__init__()
        self._lanes, self._work = lanes, work
        self.over = False
        """True once its lane is given to the next."""
        self.then: Callable[[], None] = lambda: None
        """Called when its lane is given to the next, for a work that waits for something else than its turn."""

    def end(self) -> None:
        """Let its lane be given to the next."""
        self.over = True
        self.then()

    def is_set(self) -> bool:
        self._lanes.glance()
        unwanted = self._lanes.stop.is_set() or self._work.future.cancelled()
        return self.over or unwanted or super().is_set()

    def leave(self) -> None:
        """Give the lane to the next, and continue without one: for what needs nothing of strangers any more."""
        self._lanes._leave(self._work)


@dataclass(eq=False)
class _Work(Generic[T]):
    period_s: float
    do: Callable[[Turn], T]
    future: Future[T] = field(default_factory=Future)
    number: int = 0
    """Its turns so far."""
    since: float = 0.0
    """Time at which it last entered the queue."""
    began: float = 0.0
    turn: Turn | None = None


@dataclass
class _Row:
    """The works of turns of one length."""

    waiting: list[_Work[Any]] = field(default_factory=list)
    running: list[_Work[Any]] = field(default_factory=list)


class Lanes:
    """``count`` lanes for each length of turns, until ``stop`` is set. ``clock`` in seconds. Safe for several threads.

    SAFETY: at most as many works again continue although their turns are over; more have to wait for them.
    """

    def __init__(
        self,
        count: int,
        name: str,
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stop = stop or threading.Event()
        self._count, self._clock = count, clock
        self._threads = Threads(name)
        self._alive = set[Future[None]]()
        self._lock = threading.RLock()
        self._rows = defaultdict[int, _Row](_Row)
        self._looked = clock()

    def submit(self, period_s: float, do: Callable[[Turn], T]) -> Future[T]:
        """Queue a work, which its turn can stop. Return a future of its result.

        ``do`` raises Unavailable if it was stopped. It is called again for its next turn, and may continue from what it
        has left on disk. A future that is cancelled is taken from the queue; what runs of it is asked to stop.
        """
        work = _Work(period_s, do)
        with self._lock:
            self._wait(work)
            self.look()
        return work.future

    def look(self) -> None:
        """Begin what may begin, and end as many turns as that takes, the longest first. To be called now and then,
        because turns end by time alone; works that ask whether to stop cause it, too (`glance`)."""
        with self._lock:
            self._looked = self._clock()
            for number, row in list(self._rows.items()):
                self._look(number, row)
                if not row.waiting and not row.running:
                    del self._rows[number]

    def glance(self) -> None:
        """Look, unless somebody has looked just now. SAFETY: strangers say how many works there are, and a look takes
        as long as there are. So running works look no more often together than one of them would."""
        if self._clock() - self._looked >= _GLANCE_S:
            self.look()

    def close(self, *, wait: bool = False) -> None:
        """Drop what has not begun, and ask the rest to stop. ``wait``: until it has stopped."""
        self.stop.set()
        with self._lock:
            for row in self._rows.values():
                for work in row.waiting:
                    work.future.cancel()
            alive = list(self._alive)
        if wait:
            wait_for(alive)

    # ------------------------------------------------------------------ inside

    def _look(self, number: int, row: _Row) -> None:
        row.waiting = [one for one in row.waiting if not one.future.cancelled()]
        if self.stop.is_set():
            return
        busy = [one for one in row.running if one.turn and not one.turn.over and not one.future.cancelled()]
        free = self._count - len(busy)
        waiting = [(one.since, one.period_s) for one in row.waiting]
        for one in sorted(busy, key=lambda one: one.began):
            if free >= len(waiting):
                break
            ends = later_turn_s(number) if number else turn_s(one.began, waiting, self._count)
            # NOTE: of two turns the one that began later never ends before the other.
            if self._clock() - one.began < ends or one.turn is None:
                break
            one.turn.end()
            free += 1
        while row.waiting and free > 0 and len(row.running) < 2 * self._count:
            self._begin(row.waiting.pop(0), row)
            free -= 1

    def _wait(self, one: _Work[Any]) -> None:
        one.since = self._clock()
        self._rows[one.number].waiting.append(one)

    def _begin(self, one: _Work[Any], row: _Row) -> None:
        one.began = self._clock()
        row.running.append(one)
        one.turn = Turn(self, one)
        alive = self._threads.begin(partial(self._run, one, one.turn))
        self._alive.add(alive)
        alive.add_done_callback(self._alive.discard)

    def _leave(self, one: _Work[Any]) -> None:
        with self._lock:
            row = self._rows[one.number]
            if one in row.running:
                row.running.remove(one)
            self.look()

    def _run(self, one: _Work[Any], turn: Turn) -> None:
        again, result = False, None
        error: BaseException | None = None
        try:
            result = one.do(turn)
        except Unavailable as refused:
            again, error = turn.over and not self.stop.is_set(), refused
        except BaseException as failed:
            error = failed
        with self._lock:
            self._leave(one)
            if again and not one.future.cancelled():
                one.number += 1
                self._wait(one)
            self.look()
        if not again:
            _resolve(one.future, result, error)


def _resolve(future: Future[Any], result: Any, error: BaseException | None) -> None:
    """Give a future its outcome, unless it was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
