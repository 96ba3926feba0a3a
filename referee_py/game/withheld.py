"""What becomes of a job in which something was demanded: the contract's `jobs/Withheld`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import refusals
from .jobs import TRAINERS_GROUP, JobPhase
from .refusals import require
from .state import ProgramHeader

if TYPE_CHECKING:
    from .book import Book

ROUNDS = 4
"""How often a demand may make way for another and for a challenge after that."""
LISTS = 2 * 512 * 60
"""Twice the seconds that the longest list of open demands adds to the time for an answer."""


class Withheld:
    """The jobs of a book, as the contract of demands sees them."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def program_of(self, job_id: int) -> ProgramHeader:
        return self._book.jobs[job_id].terms.program

    def logs_of(self, job_id: int) -> bytes | None:
        """None in a mode without logs."""
        job = self._book.jobs[job_id]
        return job.logs if job.rounded else None

    def over(self, job_id: int, now: int) -> bool:
        return self._book.jobs[job_id].phase(now).ended

    def standing(self, job_id: int, root: bytes) -> tuple[int, bool]:
        """How many have claimed a root, and whether one of them has not lost; no members if none."""
        group = next((g for g in self._book.jobs[job_id].groups if g.root == root and not g.dead), None)
        return (len(group.members), True) if group else (0, False)

    def check_extendable(self, job_id: int, now: int) -> None:
        job = self._book.during(job_id, JobPhase.CHALLENGE, now)
        # SAFETY: a trainer who has revealed nothing could have the job made void, and save its stake.
        revealed = any(trainer.revealed for trainer in job.trainers)
        require(revealed or not job.rounded, refusals.LogsNotRevealed, job_id)

    def verdict_period(self, job_id: int) -> int:
        return self._book.jobs[job_id].terms.rules.verdict_period

    def extend(self, job_id: int, start: int, until: int) -> None:
        """The challenge phase lasts a challenge period longer than an answer may take; not where logs are withheld."""
        job = self._book.jobs[job_id]
        if job.finder is not None:
            return
        limit = start + ROUNDS * (job.terms.rules.verdict_period + job.terms.challenge_period) + LISTS
        job.challenge_end = max(job.challenge_end, min(until + job.terms.challenge_period, limit))

    def forfeit(self, job_id: int, root: bytes, logs: bool, finder: str, now: int) -> None:
        """What was demanded nobody has published: the root is lost, or for want of the logs nothing is accepted."""
        book, job = self._book, self._book.jobs[job_id]
        if logs:
            self._withhold(job_id, finder, now)
            return
        number = next(k for k, group in enumerate(job.groups) if group.root == root)
        group = job.groups[number]
        require(group.match_id == 0, refusals.GroupPlays, job_id, root)
        job.waiting, lost = None, 0
        while not group.dead:
            job.lose(number)
            lost += 1
        book.reward(finder, lost * job.terms.stake)
        book.reenter(job_id, number, now)

    def _withhold(self, job_id: int, finder: str, now: int) -> None:
        """The logs are the one trainer's.

        SAFETY: the match that it is in goes on, because who shows it wrong there has the prize; but it enters no other,
        so nothing that it plays with itself puts its loss off for longer.
        """
        job = self._book.jobs[job_id]
        if job.finder is not None:
            return
        job.finder = finder
        group = job.groups[TRAINERS_GROUP]
        if group.match_id == 0 and group.spokesman == 0:
            job.waiting = None
            self._book.reenter(job_id, TRAINERS_GROUP, now)
