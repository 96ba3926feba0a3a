"""Moves in the matches and hearings of a job: those in which we are a spokesman, and those in which we have a
result and help.

A hearing may last longer than its match and its job. What is not done is in the node's database (`open_duties`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

from referee_py.commit import Record
from referee_py.errors import AssayError
from referee_py.execute import RunClaim
from referee_py.game.state import Phase
from referee_py.panel.state import Submission
from referee_py.trial.solver import Operator

from ..chain import Group, HearingInfo, JobView, MatchInfo, Snapshot
from ..compute.job_runner import JobRunner
from ..daemon.due import Due
from ..daemon.helping import helping
from ..daemon.loop import Turn
from ..daemon.service import Daemon
from ..errors import DiskFailed
from ..run.refutation import Refuted
from ..run.replay import Replay
from ..stake.gas_patience import NONE, Patience
from ..stake.min_stake import TRIAL_MOVES, match_moves
from .actions import seats, stands_for
from .hearings import HearingPlayer
from .matches import MatchPlayer
from .open_duties import Undone
from .right_records import Rights


class Disputes:
    """Plays for the account ``me`` with the runs of ``runner``. ``undone``: what of ours is not done."""

    def __init__(
        self,
        node: Daemon,
        runner: JobRunner,
        me: str,
        undone: Undone,
        matches: MatchPlayer,
        hearings: HearingPlayer,
    ) -> None:
        self._runner = runner
        self._me = me
        self._undone = undone
        self._matches = matches
        self._hearings = hearings
        self._market = node.market
        self._gas = node.gas
        self._gauges = node.gauges

    def note(self, job: JobView) -> None:
        """Remember the matches in which we are a spokesman: their hearings may outlast them."""
        for number in job.match_ids() if job.open_matches else []:
            pair = job.pair(number)
            if pair is not None and self._speaks(job, pair):
                with contextlib.suppress(DiskFailed):  # every look tries again
                    self._undone.note(job.id, number, heard=False)

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
                    self._undone.note(job.id, hearing.match_id, heard=True)
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
        hearings cannot be read; ``helps``: see `Due` and `helping`."""
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
            play = partial(self._match, snapshot, job, own, read)
            matches.append(Turn(f"match {number:#x}", partial(helping, helped, play)))
            if number not in heard:
                hear = partial(self._hearing_without_claim, snapshot, job, own, read)
                others.append(Turn(f"hearing of match {number:#x}", partial(helping, helped, hear)))
        for hearing in hearings:
            for_others = None if hearing.player(self._me) else helps
            if for_others is not None and not self._gas.pays:
                continue
            hear = partial(self._hearing_of, snapshot, job, results, hearing)
            others.append(Turn(f"hearing of match {hearing.match_id:#x}", partial(helping, for_others, hear)))
        return matches + others

    def _speaks(self, job: JobView, pair: tuple[Group, Group]) -> bool:
        """Return whether we are the spokesman of a side."""
        speakers = [job.claims[group.speaker].owner for group in pair if group.speaker is not None]
        return self._me.lower() in (owner.lower() for owner in speakers)

    def _match(
        self, snapshot: Snapshot, job: JobView, own: RunClaim, read: Callable[[], MatchInfo]
    ) -> Iterator[Due]:
        """Yield our moves in a match."""
        replay = self._runner.replay(job.id, own)
        for seat in seats(job, [read()], self._me, own):
            against = seat.opponent.speaker
            self._gauges.match(job, seat, snapshot.now)
            patience = self._patience(snapshot, job, 0 if against is None else job.claims[against].stake)
            servers = job.servers(job.members(seat.opponent))
            yield from self._matches.due(seat, replay, servers, snapshot.now, patience)

    def _hearing_without_claim(
        self, snapshot: Snapshot, job: JobView, own: RunClaim, read: Callable[[], MatchInfo]
    ) -> list[Due]:
        """Return our moves in the hearing of a match in which we have no claim, but a result."""
        match = read()
        if match.state.phase is not Phase.HEARING or not seats(job, [match], self._me, own):
            return []
        hearing = snapshot.hearing(job, match.id)
        return [] if hearing is None else self._hearing(snapshot, job, own, hearing)

    def _hearing_of(
        self, snapshot: Snapshot, job: JobView, results: list[RunClaim], hearing: HearingInfo
    ) -> list[Due]:
        """Return our moves in a hearing, whose match may be over, with the result that it is about."""
        if len(results) == 1:
            return self._hearing(snapshot, job, results[0], hearing)
        roots = snapshot.match(job, hearing.match_id).terms.roots
        for own in results:
            against = own.against if isinstance(own, Refuted) else None
            if own.root in roots and (against is None or against in roots):
                return self._hearing(snapshot, job, own, hearing)
        return []

    def _hearing(self, snapshot: Snapshot, job: JobView, own: RunClaim, hearing: HearingInfo) -> list[Due]:
        """Return our moves in a hearing and its trial."""
        source = _OperatorSource(
            hearing, job, self._runner.replay(job.id, own), self._me, self._hearings.rights
        )
        players = set(hearing.terms.submission.players) - {self._me}
        staked = min((claim.stake for claim in job.claims if claim.owner in players), default=0)
        return self._hearings.due(snapshot, hearing, source, self._patience(snapshot, job, staked))

    def _patience(self, snapshot: Snapshot, job: JobView, staked: int) -> Patience:
        """Return our patience in a dispute in which the other side has staked ``staked`` wei."""
        market = self._market(snapshot.block.base_fee)
        estimate = self._runner.prepare(job) if market.patient_s else None
        # SAFETY: while it is unknown how much is still to be computed, we do not wait.
        if estimate is None:
            return NONE
        busy_s = estimate.dispute_s(job.program) + (match_moves(job.program) + TRIAL_MOVES) * market.latency_s
        return market.about(staked, job.stake_gas, busy_s)


@dataclass(frozen=True)
class _OperatorSource:
    """A spokesman's knowledge of a disputed operator, from its own run."""

    hearing: HearingInfo
    job: JobView
    replay: Replay
    me: str
    rights: Rights

    @property
    def at(self) -> Submission:
        return self.hearing.terms.submission

    def right(self, patience_s: float, *, hurry: bool) -> Record | None:
        return self.rights.of(self.hearing, self.replay, patience_s, hurry=hurry)

    def operator(self) -> Operator:
        return self.replay.operator(self.at.step, self.at.node)

    def servers(self) -> list[str]:
        """NOTE: in a trial against a signer, the other spokesman made the record that the signer stands by."""
        others = set(self.at.players) - {self.me}
        return self.job.servers(claim for claim in self.job.claims if claim.owner in others)
