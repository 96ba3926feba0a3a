"""Calls that a thread asks for between the operators of the steps that it computes, also before the first and after the
last; by default none.

No kernel can be interrupted, and a step of somebody's data may take a hundred times as long as the one before. Who
shares the processors lets others go first here, or ends the step with an exception.

INVARIANT: an executor whose step was ended so computes the next step from a state that it is given, as at its begin.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

_thread = threading.local()


@contextlib.contextmanager
def between_operators(act: Callable[[], None]) -> Iterator[None]:
    """Let this thread call ``act`` before the first operator of a step and after each, meanwhile. What it raises ends
    the step."""
    before = asked()
    _thread.act = act
    try:
        yield
    finally:
        _thread.act = before


def asked() -> Callable[[], None] | None:
    """Return what this thread is to call between operators, or None."""
    act: Callable[[], None] | None = getattr(_thread, "act", None)
    return act
