"""The challenger that checks a part: draws intervals of each claimed run, replays them, and refutes what is wrong."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import cast

import structlog

from referee_py.execute import RunClaim
from referee_py.program.terms import leaf_count

from ...chain import Group, JobView
from ...daemon.loop import Loop
from ...daemon.open_runner import open_runner
from ...daemon.service import Daemon, Service, open_daemon
from ...errors import DiskFailed
from ...play.actions import JobAction, closing
from ...play.ends import Confirmer
from ...play.salts import Salts
from ...play.wrong_jobs import lies, results
from ...run.refutation import Refuted
from ...settings.extent import Mode
from ...settings.settings import Settings
from ...stake.deterrence import Deterrence, deterrence
from ...stake.funds import offer, refuting
from ..acceptance import CLAIM_MOVES, Acceptance
from ..participant import Participant
from ..refutes import Refutes
from ..whole_runs import WholeRuns
from .budget import Means
from .checks import Plan
from .decide import lost, own_refutations, pending_until, sampler_actions
from .draw import drawn, public_seed, secret_seed
from .runner import SampleRunner

_log = structlog.get_logger(__name__)


def run_sampler(settings: Settings) -> None:
    """Run until asked to stop."""
    with (
        open_daemon(settings, "challenger", key=settings.mode is not Mode.WATCH) as node,
        open_samples(node) as runner,
    ):
        Service(node, Loop(node, sampler(node, runner)).tick).run()


@contextlib.contextmanager
def open_samples(node: Daemon) -> Iterator[SampleRunner]:
    """Open the runner of a node that checks parts; close it at the end."""
    with open_runner(node, follows=True, kind=partial(SampleRunner, samples=Samples(node))) as runner:
        yield cast(SampleRunner, runner)


_WHOLE = "whole run of job {}"
"""Name in the database. NOTE: it stays there when the job is over, as intervals that we have refuted do."""


class Samples:
    """Checks of a node in each job."""

    def __init__(self, node: Daemon) -> None:
        self._node, self._settings = node, node.settings
        self._told = node.remembered.of_jobs(bool)
        self._pools = node.remembered.of_jobs(int)
        """Wei that the clients of jobs have set aside for watchers; nobody can once a root is claimed."""
        self._telling = threading.Lock()
        """NOTE: the roots of a job are drawn side by side."""
        self._confirmer = Confirmer()
        self._random = os.urandom(32)
        """The secret of a node without a key."""

    def share(self, job: JobView) -> float:
        """Return the fraction of a job's intervals that we check."""
        kind, _, number = self._settings.check.partition(":")
        return float(number) if kind == "sample" else min(1.0, self._needed(job).share)

    def _needed(self, job: JobView) -> Deterrence:
        """Return what a job calls for, with its pool once its draw is known."""
        return deterrence(job, self._settings.samplers, self._pools[job.id])

    def plan(self, job: JobView, group: Group) -> Plan | None:
        """Return what to check of a claimed root; None while its draw is not known.

        Raises RpcUnavailable and RpcCorrupt where endpoints do not confirm what it is drawn by.
        """
        settings, terms = self._settings, job.program
        if settings.check == "share":
            found = self._public(job, group)
            if found is None:
                return None
            job, self._pools[job.id], seed = found
        else:
            seed = secret_seed(self._secret(job), group.root)
        intervals = leaf_count(0, terms.steps, terms.strides[0])
        count = min(intervals, max(1, math.ceil(self.share(job) * intervals)))
        self._tell(job, count, intervals)
        return Plan(
            drawn(seed, intervals, count),
            settings.max_check_cpu_h * 3600 or math.inf,
            settings.max_check_bytes or math.inf,
        )

    def staked(self, job: JobView, group: Group, found: Sequence[Refuted]) -> tuple[int, ...]:
        """Return the intervals of a root that we have refuted; those of living refutations first. ``found``: lies that
        are known. A refutation has the root of its lie, which names one interval.

        SAFETY: a restart must find the same refutations, whatever has become of other intervals since. Events alone say
        of which intervals they are, and one endpoint could name others in each look, all of which would be replayed
        before all else. So that is on disk once it is known, or others have confirmed it.
        """
        me, database = self._node.address, self._node.database
        groups = [] if me is None else own_refutations(job, me, group)
        if me is None or not groups:
            return ()
        # NOTE: it stays there when the job is over, and somebody has paid a stake for it.
        kept: dict[str, int] = database.get(name := f"intervals refuted in job {job.id}", {})
        roots = {own.root for own in groups}
        known = kept | {lie.root.hex(): lie.index + 1 for lie in found if lie.root in roots}
        told = known
        if any(root.hex() not in known for root in roots):
            snapshot = self._node.client.snapshot()
            shown = snapshot.job(job.id)
            intervals, claimed = snapshot.refuted(shown), shown.group_of_root(group.root)
            shown_ours = [] if claimed is None else own_refutations(shown, me, claimed)
            told = {own.root.hex(): intervals[own.index] for own in shown_ours} | known
            if self._confirmer.refusal(snapshot) is None:
                known = told
        if known != kept:
            with contextlib.suppress(DiskFailed):  # the next look tries again
                database.put(name, known)
        return tuple(dict.fromkeys(told[own.root.hex()] for own in groups if own.root.hex() in told))

    def lost(self, job: JobView, lie: Refuted) -> bool:
        """Return whether we have lost a refutation that says the same."""
        return self._node.address is not None and lost(job, self._node.address, lie)

    def means(self) -> Means:
        """Return what we need to act on what we find."""
        settings = self._settings
        return Means(
            self._node.client.commit_age(),
            CLAIM_MOVES * settings.latency_s,
            settings.max_check_cpu_h * 3600 / settings.worker_threads or math.inf,
        )

    def _tell(self, job: JobView, count: int, intervals: int) -> None:
        """Log once what is checked of a job, and what that is worth."""
        with self._telling:
            if self._told[job.id]:
                return
            self._told[job.id] = True
        needed = self._needed(job)
        _log.info(
            "sample.plan",
            job=job.id,
            checked=count,
            of=intervals,
            chance=round(needed.chance_of(count, intervals), 4),
            called_for=round(needed.chance, 4),
            reason=str(needed),
        )

    def _secret(self, job: JobView) -> bytes:
        if self._node.transactions is None:
            return self._random
        where = self._node.client.deployment.chain_id, str(self._node.client.contracts.jobs.address)
        with self._telling:
            return Salts(self._node.transactions.account, self._node.database).secret(*where, job.id)

    def _public(self, job: JobView, group: Group) -> tuple[JobView, int, bytes] | None:
        """Return the job by which a share is drawn, its pool in wei, and the seed: of the block after the root's first
        claim. None while there is none.

        SAFETY: what one endpoint says of these chooses what is checked, once and for good. So the block is that of most
        endpoints, and others confirm the job, its pool and its claims.
        SAFETY: a refutation's root is not a claim, but has the event of one. Who refutes first and claims that root
        afterwards would know the draw.
        """
        client = self._node.client
        snapshot = client.snapshot()
        told = snapshot.job(job.id)
        events = snapshot.job_events(job.id, "Claimed")
        claims = [e.block for e in events if e.name == "Claimed" and e.args["group"] == group.index]
        if not claims or claims[0] >= snapshot.block.number:
            return None
        pool = snapshot.pool(told).amount
        snapshot.confirm()
        address = self._node.address or "0x" + "00" * 20
        return told, pool, public_seed(client.agreed_block(claims[0] + 1).hash, address, group.root)


class Sampler:
    """Part of a sampler in the jobs of the deployment. Where claimants do not serve what a part needs, or nobody
    claims a root that may be the right one, it replays the whole job and claims the right root."""

    def __init__(self, node: Daemon, runner: SampleRunner) -> None:
        self._node, self._runner, self._settings = node, runner, node.settings
        self._acceptance = Acceptance(node, runner)
        self._whole = WholeRuns(node, runner.train, self._acceptance)
        self._begun = node.remembered.of_jobs(bool)
        self._before, found = results(node.database), lies(node.database)
        """Jobs in which something differs from the whole run of an earlier process."""
        for number in found:
            runner.recall(number, found.by_number(number))
        self._found: dict[int, list[Refuted]] = {}
        self.sure: Callable[[int], bool] = lambda _: True
        """Asked whether others confirm the look by which a job is decided."""
        self._noted = node.remembered.of_jobs(bool)
        """Jobs of which the disk knows that the whole run is computed."""
        self._is_due = node.remembered.of_jobs(bool)
        """Jobs in which a refutation could be staked on at the last look."""

    def decide(self, job: JobView, now: int) -> tuple[list[JobAction], RunClaim | None]:
        """Return what is due in a job, and its right claim where the whole of it had to be computed."""
        node, settings, runner = self._node, self._settings, self._runner
        self._found[job.id] = runner.found(job.id)
        if not job.claims or not job.is_under(node.client.deployment.referee):
            return [], None
        me = node.address
        staked = me is not None and bool(job.stakes_of(me))
        begun = staked or self._begun[job.id] or self._knows(job)
        if not begun and not self._acceptance.takes(job.id, self._acceptance.sample(job, now)):
            return [], None
        self._begun[job.id] = True
        after_s = 0.0
        if not runner.in_whole(job.id):
            after_s = self._acceptance.whole_after_s(job, now, wanted=runner.wants_whole(job, now))
        self._found[job.id] = runner.check(job, now, ours=staked, whole_after_s=after_s)
        if self._takes_whole(job, now) or self._has_claimed(job):
            self._note_whole(job)
            return self._whole.decide(job, now)
        # NOTE: where the whole of a withheld run is too much, the parts that are served are checked all the same.
        if runner.withheld(job):
            self._acceptance.takes(job.id, self._acceptance.whole_of_withheld(job))
        return ([] if me is None or settings.mode is Mode.WATCH else closing(job, me, now)), None

    def refutations(self, job: JobView, now: int) -> tuple[list[Refuted], list[Refuted]]:
        """Return what we can refute and play in a job, and what of it is to be refuted now; once after `decide`."""
        found = self._found.pop(job.id, [])
        due = self._due(job, found, now)
        self._is_due[job.id] = bool(due)
        return found, self._runner.at_hand(job, due) if due else []

    def _due(self, job: JobView, found: list[Refuted], now: int) -> list[Refuted]:
        me = self._node.address
        if me is None or self._settings.mode is not Mode.CHALLENGE:
            return []
        dearest = self._acceptance.dearest_beside(job)
        affordable = partial(self._affordable, job)
        # SAFETY: those in memory come first: they wait for none that others would have to serve.
        found = [lie for lie in self._runner.here_first(job.id, found) if self._in_time(job, lie)]
        return sampler_actions(job, me, found, now, affordable=affordable, dearest_beside=dearest)

    def _in_time(self, job: JobView, lie: Refuted) -> bool:
        """Return whether the match about a lie could be played, by what the steps of its interval have taken."""
        took = self._runner.took(job.id, lie)
        return self._acceptance.takes(job.id, self._acceptance.match(job, took))

    def pends(self, job: JobView, lies: list[Refuted], now: int) -> float | None:
        """Return the instant by which the job should be looked at again, since we may refute one of the lies: now, if
        one is due and has to be found again first, else when the first can no longer be refuted. None if we may not."""
        me = self._node.address
        if me is None or self._settings.mode is not Mode.CHALLENGE or not self._acceptance.possible(job):
            return None
        ends = [pending_until(job, lie, now) for lie in lies if not lost(job, me, lie)]
        until = min((end for end in ends if end is not None), default=None)
        # SAFETY: what is found again keeps its room for a while only. So it comes before all that must wait.
        return now if until is not None and self._is_due[job.id] else until

    def _affordable(self, job: JobView, price: int, lies: Collection[Refuted]) -> bool:
        """Return whether so many wei can be staked against these lies."""
        of = [lie.key for lie in lies]
        return self._acceptance.affordable(job, price, beside=len(of) - 1, of=of)

    def _knows(self, job: JobView) -> bool:
        """Return whether something is known to be wrong in a job in which we may stake, also by an earlier process.

        SAFETY: then no look says that it is too late to begin: a stake may be due once somebody else's is lost."""
        found = self._found[job.id]
        known = self._before.of(job) is not None or any(job.group_of_root(lie.against) for lie in found)
        return known and self._acceptance.possible(job)

    def _has_claimed(self, job: JobView) -> bool:
        """Return whether a claim of ours is in a job, of a whole run, then.

        SAFETY: one endpoint could show once a claim of ours, and the whole run would take the place of the parts. No
        other stake of ours in the job says that it is so.
        """
        if self._node.address is None or job.claim_of(self._node.address) is None:
            return False
        return bool(self._node.database.get(_WHOLE.format(job.id), False)) or self.sure(job.id)

    def _note_whole(self, job: JobView) -> None:
        """Note on disk that the whole run of a job takes the place of its parts: a restart asks nobody."""
        if not self._noted[job.id]:
            with contextlib.suppress(DiskFailed):  # the next look tries again
                self._node.database.put(_WHOLE.format(job.id), True)
                self._noted[job.id] = True

    def _takes_whole(self, job: JobView, now: int) -> bool:
        """Return whether we continue with the whole run: nobody serves the parts, or we have to claim the right
        root ourselves. What was begun is finished: a root that is known is claimed."""
        if self._runner.in_whole(job.id) or self._before.of(job) is not None:
            return True
        # SAFETY: from then on no part is checked any more. One endpoint could show once that a root is dead, or another
        # time, so that a whole run seems to be in time: what is wrong in its parts would be found by nobody.
        return self._calls_for_whole(job, now) and self.sure(job.id)

    def _calls_for_whole(self, job: JobView, now: int) -> bool:
        """Return whether a job as it is shown calls for a whole run, which would be in time."""
        runner = self._runner
        if not runner.takes_whole(job, now):
            return False
        return runner.withheld(job) or (runner.forsaken(job, now) and self._claims(job, now))

    def _claims(self, job: JobView, now: int) -> bool:
        """Return whether we would claim a root that nobody has claimed, beside what we refute now."""
        if self._node.address is None or self._settings.mode is not Mode.CHALLENGE:
            return False
        due = self._due(job, self._found[job.id], now)
        price = offer(job, None).wanted + sum(refuting(job, lie.against).wanted for lie in due)
        return self._acceptance.affordable(job, price, beside=len(due))


def sampler(node: Daemon, runner: SampleRunner) -> Participant:
    """Create the participant that checks parts of the jobs of the deployment."""
    made = Sampler(node, runner)
    requests = node.settings.mode is Mode.CHALLENGE
    refutes = Refutes(made.refutations, made.pends)
    taken = Participant(node, runner, made.decide, requests=requests, refutes=refutes)
    made.sure = taken.sure
    return taken
