"""Notices metrics that say that training has gone wrong: numbers that are not finite, and a loss that grows.

A program's result is what it is, so nothing here stops a run.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from statistics import median

LOSS = "loss"
SPAN = 20
"""Number of steps whose median loss counts: a single step says little."""
GROWTH = 2.0
"""A loss that exceeds its beginning by this factor has diverged."""


class Health:
    """Looks at every step's metrics. Each kind of trouble of a metric is reported once."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._grown = False
        self._first: list[float] = []
        self._last: deque[float] = deque(maxlen=SPAN)
        self.broken: str | None = None
        """The first number that was not finite, in words; None while all are."""

    def see(self, step: int, metrics: Mapping[str, float]) -> list[str]:
        """Return warnings about this step, one sentence each."""
        found = []
        for name, value in metrics.items():
            if not math.isfinite(value) and name not in self._told:
                self._told.add(name)
                words = f"{name} is {value} in step {step}"
                self.broken = self.broken or words
                found.append(words)
        loss = metrics.get(LOSS)
        if loss is not None and math.isfinite(loss):
            found += self._loss(step, loss)
        return found

    def _loss(self, step: int, loss: float) -> list[str]:
        if len(self._first) < SPAN:
            self._first.append(loss)
            return []
        self._last.append(loss)
        began, now = median(self._first), median(self._last)
        if len(self._last) < SPAN or self._grown or began <= 0 or now <= GROWTH * began:
            return []
        self._grown = True
        return [
            f"the loss diverges: a median of {now:.4g} over the {SPAN} steps up to step {step}, "
            f"{began:.4g} over the first {SPAN}"
        ]
