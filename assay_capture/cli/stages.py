"""Shows what a build is doing and how long it may still take, and says what an interrupted one leaves."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from trainer_node.cli.common import progress_bar
from trainer_node.observe.pace import left_words

from ..capture.stages import SHARES, WRITE

QUIET_S = 5.0
"""Seconds that pass before the first line, and between two lines, where standard error is not a terminal."""


class Stages:
    """A context manager. It is called with the name of each stage when that begins."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bar = progress_bar() if sys.stderr.isatty() else None
        self._task = self._bar.add_task("", total=100) if self._bar else None
        self._stage, self._done = "", 0.0
        self._began = self._told_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            print(f"stopped while {self._stage or 'reading the recipe'}: {self._left()}", file=sys.stderr)

    def __call__(self, stage: str) -> None:
        self._done += SHARES.get(self._stage, 0.0)
        self._stage = stage
        now = time.monotonic()
        elapsed = now - self._began
        # NOTE: shares are those of one model, so this is about right, and better towards the end.
        left = left_words(elapsed * (1 - self._done) / self._done) if self._done else ""
        words = f"{stage}  {left}".rstrip()
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=round(100 * self._done), description=words)
        elif now - self._told_at >= QUIET_S:
            self._told_at = now
            print(words, file=sys.stderr, flush=True)

    def _left(self) -> str:
        if self._stage == WRITE:
            return (
                f"{self._folder} has a part of the job and is not a bundle; the same command writes over it"
            )
        return "nothing was written"
