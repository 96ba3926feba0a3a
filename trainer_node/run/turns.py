"""Turns of the threads that compute with the runs of a node: one at a time, and moves before answers.

    move     in the loop's thread: begins as soon as the part that has begun is done
    answer   outside the loop, part by part (a step, a log): begins only while no move computes or waits

INVARIANT: a run's executor, backend and logs are used inside a turn alone, so they need no lock of their own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Turns:
    """A turn within a turn of the same thread is part of it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owner: int | None = None
        self._moves = 0
        """Moves that wait for their turn."""

    @contextlib.contextmanager
    def move(self) -> Iterator[None]:
        """Wait at most for the part of an answer that has begun."""
        if self._owner == threading.get_ident():
            yield
            return
        with self._changed:
            self._moves += 1
            try:
                self._changed.wait_for(lambda: self._owner is None)
                self._owner = threading.get_ident()
            finally:
                self._moves -= 1
        with self._until_done():
            yield

    @contextlib.contextmanager
    def answer(self) -> Iterator[None]:
        """Wait until no move computes or waits for its turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._owner is None and not self._moves)
            self._owner = threading.get_ident()
        with self._until_done():
            yield

    @contextlib.contextmanager
    def _until_done(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._changed:
                self._owner = None
                self._changed.notify_all()
