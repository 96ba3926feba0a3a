"""A reading that many ask for, computed for all of them together: metrics, readiness."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

REST = 20
"""Times as long as a reading took to compute in which it is not computed again."""
REST_S = 10.0
"""Longest time in seconds for that: a machine may have stopped meanwhile."""

T = TypeVar("T")


class SharedReading(Generic[T]):
    """A reading that ``compute`` returns, for many who ask for it.

    SAFETY: anybody may ask, and what computes holds the interpreter's lock, for which all else in the process waits. So
    one thread computes at a time, and all readings together take a twentieth of it at most.
    """

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute, self._lock = compute, threading.Lock()
        self._found: T | None = None
        self._until = 0.0

    def __call__(self) -> T:
        with self._lock:
            began = time.monotonic()
            if self._found is None or began >= self._until:
                self._found = self._compute()
                ended = time.monotonic()
                self._until = ended + min(REST * (ended - began), REST_S)
            return self._found
