"""The right records of disputed operators, computed outside the loop: executing one may take the processor long.

right   the operator executed on the processor: what an appeal should rest on, because it costs a bond
again   its record if a second execution on the run's own device gives that, too: what an appeal rests on where the
        processor is not done in time, because a match that is lost costs a stake and the right root
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Generic, Protocol, TypeVar

import structlog

from referee_py.commit import Record

from ..chain import HearingInfo
from ..ids import whole

LANES = 2
"""Executions of each kind at the same time. SAFETY: what the device repeats never waits behind the processor."""

_log = structlog.get_logger(__name__)

T = TypeVar("T")
First = Callable[[], AbstractContextManager[None]]
"""Lets runs rest while it is entered."""


class Executed(Protocol):
    """A run that executes an operator again, as `Replay`."""

    def right(self, step: int, node: int, /) -> Record: ...

    def again(self, step: int, node: int, /) -> Record | None: ...


class Rights:
    """By hearing. For the loop's thread alone; what it asks for is computed in others, within ``first``."""

    def __init__(self, first: First = nullcontext) -> None:
        self._right: _Lanes[Record] = _Lanes("right", first)
        self._again: _Lanes[Record | None] = _Lanes("again", first)

    def of(self, hearing: HearingInfo, run: Executed, patience_s: float, *, hurry: bool) -> Record | None:
        """Return the right record of a hearing's operator; None if it is not there after ``patience_s`` seconds.

        ``hurry``: a second execution on the run's device will do. Raises what the executions raise, if none has given a
        record.
        """
        second, failed, at = None, None, hearing.terms.submission
        if hurry:
            try:
                second = self._again.result(hearing.id, partial(run.again, at.step, at.node), 0.0)
            except Exception as error:
                failed = error  # NOTE: the processor may have the record
            if second is None:
                # NOTE: where two executions of a device differ, a third may show that one of them was a glitch.
                self._again.drop_empty(hearing.id)
        try:
            right = self._right.result(hearing.id, partial(run.right, at.step, at.node), patience_s)
        except Exception:
            if second is None:
                raise
            right = None
        if right is None and failed is not None:
            raise failed
        if right is None and second is not None:
            _log.warning("hearing.device_alone", match=whole(hearing.match_id), node=at.node)
        return second if right is None else right

    def forget(self, hearing: int) -> None:
        """Drop what is known of a hearing that is over."""
        for lanes in (self._right, self._again):
            lanes.forget(hearing)


class _Lanes(Generic[T]):
    """Executions of one kind, by hearing, first come, first served."""

    def __init__(self, name: str, first: First) -> None:
        self._first = first
        self._futures: dict[int, Future[T]] = {}
        self._threads = ThreadPoolExecutor(LANES, thread_name_prefix=name)

    def result(self, hearing: int, execute: Callable[[], T], patience_s: float) -> T | None:
        """Return what an execution has given, or None if it runs. One that has failed raises, and is tried again."""
        if hearing not in self._futures:
            self._futures[hearing] = self._threads.submit(self._execute, execute)
        future = self._futures[hearing]
        wait_for([future], timeout=patience_s)
        if not future.done():
            return None
        if future.exception() is not None:
            del self._futures[hearing]
        return future.result()

    def _execute(self, execute: Callable[[], T]) -> T:
        with self._first():
            return execute()

    def drop_empty(self, hearing: int) -> None:
        """Forget an execution that has given nothing, so that the next look executes again.

        NOTE: one that has ended with a record since it was looked at is kept: the next look takes it.
        """
        future = self._futures.get(hearing)
        if future is not None and future.done() and future.exception() is None and future.result() is None:
            del self._futures[hearing]

    def forget(self, hearing: int) -> None:
        if (future := self._futures.pop(hearing, None)) is not None:
            future.cancel()
