"""Seconds that the steps of runs have taken, in memory and in the database: a restart forgets no slow one.

SAFETY: they are kept as long as the run's checkpoints, from which another job of the same program has its run without
computing a step.
"""

from __future__ import annotations

import contextlib

from ..errors import DiskFailed
from ..run.step_times import Taken
from ..storage.database import Database

_MORE = 1.1
"""Factor by which seconds are higher than those that are written, at least: a run may have a million steps."""


class StepBook:
    """By the key of a run, as `checkpoints`: all jobs that name a run know what its slowest steps have taken."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[int, Taken] = {}
        self._written: dict[int, Taken] = {}

    def of(self, key: int) -> Taken:
        """Return what the slowest steps of a run have taken."""
        if key not in self._known:
            self._known[key] = self._written[key] = Taken(*self._database.get(_name(key), (0.0, 0.0)))
        return self._known[key]

    def note(self, key: int, slowest: Taken) -> None:
        """Note what steps have taken. NOTE: where the disk refuses that, this process knows it all the same."""
        now = self._known[key] = self.of(key).most(slowest)
        kept = self._written[key]
        if now.step_s > _MORE * kept.step_s or now.commit_s > _MORE * kept.commit_s:
            with contextlib.suppress(DiskFailed):
                self._database.put(_name(key), [now.step_s, now.commit_s])
                self._written[key] = now


def _name(key: int) -> str:
    return f"steps of run {key:x}"
