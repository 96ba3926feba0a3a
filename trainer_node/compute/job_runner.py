"""A node's computation: fetches packages and executes runs in threads, while the node watches the chain.

    prepare(job)   the estimate of a job, once its package is fetched and its first step is measured
    train(job)     the claim, once the run is done
    replay(job)    the finished run, for a dispute
    forget(job)    drops a job that has ended

All of these return at once. A job with an unsound package is permanently refused; any other failure is retried, after
growing delays. SAFETY: no job starves another. Runs share the processors, those with our stake first (`runs`). Packages
of new jobs are fetched and measured meanwhile (`packages`), and cost no other job more than a turn. A job in which we
have a stake may be in a dispute. So after a restart its package, and its finished run, each have a thread of their own,
and wait for nothing else: neither for other jobs, nor until it is measured again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from typing import Any, TypeVar

from referee_py.errors import Unavailable
from referee_py.execute import RunClaim
from referee_py.program import Program

from ..chain import JobPhase, JobView
from ..chain.threads import Threads
from ..reason import Reason
from ..run.checkpoints import StoredCheckpoints
from ..run.cost_estimate import MARGIN, CostEstimate
from ..run.refutation import Refuted
from ..run.replay import Replay
from ..run.step_times import StepTimes
from ..run.tensors import Tensors
from .mending import ComesBack, Mending
from .outcomes import Outcomes
from .packages import Packages, Work
from .resting import Resting
from .run_execution import Equipment, RunExecution
from .runs import Runs

T = TypeVar("T")


class JobRunner(RunExecution):
    """Executes and fetches in threads."""

    def __init__(self, has: Equipment) -> None:
        super().__init__(
            has,
            unkept=lambda job_id: partial(self._outcomes.unkept, job_id),
            others_wait=lambda: self._runs.wanted,
            first=lambda: self.first(),
        )
        database, clock = has.database, has.clock
        self._problems, self._keeper = problems, keeper = has.problems, has.keeper
        self._tensors, self._runs = Tensors(has.max_memory, clock), Runs(self._memory_wanted)
        self.first = self._runs.first
        self.keeps: Callable[[int], bool] = lambda _: False
        """Asked whether a job keeps what rests on a stake of ours though a look does not show the stake."""
        self._restores = ThreadPoolExecutor(2, thread_name_prefix="restore")
        self._threads, self._alive = Threads("own job"), set[Future[Any]]()
        self._packages = Packages(
            *(has.fetcher, self._measure, self._apart, self._stop),
            tensors=self._tensors,
            keeper=keeper,
            clock=clock,
        )
        self._mending = Mending(
            database,
            self._runs,
            self._stop,
            tensors=self._tensors,
            problems=self._problems,
            keeper=keeper,
            rests=lambda work: self._resting.rests(work),
            clock=clock,
        )
        told = problems, has.metrics, clock
        self._outcomes = Outcomes(*told, too_long=self._packages.too_long, work_of=self._works.get)
        self._resting = Resting(
            *(database, self._tensors, self._outcomes),
            restore=self._restore,
            begin=self._begin_run,
            clock=clock,
        )

    def prepare(self, job: JobView) -> CostEstimate | None:
        """Return the cost of a job; None while its package is fetched or not served, or if the job is refused."""
        return self._prepared(job)

    def is_another(self, job: JobView) -> bool:
        """Return whether a job has another program than that at which we work."""
        work = self._works.get(job.id)
        return work is not None and (work.key, work.job.program_file) != (self._key(job), job.program_file)

    def refused(self, job_id: int) -> str | None:
        """Return the reason why the job was refused, or None."""
        work = self._works.get(job_id)
        return None if work is None else work.refused or work.late or work.short

    def train(self, job: JobView, *, ours: bool = False) -> RunClaim | None:
        """Return the job's claim; None until it is computed. ``ours``: we have staked on it; no time limit."""
        self._at_stake(job.id, ours)
        if self._followed(job) and not any(claim.slot for claim in job.claims):
            return None
        work = self._work(job, ours)
        # SAFETY: in a job in which we have a stake nothing is left to decide by its cost.
        begins = self._fetched(work) and (self._measured(work) is not None or ours)
        if work.claim is None and (not begins or self._clock() < work.run_tries.retry_at):
            return None
        if work.claim is None:
            # NOTE: the logs of a stranger's run may have to be waited for, and restoring has few threads.
            whole = ours or not self._followed(job)
            done = whole and StoredCheckpoints(self._database, work.key).last == job.program.steps
            work.claim = self._restore(work) if done else self._begin_run(work)
        claim = self._outcomes.result(work, work.claim)
        if claim is None and work.claim.done():
            work.claim = None
        if claim is not None and ours:
            if work.replay is None:
                self._resting.bring_back(work)
            self._mending.look(work)
        return claim

    def known(self, job_id: int) -> RunClaim | None:
        """Return the claim of a job whose run is done, or None. NOTE: it reads nothing, so it cannot fail."""
        claim = work.claim if (work := self._works.get(job_id)) is not None else None
        done = claim is not None and claim.done() and not claim.cancelled() and claim.exception() is None
        return claim.result() if claim is not None and done else None

    def found(self, job_id: int) -> list[Refuted]:  # noqa: ARG002
        """Return what is known to be wrong in single intervals of a job, as `known`."""
        return []

    def replay(self, job_id: int, claim: RunClaim | None = None) -> Replay:  # noqa: ARG002
        """Return the run of a job that `train` has finished. ``claim``: what the run must be played for.

        Raises Unavailable while a run that has given way to others in memory comes back from the disk. NOTE: one in
        which we have a stake never gives way.
        """
        work = self._works[job_id]
        replay = work.replay
        if replay is None:
            self._resting.bring_back(work)
            raise Unavailable(f"the run of job {job_id} comes back from the disk")
        return replay

    def starved(self, job_id: int) -> Program | None:
        """Return the program of a job whose run waits for logs that nobody serves in time; None for other jobs."""
        work = self._works.get(job_id)
        if work is None or work.log_source is None or not work.log_source.starved:
            return None
        return None if self.known(job_id) is not None and not work.log_source.lacks else work.program

    def too_full(
        self, job_id: int, *, part: bool | None = None, stakes: int = 1, of: Collection[Hashable] = ()
    ) -> Reason | None:
        """Return why not to stake on a job that is prepared, or None: no room, or states are lacking. ``part``: for
        refutations ``of`` intervals, or the whole; None for what is computed, with memory for ``stakes`` soon."""
        full = self._keeper.too_full(job_id, part=part) if self._keeper is not None else None
        more = self._more(job_id, max(1, stakes))
        short = None if full else self._tensors.too_full(job_id, more, part=bool(part), of=of)
        self._problems.job(job_id, "disk", full, ours=False)
        self._problems.job(job_id, "memory", short, ours=False)
        reason = full or short or (None if part else self._lacks(job_id))
        if stakes and more and not part and reason is None:
            self._tensors.mean(job_id)
        return reason

    def gave_states(self, job_id: int) -> None:
        """Note that states of a job's run have gone from the disk."""
        self._resting.gave_states(self._works.get(job_id))

    def measured(self, job: JobView) -> CostEstimate | None:
        """Return the cost of a job if it is known. NOTE: nothing begins for it."""
        return self._estimate(job)

    def taken(self, job: JobView) -> CostEstimate | None:
        """Return the cost of a job by what its steps have taken, if that is more than its first step and `MARGIN` say;
        else None. NOTE: it counts once, since who asks counts `MARGIN`."""
        work = self._works.get(job.id)
        if work is None or (estimate := work.first_step) is None:
            return None
        taken = estimate.at_least(self._step_book.of(work.key).part(1 / MARGIN))
        return taken if taken != estimate else None

    def rest_s(self, job: JobView) -> float:
        """Return the seconds that the run of a job has to go, by what its steps have taken; 0 if they are not known."""
        work = self._works.get(job.id)
        return 0.0 if work is None else work.rest_s

    def no_room(self, job_id: int) -> Reason | None:
        """Return why the whole run of a job could not have its room now, on the disk or in memory, or None. NOTE: it
        only looks; nothing is freed or kept for the job."""
        full = self._keeper.no_room(job_id) if self._keeper is not None else None
        return full or self._tensors.too_full(job_id, self._more(job_id, 1))

    def forget(self, job_id: int) -> None:
        """Release what is in memory of an ended job. Its files stay until they are collected (`retention`)."""
        work = self._works.pop(job_id, None)
        self._tensors.forget(job_id)
        self._mending.forget(job_id)
        parts = "run", "package", "measure", "disk", "memory", "states"
        self._problems.clear(*(f"job {job_id}: {part}" for part in parts))
        for name in ("steps_done", "steps", "step_rate", "loss"):
            self._metrics.drop(name, str(job_id))
        if work is None:
            return
        self._runs.drop(work.share)
        for future in (*work.futures, work.again):
            if future is not None:
                future.cancel()

    def ready_in_s(self, job: JobView) -> float | None:
        """Estimate the seconds until the job's claim if its work began now; None if the job is not prepared, or before
        runs that come first are measured again."""
        return self.whole_ready_in_s(job)

    def whole_ready_in_s(self, job: JobView) -> float | None:
        """Estimate, as `ready_in_s`, the seconds until the job's whole run is known."""
        before_s, estimate = self.whole_after_s(job), self._estimate(job)
        return None if before_s is None or estimate is None else before_s + self._left_s(job, estimate)

    def whole_after_s(self, job: JobView) -> float | None:
        """Estimate, as `ready_in_s`, the seconds that others take before, or from, the job's whole run."""
        estimate = self.prepare(job)
        if estimate is None:
            return None
        own_s = self._left_s(job, estimate)
        # NOTE: a finished run is restored at once, in a separate thread.
        return self._before_s(job, own_s) if own_s else 0.0

    def _before_s(self, job: JobView, own_s: float) -> float | None:
        """Estimate the seconds that others take from a whole run of ``own_s``; None as long as it is not known."""
        runs_s = self._runs_s(job.id, own_s)
        return None if runs_s is None else runs_s + self._runs.place_s

    def works_at(self, job_id: int) -> bool:
        """Return whether the job's package is being fetched or its run executed."""
        work = self._works.get(job_id)
        return (work is not None and work.busy) or self._mending.works_at(job_id)

    @property
    def busy(self) -> bool:
        """True while something is being fetched or executed."""
        return any(work.busy or self._mending.works_at(number) for number, work in self._works.items())

    def close(self) -> None:
        """Stop after the current step and wait for it. Finished steps are on disk."""
        self._stop.set()
        self._runs.close()
        self._restores.shutdown(wait=True, cancel_futures=True)
        self._packages.close()
        wait_for(list(self._alive))
        for lanes in (self._logs, self._own_logs):
            lanes.close()

    # ------------------------------------------------------------------ inside

    def _apart(self, act: Callable[[], T]) -> Future[T]:
        """Begin a work for a job in which we have a stake. NOTE: there are no more of these than we have paid for."""
        future = self._threads.begin(act)
        self._alive.add(future)
        future.add_done_callback(self._alive.discard)
        return future

    def _restore(self, work: Work) -> Future[RunClaim]:
        """Begin to restore a finished run from the disk."""
        act = partial(self._train, work, self._stop.is_set)
        return self._apart(act) if work.ours else self._restores.submit(act)

    def _begin_run(self, work: Work) -> Future[RunClaim]:
        """Begin a run, or continue with it, among the others."""
        work.times, work.share.promised_s = StepTimes(), MARGIN * work.expected_s
        act = partial(self._train, work)
        return self._runs.submit(work.share, act, self._to_do_s(work), work.times, work.usual_s)

    def _memory_wanted(self) -> bool:
        """Return whether somebody has memory as soon as strangers' runs in progress give back theirs."""
        runs = [number for number, work in list(self._works.items()) if work.runs and not work.ours]
        return self._tensors.waited_for(runs)

    def _estimate(self, job: JobView) -> CostEstimate | None:
        """Return a job's cost, if it was measured, whatever has failed since."""
        work = self._works.get(job.id)
        estimate = None if work is None else work.first_step
        return None if work is None or estimate is None else estimate.at_least(self._step_book.of(work.key))

    def _runs_s(self, but: int, own_s: float) -> float | None:
        """Return the seconds that whole runs of other jobs take from one of ``own_s``: those with our stake all theirs,
        others their share (`Share.taken_s`); None as long as one with our stake is not measured."""
        runs_s, own = 0.0, self._works[but].share
        for number, work in self._works.items():
            if number == but or not work.runs:
                continue
            left_s = self._to_do_s(work)
            if work.ours and left_s == math.inf:
                return None
            runs_s += left_s if work.ours else min(work.share.taken_s(own, own_s), left_s)
        return runs_s

    def _to_do_s(self, work: Work) -> float:
        """Return the seconds that a job's run takes from what is on disk; infinite as long as it is not measured."""
        estimate = self._estimate(work.job)
        return math.inf if estimate is None else self._left_s(work.job, estimate)

    def _at_stake(self, job_id: int, ours: bool) -> None:
        """SAFETY: what we have staked on keeps its memory, so that it can be played whatever the disk does."""
        work = self._works.get(job_id)
        ours = ours or (work is not None and work.ours and self.keeps(job_id))
        if ours:
            self._tensors.keep(job_id)
        if work is None:
            return
        if work.ours and not ours:
            self._tensors.let_go(job_id)
            self._resting.rests(work)
        work.ours = ours
        if work.share.ours != ours:
            work.share.ours = ours
            self._runs.look()

    def _more(self, job_id: int, stakes: int) -> int:  # noqa: ARG002
        """Return how many runs more of a job are kept in memory once so many more stakes rest on it."""
        return int(not self._tensors.kept(job_id))

    def _lacks(self, job_id: int) -> Reason | None:
        """Return which states of a run that is done are lacking, or None.

        SAFETY: also of one that an earlier job has left. Its last state, a result, stays longer than all others, and
        whoever took a slot for it would have committed before the others are here again.
        """
        work = self._works[job_id]
        if self.known(job_id) is None:
            steps = work.job.program.steps
            if self._followed(work.job) or StoredCheckpoints(self._database, work.key).last < steps:
                return None
            if self.train(work.job, ours=work.ours) is None:
                return ComesBack()
        if (lacks := self._mending.look(work)) is not None and work.replay is None:
            self._resting.bring_back(work)
        return lacks

    def _prepared(self, job: JobView, ours: bool = False) -> CostEstimate | None:
        """Return a job's cost, once its package is here and it is measured."""
        work = self._work(job, ours)
        return self._measured(work) if self._fetched(work) else None

    def _work(self, job: JobView, ours: bool) -> Work:
        """Return what is done for a job, by what the job is now."""
        if self.is_another(job):
            self.forget(job.id)
        if (work := self._works.get(job.id)) is None:
            work = self._works[job.id] = Work(job, self._key(job), ours=ours)
            self._at_stake(job.id, ours)
        work.job, work.share.worth = job, job.at_stake  # it has changed: others may serve its logs by now
        work.share.due = job.commit_end if job.phase is JobPhase.TRAINING else 0.0
        self._allow_logs(work)
        return work

    def _fetched(self, work: Work) -> bool:
        """Return whether a job's package is here."""
        now = self._clock()
        if now >= work.refused_until:
            work.refused, work.refused_until = None, math.inf
        if work.refused is not None or (now < work.package_tries.retry_at and not work.here):
            return False
        if (future := self._packages.fetching(work)) is None:
            self._outcomes.leave(work)
            return False
        here = self._outcomes.result(work, future) is not None
        if not here and future.done():
            work.package = None
        return here

    def _measured(self, work: Work) -> CostEstimate | None:
        """Return the cost of a job whose package is here, once it is measured."""
        if work.prepared is None:
            if self._clock() < work.measure_tries.retry_at or work.package is None:
                return None
            fetched = work.package.result()
            work.prepared = fetched.measuring or self._packages.measuring(work)
            fetched.measuring = None
        estimate = self._outcomes.result(work, work.prepared)
        if estimate is not None:
            return self._packages.measured_again(work, estimate).at_least(self._step_book.of(work.key))
        if work.prepared.done():
            work.prepared = None
        return None

    def _train(self, work: Work, pass_on: Callable[[], bool]) -> RunClaim:
        """Compute a job's run, or restore it. It stays in memory until something else needs that more. ``pass_on`` is
        asked after each step whether to stop; what is done is on disk then, unless that is full."""
        with self._tensors.lent(work.job.id, must=work.ours, lasts_s=self._to_do_s(work)):
            claim, work.replay = self._run(work, self._packages.package(work), pass_on)
            self._resting.rests(work)
        return claim
