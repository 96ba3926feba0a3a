"""One thread that does works in their order: the lowest number first, then the order of arrival."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Ordered:
    """Each work has an end of its own; none is interrupted."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
        self._arrivals = itertools.count()
        self._lock = threading.Lock()

    def submit(self, number: int, work: Callable[[], T]) -> Future[T]:
        """Queue a work. Return its result to come."""
        future = Future[T]()
        with self._lock:
            heapq.heappush(self._waiting, (number, next(self._arrivals), future, work))
        self._thread.submit(self._next)
        return future

    def close(self) -> None:
        """Drop what has not begun. Does not wait for the rest."""
        with self._lock:
            for _, _, future, _ in self._waiting:
                future.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> None:
        with self._lock:
            _, _, future, work = heapq.heappop(self._waiting)
        if not future.set_running_or_notify_cancel():
            return
        try:
            found = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(found)
