"""The common part of trainers and challengers: read the chain, decide, act.

Every tick reads one pinned block, so a decision never mixes two states. After a crash or a reorganisation the state is
read again. Disputes come first, and an error in one dispute does not prevent the moves in the next. A hearing may last
longer than its match and its job: the daemon attends to the job until the hearing is over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import structlog

from referee_py.commit import NO_LOG, Record
from referee_py.execute import RunClaim
from referee_py.game.state import Phase
from referee_py.jobs import commitment
from referee_py.rounding.thresholds import fixed
from referee_py.trial.solver import Operator

from .chain import Call, ClaimView, HearingInfo, JobView, Receipt, Snapshot, TransactionManager
from .closer import Closer
from .data_requester import DataRequester
from .data_responder import DataResponder
from .decide import JobAction, is_over, later, seats, unripe
from .devices import backend_of, evaluator_of
from .errors import Reverted
from .funds import kept, kept_to_watch, offer, quarrel_gas, top_up
from .hearing_player import HearingPlayer
from .job_queue import JobQueue, Scheduler
from .job_runner import JobRunner
from .match_player import MatchPlayer
from .min_stake import TRIAL_MOVES, match_moves
from .opponent import Opponents
from .patience import NONE, Patience
from .replay import Replay
from .rounded.calibration import Calibration
from .salt import salt_of
from .service import Daemon
from .submit import Teller, act
from .watcher import Watcher

_log = structlog.get_logger(__name__)


Decide = Callable[[JobView, int], tuple[list[JobAction], RunClaim | None]]
"""Maps a job and an instant of the chain to the actions that are due, and our result if it is at stake."""


@contextlib.contextmanager
def open_runner(node: Daemon, *, follows: bool = False, replay: type[Replay] = Replay) -> Iterator[JobRunner]:
    """Open the job runner of a node; close it at the end. ``follows``: use the trainer's rounding logs, not our own."""
    settings = node.settings
    runner = JobRunner(
        node.fetcher,
        node.database,
        backend_of(settings.device),
        max_memory=settings.limits.memory_bytes,
        max_logs=settings.limits.log_bytes,
        follows=follows,
        evaluator=lambda: evaluator_of(settings.evaluator, settings.device),
        thresholds=fixed if settings.calibration is None else Calibration.read(settings.calibration).tau,
        replay=replay,
    )
    try:
        yield runner
    finally:
        runner.close()


class Participant:
    """Acts on jobs for the node's key, or only reads the chain if the node has none. With ``requests`` it requests on
    the chain the logs that nobody serves. The ``watcher`` earns bounties."""

    def __init__(
        self,
        node: Daemon,
        runner: JobRunner,
        decide: Decide,
        *,
        requests: bool = False,
        watcher: Watcher | None = None,
    ) -> None:
        self._client = node.client
        self._metrics = node.metrics
        self._transactions = node.transactions
        self._runner = runner
        self._uri = node.public_uri
        self._decide = decide
        self._watcher = watcher
        self._scheduler = Scheduler(JobQueue(node.database), node.problems, runner.works_at)
        self._player: MatchPlayer | None = None
        self._hearing_player: HearingPlayer | None = None
        self._responder: DataResponder | None = None
        self._closer: Closer | None = None
        self._requester: DataRequester | None = None
        self._over: set[int] = set()
        self._started_at = node.client.block().number
        self._committed: dict[int, tuple[bytes, int]] = {}
        """By job: our commitment to a challenge, and the block that mined it."""
        self._unripe: set[tuple[int, int]] = set()
        """Jobs in which a challenge came too late, with the reclaim end for which that was logged."""
        self._reserve = node.reserve
        self._market = node.settings.market
        self._max_fee = node.settings.fees.max_fee
        if node.transactions is not None:
            self._take_part(node, node.transactions)
        if node.transactions is not None and requests:
            limit = node.settings.max_data_requests
            self._requester = DataRequester(
                node.client.contracts, node.transactions, runner, limit, node.spare
            )
        key, market = node.transactions, node.settings.market
        self._teller = Teller(key, market, lambda: node.spare() < 0) if key else None

    def _take_part(self, node: Daemon, key: TransactionManager) -> None:
        """Create the players of matches and hearings, the data responder and the closer."""
        opponents, contracts = Opponents.of(node.store, node.stop), node.client.contracts
        self._player = MatchPlayer(contracts, key, opponents)
        self._hearing_player = HearingPlayer(contracts, key, opponents, node.stop)
        self._responder = DataResponder(contracts, key)
        self._closer = Closer(contracts, key)

    def tick(self) -> None:
        """Read the chain once and do what is due. Raises only RpcUnavailable and RpcCorrupt, if the chain is gone."""
        snapshot = self._client.snapshot()
        self._metrics.block.set(snapshot.block.number)
        if self._transactions is not None and self._transactions.open():
            self._transactions.recover()  # transactions that were not mined within an earlier round
        self._scheduler.go(snapshot, lambda job: self._attend(snapshot, job))
        if self._teller is not None:
            self._teller.draw(snapshot)

    def _attend(self, snapshot: Snapshot, job: JobView) -> bool:
        """Do what is due in a job. Return whether the job concerns us."""
        me = self._transactions.address if self._transactions else None
        ours = me is not None and (job.trainer(me) is not None or job.claim_of(me) is not None)
        claim = job.claim_of(me) if me is not None else None
        at_stake = ours and not job.phase.ended and not (claim is not None and claim.lost)
        # SAFETY: this comes before any request that may fail, so that the job's reserve is not staked on another job.
        if at_stake:
            self._reserve.seen(job.id, kept(job, self._me, self._max_fee), snapshot.block.number)
        watched = self._watcher is not None and self._watcher.attend(snapshot, job)
        hearings = self._hearings(snapshot, job) if ours else []
        if not at_stake:
            self._reserve.seen(job.id, self._at_risk(job, heard=bool(hearings)), snapshot.block.number)
        if job.phase.ended:
            # SAFETY: while `collect` waits for cheaper gas, we still attend hearings that outlast the job.
            if self._finish(snapshot, job, claim) and not hearings:
                return True
            if watched:
                return True
            if not hearings:
                if job.id not in self._over:
                    _log.info("job.over", job=job.id, phase=job.phase.name, root=job.accepted_root.hex())
                self._over.add(job.id)
                self._runner.forget(job.id)
                return self._reserve.kept(job.id) > 0
        else:
            self._over.discard(job.id)  # a reorganisation has brought it back
        acts, own = self._decide(job, snapshot.now)
        if watched and is_over(job, snapshot.now) and JobAction.FINALIZE not in acts:
            acts.append(JobAction.FINALIZE)
        requested = own is None and self._requester is not None and self._requester.attend(snapshot, job)
        due: list[Callable[[], None]] = []
        if own is not None:
            due.append(partial(self._dispute, snapshot, job, own, hearings))
            if at_stake:
                due.append(partial(self._respond, snapshot, job, own))
            if self._closer is not None:
                due.append(partial(self._closer.attend, snapshot, job, own.root))
        due += [partial(self._act, snapshot, job, act, own) for act in acts]
        # SAFETY: an adversary may have caused an error in one of these turns; the other turns are still taken.
        with contextlib.ExitStack() as last_to_first:
            for turn in reversed(due):
                last_to_first.callback(turn)
        # NOTE: for a few blocks the snapshot does not show what we have sent.
        sent = bool(acts) or self._reserve.kept(job.id) > 0
        return ours or requested or watched or sent or (own is not None and job.open_matches > 0)

    def _at_risk(self, job: JobView, *, heard: bool) -> int:
        """Return the wei that a job may still take if we have no claim to lose. ``heard``: hearings go on."""
        if self._watcher is not None and self._watcher.watches(job) and not job.phase.ended:
            return kept_to_watch(job, self._max_fee)
        return quarrel_gas(job, self._max_fee) if heard else 0

    def _finish(self, snapshot: Snapshot, job: JobView, claim: ClaimView | None) -> bool:
        """Get back what an ended job holds of ours, once gas is cheap. Return whether it holds anything."""
        stake = job.stake_at(0) if claim is None else claim.stake
        patience = self._market(snapshot.block.base_fee).about(stake, job.stake_gas)
        requester = None if job.id in self._over else self._requester
        if requester is not None and requester.recover(snapshot, job, patience):
            return True
        if claim is None or claim.lost or claim.collected:
            return False
        if not patience.lingers(snapshot.now - job.due):
            self._send(Call.of(self._client.contracts.jobs, "collect", job.id, claim.index))
        return True

    def _hearings(self, snapshot: Snapshot, job: JobView) -> list[HearingInfo]:
        """Return the hearings that are not over and that the job waits for, or in which we are a spokesman."""
        if self._hearing_player is None or len(job.groups) < 2 or job.id in self._over:
            return []
        found, waited = snapshot.hearings(job), job.match_ids()
        self._hearing_player.forget(job.id, but=[hearing.id for hearing in found])
        return [h for h in found if h.player(self._me) or h.match_id in waited]

    def _respond(self, snapshot: Snapshot, job: JobView, own: RunClaim) -> None:
        """Answer the requests for data of the root that we have claimed."""
        group = job.group_of_root(own.root)
        if self._responder is not None and group is not None and not group.dead:
            self._responder.attend(snapshot, job, group, self._runner.replay(job.id))

    def _dispute(self, snapshot: Snapshot, job: JobView, own: RunClaim, hearings: list[HearingInfo]) -> None:
        """Make the moves that are due in matches and hearings. Raises the last error after all have had their turn."""
        if self._player is None or self._hearing_player is None:
            return
        player, hearing_player, replay = self._player, self._hearing_player, self._runner.replay(job.id)
        matches = [snapshot.match(job, match_id) for match_id in job.match_ids()] if job.open_matches else []
        turns: list[tuple[str, int, Callable[[], object]]] = []
        for seat in seats(job, matches, self._me, own):
            uris, against = job.uris(seat.opponent), seat.opponent.speaker
            staked = 0 if against is None else job.claims[against].stake
            patience = self._patience(snapshot, job, staked)
            play = partial(player.play, snapshot, seat, replay, uris, patience)
            turns.append(("match", seat.match.id, play))
            if seat.match.state.phase is Phase.HEARING and seat.match.id not in {
                h.match_id for h in hearings
            }:
                hearing = snapshot.hearing(job, seat.match.id)  # we have no claim in it, but a result
                hearings = [*hearings, hearing] if hearing is not None else hearings
        for hearing in hearings:
            source = _OperatorSource(hearing, job, replay, self._me)
            players = set(hearing.terms.submission.players) - {self._me}
            staked = min((claim.stake for claim in job.claims if claim.owner in players), default=0)
            patience = self._patience(snapshot, job, staked)
            turns.append(
                (
                    "hearing",
                    hearing.match_id,
                    partial(hearing_player.attend, snapshot, hearing, source, patience),
                )
            )
        failed: Exception | None = None
        for what, number, turn in turns:
            try:
                turn()
            except Reverted as error:
                _log.info(f"{what}.refused", match=number, reason=str(error))
            except Exception as error:
                _log.warning(f"{what}.failed", match=number, error=type(error).__name__, reason=str(error))
                failed = error
        if failed is not None:
            raise failed

    def _patience(self, snapshot: Snapshot, job: JobView, staked: int) -> Patience:
        """Return our patience in a dispute in which the other side has staked ``staked`` wei."""
        market = self._market(snapshot.block.base_fee)
        estimate = self._runner.prepare(job) if market.patient_s else None
        # SAFETY: while it is unknown how much is still to be computed, we do not wait.
        if estimate is None:
            return NONE
        busy_s = estimate.dispute_s(job.program) + (match_moves(job.program) + TRIAL_MOVES) * market.latency_s
        return market.about(staked, job.stake_gas, busy_s)

    @property
    def _me(self) -> str:
        assert self._transactions is not None
        return self._transactions.address

    def _act(self, snapshot: Snapshot, job: JobView, act: JobAction, own: RunClaim | None) -> None:
        jobs, key = self._client.contracts.jobs, self._transactions
        assert key is not None
        market = self._market(snapshot.block.base_fee)
        # SAFETY: a block from before this process started may not show the stakes of an earlier process.
        stakes = act is JobAction.JOIN or (act is JobAction.CHALLENGE and not self._reserve.kept(job.id))
        if stakes and snapshot.block.number < self._started_at:
            return
        if market.patient_s and later(job, self._me, act, own, market, snapshot.now, snapshot.commit_age()):
            return
        if act is JobAction.JOIN:
            self._reserve.staking(job.id, kept(job, self._me, self._max_fee))
            self._send(Call.of(jobs, "join", job.id, value=job.stake_sent))
        elif act is JobAction.FINALIZE:
            self._send(Call.of(jobs, "finalize", job.id))
        elif own is not None:
            claim = (own.root, own.last, list(own.path), self._uri)
            where = (self._client.deployment.chain_id, str(jobs.address), job.id, key.address)
            salt = salt_of(key.account, *where[:3])
            if act is JobAction.COMMIT:
                committed = commitment(*where, own.root, own.last, own.logs, salt)
                self._send(Call.of(jobs, "commit", job.id, committed))
            elif act is JobAction.REVEAL:
                self._send(
                    Call.of(jobs, "reveal", job.id, claim, own.logs, salt, value=top_up(job, self._me))
                )
            elif act is JobAction.CHALLENGE:
                stake = offer(job, own.root).wanted
                self._reserve.staking(job.id, stake + kept(job, self._me, self._max_fee))
                committed = commitment(*where, own.root, own.last, NO_LOG, salt)
                self._challenge(snapshot, job, own.root, committed, (claim, salt))

    def _challenge(
        self, snapshot: Snapshot, job: JobView, root: bytes, committed: bytes, shown: tuple[object, ...]
    ) -> None:
        """Send the commitment first; send the claim once the commitment is seen on the chain.

        NOTE: until the commitment is old enough, the simulation refuses the claim, which costs nothing.
        """
        jobs, group = self._client.contracts.jobs, job.group_of_root(root)
        # SAFETY: an open request for the group's data may be late already, and would cost us the claim, too. Once the
        # group has lost the root, we claim it again.
        if group is not None and not group.dead and snapshot.pending(job, group):
            return
        # SAFETY: a snapshot is some blocks old and may not show our commitment; to commit again would reset its age.
        head = self._client.at_head()
        if head.challenge_of(job.id, self._me) == committed:
            self._send(Call.of(jobs, "challenge", job.id, *shown, value=offer(job, root)))
            return
        reason = unripe(job, root, snapshot.commit_age(), snapshot.now)
        if reason is None:
            # NOTE: an endpoint may consist of several machines, some of which are behind the head.
            of, block = self._committed.get(job.id, (b"", 0))
            if of != committed or head.block.number >= block:
                receipt = self._send(Call.of(jobs, "commitChallenge", job.id, committed))
                self._committed[job.id] = committed, receipt.block if receipt is not None else 0
        elif (job.id, job.reclaim_end) not in self._unripe:
            self._unripe.add((job.id, job.reclaim_end))
            _log.warning("challenge.too_late", job=job.id, reason=reason)

    def _send(self, call: Call) -> Receipt | None:
        assert self._transactions is not None
        return act(self._transactions, call)


class _OperatorSource:
    """A spokesman's knowledge of a disputed operator, from its own run."""

    def __init__(self, hearing: HearingInfo, job: JobView, replay: Replay, me: str) -> None:
        self._hearing = hearing
        self._job = job
        self._replay = replay
        self._me = me
        self._at = hearing.terms.submission.step, hearing.terms.submission.node

    def right(self) -> Record:
        return self._replay.right(*self._at)

    def operator(self) -> Operator:
        return self._replay.operator(*self._at)

    def servers(self) -> list[str]:
        """NOTE: in a trial against a signer, the other spokesman made the record that the signer stands by."""
        others = set(self._hearing.terms.submission.players) - {self._me}
        return [claim.uri for claim in self._job.claims if claim.owner in others and claim.uri]
