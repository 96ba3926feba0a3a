"""Limit on the downloads in progress in this process: each takes a connection and a file, of which a process has few.

A job has a place while it holds fewer than are free. So one job alone has half of them, of two each a third, of n each
a share of n + 1; and as much is left for the next one, however many there are and however slowly they are served
(the rule of dynamic thresholds: Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator

MAX_DOWNLOADS = 128
_GLANCE_S = 0.02
"""Seconds between two looks at the places. NOTE: each call of a fetcher has an event loop of its own."""


class Places:
    """Safe for several threads."""

    def __init__(self, most: int = MAX_DOWNLOADS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._held = Counter[int | None]()

    @contextlib.asynccontextmanager
    async def one(self, job: int | None) -> AsyncIterator[None]:
        """Hold a place for a job, or for what is of none, once there is one."""
        while not self._take(job):
            await asyncio.sleep(_GLANCE_S)
        try:
            yield
        finally:
            with self._lock:
                self._held[job] -= 1
                if not self._held[job]:
                    del self._held[job]

    def _take(self, job: int | None) -> bool:
        with self._lock:
            if self._held[job] >= self._most - self._held.total():
                if not self._held[job]:
                    del self._held[job]
                return False
            self._held[job] += 1
            return True


OF_PROCESS = Places()
