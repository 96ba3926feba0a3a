"""The choice of jobs for each round, and the protection of each job from errors in the others.

    jobs that concern us     every round, and first; so are jobs that we work on
    all others               a few a round: new ones, and the rest in turn until they have ended

Jobs are cheap to post. SAFETY: a round's work must not grow with their number, or an adversary could post many jobs
until the clocks of our disputes run out. A job's data are untrusted: an error in one job must not stop the round.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from referee_py.errors import AssayError

from ..chain import JobView, Snapshot
from ..errors import ChainError, DiskFailed
from ..observe.metrics import Metrics
from ..observe.problems import Problems
from ..storage.database import Database

PER_ROUND = 64
"""Jobs of strangers that a round looks at, with some 70 requests to the RPC endpoint."""
MAX_AT_WORK = 16
"""Jobs of strangers that every round looks at because their packages are being fetched or their runs executed."""
PROBE_AFTER = 3
"""Number of failed requests to the chain, with no job done in between, after which a round checks that it answers."""

_OURS = "ours"
_OVER = "over"

_log = structlog.get_logger(__name__)


class JobQueue:
    """The order of jobs. ``database`` remembers which are ours, so that a restart finds them at once."""

    def __init__(self, database: Database, *, per_round: int = PER_ROUND) -> None:
        self._database = database
        self._per_round = per_round
        # SAFETY: a process may have ended after it voted, and before it marked the job.
        self._ours = {*database.jobs(_OURS), *(job for job, *_ in database.undone())}
        self._at_work: dict[int, None] = {}
        self._ended: set[int] = set()
        self._unsaved: set[int] = set()
        self._newest: int | None = None
        self._next = 1

    def due(self, count: int) -> list[int]:
        """Return the jobs of this round. Jobs are numbered from 1 to ``count``.

        Our jobs have a turn in every round, and so have up to `MAX_AT_WORK` jobs that we work on. New jobs come before
        jobs seen earlier. Ended jobs do not come again.
        """
        first = sorted(job for job in self._ours | set(self._at_work) if job <= count)
        known = set(first) | self._ended
        quota = self._per_round // 2
        newest = max(count - quota, 0) if self._newest is None else min(self._newest, count)
        others = [job for job in range(newest + 1, min(count, newest + quota) + 1) if job not in known]
        self._newest = min(count, newest + quota)
        for _ in range(count):
            if len(others) >= self._per_round:
                break
            self._next = self._next if self._next <= count else 1
            if self._next not in known and self._next not in others:
                others.append(self._next)
            self._next += 1
        return first + others

    def ours(self, job: int) -> bool:
        """Return whether a job concerns us."""
        return job in self._ours

    def mark(self, job: int, ours: bool, *, at_work: bool = False, ended: bool = False) -> None:
        """Remember whether a job concerns us, whether we work on it, and whether it has ended.

        NOTE: a job that concerned us and has ended gets one more turn, in case a reorganisation brings it back.
        """
        before = job in self._ours
        if ours != before or job in self._unsaved:
            (self._ours.add if ours else self._ours.discard)(job)
            self._unsaved.add(job)  # NOTE: if the disk refuses, the next round tries again
            self._database.put_job(job, _OURS if ours else _OVER)
            self._unsaved.discard(job)
        if at_work and (job in self._at_work or len(self._at_work) < MAX_AT_WORK):
            self._at_work[job] = None
        else:
            self._at_work.pop(job, None)
        if ended and not ours and not before:
            self._ended.add(job)


class Scheduler:
    """Goes through the queue, and notes in ``problems`` why a job failed. ``works_at`` returns whether we work on a
    job; such a job has a turn in every round, so that its result is used soon."""

    def __init__(
        self,
        queue: JobQueue,
        problems: Problems,
        works_at: Callable[[int], bool] = lambda _: False,
        metrics: Metrics | None = None,
    ) -> None:
        self._queue = queue
        self._problems = problems
        self._works_at = works_at
        self._metrics = metrics or Metrics()
        self.complete = False
        """True if all our jobs were read and attended to in the last round."""

    def go(self, snapshot: Snapshot, attend: Callable[[JobView], tuple[bool, Exception | None]]) -> None:
        """Call ``attend``, which returns whether a job concerns us, and an error. Raises only RpcUnavailable and
        RpcCorrupt."""
        failures, count = 0, snapshot.job_count()
        self.complete = True
        self._problems.forget_jobs_after(count)
        for job_id in self._queue.due(count):
            try:
                job = snapshot.job(job_id)
                ours, failed = attend(job)
                # SAFETY: a job that concerns us has a turn in every round, also while something in it fails.
                over = job.phase.ended and failed is None
                self._queue.mark(job_id, ours, at_work=self._works_at(job_id), ended=over)
                if failed is not None:
                    raise failed
            except AssayError as error:
                self._failed(job_id, error)
                _log.warning("job.failed", job=job_id, error=type(error).__name__, reason=str(error))
                failures += isinstance(error, ChainError)
                if failures and failures % PROBE_AFTER == 0:
                    snapshot.still_canonical()
            except Exception as error:
                _log.exception("job.bug", job=job_id)
                self._failed(job_id, error)
            else:
                failures = 0
                self._problems.clear(f"job {job_id}")

    def _failed(self, job_id: int, error: Exception) -> None:
        self._metrics.add("failures", "disk" if isinstance(error, DiskFailed) else "turn")
        told, ours = f"{type(error).__name__}: {error}", self._queue.ours(job_id)
        self.complete = self.complete and not ours
        self._problems.job(job_id, "", told, ours=ours)
