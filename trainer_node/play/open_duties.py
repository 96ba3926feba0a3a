"""Duties of ours in a job, not done yet: matches that we speak in, and hearings that hold a vote, an appeal or a prize.

    noted       in the node's database: a match at the first look that shows us as a spokesman in it, a hearing
                before our vote is sent
    let go      once the contracts say by a view that it is done, and enough endpoints confirm that

SAFETY: no view lists a job's matches, and an endpoint may lack the event of one. So what no event names is asked for by
its number, and that it is missing in a look says nothing: the block may be an old one. Only one thing is never done: a
match that a reorganisation has removed. In a block in which its job has ended it would be there; it is let go once such
blocks have lacked it for longer than its hearing could have outlasted the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from referee_py.errors import AssayError
from referee_py.game.state import Phase
from referee_py.panel.state import HearingPhase, hearing_id

from ..chain import HearingInfo, JobView, Snapshot
from ..ids import whole
from ..storage.database import Database
from .ends import Confirmer

MAX_UNASKED = 64
"""Matches, of all jobs, up to which one is noted that no other endpoint has confirmed."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Open:
    """A match that is not known to be done. ``heard``: it has had a hearing with a vote of ours, or in which we are a
    spokesman; ``absent``: contract time of the first look at the ended job in which there was no such match."""

    heard: bool
    absent: int | None = None


class Undone:
    """The matches and hearings of our account that are not done, by job. ``referee``: the deployment's."""

    def __init__(self, database: Database, referee: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._referee = database, referee
        self._open: dict[int, dict[int, Open]] = {}
        for job, match, heard, absent in database.undone():
            self._open.setdefault(job, {})[match] = Open(heard, absent)
        self._unsaved: set[tuple[int, int]] = set()
        self._confirmer = Confirmer(clock)

    def of(self, job: int) -> list[int]:
        """Return the matches of a job that are not known to be done."""
        return list(self._open.get(job, ()))

    def hearing_ids(self, job: int) -> set[int]:
        """Return the panel's ids for the hearings of these matches, whether there have been any."""
        return {hearing_id(self._referee, match) for match in self.of(job)}

    def note(self, job: int, match: int, *, heard: bool, shown: Snapshot | None = None) -> None:
        """Remember a match. ``heard``: see `Open`; ``shown``: the look that shows it, None for an act of our own.

        SAFETY: each is asked for in every round until its job has ended, and one endpoint can show any number of them
        in one look, in any number of jobs. So where there are many, a new one is believed once enough endpoints confirm
        it; it is played meanwhile. Of few, all: nobody may be there to confirm it until a restart.
        Raises DiskFailed if the disk refuses it: then this process knows it, and the next call tries again.
        """
        before = self._open.get(job, {}).get(match)
        many = sum(map(len, self._open.values())) >= MAX_UNASKED
        if before is None and shown is not None and many and self._confirmer.refusal(shown) is not None:
            return
        now = Open(heard or (before is not None and before.heard))
        if now != before or (job, match) in self._unsaved:
            self._put(job, match, now)

    def hearings(self, snapshot: Snapshot, job: JobView) -> tuple[list[HearingInfo], dict[int, AssayError]]:
        """Return `Snapshot.hearings`, also of matches that no event names; let go of those that are done."""
        found, failed = snapshot.hearings(job)
        found, failed = list(found), dict(failed)
        shown, goes_on = {hearing.match_id for hearing in found}.union(failed), job.match_ids()
        for match, one in list(self._open.get(job.id, {}).items()):
            if match in shown or (match in goes_on and not one.heard):
                continue
            try:
                hearing = self._look(snapshot, job, match)
            except AssayError as error:
                failed[match] = error
                continue
            if hearing is not None:
                found.append(hearing)
        return found, failed

    def _look(self, snapshot: Snapshot, job: JobView, match: int) -> HearingInfo | None:
        """Ask the contracts about one match. Return its hearing if that is open; let go of the match if it is done."""
        phase, hearing = snapshot.standing(match)
        if hearing not in (HearingPhase.NONE, HearingPhase.DONE):
            return snapshot.hearing(job, match)
        one = self._open[job.id][match]
        if is_done(one, phase, hearing):
            self._let_go(snapshot, job.id, match, "done")
        elif job.phase.ended:
            # NOTE: the block shows the job's end, but not what came before it.
            if one.absent is None:
                self._put(job.id, match, replace(one, absent=snapshot.now))
            elif snapshot.now - one.absent >= outlasts_s(job):
                self._let_go(snapshot, job.id, match, "removed by a reorganisation")
        return None

    def _let_go(self, snapshot: Snapshot, job: int, match: int, why: str) -> None:
        # SAFETY: what one endpoint says alone must not end a defence.
        refusal = self._confirmer.refusal(snapshot)
        if refusal:
            _log.warning("match.kept", job=job, match=whole(match), reason=refusal)
        if refusal is not None:
            return
        self._database.drop_undone(job, match)
        self._unsaved.discard((job, match))
        del self._open[job][match]
        if not self._open[job]:
            del self._open[job]
        _log.info("match.over", job=job, match=whole(match), why=why)

    def _put(self, job: int, match: int, one: Open) -> None:
        self._open.setdefault(job, {})[match] = one
        self._unsaved.add((job, match))
        self._database.put_undone(job, match, one.heard, one.absent)
        self._unsaved.discard((job, match))


def is_done(one: Open, match: Phase, hearing: HearingPhase) -> bool:
    """Return whether the contracts say of a match that nothing of it is left to come."""
    if hearing is HearingPhase.DONE:
        return True
    return not one.heard and hearing is HearingPhase.NONE and match is Phase.DONE


def outlasts_s(job: JobView) -> int:
    """Return the most seconds that a hearing can outlast its job: a period for all signers, and for each a period and a
    trial (contracts/interfaces/IPanel.sol)."""
    period, clock = job.rules.appeal_period, job.rules.clock
    return period + len(job.verifiers) * (period + 2 * clock)
