"""The pace of a run: recent steps per second, and the time left."""

from __future__ import annotations

from collections import deque

WINDOW_S = 30.0
"""Seconds over which the rate is measured."""
SAMPLES = 64
"""Most samples that are kept of the window."""


class Pace:
    """Measures a run that continues after step ``first`` and has ``steps`` steps. Instants are seconds of one clock."""

    def __init__(self, first: int, steps: int, now: float) -> None:
        self.first, self.step, self.steps = first, first, steps
        self._samples: deque[tuple[float, int]] = deque([(now, first)])
        self._now = now

    def note(self, step: int, now: float) -> None:
        """Take note of a finished step."""
        self.step, self._now = step, now
        samples = self._samples
        if now - samples[-1][0] < WINDOW_S / SAMPLES:
            return
        samples.append((now, step))
        while len(samples) > 2 and now - samples[1][0] >= WINDOW_S:
            samples.popleft()

    @property
    def rate(self) -> float | None:
        """Steps per second in the last `WINDOW_S`; None before the first step has been timed."""
        then, step = self._samples[0]
        return (self.step - step) / (self._now - then) if self.step > step and self._now > then else None

    @property
    def left_s(self) -> float | None:
        """Seconds to the end at this rate; None before the first step has been timed."""
        return None if self.rate is None else (self.steps - self.step) / self.rate


def rate_words(rate: float | None) -> str:
    """Describe a rate in steps per second."""
    if rate is None:
        return "- steps/s"
    return f"{rate:,.0f} steps/s" if 1000 <= rate < 1e12 else f"{rate:.3g} steps/s"


def left_words(seconds: float | None) -> str:
    """Describe the time left: 12 s, 3 min 20 s, 5 h 7 min, 4 d 3 h."""
    if seconds is None:
        return "- left"
    whole = round(seconds)
    for unit, size, part, fraction in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // fraction} {part} left"
    return f"{whole} s left"
