"""Computations that share the processors, step by step: whoever has had least time goes first.

INVARIANT: a new one begins within one step of any other, and one that takes t seconds waits for at most t seconds, and
a step, of each that computes meanwhile. So a long one keeps nobody else's short one waiting. What our stake
rests on goes before all others, in the order in which it came: each of it was begun because it is in time behind those
before it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(eq=False)
class Share:
    """Time that a computation has had of the processors, in seconds; ``ours``: our stake rests on it."""

    had_s: float = 0.0
    since: float = 0.0
    ours: bool = False
    came: int = 0
    """Its place among those with our stake."""
    leaves: bool = False
    """True if it must stop: it no longer waits for the processors."""

    @property
    def rank(self) -> tuple[int, float]:
        """Whoever has the least goes first."""
        return (0, self.came) if self.ours else (1, self.had_s)


class Processors:
    """``clock`` in seconds. Safe for several threads; each brings one computation."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: list[Share] = []
        self._holder: Share | None = None

    @property
    def wanted(self) -> bool:
        """True if anybody waits."""
        return bool(self._waiting)

    @contextlib.contextmanager
    def share(self, mine: Share | None = None) -> Iterator[Callable[[], bool]]:
        """Wait for the processors, and have them. What it gives must be called after each step: it lets others go
        first, and returns whether ``mine`` was asked to leave."""
        mine = Share() if mine is None else mine
        with self._changed:
            self._take(mine)
        try:
            yield lambda: self._pass_on(mine)
        finally:
            with self._changed:
                self._give(mine)

    def leave(self, one: Share) -> None:
        """Tell a computation to stop after its step, or at once if it waits."""
        with self._changed:
            one.leaves = True
            self._changed.notify_all()

    def _take(self, mine: Share) -> None:
        self._waiting.append(mine)
        self._changed.wait_for(
            lambda: (
                mine.leaves or (self._holder is None and min(self._waiting, key=lambda one: one.rank) is mine)
            )
        )
        self._waiting.remove(mine)
        if mine.leaves:
            self._changed.notify_all()  # it may have been its turn
        else:
            self._holder, mine.since = mine, self._clock()

    def _give(self, mine: Share) -> None:
        if self._holder is mine:
            mine.had_s += self._clock() - mine.since
            self._holder = None
            self._changed.notify_all()

    def _pass_on(self, mine: Share) -> bool:
        with self._changed:
            if self._holder is mine:
                now = self._clock()
                mine.had_s, mine.since = mine.had_s + now - mine.since, now
            if not mine.leaves and all(one.rank >= mine.rank for one in self._waiting):
                return False
            self._give(mine)
            # NOTE: one that leaves waits for nothing, and others continue while it writes its state.
            self._take(mine)
            return mine.leaves
