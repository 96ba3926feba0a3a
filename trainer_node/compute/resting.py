"""Finished runs in which nothing is at stake: they give way to others in memory and on disk, and come back.

    in memory   one is idle (`tensors`), whatever the disk has kept of it, and is dropped for whoever needs its room
    on disk     its states go for a job that is considered (`resting_states`); its roots stay
    back        from the disk; or computed again from the last state that is there, among the other runs

SAFETY: anybody can have a run computed, for the gas of a posting. So none keeps anything before we have staked on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future

from referee_py.execute import RunClaim

from ..run.checkpoints import StoredCheckpoints
from ..run.tensors import Tensors
from ..storage.database import Database
from .outcomes import Outcomes
from .packages import Work

Back = Callable[[Work], Future[RunClaim]]
"""Begins to bring a run back."""


class Resting:
    """``restore`` reads a run from the disk, ``begin`` computes it from what is there. ``clock``: seconds."""

    def __init__(
        self,
        database: Database,
        tensors: Tensors,
        outcomes: Outcomes,
        *,
        restore: Back,
        begin: Back,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._tensors, self._outcomes = database, tensors, outcomes
        self._restore, self._begin, self._clock = restore, begin, clock

    def rests(self, work: Work) -> None:
        """Let a finished run give way to others in memory, if nothing is at stake in it."""

        def give() -> None:
            work.replay = None

        if work.replay is not None:
            self._tensors.idle(work.job.id, give)

    def bring_back(self, work: Work) -> None:
        """Begin to bring a run back, unless that is in progress."""
        if work.restored is not None and work.restored.done():
            self._outcomes.result(work, work.restored)
            work.restored = None
        elif work.restored is None and self._clock() >= work.return_tries.retry_at:
            done = StoredCheckpoints(self._database, work.key).last == work.job.program.steps
            work.restored = self._restore(work) if done else self._begin(work)

    def gave_states(self, work: Work | None) -> None:
        """Drop a run whose states have gone from the disk: what comes back offers again what it has offered."""
        if work is not None and not work.ours:
            work.replay = None
            self._tensors.gone(work.job.id)
