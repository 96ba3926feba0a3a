"""Lengths of the ranges that requests for logs name: as many blocks as the endpoint has taken before.

Providers have limits of their own, from 5 blocks to none, and say so in as many ways. So a refused range is halved, and
the length that worked is remembered for this endpoint. A range may also be refused for its many logs, so longer ones
are tried again: soon at first, and later each time that one is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass

SOONEST, LATEST = 4, 256
"""Answered requests of the remembered length until one of twice the length is tried, at least and at most."""


@dataclass(slots=True)
class _Known:
    length: int
    answered: int = 0
    patience: int = SOONEST


class LogRange:
    """Lengths by endpoint, at most ``most`` blocks. Safe for several threads."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: dict[Hashable, _Known] = {}
        self._lock = threading.Lock()

    def length(self, endpoint: Hashable) -> int:
        """Return how many blocks to ask this endpoint for at once."""
        with self._lock:
            known = self._known.get(endpoint)
            if known is None:
                return self.most
            tries = known.answered >= known.patience
            return min(2 * known.length if tries else known.length, self.most)

    def refused(self, endpoint: Hashable, blocks: int) -> None:
        """Note that a request for so many blocks was refused."""
        with self._lock:
            known = self._known.setdefault(endpoint, _Known(self.most))
            if blocks > known.length:
                known.patience = min(2 * known.patience, LATEST)
            known.length, known.answered = max(min(known.length, blocks // 2), 1), 0

    def worked(self, endpoint: Hashable, blocks: int) -> None:
        """Note that a request for so many blocks was answered."""
        with self._lock:
            known = self._known.get(endpoint)
            if known is None or blocks < known.length:
                return
            if blocks > known.length:
                known.length, known.answered, known.patience = blocks, 0, SOONEST
            else:
                known.answered += 1
            if known.length >= self.most:
                del self._known[endpoint]
