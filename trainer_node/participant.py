"""The role of trainers and challengers: what is due in a job, in disputes about it, and for its data.

A hearing may last longer than its match and its job: the daemon attends to the job until the
hearing is over.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import structlog

from referee_py.commit import Record
from referee_py.errors import AssayError
from referee_py.execute import RunClaim
from referee_py.game.state import Phase
from referee_py.panel.state import Submission
from referee_py.rounding.thresholds import fixed
from referee_py.trial.solver import Operator

from .chain import ClaimView, Group, HearingInfo, JobView, MatchInfo, Snapshot, TransactionManager
from .closer import Closer
from .data_requester import DataRequester
from .data_responder import DataResponder
from .decide import JobAction, is_over, seats, stands_for
from .devices import backend_of, evaluator_of
from .due import Due
from .errors import DiskFailed
from .funds import kept, kept_to_watch, living_stakes, quarrel_gas
from .hearing_player import HearingPlayer
from .job_player import JobPlayer
from .job_runner import JobRunner
from .loop import Role, Turn, raising
from .match_player import MatchPlayer
from .min_stake import TRIAL_MOVES, match_moves
from .opponent import Opponents
from .patience import NONE, Patience
from .refuted import Refuted
from .replay import Replay
from .rights import Rights
from .rounded.calibration import Calibration
from .service import Daemon
from .undone import Undone
from .watcher import Watcher

_log = structlog.get_logger(__name__)

Decide = Callable[[JobView, int], tuple[list[JobAction], RunClaim | None]]
"""Maps a job and an instant of the chain to the actions that are due, and our result if it is at stake."""
Refutations = Callable[[JobView, int], tuple[list[Refuted], list[Refuted]]]
"""Maps a job and an instant of the chain to what we can refute and play, and what to refute now."""


@contextlib.contextmanager
def open_runner(
    node: Daemon,
    *,
    follows: bool = False,
    replay: type[Replay] = Replay,
    kind: Callable[..., JobRunner] = JobRunner,
) -> Iterator[JobRunner]:
    """Open the job runner of a node; close it at the end. ``follows``: use the trainer's rounding logs, not our own."""
    settings = node.settings
    backend_of(settings.device)  # refuses a device that this machine lacks before any job is looked at
    runner = kind(
        node.fetcher,
        node.database,
        functools.partial(backend_of, settings.device),
        max_memory=settings.limits.memory_bytes,
        exact_slowdown=settings.limits.exact_slowdown,
        max_logs=settings.limits.log_bytes,
        follows=follows,
        alike=settings.device == "cpu",
        evaluator=lambda: evaluator_of(settings.evaluator, settings.device),
        thresholds=fixed if settings.calibration is None else Calibration.read(settings.calibration).tau,
        replay=replay,
        board=node.board,
        metrics=node.metrics,
        problems=node.problems,
        keeper=node.keeper,
    )
    node.keeper.works_at = runner.works_at
    try:
        yield runner
    finally:
        runner.close()


class Participant(Role):
    """Plays for the node's key, or only computes results if the node has none. With ``requests`` it requests on the
    chain the logs that nobody serves. The ``watcher`` earns bounties. ``refutations``: what it refutes, in a node that
    checks parts."""

    def __init__(
        self,
        node: Daemon,
        runner: JobRunner,
        decide: Decide,
        *,
        requests: bool = False,
        watcher: Watcher | None = None,
        refutations: Refutations = lambda *_: ([], []),
    ) -> None:
        self._node = node
        self._runner = runner
        self._decide = decide
        self._refutations = refutations
        self._watcher = watcher
        self._me = node.address
        self._matches: MatchPlayer | None = None
        self._hearings: HearingPlayer | None = None
        self._responder: DataResponder | None = None
        self._closer: Closer | None = None
        self._requester: DataRequester | None = None
        self._jobs: JobPlayer | None = None
        self._over: set[int] = set()
        self._undone = Undone(node.database, node.client.deployment.referee)
        self._market = node.settings.market
        self._max_fee = node.settings.fees.max_fee
        self._gas = node.gas
        if (key := node.transactions) is not None:
            self._jobs = JobPlayer(node)
            self._take_part(node, key)
            if requests:
                limit, contracts = node.settings.max_data_requests, node.client.contracts
                self._requester = DataRequester(contracts, key, runner, limit, node.spare)

    def _take_part(self, node: Daemon, key: TransactionManager) -> None:
        """Create the players of matches and hearings, the data responder and the closer."""
        opponents, contracts = Opponents.of(node.store, node.stop), node.client.contracts
        self._matches = MatchPlayer(contracts.referee, opponents)
        self._hearings = HearingPlayer(contracts, key.address, opponents, node.stop)
        self._responder = DataResponder(contracts, key, node.client.at_head, node.stop)
        self._closer = Closer(contracts, key.address)

    def works_at(self, job_id: int) -> bool:
        """Return whether the job's package is being fetched, or its run executed."""
        return self._runner.works_at(job_id)

    @property
    def answering(self) -> bool:
        """True while answers to data requests are being computed."""
        return self._responder is not None and self._responder.busy

    def pressed(self) -> bool:
        """Return whether our jobs may take more than the account has."""
        return self._node.spare() < 0

    def turns(self, snapshot: Snapshot, job: JobView) -> tuple[bool, list[Turn]]:
        """Return whether the job concerns us, and what may be due in it."""
        me, reserve = self._me, self._node.reserve
        stakes = job.stakes_of(me) if me is not None else []
        claim = job.claim_of(me) if me is not None else None
        holds = me is not None and job.trainer(me) is not None
        ours = bool(stakes) or holds
        left = any(not one.lost for one in stakes) or (holds and claim is None)
        at_stake = left and not job.phase.ended
        self._note_matches(job)
        watches = self._watcher is not None and self._watcher.watches(job)
        self._node.keeper.stake(job.id, at_stake or watches or bool(self._undone.of(job.id)))
        # SAFETY: this comes before any request that may fail, so that the job's reserve is not staked on another job.
        if at_stake and me is not None:
            reserve.seen(job.id, kept(job, me, self._max_fee), snapshot.block.number)
        if not at_stake and self._responder is not None:
            self._responder.forget(job.id)
        turns = list[Turn]()
        watcher, requester = self._watcher, self._requester
        watched = watcher is not None and _add(turns, "bounty", lambda: watcher.due(snapshot, job))
        hearings, unread, heard = list[HearingInfo](), dict[int, AssayError](), True
        try:
            hearings, unread = self._hearings_of(snapshot, job, ours=ours)
            heard = bool(hearings or unread or self._undone.of(job.id))
        except AssayError as error:
            turns.append(Turn("hearings", raising(error)))
        turns += [Turn(f"hearing of match {n:#x}", raising(error)) for n, error in unread.items()]
        if not at_stake:
            reserve.seen(job.id, self._at_risk(job, heard=heard), snapshot.block.number)
        self._note_duty(job, reserve.kept(job.id) > 0)
        if job.phase.ended:
            held = _add(turns, "refund", lambda: self._refund(snapshot, job, stakes))
            # SAFETY: while `collect` waits for cheaper gas, we still attend hearings that outlast the job.
            if not heard:
                if not watched and not held:
                    self._forget(job)
                self._node.gauges.job(job, None, snapshot.now)
                return watched or held or reserve.kept(job.id) > 0, turns
        else:
            self._over.discard(job.id)  # a reorganisation has brought it back
        # SAFETY: what fails while a part of the job is checked takes a turn of its own. What is known by now is played.
        try:
            acts, own = self._decide(job, snapshot.now)
        except Exception as error:
            acts, own = [], self._runner.known(job.id)
            turns.append(Turn("decision", raising(error)))
        try:
            lies, refute = self._refutations(job, snapshot.now)
        except Exception as error:
            lies, refute = self._runner.found(job.id), []
            turns.append(Turn("refutations", raising(error)))
        results = [*([] if own is None else [own]), *lies]
        self._node.gauges.job(job, own, snapshot.now)
        if watched and is_over(job, snapshot.now) and JobAction.FINALIZE not in acts:
            acts.append(JobAction.FINALIZE)
        requests = (
            own is None
            and requester is not None
            and _add(turns, "data requests", lambda: requester.due(snapshot, job))
        )
        if results:
            # NOTE: with nothing to win or lose in a job, all of this is help for others, which costs us gas.
            helps = None if at_stake or watched else job.id
            turns += self._disputes(snapshot, job, results, hearings, set(unread), helps)
            # NOTE: no data can be requested of a refutation.
            if own is not None and not job.phase.ended and (holds if claim is None else not claim.lost):
                turns.append(Turn("responses", partial(self._responses, snapshot, job, own)))
            if self._closer is not None:
                close = partial(self._closer.due, snapshot, job, results[0].root, helps=helps)
                turns.append(Turn("closings", close))
        if self._jobs is not None:
            turns += [Turn(act, partial(self._jobs.due, snapshot, job, act, own)) for act in acts]
            turns += [
                Turn("refute", partial(self._jobs.refute, snapshot, job, lie, refute)) for lie in refute
            ]
        # NOTE: an earlier version may have staked on the job. Until its cost is known, no other job is taken.
        if reserve.kept(job.id) and not self._node.duties.knows(job.id):
            turns.append(Turn("duty", partial(self._learn, job)))
        # NOTE: for a few blocks the snapshot does not show what we have sent.
        sent = bool(acts or refute) or reserve.kept(job.id) > 0
        concerned = ours or requests or watched or sent or bool(self._undone.of(job.id))
        # NOTE: what we could refute may have to be refuted later, when somebody else's refutation has lost.
        return concerned or bool(lies) or (own is not None and job.open_matches > 0), turns

    def _note_duty(self, job: JobView, staked: bool) -> None:
        """Note whether a job may still ask something of us, and of how many stakes."""
        duties = self._node.duties
        if not staked or self._me is None:
            duties.free(job.id)
            return
        duties.staked(job.id, living_stakes(job, self._me))

    def _learn(self, job: JobView) -> list[Due]:
        """Measure what a job may ask of us. It takes time, and nothing of it is due."""
        estimate = self._runner.prepare(job)
        if estimate is not None:
            self._node.duties.learn(job, estimate)
        return []

    def _forget(self, job: JobView) -> None:
        """Drop what we have computed for a job that is over."""
        if job.id not in self._over:
            _log.info("job.over", job=job.id, phase=job.phase.name, root=job.accepted_root.hex())
        self._over.add(job.id)
        self._runner.forget(job.id)

    def _at_risk(self, job: JobView, *, heard: bool) -> int:
        """Return the wei that a job may still take if we have no claim to lose. ``heard``: hearings go on."""
        if self._watcher is not None and self._watcher.watches(job) and not job.phase.ended:
            return kept_to_watch(job, self._max_fee)
        return quarrel_gas(job, self._max_fee) if heard else 0

    def _refund(self, snapshot: Snapshot, job: JobView, stakes: list[ClaimView]) -> list[Due] | None:
        """Return how to get back what an ended job holds of ours, once gas is cheap; None if it holds nothing."""
        stake = max((one.stake for one in stakes), default=job.stake_at(0))
        patience = self._market(snapshot.block.base_fee).about(stake, job.stake_gas)
        if self._requester is not None and job.id not in self._over:
            deposits = self._requester.refunds(snapshot, job, patience)
            if deposits is not None:
                return deposits
        held = [one.index for one in stakes if not one.lost and not one.collected]
        if self._jobs is None or not held:
            return None
        return self._jobs.collect(snapshot, job, held, patience)

    def _responses(self, snapshot: Snapshot, job: JobView, own: RunClaim) -> Iterator[Due]:
        """Yield answers to the requests for data of the root that we have claimed."""
        group = job.group_of_root(own.root)
        if self._responder is None:
            return
        if group is not None and not group.dead:
            yield from self._responder.due(snapshot, job, group, self._runner.replay(job.id))
        else:
            self._responder.forget(job.id)

    # ------------------------------------------------------------------ disputes

    def _note_matches(self, job: JobView) -> None:
        """Remember the matches in which we are a spokesman: their hearings may outlast them."""
        if self._hearings is None:
            return
        for number in job.match_ids() if job.open_matches else []:
            pair = job.pair(number)
            if pair is not None and self._speaks(job, pair):
                with contextlib.suppress(DiskFailed):  # every look tries again
                    self._undone.note(job.id, number, heard=False)

    def _hearings_of(
        self, snapshot: Snapshot, job: JobView, *, ours: bool
    ) -> tuple[list[HearingInfo], dict[int, AssayError]]:
        """Return the hearings that are not over and that the job waits for, or in which we are a spokesman; and by
        match why others cannot be read. ``ours``: we have a stake in the job, or a slot."""
        if self._hearings is None or self._me is None:
            return [], {}
        may_play = ours and len(job.groups) > 1 and job.id not in self._over
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

    def _disputes(
        self,
        snapshot: Snapshot,
        job: JobView,
        results: list[RunClaim],
        hearings: list[HearingInfo],
        unread: set[int],
        helps: int | None,
    ) -> list[Turn]:
        """Return a turn for each match and hearing in which one of our results is at stake. ``unread``: matches whose
        hearings cannot be read; ``helps``: see `Due`.

        NOTE: a hearing in which we are a player is never help: our bond or the panel's pay may be in it. Another's
        refutation that says the same as ours always is: if it loses, we can still send ours.
        """
        if self._matches is None or self._hearings is None or self._me is None:
            return []
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
            matches.append(Turn(f"match {number:#x}", partial(_helping, helped, play)))
            if number not in heard:
                hear = partial(self._hearing_without_claim, snapshot, job, own, read)
                others.append(Turn(f"hearing of match {number:#x}", partial(_helping, helped, hear)))
        for hearing in hearings:
            for_others = None if hearing.player(self._me) else helps
            if for_others is not None and not self._gas.pays:
                continue
            hear = partial(self._hearing_of, snapshot, job, results, hearing)
            others.append(
                Turn(f"hearing of match {hearing.match_id:#x}", partial(_helping, for_others, hear))
            )
        return matches + others

    def _speaks(self, job: JobView, pair: tuple[Group, Group]) -> bool:
        """Return whether we are the spokesman of a side."""
        speakers = [job.claims[group.speaker].owner for group in pair if group.speaker is not None]
        return self._me is not None and self._me.lower() in (owner.lower() for owner in speakers)

    def _match(
        self, snapshot: Snapshot, job: JobView, own: RunClaim, read: Callable[[], MatchInfo]
    ) -> Iterator[Due]:
        """Yield our moves in a match."""
        assert self._matches is not None
        replay = self._runner.replay(job.id, own)
        for seat in seats(job, [read()], self._me, own):
            against = seat.opponent.speaker
            self._node.gauges.match(job, seat, snapshot.now)
            patience = self._patience(snapshot, job, 0 if against is None else job.claims[against].stake)
            yield from self._matches.due(seat, replay, job.uris(seat.opponent), snapshot.now, patience)

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
        assert self._hearings is not None
        assert self._me is not None
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


def _helping(job: int | None, decide: Callable[[], Iterable[Due]]) -> Iterator[Due]:
    """Yield what is due, marked as help for other parties of a job; unmarked for None."""
    for due in decide():
        yield due if job is None else replace(due, helps=job)


def _add(turns: list[Turn], of: str, decide: Callable[[], list[Due] | None]) -> bool:
    """Add a turn for what is due; return False if there is nothing to attend to (None). An error takes the turn."""
    try:
        dues = decide()
    except Exception as error:
        turns.append(Turn(of, raising(error)))
        return True
    if dues is not None:
        turns.append(Turn(of, lambda: dues))
    return dues is not None


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
        return [claim.uri for claim in self.job.claims if claim.owner in others and claim.uri]
