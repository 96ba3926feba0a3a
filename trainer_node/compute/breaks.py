"""Breaks of a computation in the midst of its steps: others go first, or it ends there.

SAFETY: one step of a stranger's data may take an hour where the measured one took a second. It must keep the processors
from nobody, and nobody from stopping.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from referee_py.pauses import between_operators

from ..run.step_times import StepTimes

BREAK_S = 0.1
"""Seconds between two breaks, at least; an operator may take longer."""


class Breaks:
    """``act`` is called in the midst of steps, every tenth of a second. What it raises ends the step, and what it takes
    is none of the step's ``times``."""

    def __init__(
        self, times: StepTimes, act: Callable[[], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._times, self._act, self._clock = times, act, clock
        self._last: float | None = None
        self._in_step = False
        """True once the first operator of a step begins."""

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Take breaks in all steps that this thread computes meanwhile."""
        with between_operators(self._between):
            try:
                yield
            finally:
                self._times.drops()

    def begins(self) -> None:
        """A step begins now. NOTE: what comes before its first operator does not count, as that it is compiled: that
        comes once. Where nobody says that a step begins, it is before that operator, too."""
        self._resume()
        self._in_step = False

    @contextlib.contextmanager
    def rest(self) -> Iterator[None]:
        """Let others have the processors meanwhile."""
        self._times.rests()
        yield
        self.begins()

    def _resume(self) -> None:
        self._times.resumes()
        self._last = self._clock()

    def _between(self) -> None:
        if self._last is None or not self._in_step:
            self._in_step = True
            self._resume()
        elif self._clock() - self._last >= BREAK_S:
            self._times.rests()
            self._act()
            self._resume()
