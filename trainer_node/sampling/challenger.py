"""The challenger that checks a part: draws intervals of each claimed run, replays them, and refutes what is wrong."""

from __future__ import annotations

import math
import os
from functools import partial

import structlog

from referee_py.execute import RunClaim
from referee_py.program.terms import leaf_count

from ..chain import ClaimView, Group, JobView
from ..config import Mode, Settings
from ..decide import JobAction, closing
from ..funds import refuting
from ..loop import Loop
from ..participant import Participant, open_runner
from ..refuted import Refuted
from ..salt import Salts
from ..service import Daemon, Service, open_daemon
from ..whole import WholeRuns
from ..worth import Worth
from .draw import drawn, public_seed, secret_seed
from .runner import Plan, SampleRunner
from .terms import deterrence, useless

_log = structlog.get_logger(__name__)


def run_sampler(settings: Settings) -> None:
    """Run until told to stop."""
    with open_daemon(settings, "challenger", key=settings.mode is not Mode.WATCH) as node:
        samples = Samples(node)
        kind = partial(SampleRunner, plan_of=samples.plan, share_of=samples.share)
        with open_runner(node, follows=True, kind=kind) as runner:
            assert isinstance(runner, SampleRunner)
            Service(node, Loop(node, sampler(node, runner)).tick).run()


class Samples:
    """What a node checks of each job."""

    def __init__(self, node: Daemon) -> None:
        self._node, self._settings = node, node.settings
        self._seeds: dict[tuple[int, bytes], bytes] = {}
        self._told: set[int] = set()
        self._random = os.urandom(32)
        """The secret of a node without a key."""

    def share(self, job: JobView) -> float:
        """Return the fraction of a job's intervals that we check."""
        kind, _, number = self._settings.check.partition(":")
        return float(number) if kind == "sample" else min(1.0, deterrence(job, self._settings.samplers).share)

    def plan(self, job: JobView, group: Group) -> Plan | None:
        """Return what to check of a claimed root; None while its draw is not known.

        SAFETY: once we have staked on an interval, that one alone: a restart must find the same refutation, whatever
        has become of other intervals since.
        """
        stakes = job.stakes_of(self._node.address) if self._node.address is not None else []
        if stakes:
            told = next((one for one in stakes if job.groups[one.group].refutes == group.index), None)
            return None if told is None else Plan((self._staked(job, told) + 1,))
        seed = self._seed(job, group)
        if seed is None:
            return None
        settings, terms = self._settings, job.program
        intervals = leaf_count(0, terms.steps, terms.strides[0])
        count = min(intervals, max(1, math.ceil(self.share(job) * intervals)))
        self._tell(job, count, intervals)
        intervals_drawn = tuple(drawn(seed, intervals, count))
        return Plan(
            intervals_drawn,
            settings.max_check_cpu_h * 3600 or math.inf,
            settings.max_check_bytes or math.inf,
        )

    def _staked(self, job: JobView, claim: ClaimView) -> int:
        """Return the interval, from 0, that our refutation is about."""
        events = self._node.client.snapshot().job_events(job.id)
        return next(
            int(e.args["interval"]) for e in events if e.name == "Refuted" and e.args["group"] == claim.group
        )

    def _tell(self, job: JobView, count: int, intervals: int) -> None:
        """Log once what is checked of a job, and what that is worth."""
        if job.id in self._told:
            return
        self._told.add(job.id)
        needed = deterrence(job, self._settings.samplers)
        _log.info(
            "sample.plan",
            job=job.id,
            checked=count,
            of=intervals,
            chance=round(needed.chance_of(count, intervals), 4),
            called_for=round(needed.chance, 4),
            reason=str(needed),
        )

    def _seed(self, job: JobView, group: Group) -> bytes | None:
        key = job.id, group.root
        if key not in self._seeds:
            if self._settings.check != "share":
                self._seeds[key] = secret_seed(self._secret(job), group.root)
            elif (block_hash := self._block_after(job, group)) is not None:
                address = self._node.address or "0x" + "00" * 20
                self._seeds[key] = public_seed(block_hash, address, group.root)
        return self._seeds.get(key)

    def _secret(self, job: JobView) -> bytes:
        if self._node.transactions is None:
            return self._random
        where = self._node.client.deployment.chain_id, str(self._node.client.contracts.jobs.address)
        return Salts(self._node.transactions.account, self._node.database).of(*where, job.id)

    def _block_after(self, job: JobView, group: Group) -> bytes | None:
        """Return the hash of the block after the root's first claim; None while there is none.

        SAFETY: a refutation's root is no claim, though it has the event of one. Who refutes first and claims that root
        afterwards would know the draw.
        """
        snapshot = self._node.client.snapshot()
        events = snapshot.job_events(job.id)
        claims = [e.block for e in events if e.name == "Claimed" and e.args["group"] == group.index]
        if not claims or claims[0] >= snapshot.block.number:
            return None
        return self._node.client.block(claims[0] + 1).hash


def sampler(node: Daemon, runner: SampleRunner) -> Participant:
    """Create the participant that checks parts of the jobs of the deployment. Where claimants do not serve what a part
    needs, it replays the whole job."""
    settings, worth, begun = node.settings, Worth(node, runner), set[int]()
    whole = WholeRuns(node, runner.whole, worth)

    def decide(job: JobView, now: int) -> tuple[list[JobAction], RunClaim | None]:
        if not job.claims or job.referee.lower() != node.client.deployment.referee.lower():
            return [], None
        staked = node.address is not None and bool(job.stakes_of(node.address))
        claims_all = node.address is not None and job.claim_of(node.address) is not None
        # NOTE: where the whole of a withheld run is too much, the parts that are served are checked all the same.
        withheld = not staked and runner.withheld(job.id)
        if claims_all or (withheld and worth.unless(job, too_much(runner, job, settings))):
            return whole.decide(job, now)
        if not staked and job.id not in begun:
            poor = useless(deterrence(job, settings.samplers)) if settings.check == "share" else None
            if not worth.unless(job, poor) or not worth.in_time(job, now):
                return [], None
        begun.add(job.id)
        found = runner.train(job, ours=staked)
        if node.address is None or settings.mode is Mode.WATCH:
            return [], found
        acts = closing(job, node.address, now)
        if not isinstance(found, Refuted) or staked or settings.mode is not Mode.CHALLENGE:
            return acts, found
        target = job.group_of_root(found.against)
        # NOTE: where another refuter plays for the same statement, a second one has nothing to win.
        if any(
            g.root == found.root and not g.dead and target and g.refutes == target.index for g in job.groups
        ):
            return acts, found
        price = refuting(job, found.against).wanted
        if job.refutable(found.against, now) and worth.affordable(job, price):
            acts.append(JobAction.REFUTE)
        return acts, found

    return Participant(node, runner, decide, requests=settings.mode is Mode.CHALLENGE)


def too_much(runner: SampleRunner, job: JobView, settings: Settings) -> str | None:
    """Return why not to compute the whole run of a job that is withheld, or None."""
    estimate = runner.prepare(job)
    if estimate is None or not settings.max_check_cpu_h:
        return None
    hours = estimate.train_s(job.program) * settings.worker_threads / 3600
    if hours <= settings.max_check_cpu_h:
        return None
    return (
        f"its claimants do not serve what a part needs, and the whole of it takes {hours:.3g} hours of processors; "
        f"max_check_cpu_h allows {settings.max_check_cpu_h:g}"
    )
