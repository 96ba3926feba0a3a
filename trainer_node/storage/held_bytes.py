"""Bytes on disk of the artifacts that each job holds, counted as the artifacts come.

The loop asks how much room is left for each job that it considers, and a job may hold millions of files: a question
costs the lines that are new in the job's file (`job_holds`), not a look at every artifact.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from .disk import on_disk
from .job_holds import DRAWN
from .store import Store


@dataclass(slots=True)
class _Count:
    rewritten: int = 0
    """Number of times that the list had been rewritten when it was read: another one says nothing."""
    read: int = 0
    """Bytes of the job's file that have been read."""
    size: int = 0
    drawn: int = 0
    """Bytes among them of what was drawn."""
    missing: list[tuple[str, str]] = field(default_factory=list)
    """Stages and paths of lines whose artifact is not there: it is being written, or has gone."""


class HeldBytes:
    """Counts for the jobs of a store. Safe for several threads. Artifacts that have gone count until `recount`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: dict[int, _Count] = {}
        self._lock = threading.Lock()

    def of(self, job: int, *, drawn: bool = True) -> int:
        """Return the bytes that the artifacts of a job take on the disk, with or without what was ``drawn`` in it."""
        with self._lock:
            count, rewritten = self._counts.get(job), self._store.holders.rewritten[job]
            if count is None or count.rewritten != rewritten:
                count = self._counts[job] = _Count(rewritten)
            self._read(job, count)
            return count.size - (0 if drawn else count.drawn)

    def recount(self) -> None:
        """Count again what has been asked for. NOTE: it looks at every file, so the loop does not call it."""
        for job in tuple(self._counts):
            count = _Count(self._store.holders.rewritten[job])
            self._read(job, count)
            with self._lock:
                if job in self._counts:
                    self._counts[job] = count

    def forget(self, job: int) -> None:
        """Free the memory that a job's count takes."""
        with self._lock:
            self._counts.pop(job, None)

    def _read(self, job: int, count: _Count) -> None:
        lines, count.read = self._store.holders.lines_after(job, count.read)
        lines, count.missing = [*count.missing, *lines], []
        for stage, path in lines:
            try:
                size = on_disk((self._store.root / path).stat().st_size)
            except OSError:
                count.missing.append((stage, path))
            else:
                count.size += size
                count.drawn += size if stage == DRAWN else 0
