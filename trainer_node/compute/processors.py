"""Computations that share the processors, step by step: whoever has had least time goes first, for what it is worth.

A step that lasts long lets others go first in its midst, too (`Held.in_step`), after any of its operators.

INVARIANT: a new one begins within one operator of any other, and one that takes t seconds waits for at most t seconds,
and a step, of each share that computes meanwhile and is worth the same; of one that is worth k times as much for k t. A
share is kept over all that is computed for it, one after the other. So who brings a long one keeps
nobody else's short one waiting, and who cuts his into pieces has no more than with one piece. What our stake rests on
goes before all others, and of that whatever is due first: each was begun because it is in time behind all that there
was, so it is in time, too, where one that is due later stands behind it. One that takes longer than was promised goes
behind all that do not: or it would cost us their slots, too. What a dispute asks for is computed beside all of these,
which rest meanwhile (`first`): its clock runs, and beside a run it takes twice as long.

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
    due: float = 0.0
    """The time at which it must be done, if our stake rests on it: seconds of the chain; 0 if it is needed at once."""
    promised_s: float = math.inf
    """Seconds in which it was to be done, by the first step, when our stake was given."""
    came: int = 0
    """Its place among those that are due at the same time."""
    leaves: bool = False
    """True if it must stop: it no longer waits for the processors."""
    worth: float = 1.0

    @property
    def rank(self) -> tuple[float, float, int]:
        """Whoever has the least goes first."""
        if not self.ours:
            return 1, self.had_s / self.worth, 0
        # NOTE: one that turns out slow takes nothing from those that are what they were taken for.
        return (0.5 if self.due and self.had_s > self.promised_s else 0), self.due, self.came

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
    in_step: bool = False
    """True if it waits in the midst of a step, which continues though its share must stop."""

    @property
    def rank(self) -> tuple[float, float, int, float]:
        """NOTE: of two that have had the same, the one that has to be done first."""
        return *self.share.rank, self.until

    @property
    def leaves(self) -> bool:
        """True if it no longer waits for the processors."""
        return self.share.leaves and not self.in_step


class Processors:
    """``clock`` in seconds. Safe for several threads; each brings one computation."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[_Place] = []
        self._holder: _Place | None = None
        self._first = 0
        """Number of those that go before all who come here."""

    @property
    def wanted(self) -> bool:
        """True if anybody waits."""
        return bool(self._waiting)

    @contextlib.contextmanager
    def share(self, of: Share | None = None, until: float = math.inf) -> Iterator[Held]:
        """Wait for the processors, and have them. What it gives must be called after each step. ``until``: the instant
        before which this is to be done, on any clock that is the same for all."""
        mine = _Place(Share() if of is None else of, until, threading.Condition(self._lock))
        with self._lock:
            self._take(mine)
        try:
            yield Held(self, mine)
        finally:
            with self._lock:
                self._give(mine)

    @contextlib.contextmanager
    def first(self) -> Iterator[None]:
        """Let nobody continue here meanwhile, after the operator that each is in."""
        with self._lock:
            self._first += 1
        try:
            yield
        finally:
            with self._lock:
                self._first -= 1
                self._next()

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
        mine.woken.wait_for(lambda: self._holder is mine or mine.leaves)
        if self._holder is not mine:
            self._waiting.remove(mine)

    def _next(self) -> None:
        """Give the processors to whoever is due, if nobody has them."""
        if self._holder is not None or self._first:
            return
        waiting = (one for one in self._waiting if not one.leaves)
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

    def _pass_on(self, mine: _Place, *, in_step: bool = False) -> bool:
        with self._lock:
            mine.in_step = in_step
            if self._holder is mine:
                self._count(mine)
            rank = mine.rank
            goes_on = not self._first and all(one.rank >= rank for one in self._waiting)
            if goes_on and not mine.leaves:
                return False
            self._give(mine)
            # NOTE: one that leaves waits for nothing, and others continue while it writes its state.
            if not mine.leaves:
                self._take(mine)
            return mine.leaves


@dataclass(frozen=True, slots=True)
class Held:
    """The processors, as one computation has them."""

    processors: Processors
    place: _Place

    def __call__(self) -> bool:
        """Let others go first after a step; return whether the share was asked to leave."""
        return self.processors._pass_on(self.place)

    def in_step(self) -> bool:
        """Let others go first in the midst of a step; return whether the share was asked to leave, after this step or
        now."""
        self.processors._pass_on(self.place, in_step=True)
        return self.place.share.leaves
