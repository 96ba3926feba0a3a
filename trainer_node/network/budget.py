"""A budget: how long one work may wait for strangers, in all its requests together (`waits` has the seconds).

    a package, an interval's data, the logs of a run, an opponent's trees       each is one work

Only waiting counts: requests that are open side by side count once, and what is computed between them does not. The
clock is injected, so that a test moves the time itself.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator

from referee_py.errors import Unavailable


class Budget:
    """``seconds`` to wait for ``of``, words for people. Safe for several threads.

    ``blames``: whether the servers that took the time are to blame once it is over (`fetcher`); a work that only gives
    others their turn blames nobody.
    """

    def __init__(
        self, seconds: float, of: str, *, blames: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds, self.of, self.blames = seconds, of, blames
        self._clock = clock
        self._lock = threading.Lock()
        self._spent = 0.0
        self._open = 0
        self._since = 0.0
        self._took: dict[str, float] = {}

    @property
    def spent(self) -> float:
        """Seconds waited so far, those of requests that are open included."""
        with self._lock:
            return self._spent + (self._clock() - self._since if self._open else 0.0)

    @property
    def left(self) -> float:
        """Seconds that are left; zero at the end."""
        return max(self.seconds - self.spent, 0.0)

    @property
    def over(self) -> bool:
        return self.spent >= self.seconds

    def begin(self) -> None:
        """A request is open from now on. Each `begin` has its `end`."""
        with self._lock:
            if not self._open:
                self._since = self._clock()
            self._open += 1

    def end(self) -> None:
        with self._lock:
            self._open -= 1
            if not self._open:
                self._spent += self._clock() - self._since

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside as waiting."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def check(self) -> None:
        """Raise Unavailable if the time is over."""
        if self.over:
            raise Unavailable(self.reason)

    @property
    def reason(self) -> str:
        """Why nothing more is waited for."""
        return f"{self.of}: the {self.seconds:.3g} s in which it had to come are over"

    def took(self, server: str, seconds: float) -> None:
        """Note that a server took so long to deliver a part of the work."""
        with self._lock:
            self._took[server] = self._took.get(server, 0.0) + seconds

    def blamed(self) -> dict[str, float]:
        """Return the seconds of each server, once: a second call returns those since the first."""
        with self._lock:
            taken, self._took = self._took, {}
        return taken


class Until(Budget):
    """A budget that ends with ``over``, and not after seconds of this machine: at an instant of the chain, say."""

    def __init__(self, over: Callable[[], bool], of: str) -> None:
        super().__init__(math.inf, of)
        self._ended = over

    @property
    def over(self) -> bool:
        return self._ended()

    @property
    def reason(self) -> str:
        return f"{self.of}: the time that the job leaves for it is over"
