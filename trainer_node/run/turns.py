"""Turns of the threads that compute with the runs of a node: one at a time, and moves before answers.

    move     what a dispute asks for: begins as soon as the part that has begun is done
    answer   what a request asks for, part by part (a step, a log): begins only while no move computes or waits

A move has the processors before all runs (``first``). SAFETY: an answer shares them with one. Requests may be renewed
for as long as a challenge period lasts, and would keep a slot from being filled.

INVARIANT: a run's executor, backend and logs are used inside a turn alone, so they need no lock of their own. Whoever
has a turn lets nobody go first in the midst of a step: moves of all jobs wait for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from referee_py.pauses import between_operators


class Turns:
    """A turn within a turn of the same thread is part of it. ``first``: entered while somebody has, or waits for, a
    move."""

    def __init__(self, first: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext) -> None:
        self._first = first
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
        with self._first():
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
            with between_operators(_nothing):
                yield
        finally:
            with self._changed:
                self._owner = None
                self._changed.notify_all()


def _nothing() -> None:
    """Take no break."""
