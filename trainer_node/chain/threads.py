"""Threads that run one call after the other; as many as there are calls at once.

NOTE: those of an executor would keep the process from ending while a call hangs.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]]]


class Threads:
    """Daemon threads of this name, each with the queue of its calls. Safe for several threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: list[_Calls] = []
        # NOTE: a process that is forked off has none of the threads.
        os.register_at_fork(after_in_child=self._idle.clear)

    def begin(self, act: Callable[[], T]) -> Future[T]:
        """Run a call in a thread, and return its future result."""
        try:
            calls = self._idle.pop()
        except IndexError:
            calls = SimpleQueue()
            threading.Thread(target=self._serve, args=(calls,), name=self._name, daemon=True).start()
        future = Future[T]()
        calls.put((future, act))
        return future

    def _serve(self, calls: _Calls) -> None:
        while True:
            future, act = calls.get()
            if not future.set_running_or_notify_cancel():
                self._idle.append(calls)
                continue
            try:
                tell = functools.partial(future.set_result, act())
            except BaseException as error:
                tell = functools.partial(future.set_exception, error)
            # NOTE: idle before anybody knows of the result, so that the next call takes this thread.
            self._idle.append(calls)
            tell()
            del future, act, tell  # a thread that waits holds no answer
