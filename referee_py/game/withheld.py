"""What becomes of a job in which something was demanded: the contract's `jobs/Withheld`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import refusals
from .escrow import BURNED, PRIZE_DIVISOR
from .jobs import Job, JobPhase
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

    def extend(self, job_id: int, first: int, until: int) -> None:
        """The challenge phase lasts a challenge period longer than an answer may take."""
        job = self._book.jobs[job_id]
        limit = first + ROUNDS * (job.terms.rules.verdict_period + job.terms.challenge_period) + LISTS
        job.challenge_end = max(job.challenge_end, min(until + job.terms.challenge_period, limit))

    def forfeit(self, job_id: int, root: bytes, logs: bool, finder: str, now: int) -> None:
        """What was demanded nobody has published: the root is lost, or the job is void for want of its logs."""
        book, job = self._book, self._book.jobs[job_id]
        if logs:
            trainer = next(claim for claim in job.claims if claim.slot)
            if not trainer.lost:
                rival = self._rival(job, trainer.group)
                job.lose(trainer.group)
                self._settle(job.terms.stake, finder, rival)
            book.void(job)
            return
        number = next(k for k, group in enumerate(job.groups) if group.root == root)
        group = job.groups[number]
        require(group.match_id == 0, refusals.GroupPlays, job_id, root)
        job.waiting, lost = None, 0
        while not group.dead:
            job.lose(number)
            lost += 1
        self._settle(lost * job.terms.stake, finder)
        book.reenter(job_id, number, now)

    def _rival(self, job: Job, group: int) -> str | None:
        """Who speaks for the group that this one plays against."""
        if not job.groups[group].match_id:
            return None
        pair = self._book.matches[job.groups[group].match_id].groups
        other = job.groups[pair[1] if pair[0] == group else pair[0]]
        return job.claims[other.members[other.spokesman]].owner

    def _settle(self, pot: int, finder: str, rival: str | None = None) -> None:
        """As in a match: half is a prize, the rest is burned. In an open match the rival has half of the prize."""
        prize = pot // PRIZE_DIVISOR
        share = prize // 2 if rival is not None else 0
        self._book.credit(BURNED, pot - prize)
        if rival is not None:
            self._book.credit(rival, share)
        self._book.credit(finder, prize - share)
