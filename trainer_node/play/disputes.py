"""Matches and hearings of a job that have a turn: those in which we are a spokesman, and those in which we have a
result and help. What is due in each: `dispute_turns`.

A hearing may last longer than its match and its job. What is not done is in the node's database (`open_duties`).
"""

from __future__ import annotations

import contextlib
from functools import cache, partial

from referee_py.errors import AssayError
from referee_py.execute import RunClaim

from ..chain import Group, HearingInfo, JobView, Snapshot
from ..compute.job_runner import JobRunner
from ..daemon.job_turns import Turn
from ..daemon.service import Daemon
from ..errors import DiskFailed
from ..run.refutation import Refuted
from .actions import stands_for
from .dispute_turns import DisputeTurns
from .hearings import HearingPlayer
from .matches import MatchPlayer
from .open_duties import Undone


class Disputes:
    """Goes through them for the account ``me`` with the runs of ``runner``. ``undone``: what of ours is not done."""

    def __init__(
        self,
        node: Daemon,
        runner: JobRunner,
        me: str,
        undone: Undone,
        matches: MatchPlayer,
        hearings: HearingPlayer,
    ) -> None:
        self._me = me
        self._undone = undone
        self._matches = matches
        self._hearings = hearings
        self._turns = DisputeTurns(node, runner, me, matches, hearings)
        self._gas = node.gas

    @property
    def computing(self) -> bool:
        """True while moves in matches are being computed."""
        return self._matches.computing

    def note(self, snapshot: Snapshot, job: JobView) -> None:
        """Remember the matches in which we are a spokesman: their hearings may outlast them. Forget those that are
        over."""
        open_matches = job.match_ids() if job.open_matches else []
        self._matches.forget(job.id, but=open_matches)
        for number in open_matches:
            pair = job.pair(number)
            if pair is not None and self._speaks(job, pair):
                with contextlib.suppress(DiskFailed):  # every look tries again
                    self._undone.note(job.id, number, heard=False, shown=snapshot)

    def hearings(
        self, snapshot: Snapshot, job: JobView, *, ours: bool
    ) -> tuple[list[HearingInfo], dict[int, AssayError]]:
        """Return the hearings that are not over and that the job waits for, or in which we are a spokesman; and by
        match why others cannot be read. ``ours``: we have a stake in the job, or a slot, and have not let go of it.

        Raises AssayError if none can be read.
        """
        may_play = ours and len(job.groups) > 1
        if not may_play and not self._undone.of(job.id):
            return [], {}
        (found, unread), waited = self._undone.hearings(snapshot, job), job.match_ids()
        for hearing in found:
            if hearing.player(self._me):
                with contextlib.suppress(DiskFailed):
                    self._undone.note(job.id, hearing.match_id, heard=True, shown=snapshot)
        if not unread:
            needed = self._undone.hearing_ids(job.id).union(hearing.id for hearing in found)
            self._hearings.forget(job.id, but=needed)
        return [h for h in found if h.player(self._me) or h.match_id in waited], unread

    def turns(
        self,
        snapshot: Snapshot,
        job: JobView,
        results: list[RunClaim],
        hearings: list[HearingInfo],
        unread: set[int],
        helps: int | None,
    ) -> list[Turn]:
        """Return a turn for each match and hearing in which one of our results is at stake. ``unread``: matches whose
        hearings cannot be read; ``helps``: see `Due`."""
        heard = {hearing.match_id for hearing in hearings} | unread
        matches, others = list[Turn](), list[Turn]()
        for number in job.match_ids() if job.open_matches else []:
            pair = job.pair(number)
            own = None if pair is None else next((r for r in results if stands_for(r, pair)), None)
            if pair is None or own is None:
                continue
            helped = job.id if isinstance(own, Refuted) and not self._speaks(job, pair) else helps
            if helped is not None and not self._gas.pays:
                continue
            read = cache(partial(snapshot.match, job, number))
            play = partial(self._turns.match, snapshot, job, own, read)
            matches.append(Turn(f"match {number:#x}", play, helped))
            if number not in heard:
                hear = partial(self._turns.hearing_without_claim, snapshot, job, own, read)
                others.append(Turn(f"hearing of match {number:#x}", hear, helped))
        for hearing in hearings:
            for_others = None if hearing.player(self._me) else helps
            if for_others is not None and not self._gas.pays:
                continue
            hear = partial(self._turns.hearing, snapshot, job, results, hearing)
            others.append(Turn(f"hearing of match {hearing.match_id:#x}", hear, for_others))
        return matches + others

    def _speaks(self, job: JobView, pair: tuple[Group, Group]) -> bool:
        """Return whether we are the spokesman of a side."""
        speakers = [job.claims[group.speaker].owner for group in pair if group.speaker is not None]
        return self._me.lower() in (owner.lower() for owner in speakers)
