"""Questions that each role asks before it stakes on a job, or signs in it: one table of reasons for each, in order.

    table              of               before                     policy  pay  time  node  other jobs  disk, memory
    slot               trainer          it takes a slot            x       x    x           x           x
    keeps              trainer          it commits                              x           x
    watch              watcher          it trains, and stakes      x       x    x     x     x           x
    sample             sampler          it checks a part           x       x    x     x
    whole              both             it begins a whole run      x            x     x                 x
    whole_of_withheld  sampler          its parts are withheld     x
    match              sampler          it refutes                              x
    claim              both             it claims, or refutes      x       x    x     x     x           x
    signature          verifier         it judges, and signs       x            x           x

`node` is the price of what a stake occupies of the node (`stake.occupation`). It is asked where stakes protect others:
a slot is paid for by its reward, and a verifier who keeps silent loses nothing.

A table yields its reasons one by one, and the judge stops at the first that holds (`stake.judge`). So the order decides
what is asked at all: nothing is fetched or measured of a job that its terms rule out, and room is made last.

SAFETY: to compute may take days, in which prices, clocks and our other jobs change. So what is asked before the work is
asked again before money moves.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from dataclasses import replace

from referee_py.watch import share_of

from ..chain import JobView
from ..chain.codec.watch import PoolInfo
from ..compute.job_runner import JobRunner
from ..daemon.service import Daemon
from ..play.verdicts import Judged, Signed
from ..reason import Reason
from ..run.cost_estimate import CostEstimate
from ..run.step_times import Taken
from ..settings.extent import Mode
from ..settings.settings import Settings
from ..stake.admission import Duty, Means, too_many_stands, too_many_trials
from ..stake.deadlines import (
    hopeless,
    too_costly,
    too_hasty,
    too_late,
    too_short,
    too_slow,
    too_slow_to_stand,
)
from ..stake.deterrence import deterrence, useless
from ..stake.duty_book import DutyUnknown
from ..stake.funds import kept_to_watch, offer, quarrel, too_little, too_poor, unpaid
from ..stake.judge import LEFT, NOT_KNOWN, JobJudge, Reasons, first
from ..stake.min_stake import TRIAL_MOVES
from ..stake.occupation import (
    WHOLE_STAKES,
    dearest_beside,
    least_prize,
    stakes_paid,
    too_cheap,
    too_much_kept,
)
from ..stake.policy import crowded, too_dear, too_long, too_much, too_uncertain, underpaid, unwanted

SLOT_MOVES = 2
"""Number of transactions to take a slot and to commit."""
CLAIM_MOVES = 2
"""Number of transactions to challenge: a commitment, and the claim."""


def never(
    job: JobView,
    settings: Settings,
    estimate: CostEstimate | None = None,
    commit_age: int = 0,
    *,
    held: int = 0,
) -> Reasons:
    """Yield why we could not stake on a job at any moment: the operator's policy, its bounds, its periods, its prices;
    and once it is measured (``estimate``), its clocks. ``commit_age``: see `too_late`. ``held``: our stakes in
    it. Wei and seconds.

    NOTE: what else keeps us from a stake may pass: what else we have at stake, the time that is left, the account, the
    disk, the memory. A price of gas may pass, too; then the job is looked at again.
    """
    yield unwanted(job, settings.policy)
    yield too_uncertain(job, settings.allow_probable_bounds)
    yield too_long(job, settings.limits.max_period_s)
    yield too_dear(job.stake_now, settings.max_stake)
    yield unpaid(job, settings.fees.expected_fee, settings.fees.max_fee)
    if estimate is not None:
        yield too_slow(job, estimate, settings.latency_s, commit_age, settings.mined_s)
    # NOTE: who only watches or defends stakes nothing.
    stakes = stakes_paid(settings.check, held)
    if stakes and settings.mode is Mode.CHALLENGE:
        pays = least_prize(job.stake_at(0))
        yield too_much_kept(quarrel(job, settings.fees.max_fee), pays, settings.max_reserve_prizes)
        if estimate is not None:
            duty = Duty.of(job, estimate, stakes)
            yield too_cheap(duty, Means.of(settings), pays, settings.node_price)


class Acceptance(JobJudge):
    """Judges jobs for a node, by what its runner has measured. ``event``: how the log calls a job that is declined."""

    def __init__(self, node: Daemon, runner: JobRunner, event: str = LEFT) -> None:
        super().__init__(event, node.remembered.of_jobs(bool))
        self._node, self._runner, self._settings = node, runner, node.settings

    def affordable(
        self, job: JobView, price: int, *, beside: int = 0, of: Collection[Hashable] | None = None
    ) -> bool:
        """Return whether to stake ``price`` wei on a job. ``beside``: stakes that are in the price besides the last;
        ``of``: the intervals that are refuted, which need not the disk space of a whole run."""
        return self.takes(job.id, self.claim(job, price, beside, of))

    def dearest_beside(self, job: JobView) -> float:
        """Return the most wei for a refutation beside a living one (`occupation.dearest_beside`)."""
        settings, pays = self._settings, least_prize(job.stake_at(0))
        return dearest_beside(quarrel(job, settings.fees.max_fee), pays, settings.max_reserve_prizes)

    def whole_after_s(self, job: JobView, now: int, *, wanted: bool) -> float:
        """Return the seconds that others take before the whole run of a job that is begun now; infinite if it is not
        begun, because it is refused, too late behind the others, or has no room. ``wanted``: it is to be begun. Then
        room is made for it, and it is logged once why it is not.

        INVARIANT: nothing else says whether a whole run is begun. So nobody keeps time for one that will not be, or
        leaves anything else for its sake.
        """
        reasons = self.whole(job, now, wanted)
        begun = self.takes(job.id, reasons) if wanted else first(reasons) is None
        after_s = self._runner.whole_after_s(job) if begun else None
        return math.inf if after_s is None else after_s

    # ------------------------------------------------------------------ the tables

    def slot(self, job: JobView, now: int) -> Reasons:
        """A trainer's, before it takes a slot."""
        settings, max_fee = self._settings, self._settings.fees.max_fee
        yield unwanted(job, settings.policy)
        yield underpaid(job, settings.policy)
        yield crowded(job, self._node.reserve.jobs(), settings.policy)
        yield too_uncertain(job, settings.allow_probable_bounds)
        yield too_dear(job.stake_sent.wanted, settings.max_stake)
        yield too_long(job, settings.limits.max_period_s)
        yield unpaid(job, settings.fees.expected_fee, max_fee)
        estimate, ready_in_s = self._runner.prepare(job), self._runner.ready_in_s(job)
        if estimate is None or ready_in_s is None:
            yield NOT_KNOWN
            return
        moves_s = self._node.duties.moves_s(job.id)
        yield too_late(job, ready_in_s + SLOT_MOVES * settings.latency_s + moves_s, now)
        yield too_slow(job, estimate, settings.latency_s, mined_s=settings.mined_s)
        yield self._node.duties.refuses(job, estimate)
        stake = max(job.stake_sent.wanted, job.stake_at(max_fee))
        yield too_poor(stake, quarrel(job, max_fee), self._node.spare(job.id))
        yield self._runner.too_full(job.id)

    def keeps(self, job: JobView, now: int, *, done: bool) -> Reasons:
        """A trainer's, as long as it has a slot and has not committed. ``done``: its run is.

        SAFETY: the client orders the data, and the first step says nothing of later ones. Who gives the slot back loses
        a small part of the stake; who cannot commit, or play the dispute, the whole.
        """
        settings = self._settings
        if not done:
            sends_s = self._node.duties.sends_s(job.id)
            yield hopeless(job, self._runner.rest_s(job), settings.latency_s, sends_s, now)
            return
        estimate = self._runner.taken(job)
        if estimate is not None:
            # NOTE: only the job that takes more than was expected is given back, and no other that is beside it.
            yield too_slow(job, estimate, settings.latency_s, mined_s=settings.mined_s)
            reason = self._node.duties.refuses(job, estimate)
            # NOTE: after a restart on a full disk, others may not be measured yet. That is no fault of this one.
            yield None if isinstance(reason, DutyUnknown) else reason

    def watch(self, job: JobView, pool: PoolInfo, now: int) -> Reasons:
        """A watcher's, before it trains, and again before it stakes."""
        settings, max_fee = self._settings, self._settings.fees.max_fee
        yield unwanted(job, settings.policy)
        yield too_little(job, pool)
        yield crowded(job, self._node.reserve.jobs(), settings.policy)
        yield too_dear(job.stake_sent.wanted, settings.max_watch, "max_watch_eth")
        yield too_dear(offer(job, None).wanted, settings.max_stake)
        # SAFETY: a watcher has to claim its result, so we check beforehand what could prevent the claim.
        yield too_long(job, settings.limits.max_period_s)
        yield unpaid(job, settings.fees.expected_fee, max_fee)
        # NOTE: nobody need lie in the job. What is paid for the node is a share of the bounty, as long as no more
        # watchers come than it has shares: how many there are may change while we train.
        # SAFETY: the bounty stays with its author where nobody reveals, and a trainer loses its stake by that.
        bounty, who = (
            share_of(pool.amount, pool.shares, pool.shares),
            "a watcher gets, or a silent trainer loses,",
        )
        pays = min(bounty, job.stake_at(0))
        yield too_much_kept(kept_to_watch(job, max_fee), pays, settings.max_reserve_prizes, who)
        estimate, ready_in_s = self._runner.prepare(job), self._runner.ready_in_s(job)
        if estimate is None or ready_in_s is None:
            yield NOT_KNOWN
            return
        duty = Duty.of(job, estimate, WHOLE_STAKES)
        yield too_cheap(duty, Means.of(settings), pays, settings.node_price, who)
        yield too_late(job, ready_in_s + settings.latency_s, now)
        yield too_hasty(job, settings.latency_s)
        yield too_slow(job, estimate, settings.latency_s, self._commit_age, settings.mined_s)
        yield self._node.duties.refuses(job, estimate)
        yield too_poor(job.stake_sent.wanted, kept_to_watch(job, max_fee), self._node.spare(job.id))
        yield self._runner.too_full(job.id)

    def sample(self, job: JobView, now: int) -> Reasons:
        """A sampler's, before it checks a part. SAFETY: a run that cannot end in time would keep us from all other
        jobs."""
        settings = self._settings
        share = settings.check == "share"
        yield useless(deterrence(job, settings.samplers)) if share else None
        yield self._refused(job)
        ready_in_s = self._runner.ready_in_s(job)
        if ready_in_s is None:
            yield NOT_KNOWN
            return
        yield self._refused(job)  # NOTE: it may have been measured just now
        yield self._late(job, ready_in_s, now)
        if share:
            # NOTE: last, since the chain is asked for it. What a liar wins is no less without it.
            pool = self._node.client.snapshot().pool(job).amount
            yield useless(deterrence(job, settings.samplers, pool))

    def possible(self, job: JobView) -> bool:
        """Return whether we could ever stake on a job, as far as is known by now, once gas is cheap (`never`).

        SAFETY: the price of gas is that of one block. What keeps us from a stake in one look must not take what a found
        lie rests on: its claimant need not serve it a second time.
        """
        return self._never(replace(job, base_fee=0)) is None

    def _never(self, job: JobView) -> Reason | None:
        held = self._held(job)
        estimate = None if first(never(job, self._settings, held=held)) else self._runner.measured(job)
        commit_age = 0 if estimate is None else self._commit_age
        return first(never(job, self._settings, estimate, commit_age, held=held))

    def _held(self, job: JobView) -> int:
        """Return the stakes of ours that a block shows in a job."""
        me = self._node.address
        return 0 if me is None else len(job.stakes_of(me))

    def _refused(self, job: JobView) -> Reason | None:
        """SAFETY: jobs are cheap to post. What is computed and kept for one in which nobody stakes takes from those in
        which somebody does, and costs its author nothing. Only who just watches tells what is wrong in any; and where
        we have a stake already, nothing is left to decide by its terms."""
        settings, reason = self._settings, self._never(job)
        self._node.keeper.considers(job.id, stakes=reason is None or self.possible(job))
        if settings.mode is Mode.WATCH or self._held(job):
            return first((unwanted(job, settings.policy), too_uncertain(job, settings.allow_probable_bounds)))
        return reason

    def whole(self, job: JobView, now: int, wanted: bool) -> Reasons:
        """A challenger's or a sampler's, before it begins a whole run. ``wanted``: as for `whole_after_s`.

        SAFETY: a run that cannot end in time would keep us from all other jobs; one for which there is no room beside
        what is kept for jobs with our stake would take that.
        """
        yield self._refused(job)
        ready_in_s = self._runner.whole_ready_in_s(job)
        if ready_in_s is None:
            yield NOT_KNOWN
            return
        yield self._refused(job)  # NOTE: it may have been measured just now
        yield self._late(job, ready_in_s, now)
        if wanted:
            yield self._runner.too_full(job.id, part=False, stakes=0)
        else:
            yield self._runner.no_room(job.id)

    def whole_of_withheld(self, job: JobView) -> Reasons:
        """A sampler's, before it computes the whole run of a job because its parts are withheld."""
        estimate = self._runner.prepare(job)
        if estimate is not None:
            hours = estimate.train_s(job.program) * self._settings.worker_threads / 3600
            yield too_much(hours, self._settings.max_check_cpu_h)

    def match(self, job: JobView, took: Taken) -> Reasons:
        """A sampler's, before it refutes a root whose steps ``took`` that."""
        estimate = self._runner.measured(job)
        if estimate is not None:
            settings = self._settings
            slow = estimate.at_least(took)
            yield too_slow(job, slow, settings.latency_s, self._commit_age, settings.mined_s)

    def claim(self, job: JobView, price: int, beside: int, of: Collection[Hashable] | None) -> Reasons:
        """A challenger's or a sampler's, before it stakes on a claim or on refutations: `affordable`."""
        settings, max_fee, me = self._settings, self._settings.fees.max_fee, self._node.address
        mine = [] if me is None else [claim.stake for claim in job.stakes_of(me) if not claim.lost]
        yield crowded(job, self._node.reserve.jobs(), settings.policy)
        yield too_dear(sum(mine) + price, settings.max_stake)
        held = self._held(job)
        yield from never(job, settings, held=held)
        estimate, disputes = self._runner.prepare(job), len(mine) + beside + 1
        if estimate is None:
            yield NOT_KNOWN
            return
        yield from never(job, settings, estimate, self._commit_age, held=held)
        yield self._node.duties.refuses(job, estimate, disputes)
        yield too_poor(price, disputes * quarrel(job, max_fee), self._node.spare(job.id))
        yield self._runner.too_full(job.id, part=of is not None, stakes=beside + 1, of=of or ())

    def _late(self, job: JobView, ready_in_s: float, now: int) -> Reason | None:
        # SAFETY: a liar may let us compute moves of other jobs just when the claim is due.
        waits_s = CLAIM_MOVES * self._settings.latency_s + self._node.duties.moves_s(job.id)
        return too_late(job, ready_in_s + waits_s, now, self._commit_age)

    @property
    def _commit_age(self) -> int:
        return self._node.client.commit_age()


def signature(job: JobView, judged: Judged | None, signed: Signed, settings: Settings) -> Reasons:
    """A verifier's, before it judges an operator (``judged`` is None), and again before it signs a verdict. ``signed``:
    in other hearings."""
    yield unwanted(job, settings.policy)
    yield too_uncertain(job, settings.allow_probable_bounds)
    # SAFETY: a vote locks our bond for as long as the hearing lasts.
    yield too_long(job, settings.limits.max_period_s)
    yield too_short(job, settings.latency_s)
    if judged is None:
        yield NOT_KNOWN
        return
    # SAFETY: with a signature we stake our bond on playing a trial in time; after signing we defend it at any cost.
    # NOTE: whoever appeals against several verdicts in the same minute has all their trials at once.
    yield too_slow_to_stand(judged.read_s + 2 * settings.latency_s, job.rules.appeal_period)
    yield too_costly(judged.trial, TRIAL_MOVES * settings.latency_s, job.rules.clock)
    yield too_many_stands(signed.bonds, signed.bond(job, judged), signed.means)
    yield too_many_trials(signed.bonds, signed.bond(job, judged), signed.spare, signed.means)
