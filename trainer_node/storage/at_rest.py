"""Jobs at rest: those that may let go of what they hold, since nothing of ours is at stake in them or worked at.

    a stake      from when it is decided, or seen, until it is gone
    fitted       a job that was found to fit: a stake, or its run, may be about to begin. On a full disk it has only as
                 long as all that is on its way, since what has our stake may need the room
    work         of the runner, now or when the loop has looked last: what that has found may not be told yet
    wrong        something is: a stake of ours waits

INVARIANT: all of this changes under the lock of the lists of what jobs hold (`job_holds`). Who lets go of something
asks under that lock, and drops the lines before it gives the lock back. So a stake that is noted finds all of its files
in the list, or was decided when it was known that they are gone. NOTE: a sweep of a large store takes minutes; what it
was told when it began says nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from dataclasses import dataclass

from ..reason import Reason
from .job_holds import Holders
from .resting_states import RestingStates
from .retention import URGENT_GRACE_S

FITTED_S = 600.0
"""Seconds for which no state of a job goes for another one after it was found to fit: as long as room in memory is kept
for a stake that is about to be given (`tensors`)."""


class Leaves(Reason):
    text = "some of what it holds is just leaving the disk; it is looked at again"


@dataclass(frozen=True, slots=True)
class Resting(Container[int]):
    """Jobs of which ``rests`` says now that they are at rest."""

    rests: Callable[[int], bool]

    def __contains__(self, job: object) -> bool:
        return isinstance(job, int) and self.rests(job)


class AtRest:
    """Words of the loop about jobs. Safe for several threads."""

    def __init__(self, holders: Holders, states: RestingStates, works_at: Callable[[int], bool]) -> None:
        self._holders, self._states, self.works_at = holders, states, works_at
        self._staked, self._idle, self._worked = set[int](), set[int](), set[int]()
        self._fitted: dict[int, float] = {}
        """Instants at which jobs that fitted were last asked about."""
        self.files = Resting(lambda job: self._rests(job, self._waiting(), URGENT_GRACE_S))
        """Those that may lose all that they hold.

        SAFETY: while an ally of its author refutes a lie first, ours waits with nothing at stake, and so does our claim
        of the right root while an ally claims it. What these rest on is served no more once they are due, and a disk is
        filled for the price of a job.
        """
        self.states = Resting(lambda job: self._rests(job, self._states.lies(), FITTED_S))
        """Those that may lose states of their runs."""

    @property
    def staked(self) -> frozenset[int]:
        """The jobs in which we have something at stake."""
        with self._holders.lock:
            return frozenset(self._staked)

    def stake(self, job: int, staked: bool) -> None:
        """Note whether we have something at stake in a job."""
        with self._holders.lock:
            (self._staked.add if staked else self._staked.discard)(job)
            (self._idle.discard if staked else self._idle.add)(job)

    def looked(self, job: int) -> None:
        """Note that the loop has looked at a job, and has told what was found in it until now."""
        works = self.works_at(job)
        with self._holders.lock:
            (self._worked.add if works else self._worked.discard)(job)

    def fitted(self, job: int) -> Leaves | None:
        """Note that a job fits, so that it keeps what it has; return why not to stake on it now, or None."""
        with self._holders.lock:
            if job in self._holders.leaving or job in self._holders.untold:
                return Leaves()
            self._fitted[job] = time.monotonic()
        return None

    def over(self, job: int) -> None:
        """Forget a job that is over."""
        with self._holders.lock:
            for jobs in (self._staked, self._idle, self._worked):
                jobs.discard(job)
            self._fitted.pop(job, None)

    def _waiting(self) -> frozenset[int]:
        return self._states.wrong() - self.staked

    def _rests(self, job: int, keep: Container[int], fitted_s: float) -> bool:
        with self._holders.lock:
            if job not in self._idle or job in self._worked or job in keep or self.works_at(job):
                return False
            at = self._fitted.get(job)
            return at is None or time.monotonic() - at >= fitted_s
