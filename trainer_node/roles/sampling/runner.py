"""Checks drawn intervals of the runs that a job's claimants have claimed, and notes all that is wrong: one interval of
each wrong root, as a `Part` that can be refuted and played until the job is over.

    a root       waits for its claimants' data in lanes (`lanes`), with a budget in the chain's time (`budget`)
    an interval  is replayed once its data have come, beside what brings the next ones (`beside`) and whole runs, in one
                 of a few places, and step by step with the others that have one (`processors`)
    a stake      the interval on which one of ours rests is found again in a thread of its own: it waits for no lane, no
                 other computation and no other root
    a lie        on which we have not staked gives way to others in memory; before a stake it is found again (`at_hand`)

SAFETY: a claimant who does not serve what a part needs, in time, would never be found out by parts; and one whose parts
take more than their budget, or cannot be replayed, neither. So such a job is `withheld`, and its whole run can be
computed, which needs nothing of the claimant. One whose data cannot be of the program is found out by them
(`Malformed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from functools import partial

import structlog

from referee_py.errors import AssayError, Unavailable
from referee_py.execute import RunClaim

from ...audit.interval import Auditor
from ...chain import Group, JobView
from ...compute.lanes import Lanes, Turn
from ...compute.outcomes import delay_s
from ...compute.packages import Lost
from ...compute.run_execution import Equipment
from ...errors import DiskFailed, MemoryShort
from ...limits.waits import LANES, TURN_S
from ...run.refutation import Refuted
from ...run.replay import Interrupted
from .beside import Beside, Judge
from .budget import ChainClock
from .checks import BudgetSpent, Checks, Meter, Root
from .decide import at_large, claimable_s, forsaken
from .found_lies import LieRunner
from .interval_runner import Sampling, Task
from .part import Part

ROOTS = 32
"""Claimed roots of a job that are looked at in a round; the others have their turn in the next ones."""

_log = structlog.get_logger(__name__)


class SampleRunner(LieRunner):
    """Checks what `Sampling` says, of all jobs side by side."""

    def __init__(self, has: Equipment, *, samples: Sampling) -> None:
        super().__init__(has, samples=samples)
        self._lanes = Lanes(LANES, "checks", clock=self._clock)
        self._places = Lanes(LANES, "replays", clock=self._clock)

    # ------------------------------------------------------------------ for the loop

    def check(
        self, job: JobView, now: int, *, ours: bool = False, whole_after_s: float = 0.0
    ) -> list[Refuted]:
        """Continue the checks of a job. Return all that is to be refuted in it, as known now; ``now``: the chain's
        time; ``ours``: we have staked on a refutation in this job; ``whole_after_s``: the seconds that others take
        before its whole run, infinite if that would not be begun (`Acceptance.whole_after_s`)."""
        checks = self._checks.setdefault(job.id, Checks(ChainClock(self._clock)))
        if not ours and checks.refuted and not self.keeps(job.id):
            checks.refuted = ()
            for key in list(checks.parts):
                self._rests_part(job.id, checks, key)
        self._at_stake(job.id, ours)
        prepared = self._prepared(job, ours) is not None
        checks.whole_after_s = whole_after_s
        if self._keeper is not None:
            # SAFETY: else a refutation reserves the disk of a whole run, as large as a liar has its job made.
            self._keeper.takes_part(job.id, not checks.whole)
        self._see(job, checks, now)
        for root in checks.works():
            self._note(job, checks, root)
        # SAFETY: that the job is not measured yet delays other works of it, but nothing on which a stake rests.
        if ours and self._works[job.id].here:
            self._find_again(job, checks)
        if prepared:
            self._begin(job, checks)
        self._lanes.look()
        self._places.look()
        return checks.found()

    def train(self, job: JobView, *, ours: bool = False) -> RunClaim | None:
        """Return the claim of a job's whole run, as `JobRunner.train`."""
        claim = super().train(job, ours=ours)
        if self._computes_whole(job.id):
            self._checks.setdefault(job.id, Checks(ChainClock(self._clock))).whole = True
        return claim

    def withheld(self, job: JobView) -> bool:
        """Return whether something drawn of a living root that we have not found wrong cannot be checked."""
        return bool(self._withheld(job, self._checks.get(job.id)))

    def forsaken(self, job: JobView, now: float) -> bool:
        """Return whether nobody claims a root that may be the right one, as far as we know by now, or by the time at
        which a whole run must be begun."""
        checks, whole_s, part_s = self._checks.get(job.id), self._whole_s(job), self._part_s(job)
        if checks is None or whole_s is None or part_s is None:
            return False
        lost = partial(self._samples.lost, job)
        wrong = checks.proven_wrong(lost)
        later_s = claimable_s(job, wrong, now) - part_s
        last_moment = not self._samples.means().takes_whole(whole_s, later_s, checks.whole_after_s)
        return forsaken(job, wrong, checks.passed, last_moment=last_moment)

    def in_whole(self, job_id: int) -> bool:
        """Return whether the whole run of a job has been begun, whatever has become of it since."""
        return job_id in self._checks and self._checks[job_id].whole

    def takes_whole(self, job: JobView, now: float) -> bool:
        """Return whether the whole run of a job has been begun, or would be now."""
        checks, whole_s = self._checks.get(job.id), self._whole_s(job)
        if self.in_whole(job.id):
            return True
        if checks is None or whole_s is None:
            return False
        left_s = claimable_s(job, checks.wrong, now)
        return self._samples.means().takes_whole(whole_s, left_s, checks.whole_after_s)

    def wants_whole(self, job: JobView, now: float) -> bool:
        """Return whether only the whole run of a job is left, and this node would compute as much."""
        whole_s = self._whole_s(job)
        if whole_s is None or whole_s > self._samples.means().max_whole_s:
            return False
        return self.withheld(job) or self.forsaken(job, now)

    def spent(self, job_id: int) -> tuple[float, int]:
        """Return the seconds of processors and the bytes that the checks of a job have taken."""
        checks = self._checks.get(job_id)
        return (0.0, 0) if checks is None else checks.spent

    def forget(self, job_id: int) -> None:
        super().forget(job_id)
        checks = self._checks.pop(job_id, None)
        if checks is not None:
            checks.over = True
            for root in checks.works():
                if root.running is not None:
                    root.running.cancel()

    def works_at(self, job_id: int) -> bool:
        """NOTE: what was found wrong is no work. Where it can be refuted, the job is ours or waits (`Participant`)."""
        checks = self._checks.get(job_id)
        return super().works_at(job_id) or (checks is not None and checks.busy)

    @property
    def busy(self) -> bool:
        return super().busy or any(checks.busy for checks in self._checks.values())

    def ready_in_s(self, job: JobView) -> float | None:
        """NOTE: of a part the first interval has to be in time, beside a whole run that computes: it is checked as far
        as it gets. SAFETY: other intervals count nothing, or who posts jobs would keep us from all others."""
        estimate = self.prepare(job)
        if estimate is None:
            return None
        if self._as_whole(job):
            return self.whole_ready_in_s(job)
        part_s = self._part_s(job)
        own = None if part_s is None else min(part_s, self._interval_s(job))
        runs_s = None if own is None else self._runs_s(job.id, own)
        return None if own is None or runs_s is None else own + min(own, runs_s)

    def _before_s(self, job: JobView, own_s: float) -> float | None:
        runs_s = super()._before_s(job, own_s)
        return None if runs_s is None else self._parts_s(job, own_s) + runs_s

    def _parts_s(self, job: JobView, own_s: float) -> float:
        """Return the seconds that intervals take from a whole run of ``own_s``: one computes beside it."""
        others = [n for n, checks in self._checks.items() if checks.computing and n != job.id]
        return min(own_s, sum(self._part_s(self._works[n].job) or 0.0 for n in others))

    def close(self) -> None:
        for checks in self._checks.values():
            checks.over = True
        super().close()
        self._lanes.close(wait=True)
        self._places.close(wait=True)
        found_again = [root for checks in self._checks.values() for root in checks.staked.values()]
        wait_for([root.running for root in found_again if root.running is not None])

    # ------------------------------------------------------------------ what is left

    def _todo(self, job: JobView, checks: Checks) -> Iterator[tuple[Group, Root]]:
        """Yield the claimed roots of which something is left to check, and that nobody checks now, of the next `ROOTS`.

        SAFETY: strangers say how many roots a job has, and how many intervals a run. The loop looks at some roots, and
        at each of them no longer than at any other: what is drawn of it is known to its own work alone.
        """
        if self._computes_whole(job.id):
            return
        claimed, now = [group for group in job.groups if group.refutes is None], checks.clock.now
        wrong = checks.proven_wrong(partial(self._samples.lost, job))
        for place in range(min(ROOTS, len(claimed))):
            group = claimed[(checks.looked_at + place) % len(claimed)]
            root = checks.roots.setdefault(group.root, Root())
            if self._due(root) and root.left and group.root not in wrong and at_large(job, group, now):
                yield group, root

    def _begin(self, job: JobView, checks: Checks) -> None:
        """Let what is left of the claimed roots be checked, each root for itself."""
        for group, root in self._todo(job, checks):
            task = Task(job, self._works[job.id], group, checks, root)
            root.share.worth = job.at_stake_by_root
            beside = Beside(
                partial(self._in_turn, self._places, task),
                partial(self._replays, task),
                partial(self._outcome, task),
            )
            root.running = beside.begin(self._in_turn(self._lanes, task, partial(self._sample, task, beside)))
        checks.looked_at += ROOTS

    def _in_turn(self, lanes: Lanes, task: Task, do: Callable[[Turn], None]) -> Future[None]:
        """Queue a work for a root."""
        # NOTE: nobody gets turns that are too short for anything by the end of his period.
        return lanes.submit(max(task.refutable_s, TURN_S), do)

    def _wanted(self, task: Task) -> bool:
        """Return whether a root is still to be checked. NOTE: a turn may have been waited for."""
        job, checks, group = task.job, task.checks, task.group
        if self._computes_whole(job.id) or not at_large(job, group, task.now):
            return False
        return group.root not in checks.proven_wrong(partial(self._samples.lost, job))

    def _computes_whole(self, job_id: int) -> bool:
        """Return whether the whole run of a job is queued, computed or known.

        SAFETY: what would be computed, or has failed and is tried again later, takes nothing from the checks of the
        parts: what is served of them may be all that is ever found.
        """
        work = self._works.get(job_id)
        return work is not None and work.claim is not None

    def _note(self, job: JobView, checks: Checks, root: Root) -> None:
        """Note how a work has ended. After an error it is tried again later, and no other work of the job is."""
        if root.running is None or not root.running.done():
            return
        done, root.running = root.running, None
        work, error = self._works[job.id], done.exception()
        if error is None:
            root.tries.done()
            if not any(other.tries.failures for other in checks.works()):
                self._problems.job(job.id, "run", None, ours=work.ours)
            return
        if isinstance(error, MemoryShort):
            self._outcomes.wait(work, root.tries, error)
            return
        if isinstance(error, Lost):
            self._outcomes.lost(work)
        root.tries.retry_at = self._clock() + delay_s(job, root.tries.failures, error)
        root.tries.failures += 1
        if isinstance(error, Interrupted):
            return
        self._outcomes.failed(work, "run", error)
        known = isinstance(error, AssayError)
        told = {"job": job.id, "error": type(error).__name__, "reason": str(error)[:400]}
        _log.warning("sample.failed", **told, exc_info=None if known else error)

    def _as_whole(self, job: JobView) -> bool:
        """Return whether it is the whole run of a job that is to be computed."""
        checks = self._checks.get(job.id)
        if checks is None:
            return False
        withheld = bool(self._withheld(job, checks))
        return checks.whole or (withheld and self.takes_whole(job, checks.clock.now))

    def _withheld(self, job: JobView, checks: Checks | None) -> list[Group]:
        roots = {} if checks is None else checks.roots
        names = {name for name, root in list(roots.items()) if root.lacks}
        if checks is None or not names:
            return []
        names -= checks.proven_wrong(partial(self._samples.lost, job))
        claimed = [group for group in job.groups if group.refutes is None and group.root in names]
        return [group for group in claimed if at_large(job, group, checks.clock.now)]

    # ------------------------------------------------------------------ in threads

    def _sample(self, task: Task, beside: Beside, turn: Turn) -> None:
        """Bring the data of what is left of a claimed root. Raises Unavailable if its run tree is not served, or not in
        this turn."""
        job, root = task.job, task.root
        beside.turn = turn
        if beside.over or not self._wanted(task):
            return
        if root.plan is None:
            root.plan = self._samples.plan(job, task.group)
        if root.plan is None or not root.left:
            return
        try:
            self._ask(task, 0)
            auditor = self._auditor(task, turn)
        except Lost:
            raise  # ours
        except Unavailable as error:
            self._count(task, error, turn, 0, 0)
            raise
        self._bring_ahead(task, auditor, beside, turn)

    def _replays(self, task: Task, turn: Turn) -> Judge:
        """Return what replays the drawn intervals of a root in a turn. Raises as `_auditor`."""
        return partial(self._replay_drawn, task, self._auditor(task, turn), turn)

    def _outcome(self, task: Task, error: BaseException | None) -> BaseException | None:
        """Return with which error a root's work has ended, if it is one."""
        root = task.root
        task.checks.replayed(root, *root.brought)  # what is left of them is brought again, from the disk
        if not isinstance(error, BudgetSpent):
            return error
        about = task.about(root.asking)
        _log.warning("sample.budget_spent", **about, left=root.end(), cpu_s=root.cpu_s, bytes=root.fetched)
        return None

    def _bring_ahead(self, task: Task, auditor: Auditor, beside: Beside, turn: Turn) -> None:
        """Bring the data of what is left of a claimed root, and hand it over to be replayed, until as much waits for
        that as may. Raises BudgetSpent; Unavailable if the turn is over."""
        checks, root, source = task.checks, task.root, auditor.published.source
        meter = Meter(checks, root, source)
        for interval in root.next_ones():
            if self._computes_whole(task.job.id) or beside.over or beside.full:
                return
            if (task.group.root, interval) in checks.staked:
                root.done(interval, checked=True)
                continue
            if meter.spent():
                raise BudgetSpent(f"the budget is spent before interval {interval}")
            before = source.fetched
            try:
                checked = self._fetch(task, auditor, interval, meter)
            except (DiskFailed, Lost):
                raise  # ours, and not the claim's: the interval is checked again
            except Unavailable as error:
                if not self._count(task, error, turn, interval, root.asking):
                    continue
                if interval not in root.overdue:
                    root.done(interval, checked=False)
                elif not root.miss(interval):
                    raise
                continue
            except AssayError as error:
                root.done(interval, checked=False)
                _log.warning("sample.unchecked", **task.about(interval), reason=str(error)[:400])
                continue
            checks.brought(root, interval)
            beside.give(interval, checked, source.fetched - before)

    def _replay_drawn(
        self, task: Task, auditor: Auditor, turn: Turn, drawn: int, interval: int
    ) -> Part | None:
        """Replay an interval whose data have come, for one that was drawn. Return it if it is wrong.

        SAFETY: what is wrong is known to the loop at once, whatever else of the root is still waited for.
        """
        checks, root = task.checks, task.root
        try:
            found, checked = self._replay_one(task, auditor, turn, drawn, interval)
        except BaseException:
            if not turn.over:  # else it is replayed in the next turn
                checks.replayed(root, drawn)
            raise
        if found is not None:
            self._add(task, found)
        if checked is not None:
            root.done(drawn, checked=checked)
        checks.replayed(root, drawn)
        return found

    def _replay_one(
        self, task: Task, auditor: Auditor, turn: Turn, drawn: int, interval: int
    ) -> tuple[Part | None, bool | None]:
        """Return the interval if it is wrong, and whether the one that was drawn is checked; None if it is not known
        yet whether it can be."""
        meter = Meter(task.checks, task.root, None)
        if self._computes_whole(task.job.id):
            return None, None
        try:
            if meter.spent():
                raise BudgetSpent(f"the budget is spent before interval {interval}")
            return self._judge(task, auditor, interval, meter, turn), True
        except (Interrupted, BudgetSpent, DiskFailed, MemoryShort, Lost):
            raise  # the interval is checked again, or nothing is
        except Unavailable as error:
            # NOTE: the disk has lost what had come.
            return None, False if self._count(task, error, turn, drawn, drawn) else None
        except AssayError as error:
            _log.warning("sample.unchecked", **task.about(interval), reason=str(error)[:400])
            return None, False
