"""Which jobs a round looks at, and what keeps one job from harming the others.

    jobs that concern us     every round, and first
    all others               a few a round, in turn

Jobs are cheap to post. SAFETY: a round's work must not grow with their number, or whoever posts many of them makes the
clocks of our disputes run out; and an error in one job (its data are a stranger's) must not keep us from the next.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from referee_py.errors import AssayError

from .chain import Job, Snapshot
from .db import Database
from .errors import ChainError

PER_ROUND = 64
"""Jobs of strangers a round looks at: some 70 requests to the RPC endpoint."""
PROBE_AFTER = 3
"""After so many failures in a row we ask whether the chain is there at all."""

_OURS = "ours"
_OVER = "over"

_log = structlog.get_logger(__name__)


class Docket:
    """The order of jobs. ``database`` remembers which are ours, so a restart finds them at once."""

    def __init__(self, database: Database, *, per_round: int = PER_ROUND) -> None:
        self._database = database
        self._per_round = per_round
        self._ours = set(database.jobs(_OURS))
        self._next = 1

    def due(self, count: int) -> list[int]:
        """The jobs of this round; jobs are numbered from 1 to ``count``."""
        ours = sorted(job for job in self._ours if job <= count)
        others = []
        for _ in range(min(count, self._per_round)):
            self._next = self._next if self._next <= count else 1
            others.append(self._next)
            self._next += 1
        return ours + [job for job in others if job not in self._ours]

    def mark(self, job: int, ours: bool) -> None:
        """Remember whether a job concerns us. NOTE: one that has ended may come back after a reorganisation."""
        if ours != (job in self._ours):
            (self._ours.add if ours else self._ours.discard)(job)
            self._database.put_job(job, _OURS if ours else _OVER)


class Rounds:
    """Goes through the docket. ``problems`` says why which job could not be attended to."""

    def __init__(self, docket: Docket, problems: dict[str, str]) -> None:
        self._docket = docket
        self._problems = problems

    def go(self, snapshot: Snapshot, attend: Callable[[Job], bool]) -> None:
        """``attend`` says whether the job concerns us. Raises only RpcUnavailable and RpcCorrupt: the chain is gone."""
        failures = 0
        for job_id in self._docket.due(snapshot.job_count()):
            topic = f"job {job_id}"
            try:
                self._docket.mark(job_id, attend(snapshot.job(job_id)))
            except AssayError as error:
                self._problems[topic] = f"{type(error).__name__}: {error}"
                _log.warning("job.failed", job=job_id, error=type(error).__name__, reason=str(error))
                failures += isinstance(error, ChainError)
                if failures and failures % PROBE_AFTER == 0:
                    snapshot.still_canonical()
            except Exception as error:
                _log.exception("job.bug", job=job_id)
                self._problems[topic] = f"{type(error).__name__}: {error}"
            else:
                failures = 0
                self._problems.pop(topic, None)
