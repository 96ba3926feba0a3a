"""The verifier daemon: executes ONE disputed operator, signs the right record, stands by it (docs/adjudication.md)."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from functools import partial

import repops
import structlog

from referee_py.attestation import Verdict, sign
from referee_py.commit import Record
from referee_py.errors import HashMismatch, InvalidInput, Unavailable
from referee_py.panel.state import Attest, HearingPhase, Submission
from referee_py.trial.solver import Operator

from ..chain import Call, HearingInfo, JobView, Snapshot
from ..chain.codec.hearing import hearing_call
from ..compute.lanes import Lanes
from ..daemon.due import Due
from ..daemon.job_turns import Role, Turn, raising
from ..daemon.loop import Loop
from ..daemon.service import Daemon, Service, open_daemon
from ..errors import DiskFailed, RpcCorrupt
from ..ids import whole
from ..limits.waits import JUDGED_S, LANES
from ..network.fetcher import Fetcher
from ..network.opponents import Opponents
from ..play.ends import Changes
from ..play.hearings import HearingPlayer
from ..play.judgement import Judge, Judgement
from ..play.open_duties import Undone
from ..play.verdicts import Act, Decision, Judged, Signed, decide, may_stake, must_be_ready
from ..reason import Reason
from ..settings.settings import Settings
from ..stake.admission import Means
from ..stake.duty_book import BondBook
from ..stake.funds import trial_wei
from ..stake.judge import first
from ..storage.refused_by_disk import Memory
from .acceptance import signature

DEFENCE_LANES = 4
"""Judgements of hearings that hold our bond. SAFETY: they have lanes of their own, so they never wait behind votes."""

_log = structlog.get_logger(__name__)


def run(settings: Settings) -> None:
    """Run until asked to stop."""
    repops.set_num_threads(settings.worker_threads)
    with open_daemon(settings, "verifier") as node:
        Service(node, Loop(node, Verifier(node)).tick).run()


@dataclass(frozen=True)
class _Asked:
    """A judgement that is computed, or is there. ``defends``: our bond is in its hearing."""

    defends: bool
    future: Future[Judgement]


@dataclass
class _Heard:
    """A hearing about the operator ``of``, as far as it is known; ``met``: a round has waited for its judgement;
    ``refused``: we leave the vote to others; ``by``: the job's program, file and logs, by which it is judged."""

    of: Submission
    asked: _Asked | None = None
    """Its judgement to come, or that of a hearing in which we may have to play."""
    judged: Judged | None = None
    met: bool = False
    refused: bool = False
    by: tuple[object, ...] | None = None

    def drop(self) -> None:
        """Drop the judgement to come, or stop it."""
        if self.asked is not None:
            self.asked.future.cancel()
            self.asked = None


class Verifier(Role):
    """Attests in every hearing that names this verifier, and stands by its verdict if that is overruled.

    NOTE: it never guesses. Without the inputs that the records name, it signs nothing and tries again.

    INVARIANT: what a judgement comes from, and what comes of it, is held by its job (on a full disk, by `Memory`) until
    no signature of ours can be tried in the job any more. So a trial is played without anybody's server and without
    executing the operator again, also after a restart.
    """

    def __init__(self, node: Daemon, clock: Callable[[], float] = time.monotonic) -> None:
        self._node = node
        self._votes = Lanes(LANES, "verdict", node.stop, clock)
        self._defences = Lanes(DEFENCE_LANES, "defence", node.stop, clock)
        self._heard: dict[int, _Heard] = {}
        """By hearing."""
        self._bonds, self._changes = BondBook(node.database), Changes("hearing.job_not_confirmed", clock)
        self._over: set[int] = set()
        self._undone = Undone(node.database, node.client.deployment.referee, clock)
        self._round: tuple[Snapshot | None, float] = None, 0.0
        """The snapshot of this round of the loop, and the seconds left of its patience."""
        self._memory = Memory(lambda: node.settings.limits.memory_bytes)
        self._bench = Judge(node, self._memory, clock)
        assert node.transactions is not None
        self._account, self._me = node.transactions.account, node.transactions.address
        opponents = Opponents.of(node.store, node.stop)
        self._hearing_player = HearingPlayer(node.client.contracts, self._me, opponents, node.stop)

    def turns(self, snapshot: Snapshot, job: JobView) -> tuple[bool, list[Turn]]:
        """Return whether a job has hearings that may need us, and a turn for each, those with our bond first."""
        if not job.phase.ended:
            self._over.discard(job.id)  # a reorganisation has brought it back
        ours = job.is_under(self._node.client.deployment.referee)
        may_vote = ours and len(job.groups) > 1 and self._me in job.verifiers and job.id not in self._over
        if not may_vote and not self._undone.of(job.id):
            self._reserve(snapshot, job)
            return False, []
        found, failed = self._undone.hearings(snapshot, job)
        waited = job.match_ids() if may_vote else []
        hearings = [h for h in found if h.hidden or h.voted(self._me) or h.match_id in waited]
        hearings.sort(key=lambda hearing: not hearing.voted(self._me))
        for hearing in hearings:
            if hearing.voted(self._me):
                with contextlib.suppress(DiskFailed):  # every look tries again
                    self._undone.note(job.id, hearing.match_id, heard=True, shown=snapshot)
        # SAFETY: a look may lack a hearing with our vote. It is over when the panel says so, and not before.
        undone = self._undone.hearing_ids(job.id)
        needed = undone.union(hearing.id for hearing in hearings)
        if not needed and not failed:
            self._node.problems.forget_job(job.id)
        turns = [Turn(f"hearing of match {n:#x}", raising(error)) for n, error in failed.items()]
        if not failed:
            self._forget(job.id, needed)
            voted = [hearing.id for hearing in hearings if hearing.voted(self._me)]
            gas = trial_wei(job, self._node.settings.fees.max_fee)
            self._bonds.seen(job.id, voted, needed, job.rules, gas)
            self._reserve(snapshot, job)
        staked = [h for h in hearings if may_stake(h, self._me, self._known(h).refused)]
        self._keep(job.id, bool(undone or staked or failed))
        if job.phase.ended and not needed and not failed:
            self._over.add(job.id)
        self._votes.look()
        self._defences.look()
        turns += [
            Turn(f"hearing of match {hearing.match_id:#x}", partial(self._due, snapshot, job, hearing))
            for hearing in hearings
        ]
        return bool(needed or failed or job.open_matches), turns

    def _reserve(self, snapshot: Snapshot, job: JobView) -> None:
        """Keep the ether that trials of what we have signed in a job may take: it is not sent on."""
        self._node.reserve.seen(job.id, self._bonds.wei(job.id), snapshot.block.number)

    def _keep(self, job_id: int, staked: bool) -> None:
        """Hold what a job's signatures rest on while there may be one; let go of it afterwards."""
        self._node.keeper.stake(job_id, staked)
        if not staked:
            self._memory.release(job_id)
        elif self._memory.names(job_id):
            with contextlib.suppress(DiskFailed):
                self._node.store.unload(job_id, self._memory)

    def _forget(self, job_id: int, needed: Collection[int]) -> None:
        """Drop what is known about a job's hearings, except those that are needed."""
        self._hearing_player.forget(job_id, but=needed)
        for number, heard in list(self._heard.items()):
            if heard.of.job_id == job_id and number not in needed:
                self._heard.pop(number).drop()

    def _known(self, hearing: HearingInfo) -> _Heard:
        """Return what is known of a hearing.

        SAFETY: after a reorganisation its match may have reached another operator, and no judgement of the one before
        counts.
        """
        of, heard = hearing.terms.submission, self._heard.get(hearing.id)
        if heard is None or heard.of != of:
            if heard is not None:
                heard.drop()
            heard = self._heard[hearing.id] = _Heard(of)
        return heard

    def _same_job(self, snapshot: Snapshot, job: JobView, heard: _Heard) -> bool:
        """Return whether a hearing is judged by the job as this look shows it. SAFETY: mode, program and logs are no
        part of the hearing, and what was judged by those of a false look would be signed in a true one."""
        by = job.program, job.program_file, job.logs
        if heard.by not in (None, by):
            if not self._changes.believed(snapshot, job.id):
                return False
            heard.drop()
            heard.judged, heard.met, heard.refused = None, False, False
        heard.by = by
        return True

    def _due(self, snapshot: Snapshot, job: JobView, hearing: HearingInfo) -> list[Due]:
        """Return our vote, if that is due; otherwise what keeps the hearing going and defends our bond."""
        if self._round[0] is not snapshot:
            self._round = snapshot, JUDGED_S
        heard = self._known(hearing)
        if not self._same_job(snapshot, job, heard):
            return []
        ready = must_be_ready(hearing, self._me)
        if not ready and hearing.state.phase not in (
            HearingPhase.VOTING,
            HearingPhase.DEFENCE,
            HearingPhase.STAND,
        ):
            heard.drop()
        if ready and heard.judged is None:
            # NOTE: a failure is reported, and the next round tries again; the hearing continues meanwhile.
            with contextlib.suppress(Exception):
                self.judged(job, hearing)
        decision = self._decide(snapshot, job, hearing, heard.judged)
        if decision.act is Act.JUDGE and (judged := self.judged(job, hearing)) is not None:
            decision = self._decide(snapshot, job, hearing, judged)
        match decision.act:
            case Act.WAIT | Act.JUDGE:
                return []
            case Act.UNREADABLE:
                raise RpcCorrupt(decision.reason)
            case Act.VOTE if heard.refused:
                return []
            case Act.VOTE:
                assert heard.judged is not None
                return [self._vote(job, hearing, heard.judged)]
            case Act.REFUSE:
                if not heard.refused:
                    self._refuse(hearing, decision.reason, judged=heard.judged is not None)
                return []
        return self._hearing_player.due(snapshot, hearing, _OperatorSource(self, job, hearing))

    def _decide(
        self, snapshot: Snapshot, job: JobView, hearing: HearingInfo, judged: Judged | None
    ) -> Decision:
        def refusal() -> Reason | None:
            return first(signature(job, judged, self._signed(hearing), self._node.settings))

        return decide(hearing, self._me, judged, snapshot.now, refusal)

    def _signed(self, hearing: HearingInfo) -> Signed:
        """Return what we have signed in other hearings."""
        settings, bonds = self._node.settings, self._bonds.held(but=hearing.id)
        assert self._node.transactions is not None
        # NOTE: what is reserved is for these bonds, which count one by one.
        free = self._node.transactions.means.free()
        return Signed(bonds, free, settings.fees.max_fee, Means.of(settings))

    def _refuse(self, hearing: HearingInfo, reason: str, *, judged: bool) -> None:
        """Leave a vote to others, permanently."""
        self._known(hearing).refused = True
        if judged:
            _log.error("verdict.refused", match=whole(hearing.match_id), reason=reason)
        else:
            _log.warning("verdict.left_to_others", match=whole(hearing.match_id), reason=reason)

    def _vote(self, job: JobView, hearing: HearingInfo, judged: Judged) -> Due:
        """Return our vote. SAFETY: signed once others confirm the look. A signature about a false hearing would be read
        from its simulation, and be sent to the true one by whoever shows it."""
        at, record = hearing.terms.submission, judged.record.hash()
        about = {"match": whole(hearing.match_id), "record": record.hex()}
        unsigned = hearing_call(Attest(at, record, b""), hearing.id)
        call = Call.batch(self._node.client.contracts.panel, unsigned)
        make = partial(self._signed_vote, job, hearing, judged)
        return Due(call, "verdict.signed", about, opens=True, exposes=True, make=make)

    def _signed_vote(self, job: JobView, hearing: HearingInfo, judged: Judged) -> Call:
        """Sign our vote. Raises DiskFailed if it cannot be noted first: nothing is signed that may be forgotten."""
        self._undone.note(hearing.terms.submission.job_id, hearing.match_id, heard=True)
        self._bonds.sign(job.id, hearing.id, self._signed(hearing).bond(job, judged))
        self._node.reserve.staking(job.id, self._bonds.wei(job.id))
        at, record, client = hearing.terms.submission, judged.record.hash(), self._node.client
        verdict = Verdict(hearing.id, at.step, at.node, record)
        signature = sign(verdict, client.deployment.chain_id, client.deployment.panel, self._account)
        return Call.batch(client.contracts.panel, hearing_call(Attest(at, record, signature), hearing.id))

    # ------------------------------------------------------------------ judgements

    def judged(self, job: JobView, hearing: HearingInfo) -> Judged | None:
        """Return what we have found about a hearing; None while it is pending or unavailable, or if it is refused."""
        heard = self._known(hearing)
        if heard.judged is None:
            found = self._judgement(job, hearing)
            if found is None:
                return None
            heard.judged = found.judged
            if found.kept and hearing.state.phase is not HearingPhase.DEFENCE:
                heard.drop()  # the tensors may be large, and are read again where a trial begins
        return heard.judged

    def operator(self, job: JobView, hearing: HearingInfo) -> Operator | None:
        """Return the tensors of a hearing's operator, as `judged`. Whoever asks keeps them."""
        found = self._judgement(job, hearing)
        if found is None:
            return None
        self._known(hearing).drop()
        return found.operator

    def _judgement(self, job: JobView, hearing: HearingInfo) -> Judgement | None:
        """Return the judgement of a hearing, from lanes of its own if our bond is in the hearing."""
        defends, topic = hearing.voted(self._me), f"hearing of match {hearing.match_id:#x}"
        heard = self._known(hearing)
        if heard.asked is not None and defends and not heard.asked.defends and not heard.asked.future.done():
            heard.drop()
        if heard.asked is None and not defends and heard.refused:
            return None
        if heard.asked is None:
            lanes = self._defences if defends else self._votes
            rules = job.rules
            period = min(rules.appeal_period, rules.clock) if defends else rules.verdict_period
            heard.asked = _Asked(defends, lanes.submit(period, partial(self._attempt, job, hearing)))
        future = heard.asked.future
        self._wait(heard, future)
        if not future.done():
            _log.info("verdict.pending", match=whole(hearing.match_id))
            return None
        try:
            judgement = future.result()
        except Unavailable as error:
            _log.warning("verdict.unavailable", match=whole(hearing.match_id), reason=str(error))
            self._failed(job, hearing, "peer", error)
        except (InvalidInput, HashMismatch) as error:
            _log.error("verdict.refused", match=whole(hearing.match_id), reason=str(error))
            heard.refused = True
            self._failed(job, hearing, "peer", error)
        except Exception as error:
            self._failed(job, hearing, "disk" if isinstance(error, DiskFailed) else "run", error)
            heard.drop()
            raise
        else:
            self._node.problems.job(job.id, topic, None, ours=True)
            return judgement
        heard.drop()
        return None

    def _wait(self, heard: _Heard, future: Future[Judgement]) -> None:
        """Wait for a judgement that was not waited for before, as long as the round's patience lasts.

        SAFETY: a hundred judgements that last must not make a round long in which a clock of ours runs.
        """
        if heard.met:
            return
        heard.met = True
        began, (of, left) = time.monotonic(), self._round
        wait_for([future], timeout=left)
        self._round = of, max(left - (time.monotonic() - began), 0.0)

    def _failed(self, job: JobView, hearing: HearingInfo, of: str, error: Exception) -> None:
        """Report to /readyz and the metrics, until the verdict is there or the hearing is over."""
        self._node.metrics.add("failures", of)
        told = f"no verdict: {type(error).__name__}: {error}"
        self._node.problems.job(job.id, f"hearing of match {hearing.match_id:#x}", told, ours=True)

    def _attempt(self, job: JobView, hearing: HearingInfo, stop: threading.Event) -> Judgement:
        """Judge with what the disk has and takes; where it refuses, with what is in memory and comes there."""
        node = self._node
        if not self._memory.names(job.id):
            try:
                return self._judge(job, hearing, node.fetcher.for_job(job.id).stopped_by(stop))
            except DiskFailed as error:
                _log.warning("verdict.from_memory", match=whole(hearing.match_id), reason=str(error))
        view = node.store.held_by(job.id, memory=self._memory)
        return self._judge(job, hearing, node.fetcher.for_job(job.id, store=view).stopped_by(stop))

    def _judge(self, job: JobView, hearing: HearingInfo, fetcher: Fetcher) -> Judgement:
        """Return the right record of the disputed node."""
        # NOTE: this is another thread than the loop's.
        heard, me = self._heard.get(hearing.id), self._me
        judged = heard.judged if heard is not None and heard.of == hearing.terms.submission else None
        signed = hearing.signed_for(me) or (judged.record.hash() if judged else None)
        return self._bench.judge(job, hearing, fetcher, signed, defends=hearing.voted(me))


@dataclass(frozen=True)
class _OperatorSource:
    """A signer's knowledge of a disputed operator: its own judgement."""

    verifier: Verifier
    job: JobView
    hearing: HearingInfo

    def right(self, patience_s: float, *, hurry: bool) -> Record | None:  # noqa: ARG002
        judged = self.verifier.judged(self.job, self.hearing)
        return judged.record if judged else None

    def operator(self) -> Callable[[], Operator] | None:
        known = self.verifier.operator(self.job, self.hearing)
        return None if known is None else lambda: known

    def servers(self) -> list[str]:
        accuser = self.hearing.terms.submission.players[self.hearing.state.side]
        return self.job.servers(claim for claim in self.job.claims if claim.owner == accuser)
