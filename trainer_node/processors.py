"""Computations that share the processors, step by step: whoever has had least time goes first.

INVARIANT: a new one begins within one step of any other, and one that takes t seconds waits for at most t seconds, and
a step, of each that computes meanwhile. So who brings a long one keeps nobody else's short one waiting.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial


@dataclass(eq=False)
class _Share:
    had_s: float = 0.0
    since: float = 0.0


class Processors:
    """``clock`` in seconds. Safe for several threads; each brings one computation."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: list[_Share] = []
        self._holder: _Share | None = None

    @contextlib.contextmanager
    def share(self) -> Iterator[Callable[[], None]]:
        """Wait for the processors, and have them. What it gives is to be called after each step: it lets others go
        first that have had less time."""
        mine = _Share()
        with self._changed:
            self._take(mine)
        try:
            yield partial(self._pass_on, mine)
        finally:
            with self._changed:
                self._holder = None
                self._changed.notify_all()

    def _take(self, mine: _Share) -> None:
        self._waiting.append(mine)
        self._changed.wait_for(
            lambda: self._holder is None and min(self._waiting, key=lambda one: one.had_s) is mine
        )
        self._waiting.remove(mine)
        self._holder, mine.since = mine, self._clock()

    def _pass_on(self, mine: _Share) -> None:
        with self._changed:
            now = self._clock()
            mine.had_s, mine.since = mine.had_s + now - mine.since, now
            if all(one.had_s >= mine.had_s for one in self._waiting):
                return
            self._holder = None
            self._changed.notify_all()
            self._take(mine)
