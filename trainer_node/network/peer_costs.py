"""Cost of each server without a delivery, by job: a server that only costs is given up.

    a download fails        its bytes and seconds count against the server, in this job
    the right bytes come    as many bytes as came, and as many seconds as it took, are taken off again
    time passes             a budget a day is taken off
    the job is over         all is forgotten

While more counts than the budget, nothing more of the job is asked of the server. So in the long run a server costs at
most one budget a day, and the end of one download; one that was down for an hour is asked again within hours. The
counts are in the database, so a restart grants no new budget. A server that does not answer at all costs nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog

from ..observe.metrics import Metrics
from ..observe.problems import Problems
from ..storage.database import Database

DAY_S = 24 * 3600.0
MAX_HOSTS = 64
"""Servers of one job that are remembered; the one that has cost least gives way."""
MAX_SHOWN = 16
"""Servers that /readyz shows."""

_log = structlog.get_logger(__name__)


def host_of(uri: str) -> str:
    """Return host and port of a checked URI: what a budget and a metric are for."""
    parts = urlsplit(uri)
    return f"{parts.hostname}:{parts.port or {'http': 80, 'https': 443}[parts.scheme]}"


@dataclass(frozen=True, slots=True)
class Waste:
    """Bytes and seconds that count against a server at the instant ``at`` (unix seconds)."""

    size: float = 0.0
    seconds: float = 0.0
    at: float = 0.0


class Peers:
    """The budgets of all servers: ``max_bytes`` and ``max_s`` for each job and host. Safe for several threads.

    ``problems`` gets a notice of each server that is given up; /readyz shows it.
    """

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        problems: Problems,
        *,
        max_bytes: float,
        max_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._problems = problems
        self._max_bytes, self._max_s = max_bytes, max_s
        self._clock = clock
        self._lock = threading.RLock()
        self._given_up: dict[tuple[int, str], str] = {}
        """By job and host: the topic of its problem."""

    def refusal(self, job: int, host: str) -> str | None:
        """Return why nothing of a job may be asked of a host now, or None."""
        with self._lock:
            waste = self._now(self._job(job).get(host, Waste()))
            over = max(waste.size / self._max_bytes, waste.seconds / self._max_s)
            if over < 1:
                self._restore(job, host)
                return None
            reason = (
                f"{host} has sent {waste.size:.0f} bytes in {waste.seconds:.0f} s without delivering, more than "
                f"limits.peer_bytes ({self._max_bytes:.0f}) or limits.peer_s ({self._max_s:.0f}) allow a day; it is "
                f"asked again in {(over - 1) * DAY_S / 3600:.1f} h. Its operator has to repair it; raise the limits "
                "only if you trust it"
            )
            self._give_up(job, host, reason)
            return reason

    def failed(self, job: int, host: str, size: int, seconds: float) -> None:
        """Count a download that ended without the artifact after ``size`` bytes and ``seconds``; both are zero for a
        server that does not answer."""
        with self._lock:
            self._metrics.add("fetch_failures", host[:80])
            self._metrics.add("wasted_bytes", host[:80], by=size)
            if size or seconds:
                self._count(job, host, size, seconds)
                self.refusal(job, host)

    def delivered(self, job: int, host: str, size: int, seconds: float) -> None:
        """Count a download that ended with the artifact."""
        with self._lock:
            if host in self._job(job):
                self._count(job, host, -size, -seconds)

    def forget(self, job: int) -> None:
        """Drop the counts of a job that is over."""
        with self._lock:
            self._database.drop(_key(job))
            for number, host in list(self._given_up):
                if number == job:
                    self._restore(job, host)

    # ------------------------------------------------------------------ inside

    def _job(self, job: int) -> dict[str, Waste]:
        return {host: Waste(*numbers) for host, numbers in self._database.get(_key(job), {}).items()}

    def _now(self, waste: Waste) -> Waste:
        """Take off what the time since has earned. NOTE: a clock that was set back earns nothing."""
        now = self._clock()
        days = max(0.0, now - waste.at) / DAY_S
        return Waste(
            max(0.0, waste.size - days * self._max_bytes), max(0.0, waste.seconds - days * self._max_s), now
        )

    def _count(self, job: int, host: str, size: float, seconds: float) -> None:
        known = {name: self._now(waste) for name, waste in self._job(job).items()}
        before = known.get(host, self._now(Waste()))
        known[host] = Waste(max(0.0, before.size + size), max(0.0, before.seconds + seconds), before.at)
        if len(known) > MAX_HOSTS:
            least = min(
                known, key=lambda name: known[name].size / self._max_bytes + known[name].seconds / self._max_s
            )
            del known[least]
        self._database.put(_key(job), {name: (w.size, w.seconds, w.at) for name, w in known.items()})

    def _give_up(self, job: int, host: str, reason: str) -> None:
        if (job, host) not in self._given_up:
            _log.warning("peer.given_up", job=job, host=host, reason=reason)
            if len(self._given_up) >= MAX_SHOWN:
                self._restore(*next(iter(self._given_up)))
        topic = self._given_up.setdefault((job, host), f"job {job}: server {host}")
        self._problems.note(topic, reason)
        self._metrics.set("peers_given_up", len(self._given_up))

    def _restore(self, job: int, host: str) -> None:
        topic = self._given_up.pop((job, host), None)
        if topic is not None:
            self._problems.clear(topic)
            self._metrics.set("peers_given_up", len(self._given_up))


def _key(job: int) -> str:
    return f"servers of job {job}"
