"""Judgements in threads, in turns: one that lasts makes room for the next.

    judgements     first come, first served, `count` at a time
    a turn         what the least patient of those that wait allows (`turn_s`); without others it has no end
    its end        a download stops, and the judgement goes to the back of the queue. What it has fetched stays in the
                   store, so a slow and right server still gets through. What computes cannot be stopped; it goes on
                   beside, and its lane is free for the next

SAFETY: whoever makes a judgement last chooses his server's pace and the length of his job's periods. So the length of a
turn depends on the periods of those that wait, and not on his.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from referee_py.errors import Unavailable

from .waits import JUDGEMENT

T = TypeVar("T")


def turn_s(
    began: float, waiting: Sequence[tuple[float, float]], lanes: int, share: float = float(JUDGEMENT)
) -> float:
    """Return the seconds for which a judgement that began at ``began`` may keep its lane; infinite if none waits.

    ``waiting``: since when each of those that wait has waited, and the period that it serves, in seconds, in the order
    of their turns.

    INVARIANT: with turns of this length each of them has a lane after ``share`` of its period: before the one at place
    k, 1 + k // lanes turns are left, and they divide what is left of its share. NOTE: whose share is over, because of
    judgements that cannot be stopped, waits as if it had come anew; turns of no length would bring nobody on.
    """
    turns = []
    for place, (since, period) in enumerate(waiting):
        left = since + share * period - began
        turns.append((left if left > 0 else share * period) / (1 + place // lanes))
    return min(turns, default=float("inf"))


class Turn(threading.Event):
    """Tells a judgement whether to stop, as the event that ends its downloads: its turn is over, or nobody wants it."""

    def __init__(self, look: Callable[[], None], stop: threading.Event) -> None:
        super().__init__()
        self._look, self._stop = look, stop
        self.over = False
        """Whether its lane is given to the next."""

    def is_set(self) -> bool:
        self._look()
        return self.over or self._stop.is_set() or super().is_set()


@dataclass(eq=False)
class _Judgement(Generic[T]):
    period_s: float
    work: Callable[[threading.Event], T]
    future: Future[T] = field(default_factory=Future)
    turn: Turn = field(default_factory=lambda: Turn(lambda: None, threading.Event()))
    since: float = 0.0
    """When it came into the queue, the last time."""
    began: float = 0.0


class Lanes(Generic[T]):
    """``count`` judgements at a time, until ``stop`` is set. ``clock`` in seconds. Safe for several threads.

    SAFETY: at most as many again compute although their turns are over; more have to wait for them.
    """

    def __init__(
        self, count: int, name: str, stop: threading.Event, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count, self._stop, self._clock = count, stop, clock
        self._threads = ThreadPoolExecutor(2 * count, thread_name_prefix=name)
        self._lock = threading.RLock()
        self._waiting: list[_Judgement[T]] = []
        self._running: list[_Judgement[T]] = []

    def submit(self, period_s: float, work: Callable[[threading.Event], T]) -> Future[T]:
        """Queue ``work``, which is told by an event to stop. Return its result to come.

        ``work`` raises Unavailable if it was stopped. It is called again for its next turn, and may go on from what it
        has left on disk. A future that is cancelled is taken from the queue; what runs of it is told to stop.
        """
        judgement = _Judgement(period_s, work)
        with self._lock:
            self._wait(judgement)
            self.look()
        return judgement.future

    def look(self) -> None:
        """Begin what may begin, and end as many turns as that takes, the longest first. To be called now and then,
        because turns end by time alone; a judgement that asks whether to stop calls it, too."""
        with self._lock:
            self._waiting = [one for one in self._waiting if not one.future.cancelled()]
            for one in self._running:
                if one.future.cancelled():
                    one.turn.set()
            if self._stop.is_set():
                return
            busy = [one for one in self._running if not one.turn.over and not one.future.cancelled()]
            free = self._count - len(busy)
            waiting = [(one.since, one.period_s) for one in self._waiting]
            for one in sorted(busy, key=lambda one: one.began):
                if free >= len(waiting):
                    break
                if self._clock() - one.began >= turn_s(one.began, waiting, self._count):
                    one.turn.over = True
                    free += 1
            while self._waiting and free > 0 and len(self._running) < 2 * self._count:
                self._begin(self._waiting.pop(0))
                free -= 1

    def _wait(self, one: _Judgement[T]) -> None:
        one.since = self._clock()
        self._waiting.append(one)

    def _begin(self, one: _Judgement[T]) -> None:
        one.began, one.turn = self._clock(), Turn(self.look, self._stop)
        self._running.append(one)
        self._threads.submit(self._run, one)

    def _run(self, one: _Judgement[T]) -> None:
        again, result = False, None
        error: BaseException | None = None
        try:
            result = one.work(one.turn)
        except Unavailable as refused:
            again, error = one.turn.over and not self._stop.is_set(), refused
        except BaseException as failed:
            error = failed
        with self._lock:
            self._running.remove(one)
            if again and not one.future.cancelled():
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
