"""Threads for strangers' works, in turns: who holds one for long goes to the back, and cannot keep others out.

    first lanes     take first turns only, in the order of arrival
    later lanes     take all later turns: the lowest turn first, then the order of arrival

A work that is not done at the end of its turn keeps what it has, and is submitted again with the next turn, which is
longer. SAFETY: first turns are short, and no longer one can hold a first lane. So N works that stall keep a new one
waiting for N / lanes first turns at most, however old they are and however long their own turns have become.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Lanes:
    """``first`` threads for first turns and ``later`` for all others; with none of the first, the others take all."""

    def __init__(self, first: int, later: int, name: str) -> None:
        self._first = ThreadPoolExecutor(first, thread_name_prefix=name) if first else None
        self._later = ThreadPoolExecutor(later, thread_name_prefix=name)
        self._waiting: list[tuple[int, int, Future[Any], Callable[[], Any]]] = []
        self._arrivals = itertools.count()
        self._lock = threading.Lock()

    def submit(self, turn: int, work: Callable[[], T]) -> Future[T]:
        """Queue a work for its ``turn``, counted from 0."""
        if self._first is not None and turn == 0:
            return self._first.submit(work)
        future = Future[T]()
        with self._lock:
            heapq.heappush(self._waiting, (turn, next(self._arrivals), future, work))
        self._later.submit(self._next)
        return future

    def close(self) -> None:
        """Drop what has not begun. Does not wait for the rest."""
        with self._lock:
            for _, _, future, _ in self._waiting:
                future.cancel()
        for pool in (self._first, self._later):
            if pool is not None:
                pool.shutdown(wait=False, cancel_futures=True)

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
