"""Computations that share the processors, step by step: whoever has had least time goes first, for what it is worth.

INVARIANT: a new one begins within one step of any other, and one that takes t seconds waits for at most t seconds, and
a step, of each share that computes meanwhile and is worth the same; of one that is worth k times as much for k t. A
share is kept over all that is computed for it, one after the other. So who brings a long one keeps
nobody else's short one waiting, and who cuts his into pieces has no more than with one piece. What our stake rests on
goes before all others, in the order in which it came: each of it was begun because it is in time behind those before
it.

SAFETY: strangers say how many wait. A step goes through all that wait once, and wakes the one that is due.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(eq=False)
class Share:
    """Time that computations for the same thing have had of the processors, in seconds; ``ours``: our stake rests on
    it; ``worth``: the wei that are at stake in it."""

    had_s: float = 0.0
    ours: bool = False
    came: int = 0
    """Its place among those with our stake."""
    leaves: bool = False
    """True if it must stop: it no longer waits for the processors."""
    worth: float = 1.0

    @property
    def rank(self) -> tuple[int, float]:
        """Whoever has the least goes first."""
        return (0, self.came) if self.ours else (1, self.had_s / self.worth)

    def taken_s(self, own: Share, own_s: float) -> float:
        """Return the seconds that this share takes, at most, from a computation of ``own_s`` for another one."""
        return own_s * self.worth / own.worth


@dataclass(eq=False)
class _Place:
    """One computation of a share, and the instant before which it is to be done."""

    share: Share
    until: float
    woken: threading.Condition
    since: float = 0.0

    @property
    def rank(self) -> tuple[int, float, float]:
        """NOTE: of two that have had the same, the one that has to be done first."""
        return *self.share.rank, self.until


class Processors:
    """``clock`` in seconds. Safe for several threads; each brings one computation."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[_Place] = []
        self._holder: _Place | None = None

    @property
    def wanted(self) -> bool:
        """True if anybody waits."""
        return bool(self._waiting)

    @contextlib.contextmanager
    def share(self, of: Share | None = None, until: float = math.inf) -> Iterator[Callable[[], bool]]:
        """Wait for the processors, and have them. What it gives must be called after each step: it lets others go
        first, and returns whether the share was asked to leave. ``until``: the instant before which this is to be done,
        on any clock that is the same for all."""
        mine = _Place(Share() if of is None else of, until, threading.Condition(self._lock))
        with self._lock:
            self._take(mine)
        try:
            yield lambda: self._pass_on(mine)
        finally:
            with self._lock:
                self._give(mine)

    def leave(self, one: Share) -> None:
        """Tell the computations of a share to stop after their step, or at once if they wait."""
        with self._lock:
            one.leaves = True
            for place in self._waiting:
                if place.share is one:
                    place.woken.notify()

    # ------------------------------------------------------------------ inside

    def _take(self, mine: _Place) -> None:
        self._waiting.append(mine)
        self._next()
        mine.woken.wait_for(lambda: self._holder is mine or mine.share.leaves)
        if self._holder is not mine:
            self._waiting.remove(mine)

    def _next(self) -> None:
        """Give the processors to whoever is due, if nobody has them."""
        if self._holder is not None:
            return
        waiting = (one for one in self._waiting if not one.share.leaves)
        due = min(waiting, key=lambda one: one.rank, default=None)
        if due is not None:
            self._waiting.remove(due)
            self._holder, due.since = due, self._clock()
            due.woken.notify()

    def _give(self, mine: _Place) -> None:
        if self._holder is mine:
            self._count(mine)
            self._holder = None
            self._next()

    def _count(self, mine: _Place) -> None:
        now = self._clock()
        mine.share.had_s, mine.since = mine.share.had_s + now - mine.since, now

    def _pass_on(self, mine: _Place) -> bool:
        with self._lock:
            if self._holder is mine:
                self._count(mine)
            rank = mine.rank
            if not mine.share.leaves and all(one.rank >= rank for one in self._waiting):
                return False
            self._give(mine)
            # NOTE: one that leaves waits for nothing, and others continue while it writes its state.
            if not mine.share.leaves:
                self._take(mine)
            return mine.share.leaves
