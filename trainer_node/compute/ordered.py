"""Works in their order, one at a time: the lowest number first, then the order of arrival.

    first     begins as soon as no other one that is within its time is at work
    passed    a work that is over its time continues beside the next: a kernel cannot be stopped
    sure      a work that is known to end begins however many have been passed; others wait beyond `BESIDE`

INVARIANT: a work that is sure waits no longer than the times of those before it. SAFETY: what continues beside takes
processors and memory, so no more than `BESIDE` of those that are not sure are passed.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from ..chain.threads import Threads

BESIDE = 2
"""Works over their time that are passed at once."""

T = TypeVar("T")


@dataclass(order=True, slots=True)
class _Work:
    number: int
    arrival: int
    do: Callable[[], Any] = field(compare=False)
    lasts_s: float = field(compare=False)
    sure: bool = field(compare=False)
    future: Future[Any] = field(compare=False, default_factory=Future)
    began: float = field(compare=False, default=0.0)


class Ordered:
    """Each work has an end of its own; none is interrupted. ``clock`` in seconds. Safe for several threads."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._threads, self._clock = Threads(name), clock
        self._waiting: list[_Work] = []
        self._running: list[_Work] = []
        self._arrivals = itertools.count()
        self._lock = threading.Lock()

    def submit(
        self, number: int, work: Callable[[], T], lasts_s: float = math.inf, *, sure: bool = False
    ) -> Future[T]:
        """Queue a work, which is passed by the next one after ``lasts_s``; ``sure``: it is known to end.
        Return its result to come."""
        with self._lock:
            queued = _Work(number, next(self._arrivals), work, lasts_s, sure)
            self._waiting.append(queued)
        self.look()
        return queued.future

    def look(self) -> None:
        """Begin what may begin. To be called now and then, because works are passed by time alone."""
        with self._lock:
            now = self._clock()
            while all(now - one.began >= one.lasts_s for one in self._running):
                full = sum(not one.sure for one in self._running) > BESIDE
                first = min((one for one in self._waiting if one.sure or not full), default=None)
                if first is None:
                    return
                self._waiting.remove(first)
                if first.future.set_running_or_notify_cancel():
                    first.began = now
                    self._running.append(first)
                    self._threads.begin(partial(self._run, first))

    def close(self) -> None:
        """Drop what has not begun. Does not wait for the rest."""
        with self._lock:
            for work in self._waiting:
                work.future.cancel()
            self._waiting.clear()

    def _run(self, work: _Work) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = work.do()
        except BaseException as caught:
            error = caught
        with self._lock:
            self._running.remove(work)
        if error is None:
            work.future.set_result(result)
        else:
            work.future.set_exception(error)
        self.look()
