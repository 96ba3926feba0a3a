"""Effects of data requests on a job: the contract `contracts/jobs/DataAvailabilityHook.sol`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from referee_py.jobs import JobPhase
from referee_py.program.terms import Terms
from referee_py.walk.refusals import require

from . import refusals
from .jobs import TRAINERS_GROUP

if TYPE_CHECKING:
    from .jobs_contract import JobsContract

ROUNDS = 4
"""Requests extend the challenge phase by at most this many verdict and challenge periods."""
LISTS = 2 * 512 * 60
"""Twice the seconds that the longest list of open requests adds to the time for a response."""


class AvailabilityHook:
    """The jobs of a model, with the methods that `DataAvailability` calls."""

    def __init__(self, model: JobsContract) -> None:
        self._model = model

    def program_of(self, job_id: int) -> Terms:
        return self._model.jobs[job_id].terms.program

    def logs_of(self, job_id: int) -> bytes | None:
        """Return the job's log root; None in a mode without logs."""
        job = self._model.jobs[job_id]
        return job.logs if job.rounded else None

    def over(self, job_id: int, now: int) -> bool:
        return self._model.jobs[job_id].phase(now).ended

    def standing(self, job_id: int, root: bytes) -> tuple[int, bool]:
        """Return the life of a claimed root, counted from 1, and True; (0, False) if all its claims are lost."""
        group = self._model.jobs[job_id].group_of(root)
        return (group.deaths + 1, True) if group and not group.dead else (0, False)

    def check_extendable(self, job_id: int, root: bytes, of_logs: bool, now: int) -> None:
        """Raise a Refusal unless requests are allowed: in Challenge, or for a root until its group's ``until``."""
        if not of_logs and self._reopened(job_id, root, now):
            return
        job = self._model.during(job_id, JobPhase.CHALLENGE, now)
        # SAFETY: otherwise a trainer that has revealed nothing could have the job made void, and save its stake.
        require(any(trainer.revealed for trainer in job.trainers), refusals.NothingRevealed, job_id)

    def fee_of(self, job_id: int) -> int:
        return self._model.fee_of(job_id)

    def verdict_period(self, job_id: int) -> int:
        return self._model.jobs[job_id].terms.rules.verdict_period

    def _reopened(self, job_id: int, root: bytes, now: int) -> bool:
        job = self._model.jobs[job_id]
        group = job.group_of(root)
        return job.phase(now) is JobPhase.CLOSING and group is not None and now < group.until

    def extend(self, job_id: int, start: int, until: int, now: int) -> None:
        """Make the challenge phase last a challenge period after ``until``, up to the limit (docs/protocol.md, section
        8). No effect if logs are withheld, or once the phase is over."""
        job = self._model.jobs[job_id]
        if job.finder is not None or job.phase(now) is JobPhase.CLOSING:
            return
        start = max(start, job.reopened or job.reveal_end + job.terms.challenge_period)
        limit = start + ROUNDS * (job.terms.rules.verdict_period + job.terms.challenge_period) + LISTS
        job.challenge_end = max(job.challenge_end, min(until + job.terms.challenge_period, limit))

    def forfeit(self, job_id: int, root: bytes, logs: bool, finder: str, now: int) -> None:
        """Apply the loss for withheld data: a claimed root loses all its claims; without logs nothing is accepted."""
        model, job = self._model, self._model.jobs[job_id]
        if logs:
            self._withhold(job_id, finder)
            return
        group = job.group_of(root)
        assert group is not None
        number = job.groups.index(group)
        require(group.match_id == 0, refusals.GroupPlays, job_id, root)
        job.waiting, lost = None, 0
        while not group.dead:
            lost += job.lose(number)
        model.reward(finder, lost)
        model.reenter(job_id, number, now)

    def _withhold(self, job_id: int, finder: str) -> None:
        """Record that the logs are withheld. The job's one trainer loses its claim, unless it is in a match.

        SAFETY: a running match goes on, because an opponent that wins it gets the prize. But the trainer enters no
        other match, so it cannot put its loss off for longer by playing against itself.
        """
        job = self._model.jobs[job_id]
        if job.finder is not None:
            return
        # NOTE: the waiting group plays no more, whichever it is.
        job.finder, job.waiting = finder, None
        if job.groups[TRAINERS_GROUP].match_id == 0:
            self._model.condemn(job)
