"""What becomes of a job in which something was requested: the contract's `jobs/DataAvailabilityHook`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import refusals
from .jobs import TRAINERS_GROUP, JobPhase
from .refusals import require
from .state import ProgramHeader

if TYPE_CHECKING:
    from .chain_model import ChainModel

ROUNDS = 4
"""How often a request may make way for another and for a challenge after that."""
LISTS = 2 * 512 * 60
"""Twice the seconds that the longest list of open requests adds to the time for an answer."""


class AvailabilityHook:
    """The jobs of a model, as the contract of requests sees them."""

    def __init__(self, model: ChainModel) -> None:
        self._model = model

    def program_of(self, job_id: int) -> ProgramHeader:
        return self._model.jobs[job_id].terms.program

    def logs_of(self, job_id: int) -> bytes | None:
        """None in a mode without logs."""
        job = self._model.jobs[job_id]
        return job.logs if job.rounded else None

    def over(self, job_id: int, now: int) -> bool:
        return self._model.jobs[job_id].phase(now).ended

    def standing(self, job_id: int, root: bytes) -> tuple[int, bool]:
        """In which of its lives a root is, from 1, and whether somebody who has not lost claims it; 0 if nobody."""
        group = next((g for g in self._model.jobs[job_id].groups if g.root == root and not g.dead), None)
        return (group.deaths + 1, True) if group else (0, False)

    def check_extendable(self, job_id: int, root: bytes, of_logs: bool, now: int) -> None:
        """In the challenge phase; or of a claimed root until its group's ``until``."""
        if not of_logs and self._reopened(job_id, root, now):
            return
        job = self._model.during(job_id, JobPhase.CHALLENGE, now)
        # SAFETY: a trainer who has revealed nothing could have the job made void, and save its stake.
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
        """The challenge phase lasts a challenge period longer than an answer may take; not where logs are withheld, nor
        once it is over."""
        job = self._model.jobs[job_id]
        if job.finder is not None or job.phase(now) is JobPhase.CLOSING:
            return
        start = max(start, job.reveal_end + job.terms.challenge_period)
        limit = start + ROUNDS * (job.terms.rules.verdict_period + job.terms.challenge_period) + LISTS
        job.challenge_end = max(job.challenge_end, min(until + job.terms.challenge_period, limit))

    def forfeit(self, job_id: int, root: bytes, logs: bool, finder: str, now: int) -> None:
        """What was requested nobody has published: the root is lost, or for want of the logs nothing is accepted."""
        model, job = self._model, self._model.jobs[job_id]
        if logs:
            self._withhold(job_id, finder)
            return
        number = next(k for k, group in enumerate(job.groups) if group.root == root)
        group = job.groups[number]
        require(group.match_id == 0, refusals.GroupPlays, job_id, root)
        job.waiting, lost = None, 0
        while not group.dead:
            lost += job.lose(number)
        model.reward(finder, lost)
        model.reenter(job_id, number, now)

    def _withhold(self, job_id: int, finder: str) -> None:
        """The logs are the one trainer's.

        SAFETY: the match that it is in goes on, because who shows it wrong there has the prize; but it enters no other,
        so nothing that it plays with itself puts its loss off for longer.
        """
        job = self._model.jobs[job_id]
        if job.finder is not None:
            return
        # NOTE: whoever waited plays no more, whichever group it is.
        job.finder, job.waiting = finder, None
        if job.groups[TRAINERS_GROUP].match_id == 0:
            self._model.condemn(job)
