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

SHARE = 1 / 8
"""The share of its period that a judgement waits for its turn, at most."""

T = TypeVar("T")


def turn_s(waiting: Sequence[float], lanes: int, share: float = SHARE) -> float:
    """Return the seconds for which a judgement may keep its lane; infinite if none waits for one.

    ``waiting``: the periods of those that wait, in seconds, in the order of their turns.

    INVARIANT: with turns of this length each of them has a lane within ``share`` of its period: the one at place k has
    to wait for at most 1 + k // lanes turns.
    """
    allowed = (share * period / (1 + place // lanes) for place, period in enumerate(waiting))
    return min(allowed, default=float("inf"))


class Turn(threading.Event):
    """Tells a judgement, as the event that ends its downloads, whether to stop: its turn is over, or nobody wants it."""

    def __init__(self, ended: Callable[[], bool], stop: threading.Event) -> None:
        super().__init__()
        self._ended, self._stop = ended, stop
        self.over = False
        """Whether it was told that its turn is over."""

    def is_set(self) -> bool:
        self.over = self.over or self._ended()
        return self.over or self._stop.is_set() or super().is_set()


@dataclass(eq=False)
class _Judgement(Generic[T]):
    period_s: float
    work: Callable[[threading.Event], T]
    future: Future[T] = field(default_factory=Future)
    turn: Turn | None = None
    began: float = 0.0
    turns: int = 0
    """Number of turns that it has had."""


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
            self._waiting.append(judgement)
            self.look()
        return judgement.future

    def look(self) -> None:
        """Begin what may begin. To be called now and then, because turns end by time alone."""
        with self._lock:
            self._waiting = [one for one in self._waiting if not one.future.cancelled()]
            while self._waiting and not self._stop.is_set():
                busy = sum(not self._over(one) for one in self._running)
                if busy >= self._count or len(self._running) >= 2 * self._count:
                    return
                self._begin(self._waiting.pop(0))

    def _begin(self, one: _Judgement[T]) -> None:
        one.began, one.turns = self._clock(), one.turns + 1
        one.turn = Turn(lambda: self._over(one) or one.future.cancelled(), self._stop)
        self._running.append(one)
        self._threads.submit(self._run, one)

    def _over(self, one: _Judgement[T]) -> bool:
        """Return whether a judgement that runs has had its turn."""
        with self._lock:
            periods = [other.period_s for other in self._waiting if not other.future.cancelled()]
            return self._clock() - one.began >= turn_s(periods, self._count)

    def _run(self, one: _Judgement[T]) -> None:
        assert one.turn is not None
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
                self._waiting.append(one)
            self.look()
        if not again:
            _settle(one.future, result, error)


def _settle(future: Future[Any], result: Any, error: BaseException | None) -> None:
    """Give a future its outcome, unless it was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
