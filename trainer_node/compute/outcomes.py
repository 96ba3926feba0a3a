"""Outcomes of the works of a node's jobs: a result, a permanent refusal, or a delay before the next attempt; and their
report in the log, in the metrics and by /readyz.

NOTE: what others do not serve, or what is unsound, is not our failure, unless we have staked on the job. What this
machine lacks (memory, disk) is not a failure of the job.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import structlog

from referee_py.errors import HashMismatch, InvalidInput, Unavailable

from ..chain import JobView
from ..errors import Corrupt, DiskFailed, LogsLate, MemoryShort, RoomKept
from ..limits.waits import retry_s
from ..observe.metrics import Metrics
from ..observe.problems import Problems
from ..run.cost_estimate import StepTooLong
from ..run.replay import Interrupted
from .packages import Lost, Work
from .tries import Tries

RETRY_S = 5.0
MAX_RETRY_S = {True: 600.0, False: 60.0}
"""Longest delay between attempts: True if a server does not answer, False if this machine has failed."""

_log = structlog.get_logger(__name__)

T = TypeVar("T")


class Outcomes:
    """Judges futures of works. ``clock`` gives the seconds of delays. ``too_long`` gets a first step that took
    too long, and returns whether it is tried again; ``work_of`` returns the work of a job, or None."""

    def __init__(
        self,
        problems: Problems,
        metrics: Metrics,
        clock: Callable[[], float],
        *,
        too_long: Callable[[Work], bool],
        work_of: Callable[[int], Work | None],
    ) -> None:
        self._problems, self._metrics, self._clock = problems, metrics, clock
        self._too_long, self._work_of = too_long, work_of

    def result(self, work: Work, future: Future[T]) -> T | None:
        """Return the result of ``future``, or None. After an error, refuse the job or delay the next attempt."""
        if not future.done():
            return None
        part = "package" if future is work.package else "measure" if future is work.prepared else "run"
        tries, error = work.tries_of(future), future.exception()
        if error is None:
            tries.done()
            # NOTE: a run that is known may fail to come back.
            if part != "run" or not work.return_tries.failures:
                self._problems.job(work.job.id, part, None, ours=work.ours)
            return future.result()
        if work.log_source is not None:
            work.log_source.wanted = isinstance(error, LogsLate)
        if isinstance(error, StepTooLong) and self._too_long(work):
            return None
        if isinstance(error, MemoryShort):
            self.wait(work, tries, error)
            return None
        if isinstance(error, Lost):
            self.lost(work)
        if part == "measure" and work.ours:
            tries.retry_at = self._clock() + MAX_RETRY_S[False]
            _log.warning("job.not_measured", job=work.job.id, reason=str(error))
            self.failed(work, part, error)
            return None
        if isinstance(error, InvalidInput) or (
            isinstance(error, HashMismatch) and not isinstance(error, Corrupt)
        ):
            _log.error("job.refused", job=work.job.id, reason=str(error))
            work.refused, work.package = str(error), None
            self.failed(work, part, error)
            return None
        if work.log_source is not None and work.log_source.reached > work.reached:
            work.reached, tries.failures = work.log_source.reached, 0
        tries.retry_at = self._clock() + delay_s(work.job, tries.failures, error)
        tries.failures += 1
        if work.log_source is not None and work.log_source.wanted and work.log_source.shown:
            tries.retry_at = 0.0  # they were shown while it ended
        if isinstance(error, Interrupted):
            _log.info("train.interrupted", job=work.job.id, reason=str(error))
            return None
        self.failed(work, part, error)
        if isinstance(error, Unavailable):
            _log.warning("job.unavailable", job=work.job.id, reason=str(error))
        else:
            _log.error(
                "job.failed", job=work.job.id, error=type(error).__name__, reason=str(error), exc_info=error
            )
        return None

    def wait(self, work: Work, tries: Tries, short: MemoryShort) -> None:
        """Ask for memory again soon for what has made these tries, or report once that it is left to others, and look
        at it again later.

        NOTE: nothing has failed, so the next delay is not longer.
        """
        tries.retry_at = self._clock() + (RETRY_S if short.waits else retry_s(work.job))
        if short.waits:
            _log.info("job.waits", job=work.job.id, reason=str(short))
        elif tries.short is None:
            _log.warning("job.left_to_others", job=work.job.id, reason=str(short))
        tries.short = None if short.waits else str(short)

    def lost(self, work: Work) -> None:
        """Let a package be fetched again, unless that runs already."""
        if work.package is not None and work.package.done():
            work.package = None

    def leave(self, work: Work) -> None:
        """Report once that a job's package has taken its time."""
        if work.late is not None and work.left != work.late:
            work.left = work.late
            _log.warning("job.left_to_others", job=work.job.id, reason=work.late)
            self.failed(work, "package", Unavailable(work.late))

    def failed(self, work: Work, part: str, error: BaseException) -> None:
        """Report to /readyz and the metrics. NOTE: data that others do not serve, or that is unsound, is not our
        failure unless we have staked on the job."""
        of = part
        if isinstance(error, Unavailable | InvalidInput | HashMismatch):
            of = "peer"
        if isinstance(error, DiskFailed):
            of = "disk"
        self._metrics.add("failures", of)
        told = f"{type(error).__name__}: {error}"
        strangers = of == "peer" or isinstance(error, RoomKept)
        self._problems.job(work.job.id, part, told, ours=work.ours or not strangers)

    def unkept(self, job_id: int, error: DiskFailed | None) -> None:
        """Report that the disk does not keep what a run gives, or that it does again."""
        topic, work = f"job {job_id}: disk", self._work_of(job_id)
        if error is None:
            if topic in self._problems.topics():
                self._problems.clear(topic)
            return
        if topic not in self._problems.topics():
            _log.error("job.not_kept", job=job_id, reason=str(error))
        self._metrics.add("failures", "disk")
        told = f"the run continues, but its data cannot be saved: {error}"
        ours = not isinstance(error, RoomKept) or (work is not None and work.ours)
        self._problems.job(job_id, "disk", told, ours=ours)


def delay_s(job: JobView, failures: int, error: BaseException) -> float:
    """Return the seconds until a job's work is tried again that has failed so many times before."""
    longest = MAX_RETRY_S[isinstance(error, Unavailable)]
    if isinstance(error, Unavailable):
        longest = min(longest, retry_s(job))
    return min(RETRY_S * 2.0 ** min(failures, 16), longest)
