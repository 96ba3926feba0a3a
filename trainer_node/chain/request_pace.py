"""A budget of requests a second that adapts to what an endpoint takes.

There is none until the endpoint says that it has had enough. Then it is a little less than what the endpoint has
answered in the second before, and grows slowly until it is refused again. Requests beyond it wait instead of being
refused, because some providers count refused ones, too.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

WINDOW_S = 1.0
"""Seconds over which answers are counted, and within which the budget is lowered once."""
LESS = 0.8
"""Factor of the budget once it was too much."""
LEAST, MOST = 4.0, 500.0
"""Requests a second: the budget is never lower, because some refuse whatever the rate, and a dispute takes so many;
beyond the higher one there is none."""
GROWS_S, GROWS = 5.0, 1.1
"""Seconds without a refusal after which the budget grows by this factor."""
HINT_S = 10.0
"""Longest wait that an endpoint may ask for; then it is asked again. SAFETY: it does not decide when we move."""
FIRST_WAIT_S = 0.5
"""Wait after a refusal without a hint; twice as long after each that follows."""


class Pace:
    """The budget of one endpoint. Safe for several threads. ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.rate: float | None = None
        """Requests a second; None without a budget."""
        self._next = self._not_before = 0.0
        self._refused_at, self._grown_at, self._refusals = float("-inf"), 0.0, 0
        self._answered: deque[float] = deque(maxlen=int(MOST))

    def wait_s(self, most_s: float, *, urgent: bool = False) -> float | None:
        """Return how long to wait before the next request, and keep its place; None if that is more than ``most_s``.
        What is ``urgent`` has its place before all that wait."""
        with self._lock:
            now = self._clock()
            self._grow(now)
            wait_s = max((self._not_before if urgent else self._next) - now, 0.0)
            if wait_s > most_s:
                return None
            if urgent:
                self._next += 1 / self.rate if self.rate is not None else 0.0
            elif self.rate is not None:
                self._next = now + wait_s + 1 / self.rate
            return wait_s

    def answered(self) -> None:
        """Note an answer that was no refusal."""
        with self._lock:
            self._answered.append(self._clock())
            self._refusals = 0

    def refused(self, hint_s: float) -> None:
        """Note that the endpoint has had enough. ``hint_s``: when to come again, by its own word; 0 without one."""
        with self._lock:
            now = self._clock()
            if now - self._refused_at >= WINDOW_S:
                passed = float(sum(now - at <= WINDOW_S for at in self._answered))
                self.rate = max(LESS * min(passed, self.rate or passed), LEAST)
                self._refusals += 1
            self._refused_at = self._grown_at = now
            wait_s = hint_s or FIRST_WAIT_S * 2.0 ** min(max(self._refusals, 1) - 1, 8)
            self._not_before = now + min(wait_s, HINT_S)
            self._next = max(self._next, self._not_before)

    def _grow(self, now: float) -> None:
        if self.rate is not None and now - self._grown_at >= GROWS_S:
            self.rate *= GROWS ** int((now - self._grown_at) / GROWS_S)
            self._grown_at = now
            if self.rate > MOST:
                self.rate = None
