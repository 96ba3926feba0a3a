"""Time that passes only while everybody waits for it, so that no test depends on how quick this machine is."""

from __future__ import annotations

import concurrent.futures
import threading
from concurrent.futures import Future
from typing import Any

LOOK_S = 0.002
"""Seconds of the machine between two looks at who waits."""


class MovedTime:
    """A clock, a sleep for those that answer late, and a `wait` for those that wait for them.

    It moves to the next moment at which something happens once every call that was ever waited for has ended or sleeps.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self._changed = threading.Condition()
        self._sleepers: list[float] = []
        """When those that sleep wake up."""
        self._calls: set[Future[Any]] = set()
        self._waited_for = False

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        """Let so many seconds pass."""
        with self._changed:
            self._move(self.now + seconds)

    def sleep(self, seconds: float) -> None:
        """Return once so many seconds have passed. NOTE: a request that nobody waits for with `wait` moves the time."""
        if seconds <= 0:
            return
        with self._changed:
            until = self.now + seconds
            if not self._waited_for:
                self._move(until)
                return
            self._sleepers.append(until)
            self._changed.wait_for(lambda: self.now >= until)

    def wait(
        self, futures: set[Future[Any]], timeout: float | None, _return_when: str
    ) -> tuple[set[Future[Any]], set[Future[Any]]]:
        """Return those that are done, at least one unless so many seconds have passed, and the others.

        NOTE: each of the others sleeps by then. One that began to sleep later would find nobody who waits for it.
        """
        end = float("inf") if timeout is None else self.now + timeout
        self._calls |= futures
        self._waited_for = True
        try:
            while True:
                done = {future for future in futures if future.done()}
                self._calls = {future for future in self._calls if not future.done()}
                with self._changed:
                    if len(self._sleepers) == len(self._calls):
                        if done or self.now >= end:
                            return done, futures - done
                        self._move(min([*self._sleepers, end]))
                concurrent.futures.wait(futures - done, LOOK_S)
        finally:
            self._waited_for = False

    def _move(self, to: float) -> None:
        self.now = max(self.now, to)
        self._sleepers = [until for until in self._sleepers if until > self.now]
        self._changed.notify_all()
