"""Shows the progress of a run: a bar on a terminal, a line every so often elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.markup import escape

from ..observe.pace import Pace, left_words, rate_words
from .common import plain, progress_bar

BAR_S = 0.1
"""Least seconds between two changes of the bar."""


class Follower:
    """A context manager. ``every_s``: least seconds between two lines where standard error is not a terminal."""

    def __init__(self, first: int, steps: int, every_s: float) -> None:
        self._bar = progress_bar() if sys.stderr.isatty() else None
        self._task = self._bar.add_task("", total=steps, completed=first) if self._bar else None
        self._every_s = BAR_S if self._bar else every_s
        self._pace = Pace(first, steps, time.monotonic())
        self._told_at: float | None = None
        self._told_step = first
        self._metrics: Mapping[str, float] = {}

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pace.step > self._told_step:
            self._tell()
        if self._bar:
            self._bar.stop()

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take note of a finished step; show it if it is the first, or none was shown for a while."""
        now = time.monotonic()
        self._pace.note(step, now)
        self._metrics = metrics
        if self._told_at is None or now - self._told_at >= self._every_s:
            self._told_at = now
            self._tell()

    def say(self, text: str) -> None:
        """Show a line of its own. Names of metrics in it may be anybody's."""
        text = plain(text)
        if self._bar:
            self._bar.console.print(text, markup=False, soft_wrap=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def _tell(self) -> None:
        pace = self._pace
        self._told_step = pace.step
        numbers = [f"{name} {value:.6g}" for name, value in self._metrics.items()]
        words = "  ".join([*numbers, rate_words(pace.rate)])
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=pace.step, description=escape(plain(words)))
        else:
            self.say(f"step {pace.step} of {pace.steps}  {words}  {left_words(pace.left_s)}")
