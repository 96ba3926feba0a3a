"""Slots that this node has given back, which it does not take again: in memory and in the database."""

from __future__ import annotations

import contextlib

from ..chain import JobView
from ..errors import DiskFailed
from ..storage.database import Database

_RESIGNED = "resigned"


class Resigned:
    """Jobs by number and program. NOTE: after a reorganisation the same number may stand for another job."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs: dict[str, str] = database.get(_RESIGNED, {})

    def note(self, job: JobView) -> None:
        """Note that the slot is given back. NOTE: where the disk refuses that, this process knows it all the same."""
        if not self.has(job):
            self._jobs[str(job.id)] = job.program.hash().hex()
            with contextlib.suppress(DiskFailed):
                self._database.put(_RESIGNED, self._jobs)

    def has(self, job: JobView) -> bool:
        """Return whether the slot in a job was given back."""
        return self._jobs.get(str(job.id)) == job.program.hash().hex()
