"""Order of the answers, over all jobs: the earliest deadline first, but nobody is passed again and again.

    logs           of each job one step in `LOG_SECONDS`, as the protocol gives it (docs/protocol.md, section 8)
    checkpoints    of each job the first that is due; of these the earliest, of a job that has passed nobody so far
    more logs      when nothing else waits

INVARIANT: while a job's checkpoint waits, each other job has one checkpoint computed at most. So whatever is requested
when, a checkpoint begins after one round, and `admission` can say before a stake how long a round is.

SAFETY: by deadlines alone, who asks again as soon as he is answered, in a job of short periods, would keep a job of
long ones waiting until only a short period of it is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from referee_py.params import LOG_SECONDS


class Unit(NamedTuple):
    """All that is asked under one checkpoint of a root, or of one step's logs: ``tree`` is the number of either."""

    job_id: int
    of_logs: bool
    root: bytes
    tree: int


class Order:
    """Knows who waits and who was served. All instants are seconds of one clock."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: dict[int, int] = {}
        """By job with a checkpoint that waits: when that came to be the job's next, in a count of such events."""
        self._served: dict[int, int] = {}
        """By job: when a checkpoint of it was last done, in the same count."""
        self._logs: dict[int, bool] = {}
        """By job: whether logs of it wait."""
        self._logs_from: dict[int, float] = {}
        """By job: from when on the next step of its logs comes before checkpoints."""

    def asked(self, job_id: int, waiting: Collection[Unit], now: float) -> None:
        """Note what waits of a job: as soon as it does, because from then on it is passed only once."""
        if all(unit.of_logs for unit in waiting):
            self._waiting.pop(job_id, None)
        elif job_id not in self._waiting:
            self._waiting[job_id] = self._next_count()
        logs = any(unit.of_logs for unit in waiting)
        if logs and not self._logs.get(job_id):
            self._logs_from[job_id] = max(now, self._logs_from.get(job_id, now))
        self._logs[job_id] = logs
        if not self._waiting:
            self._served.clear()  # nobody was passed by them

    def first(self, waiting: Iterable[tuple[float, Unit]], now: float) -> Unit | None:
        """Return what is to be computed next. ``waiting``: the units that wait and do not rest, with deadlines."""
        units = [unit for _, unit in sorted(waiting)]
        logs, checkpoints = ([u for u in units if u.of_logs is of_logs] for of_logs in (True, False))
        due = next((unit for unit in logs if self._logs_from[unit.job_id] <= now), None)
        if due is not None or not checkpoints:
            return due or next(iter(logs), None)
        oldest = min(self._waiting[unit.job_id] for unit in checkpoints)
        # NOTE: that of the oldest has passed nobody, so there is always one.
        return next(unit for unit in checkpoints if self._served.get(unit.job_id, 0) <= oldest)

    def begun(self, unit: Unit, now: float) -> None:
        """Note that a unit is computed from now on. NOTE: steps of logs that were late are made up for, one after the
        other; one that came before its time takes nobody's."""
        if unit.of_logs and self._logs_from[unit.job_id] <= now:
            self._logs_from[unit.job_id] += LOG_SECONDS

    def done(self, unit: Unit) -> None:
        """Note that a unit was computed, or failed. What else waits of its job waits from now on."""
        if not unit.of_logs:
            self._served[unit.job_id] = self._next_count()
            if unit.job_id in self._waiting:
                self._waiting[unit.job_id] = self._next_count()

    def _next_count(self) -> int:
        self._count += 1
        return self._count
