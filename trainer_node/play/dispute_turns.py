"""One turn in a dispute: reads the match or the hearing, now that its turn has come, and asks its player for our moves.

Which matches and hearings have a turn is decided in `disputes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from referee_py.commit import Record
from referee_py.execute import RunClaim
from referee_py.game.state import Phase
from referee_py.panel.state import Submission
from referee_py.trial.solver import Operator

from ..chain import HearingInfo, JobView, MatchInfo, Snapshot
from ..compute.job_runner import JobRunner
from ..daemon.due import Due
from ..daemon.service import Daemon
from ..run.refutation import Refuted
from ..run.replay import Replay
from ..stake.gas_patience import NONE, Patience
from ..stake.min_stake import TRIAL_MOVES, match_moves
from .actions import seats
from .hearings import HearingPlayer
from .matches import MatchPlayer
from .right_records import Rights


class DisputeTurns:
    """Decides for the account ``me`` with the runs of ``runner``."""

    def __init__(
        self, node: Daemon, runner: JobRunner, me: str, matches: MatchPlayer, hearings: HearingPlayer
    ) -> None:
        self._runner = runner
        self._me = me
        self._matches = matches
        self._hearings = hearings
        self._market = node.market
        self._gauges = node.gauges

    def match(
        self, snapshot: Snapshot, job: JobView, own: RunClaim, read: Callable[[], MatchInfo]
    ) -> Iterator[Due]:
        """Yield our moves in a match."""
        replay = self._runner.replay(job.id, own)
        for seat in seats(job, [read()], self._me, own):
            against = seat.opponent.speaker
            self._gauges.match(job, seat, snapshot.now)
            patience = self._patience(snapshot, job, 0 if against is None else job.claims[against].stake)
            servers = job.servers(job.members(seat.opponent))
            yield from self._matches.due(snapshot, seat, replay, servers, patience)

    def hearing_without_claim(
        self, snapshot: Snapshot, job: JobView, own: RunClaim, read: Callable[[], MatchInfo]
    ) -> list[Due]:
        """Return our moves in the hearing of a match in which we have no claim, but a result."""
        match = read()
        if match.state.phase is not Phase.HEARING or not seats(job, [match], self._me, own):
            return []
        hearing = snapshot.hearing(job, match.id)
        return [] if hearing is None else self._moves(snapshot, job, own, hearing)

    def hearing(
        self, snapshot: Snapshot, job: JobView, results: list[RunClaim], hearing: HearingInfo
    ) -> list[Due]:
        """Return our moves in a hearing, whose match may be over, with the result that it is about.

        SAFETY: also with one result. After a restart another may be the first that is at hand again.
        """
        roots = snapshot.match(job, hearing.match_id).terms.roots
        for own in results:
            against = own.against if isinstance(own, Refuted) else None
            if own.root in roots and (against is None or against in roots):
                return self._moves(snapshot, job, own, hearing)
        return []

    def _moves(self, snapshot: Snapshot, job: JobView, own: RunClaim, hearing: HearingInfo) -> list[Due]:
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

    def operator(self) -> Callable[[], Operator]:
        return partial(self.replay.operator, self.at.step, self.at.node)

    def servers(self) -> list[str]:
        """NOTE: in a trial against a signer, the other spokesman made the record that the signer stands by."""
        others = set(self.at.players) - {self.me}
        return self.job.servers(claim for claim in self.job.claims if claim.owner in others)
