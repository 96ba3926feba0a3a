"""The role of trainers and challengers: what is due in a job, in disputes about it (`disputes`), and for its data.

A hearing may last longer than its match and its job: the daemon attends to the job until the
hearing is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import cast

import structlog

from referee_py.errors import AssayError
from referee_py.execute import RunClaim

from ..chain import ClaimView, HearingInfo, JobView, Snapshot, TransactionManager
from ..compute.job_runner import JobRunner
from ..daemon.due import Due
from ..daemon.job_queue import OURS
from ..daemon.job_turns import Role, Turn, adding, raising
from ..daemon.service import Daemon
from ..network.opponents import Opponents
from ..play.actions import JobAction, is_over
from ..play.data_requests import DataRequester
from ..play.data_responses import DataResponder
from ..play.disputes import Disputes
from ..play.drafts import RoundPatience
from ..play.ends import Changes, Ends
from ..play.hearings import HearingPlayer
from ..play.jobs import JobPlayer
from ..play.late_requests import Closer
from ..play.matches import MatchPlayer
from ..play.open_duties import Undone
from ..play.wrong_jobs import lies, results
from ..run.refutation import Refuted
from ..settings.extent import Mode
from ..stake.funds import kept, kept_to_watch, living_stakes, quarrel_gas
from ..storage.resting_states import Found
from .refutes import NONE, Refutes
from .watcher import Watcher

_log = structlog.get_logger(__name__)

Decide = Callable[[JobView, int], tuple[list[JobAction], RunClaim | None]]
"""Maps a job and an instant of the chain to the actions that are due, and our result if it is at stake."""


class Participant(Role):
    """Plays for the node's key, or only computes results if the node has none; ``joins``: it trains. With ``requests``
    it requests on the chain the logs that nobody serves. The ``watcher`` earns bounties.

    SAFETY: a job is ours while something of ours is at stake in it or may be soon, and has a turn in every round while
    something is. Of those in which a lie only waits for ether, time or a place some have one, and what is known of a
    job, and whoever plays in it, makes it no more than one of those that we work at (`job_queue`): anybody can post
    such jobs.
    """

    def __init__(
        self,
        node: Daemon,
        runner: JobRunner,
        decide: Decide,
        *,
        joins: bool = False,
        requests: bool = False,
        watcher: Watcher | None = None,
        refutes: Refutes = NONE,
    ) -> None:
        self._node = node
        self._runner = runner
        self._decide = decide
        self._refutes = refutes
        self._watcher = watcher
        self.joins = joins or watcher is not None
        self._me = node.address
        self._disputes: Disputes | None = None
        self._responder: DataResponder | None = None
        self._closer: Closer | None = None
        self._requester: DataRequester | None = None
        self._jobs: JobPlayer | None = None
        self._over: set[int] = set()
        self._held = set(node.database.jobs(OURS))
        """Jobs that hold something of ours, as a look or an earlier process has found, until others confirm that they
        have ended, or that nothing of ours is at stake in them any more. SAFETY: not the reserve says so, which a new
        process lacks."""
        self._hidden = set[int]()
        """Those of them in which the last look shows no stake of ours, or their end, and nobody confirms that."""
        runner.keeps = self._hidden.__contains__
        self._helped = set[int]()  # jobs of others in whose matches we may have moves to make
        self._waits: dict[int, float] = {}
        """Jobs in which nothing is at stake, but a lie may be refuted, with the instants of `Refutes.soon`."""
        self._wrong, self._results = lies(node.database), results(node.database)
        for jobs, found in ((self._results, Found.DIFFERS), (self._wrong, Found.LIE)):
            for job in jobs:
                node.keeper.finds(job, found)
        self._undone = Undone(node.database, node.client.deployment.referee)
        self._ends, self._changes = Ends(), Changes("job.terms_not_confirmed")
        self._losses, self._calls = Changes("job.stake_not_confirmed"), Changes("job.call_not_confirmed")
        self._at = cast(Snapshot | None, None)
        self._max_fee = node.settings.fees.max_fee
        if (key := node.transactions) is not None:
            self._jobs = JobPlayer(node)
            self._take_part(node, key)
            if requests:
                limit, contracts = node.settings.max_data_requests, node.client.contracts
                self._requester = DataRequester(contracts, key, runner, limit, node.spare)

    def _take_part(self, node: Daemon, key: TransactionManager) -> None:
        """Create the players of matches and hearings, the data responder and the closer."""
        opponents, contracts = Opponents.of(node.store, node.stop), node.client.contracts
        patience = RoundPatience()
        matches = MatchPlayer(contracts.referee, opponents, node.stop, patience)
        hearings = HearingPlayer(contracts, key.address, opponents, node.stop, patience, self._runner.first)
        self._disputes = Disputes(node, self._runner, key.address, self._undone, matches, hearings)
        self._responder = DataResponder(contracts, key, node.client.newest, node.stop)
        self._closer = Closer(contracts, key.address)

    def works_at(self, job_id: int) -> bool:
        """Return whether the job's package is being fetched, or its run executed, or we make moves for others in it."""
        return self._runner.works_at(job_id) or job_id in self._helped

    def waits(self, job_id: int) -> float | None:
        # NOTE: asked when the turns of a look have been taken: what these stake on is kept for.
        return None if self._node.reserve.kept(job_id) > 0 else self._waits.get(job_id)

    @property
    def answering(self) -> bool:
        """True while answers to data requests are being computed."""
        return self._responder is not None and self._responder.busy

    @property
    def computing(self) -> bool:
        """True while answers, or moves in matches, are being computed."""
        return self.answering or (self._disputes is not None and self._disputes.computing)

    def pressed(self) -> bool:
        """Return whether our jobs may take more than the account has."""
        return self._node.spare() < 0

    def turns(self, snapshot: Snapshot, job: JobView) -> tuple[bool, list[Turn]]:
        """Return whether the job concerns us, and what may be due in it."""
        self._at, known = snapshot, job.id in self._held or self._node.reserve.kept(job.id) > 0
        # NOTE: with something at stake turns are urgent, and name what they are about.
        other = not known and (self._wrong.differs(job) or self._results.differs(job))
        another = other or self._runner.is_another(job)
        if another and not self._changes.believed(snapshot, job.id):
            return True, []
        if another:
            self._results.forget(job.id)  # NOTE: a lie names the root that is wrong
        self._waits.pop(job.id, None)
        me, reserve = self._me, self._node.reserve
        stakes = job.stakes_of(me) if me is not None else []
        claim = job.claim_of(me) if me is not None else None
        holds = me is not None and job.trainer(me) is not None
        ours = bool(stakes) or holds
        left = any(not one.lost for one in stakes) or (holds and claim is None)
        at_stake = left and not job.phase.ended
        if self._disputes is not None:
            self._disputes.note(snapshot, job)
        watches = self._watcher is not None and self._watcher.watches(job)
        if not job.phase.ended:
            self._ends.back(job.id)
            self._node.keeper.runs(job.id)
        elif (watches or reserve.kept(job.id) > 0 or job.id in self._held) and not self._ends.believed(
            snapshot, job.id
        ):
            self._hidden.add(job.id)
            unsure = list[Turn]()
            hearings, unread, heard = self._hearings_of(snapshot, job, unsure, ours=True)
            if heard and self._disputes is not None:
                # SAFETY: a bond waits in a hearing that outlasts the job, however long nobody confirms the job's end.
                # A move names its position, so a false look costs a refused simulation.
                own, lies = (
                    self._decision(job, snapshot.now, unsure)[1],
                    self._lies(job, snapshot.now, unsure)[0],
                )
                results = [*([] if own is None else [own]), *lies]
                unsure += self._disputes.turns(snapshot, job, results, hearings, unread, job.id)
            # NOTE: to collect risks nothing, and endpoints may disagree for ever: a job that runs refuses it.
            adding(unsure, "refund", lambda: self._refund(snapshot, job, stakes))
            return True, unsure
        elif (job.id in self._wrong or job.id in self._results) and not self._ends.believed(snapshot, job.id):
            self._waits[job.id] = math.inf
            return True, []
        hidden = self._hides(snapshot, job, at_stake=at_stake)

        def gone() -> bool:
            """Return whether what the look does not show of ours any more is gone."""
            return job.phase.ended or (not hidden and self._losses.believed(snapshot, job.id))

        # SAFETY: this comes before any request that may fail, so that the job's reserve is not staked on another job.
        if at_stake and me is not None:
            reserve.seen(job.id, kept(job, me, self._max_fee), snapshot.block.number, gone)
        if not at_stake and self._responder is not None:
            self._responder.let_go(snapshot, job.id)
        turns = list[Turn]()
        watcher, requester = self._watcher, self._requester
        watched = watcher is not None and adding(turns, "bounty", lambda: watcher.due(snapshot, job))
        hearings, unread, heard = self._hearings_of(snapshot, job, turns, ours=ours)
        if not at_stake:
            reserve.seen(job.id, self._at_risk(job, heard=heard), snapshot.block.number, gone)
        # NOTE: a stake that was sent is not shown for some blocks.
        keeps = at_stake or hidden or watches or (reserve.kept(job.id) > 0 and not job.phase.ended)
        self._node.keeper.stake(job.id, keeps or bool(self._undone.of(job.id)))
        if not hidden:
            self._note_duty(job, reserve.kept(job.id) > 0)
        if job.phase.ended:
            self._node.keeper.finds(job.id, Found.NOTHING)
            held = adding(turns, "refund", lambda: self._refund(snapshot, job, stakes))
            # SAFETY: while `collect` waits for cheaper gas, we still attend hearings that outlast the job.
            if not heard:
                if not watched and not held:
                    self._forget(job)
                self._node.gauges.job(job, None, snapshot.now)
                return watched or held or reserve.kept(job.id) > 0, turns
        else:
            self._over.discard(job.id)  # a reorganisation has brought it back
        # SAFETY: what fails while a part of the job is checked takes a turn of its own. What is known by now is played.
        acts, own = self._decision(job, snapshot.now, turns)
        lies, refute = self._lies(job, snapshot.now, turns)
        results = [*([] if own is None else [own]), *lies]
        self._node.gauges.job(job, own, snapshot.now)
        if watched and is_over(job, snapshot.now) and JobAction.FINALIZE not in acts:
            acts.append(JobAction.FINALIZE)
        opens = not (ours or watched)
        requests = (
            own is None
            and requester is not None
            and adding(turns, "data requests", lambda: requester.due(snapshot, job, opens=opens))
        )
        # NOTE: with nothing to win or lose in a job, all of this is help for others, which costs us gas.
        helps = None if at_stake or watched else job.id
        self._helps(job, helps if results else None)
        if results:
            if self._disputes is not None:
                turns += self._disputes.turns(snapshot, job, results, hearings, unread, helps)
            # NOTE: no data can be requested of a refutation.
            if own is not None and not job.phase.ended and (holds if claim is None else not claim.lost):
                turns.append(Turn("responses", partial(self._responses, snapshot, job, own)))
            if self._closer is not None:
                close = partial(self._closer.due, snapshot, job, results[0].root, helps=helps)
                turns.append(Turn("closings", close))
        if self._jobs is not None:
            turns += [
                Turn(act, partial(self._jobs.due, snapshot, job, act, own), None, opens) for act in acts
            ]
            turns += [
                Turn("refute", partial(self._jobs.refute, snapshot, job, lie, refute), None, opens)
                for lie in refute
            ]
        # NOTE: an earlier version may have staked on the job. Until its cost is known, no other job is taken.
        if reserve.kept(job.id) and not self._node.duties.knows(job.id):
            turns.append(Turn("duty", partial(self._learn, job)))
        soon = self._soon(job, lies, snapshot.now, turns)
        waits = self._wrong.still(snapshot, job, None if soon is None else tuple(lies))
        differs = self._results.still(snapshot, job, self._differs(job, own))
        if waits and soon is None:
            soon = math.inf  # NOTE: after all those in which one is known to wait
        found = Found.LIE if waits else Found.DIFFERS if differs else Found.NOTHING
        self._node.keeper.finds(job.id, found)
        # NOTE: for a few blocks the snapshot does not show what we have sent.
        sent = bool(acts) or reserve.kept(job.id) > 0
        concerned = ours or hidden or requests or watched or sent or bool(self._undone.of(job.id))
        if soon is not None and not concerned:
            self._waits[job.id] = soon
        return concerned or soon is not None, turns

    def sure(self, job_id: int) -> bool:
        """Return whether others confirm the look by which a job's turns are being decided."""
        return self._at is not None and self._calls.believed(self._at, job_id)

    def _hides(self, snapshot: Snapshot, job: JobView, *, at_stake: bool) -> bool:
        """Return whether a look shows nothing of ours at stake in a job that runs, in which something was, and nobody
        confirms that."""
        if at_stake:
            self._held.add(job.id)
        less = job.id in self._held and not at_stake and not job.phase.ended
        hides = less and not self._losses.believed(snapshot, job.id)
        (self._hidden.add if hides else self._hidden.discard)(job.id)
        if less and not hides:
            self._held.discard(job.id)
        return hides

    def _differs(self, job: JobView, own: RunClaim | None) -> bytes | None:
        """Return the root of our result, if another one is claimed, or was and may be, and we might stake on that."""
        # NOTE: what we have computed stays known while it cannot be claimed, and after a restart.
        own = self._runner.known(job.id) if own is None else own
        root = self._results.of(job) if own is None else own.root
        if root is None or job.phase.ended or self._node.settings.mode is not Mode.CHALLENGE:
            return None
        return root if any(one.refutes is None and one.root != root for one in job.groups) else None

    def _helps(self, job: JobView, helps: int | None) -> None:
        """Note whether there are matches in a job in which we would make moves for others. ``helps``: see `Due`."""
        playing = (
            helps is not None and self._disputes is not None and self._node.gas.pays and job.open_matches
        )
        (self._helped.add if playing else self._helped.discard)(job.id)

    def _hearings_of(
        self, snapshot: Snapshot, job: JobView, turns: list[Turn], *, ours: bool
    ) -> tuple[list[HearingInfo], set[int], bool]:
        """Return the hearings to attend, the matches whose hearings cannot be read, and whether any may be open. Add a
        turn for each error. ``ours``: we have a stake in the job, or a slot."""
        if self._disputes is None:
            return [], set(), bool(self._undone.of(job.id))
        try:
            goes_on = ours and job.id not in self._over
            hearings, unread = self._disputes.hearings(snapshot, job, ours=goes_on)
        except AssayError as error:
            turns.append(Turn("hearings", raising(error)))
            return [], set(), True
        turns += [Turn(f"hearing of match {n:#x}", raising(error)) for n, error in unread.items()]
        return hearings, set(unread), bool(hearings or unread or self._undone.of(job.id))

    def _decision(self, job: JobView, now: int, turns: list[Turn]) -> tuple[list[JobAction], RunClaim | None]:
        """Return the actions that are due, and our result. Add a turn for an error."""
        try:
            return self._decide(job, now)
        except Exception as error:
            turns.append(Turn("decision", raising(error)))
            return [], self._runner.known(job.id)

    def _lies(self, job: JobView, now: int, turns: list[Turn]) -> tuple[list[Refuted], list[Refuted]]:
        """Return what we can refute and play, and what to refute now. Add a turn for an error."""
        try:
            return self._refutes.now(job, now)
        except Exception as error:
            turns.append(Turn("refutations", raising(error)))
            return self._runner.found(job.id), []

    def _soon(self, job: JobView, lies: list[Refuted], now: int, turns: list[Turn]) -> float | None:
        """Return by when to look at the job again, if we may refute a lie now or later, when somebody else's refutation
        has lost; else None. Add a turn for an error. SAFETY: what is not known keeps the job ours."""
        try:
            return self._refutes.soon(job, lies, now) if lies else None
        except Exception as error:
            turns.append(Turn("refutations", raising(error)))
            return now

    def _note_duty(self, job: JobView, staked: bool) -> None:
        """Note whether a job may still ask something of us, and of how many stakes."""
        duties = self._node.duties
        if not staked or self._me is None:
            duties.free(job.id)
            return
        duties.looked(job)
        duties.staked(job.id, living_stakes(job, self._me))

    def _learn(self, job: JobView) -> list[Due]:
        """Measure what a job may ask of us. It takes time, and nothing of it is due."""
        if (estimate := self._runner.prepare(job)) is not None:
            self._node.duties.learn(job, estimate)
        return []

    def _forget(self, job: JobView) -> None:
        """Drop what we have computed for a job that is over."""
        if job.id not in self._over:
            _log.info("job.over", job=job.id, phase=job.phase.name, root=job.accepted_root.hex())
        self._over.add(job.id)
        self._held.discard(job.id)
        self._hidden.discard(job.id)
        self._wrong.forget(job.id)
        self._results.forget(job.id)
        self._ends.back(job.id)
        self._helped.discard(job.id)
        self._runner.forget(job.id)

    def _at_risk(self, job: JobView, *, heard: bool) -> int:
        """Return the wei that a job may still take if we have no claim to lose. ``heard``: hearings are open."""
        if self._watcher is not None and self._watcher.watches(job) and not job.phase.ended:
            return kept_to_watch(job, self._max_fee)
        return quarrel_gas(job, self._max_fee) if heard else 0

    def _refund(self, snapshot: Snapshot, job: JobView, stakes: list[ClaimView]) -> list[Due] | None:
        """Return how to get back what an ended job holds of ours, once gas is cheap; None if it holds nothing."""
        stake = max((one.stake for one in stakes), default=job.stake_at(0))
        patience = self._node.market(snapshot.block.base_fee).about(stake, job.stake_gas)
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
        if self._responder is None:
            return
        if (group := job.group_of_root(own.root)) is not None and not group.dead:
            yield from self._responder.due(snapshot, job, group, self._runner.replay(job.id))
        else:
            self._responder.let_go(snapshot, job.id)
