"""Intervals of claimed runs that were found wrong: which of them are in memory, and how the others come back.

    found        is idle in memory, and gives way to whoever needs its room (`tensors`); the statement stays
    to refute    has its room from then on, for a while; what has given way is found again first, from the disk
    refuted      keeps its memory, and is found again at once, also after a restart: a stake rests on it

SAFETY: a posted job may hold as many lies as its author likes, in terms against which nobody stakes. So what is only
found keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from referee_py.errors import Unavailable
from referee_py.execute import RunClaim

from ...chain import JobView
from ...chain.threads import Threads
from ...compute.packages import Lost
from ...run.refutation import Refuted
from ...run.replay import Replay
from ...run.step_times import Taken
from ...run.tensors import WHOLE
from .budget import ChainClock
from .checks import Checks, Plan, Root
from .interval_runner import IntervalRunner, Task
from .part import Part


class LieRunner(IntervalRunner):
    """Plays what was found wrong, and finds again what is not in memory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._checks: dict[int, Checks] = {}
        self._threads = Threads("staked checks")

    def found(self, job_id: int) -> list[Refuted]:
        checks = self._checks.get(job_id)
        return [] if checks is None else checks.found()

    def recall(self, job_id: int, lies: Iterable[Refuted]) -> None:
        """Note what an earlier process has found wrong in a job."""
        checks = self._checks.setdefault(job_id, Checks(ChainClock(self._clock)))
        checks.lies.update({lie.key: lie for lie in lies})

    def took(self, job_id: int, lie: Refuted) -> Taken:
        """Return what the slowest steps of the interval of a lie have taken. SAFETY: a liar chooses the states after
        its lie, so what the steps after them take says nothing of that."""
        checks, took, key = self._checks.get(job_id), Taken(), lie.key
        if checks is not None:
            for one in (checks.roots.get(lie.against), checks.staked.get(key)):
                took = took if one is None else took.most(one.took.get(key[1], Taken()))
        return took

    def replay(self, job_id: int, claim: RunClaim | None = None) -> Replay:
        """Return the run behind a claim: that of one interval for a refutation, else the whole one."""
        if not isinstance(claim, Refuted):
            return super().replay(job_id)
        checks, key = self._checks[job_id], claim.key
        part = checks.parts.get(key)
        if part is None:
            self._again(self._works[job_id].job, checks, key)
            raise Unavailable(f"interval {key[1]} of the run {key[0].hex()} of job {job_id} is found again")
        return part

    def here_first(self, job_id: int, lies: list[Refuted]) -> list[Refuted]:
        """Return the lies in their order, after those that can be played from memory."""
        checks = self._checks.get(job_id)
        return lies if checks is None else sorted(lies, key=lambda lie: lie.key not in checks.parts)

    def at_hand(self, job: JobView, lies: list[Refuted]) -> list[Refuted]:
        """Return those of the lies that can be played from memory. They are to be refuted now, and all of them can be
        afforded: there is room for them from now on, and those that have given way to others are found again."""
        checks, keys = self._checks[job.id], [lie.key for lie in lies]
        here = [key in checks.parts for key in keys]
        # NOTE: what is replayed again just now has its room until it is there. SAFETY: what is only brought may stall.
        replayed = {key for key, root in checks.staked.items() if root.brought}
        self._tensors.mean(job.id, keys, here=checks.parts.keys() | replayed)
        for key in (key for key, found in zip(keys, here, strict=True) if not found):
            self._again(job, checks, key)
        return [lie for lie, found in zip(lies, here, strict=True) if found]

    # ------------------------------------------------------------------ memory

    def _at_stake(self, job_id: int, ours: bool) -> None:
        """NOTE: a whole run on which no stake rests keeps nothing from the refutations of its job."""
        super()._at_stake(job_id, ours)
        self._keep_parts(job_id)

    def _keep_parts(self, job_id: int) -> None:
        """Keep the memory of what we have refuted in a job, beside that of its whole run."""
        checks = self._checks.get(job_id)
        if checks is not None and checks.refuted:
            of = len(checks.refuted) + self._has_whole(job_id)
            self._tensors.keep(job_id, of, (*checks.refuted, WHOLE))

    def _more(self, job_id: int, stakes: int) -> int:  # noqa: ARG002
        return stakes

    # ------------------------------------------------------------------ what has given way

    def _find_again(self, job: JobView, checks: Checks) -> None:
        """Bring and replay what we have staked on, as far as it is not here.

        SAFETY: whatever else is known, because its match or its hearing may continue; and each in a thread of its own.
        They are no more than we have paid for.
        """
        claimed = [group for group in job.groups if group.refutes is None]
        found, staked = checks.found(), self._samples.staked
        checks.refuted = tuple((g.root, one) for g in claimed for one in staked(job, g, found))
        self._keep_parts(job.id)
        # SAFETY: where nobody confirms which intervals these are, each look may name others. Those that an earlier one
        # has named run to the end of their attempt, and no more at once than we have paid for.
        runs = {key for key, root in checks.staked.items() if root.staked and root.runs}
        for key in checks.staked.keys() - runs - {*checks.refuted, *checks.lies}:
            del checks.staked[key]
        for key in checks.refuted:
            if key in runs or len(runs) < len(checks.refuted):
                self._again(job, checks, key, staked=True)
                runs.add(key)

    def _again(self, job: JobView, checks: Checks, key: tuple[bytes, int], *, staked: bool = False) -> None:
        """Find an interval of a claimed root again, if it is not in memory. ``staked``: we have staked on it."""
        (name, interval), group = key, job.group_of_root(key[0])
        if key in checks.parts or group is None:
            return
        checks.roots.setdefault(name, Root())
        root = checks.staked.setdefault(key, Root(Plan(()), begun=[interval]))
        root.staked = staked or key in checks.refuted
        if key in checks.lies and root.running is None and not root.begun:
            root.begun.append(interval)  # it was found, and has given way
        if root.left and self._due(root):
            root.share.worth = job.at_stake_by_root
            task = Task(job, self._works[job.id], group, checks, root)
            root.running = self._threads.begin(partial(self._find_staked, task))

    def _due(self, root: Root) -> bool:
        return root.running is None and self._clock() >= root.tries.retry_at

    def _add(self, task: Task, found: Part) -> None:
        """Note what was found wrong. NOTE: it may have been asked to give way before it was noted."""
        if task.checks.over:
            return
        task.checks.add(found)
        self._rests_part(task.job.id, task.checks, (found.claim.against, found.interval))

    def _find_staked(self, task: Task) -> None:
        """Find an interval again that we have refuted, or are about to. Raises what keeps us from it; then it is tried
        again.

        SAFETY: an attempt has an end in the chain's time. Then the root counts as withheld, so that the whole run is
        computed where that fits; and its servers are asked again, as long as there is something to lose.
        """
        checks, (interval,) = task.checks, task.root.begun
        task.root.until.clear()
        try:
            self._ask(task, interval)
            auditor = self._auditor(task, self._stop)
            found = self._check(task, auditor, interval)
        except Lost:
            raise  # ours
        except Unavailable:
            if task.late and not checks.over:
                checks.roots[task.group.root].withheld = True
            raise
        if found is not None:
            self._add(task, found)
        elif not task.root.staked:
            checks.lies.pop((task.group.root, interval), None)  # NOTE: this machine is not sure of it
        task.root.done(interval, checked=True)
