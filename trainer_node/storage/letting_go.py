"""Letting go of what jobs hold: first the lines in their lists, then the files that no list names any more.

    with LettingGo(store, told, unless_used_since=instant) as letting:
        with store.holders.lock:
            if ...it may go, as it is now...:
                letting.go(job, lambda stage, path: ...)

INVARIANT: a line goes under the lock under which it was decided that it may (`at_rest`); and only if its file was not
used just now, when it may be on its way to a job. So whoever uses a file, and then holds it, finds both.
NOTE: files go afterwards, without the lock, since a job may hold millions. One that is used meanwhile stays.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Self

from .store import Store


class LettingGo:
    """For one thread. ``told`` is called once files have gone, and before a stake may rest on them; what was used since
    ``unless_used_since`` (seconds since 1970) stays."""

    def __init__(self, store: Store, told: Callable[[], None], *, unless_used_since: float) -> None:
        self._store, self._told, self._limit = store, told, unless_used_since
        self._paths: set[str] = set()
        self.jobs: set[int] = set()
        """Jobs that have let go of something."""
        self.freed = 0
        self.removed = 0
        """Bytes and files that have gone, once the block has ended."""

    def go(self, job: int, goes: Callable[[str, str], bool]) -> None:
        """Let a job go of the artifacts whose stage and path ``goes`` says yes to. Raises DiskFailed; then it holds
        them still. Called with the lock of the lists."""
        # NOTE: before its lines are gone, since whoever asks whether the job fits does so with the lock, too.
        if gone := self._store.holders.let_go(job, lambda stage, path: goes(stage, path) and self._old(path)):
            self._store.holders.leaving[job] += job not in self.jobs
            self.jobs.add(job)
            self._paths.update(gone)

    def _old(self, path: str) -> bool:
        """Return whether a file was not used just now. One that is not here is not used."""
        with contextlib.suppress(FileNotFoundError):
            return (self._store.root / path).stat().st_mtime < self._limit
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        holders = self._store.holders
        with holders.lock:
            # SAFETY: also if this process ends, or fails, before the database is told (`Retention.drop_states`).
            holders.untold |= self.jobs
        try:
            kept = {path for job in holders.jobs() for _, path in holders.held(job)} if self._paths else set()
            for path in self._paths - kept:
                with holders.lock:  # NOTE: whoever holds it meanwhile has used it
                    won = self._store.remove(self._store.root / path, self._limit)
                self.freed, self.removed = self.freed + won, self.removed + (won > 0)
            if self.jobs:
                self._told()
        finally:
            with holders.lock:
                holders.leaving.subtract(self.jobs)
                holders.leaving += Counter()  # without those that are none
