"""Present problems of a node, by topic: /readyz shows it, and metrics count it.

    reasons     what keeps the node from its duties: the chain, the disk, a job on which it has staked. /readyz: 503
    notices     failures in jobs of others, in which we have nothing at stake: shown, but the node is ready

SAFETY: anybody can post a job that nobody serves. If that made a node unready, alarms would be worth nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from ..reason import Reason
from .metrics import Metrics

MAX_TOLD = 64
"""Notices that are kept: the newest."""
MAX_REASON = 500
"""Maximum length of a reported reason, which may quote another party."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Problems as they are shown: reasons in the order of topics, notices with the newest last."""

    reasons: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return not self.reasons


class Problems:
    """Reasons by topic, such as "chain" or "job 7". Safe for several threads."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics or Metrics()
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {}
        self._notices: dict[str, str] = {}
        self._count()

    def __setitem__(self, topic: str, reason: str) -> None:
        with self._lock:
            self._notices.pop(topic, None)
            self._reasons[topic] = reason[:MAX_REASON]
            self._count()

    def __contains__(self, topic: str) -> bool:
        with self._lock:
            return topic in self._reasons

    def note(self, topic: str, reason: str) -> None:
        """Add a notice: a failure that does not keep us from our duties."""
        with self._lock:
            self._reasons.pop(topic, None)
            self._notices.pop(topic, None)
            self._notices[topic] = reason[:MAX_REASON]
            while len(self._notices) > MAX_TOLD:
                del self._notices[next(iter(self._notices))]
            self._count()

    def clear(self, *topics: str) -> None:
        """Forget what was wrong with these topics."""
        with self._lock:
            for topic in topics:
                self._reasons.pop(topic, None)
                self._notices.pop(topic, None)
            self._count()

    def job(self, job: int, part: str, reason: Reason | str | None, *, ours: bool) -> None:
        """Tell what is wrong with a part of a job (None: nothing). ``ours``: we have something at stake in it."""
        topic = f"job {job}: {part}" if part else f"job {job}"
        if reason is None:
            self.clear(topic)
        elif ours:
            self[topic] = str(reason)
        else:
            self.note(topic, str(reason))

    def clear_part(self, part: str) -> None:
        """Forget what was wrong with this part of any job."""
        with self._lock:
            for topic in [topic for topic in self._reasons if topic.endswith(f": {part}")]:
                del self._reasons[topic]
            self._count()

    def forget_job(self, job: int) -> None:
        """Forget all about a job that is over."""
        self._forget(lambda one: one == job)

    def forget_jobs_after(self, last: int) -> None:
        """Forget all about jobs that do not exist: an endpoint may have reported more than there are."""
        self._forget(lambda one: one > last)

    def _forget(self, concerns: Callable[[int], bool]) -> None:
        with self._lock:
            for kept in (self._reasons, self._notices):
                for topic in list(kept):
                    kind, _, rest = topic.partition(" ")
                    if kind == "job" and concerns(int(rest.partition(":")[0])):
                        del kept[topic]
            self._count()

    def shown(self) -> Shown:
        """Return what is wrong now."""
        with self._lock:
            return Shown(
                [f"{topic}: {reason}" for topic, reason in sorted(self._reasons.items())],
                [f"{topic}: {reason}" for topic, reason in self._notices.items()],
            )

    def topics(self) -> set[str]:
        """Return the topics of all reasons and notices."""
        with self._lock:
            return {*self._reasons, *self._notices}

    def _count(self) -> None:
        metrics, found = self._metrics, dict[str, int]()
        jobs = set[str]()
        for topic in (*self._reasons, *self._notices):
            kind, _, rest = topic.partition(" ")
            found[kind.rstrip(":")] = found.get(kind.rstrip(":"), 0) + 1
            if kind == "job":
                jobs.add(rest.partition(":")[0])
        metrics.set("ready", not self._reasons)
        metrics.drop("problems")
        for kind, count in found.items():
            metrics.set("problems", count, kind)
        metrics.drop("job_problem")
        for job in jobs:
            metrics.set("job_problem", 1, job)
