"""Bytes that a sweep of the store could free, estimated before it begins from what jobs hold.

A sweep looks at every file of the store, and what it gives up is lost. So nobody begins one for a job that would not
fit after it either: anybody can post such a job, for its gas.

INVARIANT: it costs no look at the store. The files of a job that is over are looked at once; those of an open job, as
they come (`held_bytes`). What a sweep has left of a job that is over is not counted again, so no sweep is
repeated without effect. NOTE: what no job holds is not counted; it goes with the next collection.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from .disk import on_disk
from .held_bytes import HeldBytes
from .job_holds import RESULT
from .retention import URGENT_GRACE_S
from .store import Store


@dataclass(slots=True)
class _Part:
    """Bytes of a job's work or of its result, and when a file of it was last used (seconds since 1970)."""

    size: int = 0
    used: float = 0.0


@dataclass(frozen=True, slots=True)
class _Ended:
    """A job that is over, since ``over``."""

    over: float
    work: _Part
    result: _Part


@dataclass(frozen=True, slots=True)
class Freeable:
    """Space that a sweep could free, in bytes. NOTE: it may be less, where jobs share a file."""

    bytes: int
    spend: Callable[[], None]
    """Notes that the sweep has been done."""


class FreeableBytes:
    """Estimates for the store of a node. For one thread at a time; ``clock`` gives seconds since 1970."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._ended: dict[int, _Ended] = {}
        # NOTE: not the counts that the loop asks: it would wait while the files of a job are looked at.
        self._held = HeldBytes(store)
        self._given: dict[int, float] = {}
        """By job that might be given up: when it began. One that has been given up and comes back begins again."""

    def could_free(self, resting: Container[int], *, runs: bool = False, results: bool = False) -> Freeable:
        """Return what `Retention.give_up` could free with the same arguments."""
        now, holders = self._clock(), self._store.holders
        jobs = holders.jobs()
        self._ended = {job: ended for job, ended in self._ended.items() if jobs.get(job) == ended.over}
        before = now - URGENT_GRACE_S
        parts = [
            part
            for job, over in jobs.items()
            if over is not None and now - over >= URGENT_GRACE_S
            for part in self._parts(job, over, results=results)
            if part.used < before
        ]
        # NOTE: a file is used when a job begins to hold it, so one that began later holds nothing that could go.
        rests = [job for job, over in jobs.items() if runs and over is None and job in resting]
        began = {job: holders.began(job) for job in rests}
        given = {job: instant for job, instant in began.items() if instant < before}
        self._forget({job for job, instant in self._given.items() if given.get(job) != instant})
        self._given.update(given)
        size = sum(self._held.of(job) for job in given) + sum(part.size for part in parts)

        def spend() -> None:
            for part in parts:
                part.size = 0
            self._forget(set(given))

        return Freeable(size, spend)

    def _forget(self, jobs: set[int]) -> None:
        for job in jobs:
            self._given.pop(job, None)
            self._held.forget(job)

    def _parts(self, job: int, over: float, *, results: bool) -> Iterator[_Part]:
        if job not in self._ended:
            self._ended[job] = self._count(job, over)
        yield self._ended[job].work
        if results:
            yield self._ended[job].result

    def _count(self, job: int, over: float) -> _Ended:
        ended, held = _Ended(over, _Part(), _Part()), self._store.holders.held
        result = {path for stage, path in held(job) if stage == RESULT}
        work = {path for _, path in held(job)} - result
        for part, paths in ((ended.work, work), (ended.result, result)):
            for path in paths:
                with contextlib.suppress(OSError):
                    found = (self._store.root / path).stat()
                    part.size, part.used = part.size + on_disk(found.st_size), max(part.used, found.st_mtime)
        return ended
