"""Counters and gauges of a node, for Prometheus. One object for each process, passed in; nothing is global.

    metrics.add("ticks", "ok")                   a counter goes up
    metrics.set("steps_done", 120, "7")          a gauge is set
    metrics.drop("steps_done", "7")              a series is no longer shown

`TABLE` has every metric. The guide's table, the alert rules and the dashboard are checked against it. To add a metric,
add a row here and a row to docs/operating.md, section 5.

SAFETY: labels may come from other parties (their addresses, their jobs). Each metric keeps at most ``most`` series; the
one that was changed longest ago gives way.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge

PREFIX = "assay_"
MAX_SERIES = 64
"""Series of a metric whose labels other parties choose."""


class Type(StrEnum):
    """Type of a metric in Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Row:
    """A metric. ``name`` is without prefix; a counter is exported with ``_total`` behind it.

    ``most``: number of series that are kept.
    """

    name: str
    type: Type
    text: str
    labels: tuple[str, ...] = ()
    most: int = 1024

    @property
    def exported(self) -> str:
        """The name that Prometheus sees."""
        return PREFIX + self.name + ("_total" if self.type is Type.COUNTER else "")


def _counter(name: str, text: str, *labels: str, most: int = 1024) -> Row:
    return Row(name, Type.COUNTER, text, labels, most)


def _gauge(name: str, text: str, *labels: str, most: int = 1024) -> Row:
    return Row(name, Type.GAUGE, text, labels, most)


TABLE = (
    # the process
    _gauge("ready", "Whether /readyz answers 200"),
    _gauge("problems", "Reasons that /readyz shows, by topic", "topic"),
    _gauge("job_problem", "1 while something in this job fails", "job", most=MAX_SERIES),
    _counter("ticks", "Rounds of the main loop, by result", "result"),
    _counter("failures", "Failures by what failed: turn, package, run, data, disk, peer, signer", "of"),
    # the chain
    _gauge("rpc_up", "Whether the last round reached the chain"),
    _gauge("block", "Number of the last block that was looked at"),
    _gauge("head_age_seconds", "Age of the newest block when it was last looked at"),
    _gauge("rpc_latency_seconds", "Time of the endpoint's last answer", "endpoint", most=MAX_SERIES),
    _counter("rpc_failures", "Requests without an answer that makes sense", "endpoint", most=MAX_SERIES),
    _counter("rpc_disagreements", "Answers unlike those of the other endpoints", "endpoint", most=MAX_SERIES),
    _gauge("signer_up", "Whether the remote signer last signed, or last answered"),
    _gauge("rpc_endpoint_up", "Whether the endpoint answered the last request", "endpoint", most=MAX_SERIES),
    _gauge("rpc_agreeing", "Endpoints that show the block that was looked at"),
    _counter("stakes_withheld", "Stakes that waited because too few endpoints agree"),
    # transactions and money
    _counter("transactions", "Transactions by how they ended", "action", "status"),
    _gauge("open_transactions", "Transactions that are sent and not mined yet"),
    _counter("gas_used", "Gas used by mined transactions", "action"),
    _counter("replacements", "Transactions sent again with a higher fee", "action"),
    _gauge("balance_ether", "Ether of the account"),
    _gauge("staked_ether", "Ether that the contracts hold as our stakes"),
    _gauge("reserved_ether", "Ether of the account that jobs on which we have staked may still take"),
    _gauge("credits_ether", "Ether that the account can withdraw from the contracts"),
    # claims and disputes
    _gauge("claims", "Claimed roots of open jobs, by what our own run says", "verdict"),
    _counter("claims_checked", "Claimed roots that were found valid or invalid", "verdict"),
    _gauge("open_matches", "Open matches in which our result is at stake, by phase", "phase"),
    _gauge(
        "clock_seconds_left",
        "Seconds left on a side's clock in an open match of ours",
        "job",
        "match",
        "side",
        most=2 * MAX_SERIES,
    ),
    _gauge(
        "next_deadline_timestamp_seconds", "When the first of our clocks and periods runs out; 0 if none runs"
    ),
    # runs
    _gauge("steps_done", "Steps of a run that are done", "job", most=MAX_SERIES),
    _gauge("steps", "Steps of a run", "job", most=MAX_SERIES),
    _gauge("step_rate", "Recent steps per second of a run", "job", most=MAX_SERIES),
    _gauge("loss", "First number that the program of a run gives: the loss", "job", most=MAX_SERIES),
    # artifacts
    _counter("fetched_bytes", "Bytes of artifacts that arrived from other nodes"),
    _counter("served_bytes", "Bytes of artifacts that were served to other nodes"),
    _counter("fetch_failures", "Artifacts that a peer did not deliver", "peer", most=MAX_SERIES),
    _counter(
        "wasted_bytes", "Bytes of downloads that did not end with the artifact", "peer", most=MAX_SERIES
    ),
    _gauge("peers_given_up", "Servers that are not asked for a job's data now: they only cost"),
    # disk
    _gauge("store_bytes", "Disk space that the store takes, by kind of artifact", "kind"),
    _gauge("store_files", "Files of the store, by kind of artifact", "kind"),
    _gauge("database_bytes", "Disk space that the database takes"),
    _gauge("disk_free_bytes", "Free space of the data directory's disk"),
    _gauge("disk_reserved_bytes", "Disk space that jobs on which we have staked may still take"),
    _counter("disk_full", "Writes that the disk refused for want of space"),
    _counter("store_freed_bytes", "Bytes that garbage collection has removed"),
)

_ROWS = {row.name: row for row in TABLE}


class Metrics:
    """The counters and gauges of one node. Safe for several threads."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._lock = threading.Lock()
        self._seen: dict[str, dict[tuple[str, ...], None]] = {row.name: {} for row in TABLE}
        """By metric: its series, that changed longest ago first."""
        self._made: dict[str, Counter | Gauge] = {}
        for row in TABLE:
            kind = Counter if row.type is Type.COUNTER else Gauge
            self._made[row.name] = kind(PREFIX + row.name, row.text, row.labels, registry=self.registry)

    def add(self, name: str, *labels: str, by: float = 1) -> None:
        """Raise a counter by ``by``, which is not negative. Raises KeyError for a name that is not in `TABLE`."""
        with self._lock:
            self._series(name, labels).inc(by)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge. Raises as :meth:`add`."""
        with self._lock:
            made = self._series(name, labels)
            assert isinstance(made, Gauge)
            made.set(value)

    def drop(self, name: str, *first: str) -> None:
        """Remove the series whose labels begin with these; all series without any."""
        with self._lock:
            for labels in [known for known in self._seen[name] if known[: len(first)] == first]:
                del self._seen[name][labels]
                self._made[name].remove(*labels)

    def value(self, name: str, *labels: str) -> float:
        """Return the present value; 0 for a series that is not shown."""
        found = self.registry.get_sample_value(
            _ROWS[name].exported, dict(zip(_ROWS[name].labels, labels, strict=True))
        )
        return 0.0 if found is None else found

    def _series(self, name: str, labels: tuple[str, ...]) -> Counter | Gauge:
        made = self._made[name]
        if not labels:
            return made
        seen = self._seen[name]
        seen.pop(labels, None)
        seen[labels] = None
        if len(seen) > _ROWS[name].most:
            oldest = next(iter(seen))
            del seen[oldest]
            made.remove(*oldest)
        return made.labels(*labels)
