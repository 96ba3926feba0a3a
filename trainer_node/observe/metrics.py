"""Counters and gauges of a node, for Prometheus. One object for each process, passed in; nothing is global.

    metrics.add("ticks", "ok")                   a counter goes up
    metrics.set("steps_done", 120, "7")          a gauge is set
    metrics.drop("steps_done", "7")              a series is no longer shown

A counter is shown from the start, as 0: a rule that asks for its increase is silent at the first event otherwise. A
gauge is shown from its first value on: 0 would be a value that nobody has seen. What the system says of the process
comes with them, under the names that all exporters have.

`TABLE` has every metric of a node (`monitor.gauges` has those of the monitor). The guide's table, the alert rules and
the dashboard are checked against it. To add a metric, add a row here and a row to docs/operating.md, section 5.

NOTE: no label is called `job` or `instance`: a scrape gives these to all that it reads, and renames ours.

SAFETY: labels may come from other parties (their addresses, their jobs). Each metric keeps at most ``most`` series; the
one that was changed longest ago gives way.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector

PREFIX = "assay_"
MAX_SERIES = 64
"""Series of a metric whose labels other parties choose."""


ROUNDS = ("ok", "unavailable", "error", "bug")
FAILURES = ("turn", "package", "measure", "run", "disk", "peer", "signer")
ENDS = ("mined", "failed", "refused", "lost")


class Type(StrEnum):
    """Type of a metric in Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Row:
    """A metric. ``name`` is without prefix; a counter is exported with ``_total`` behind it.

    ``most``: number of series that are kept. ``known``: values of the one label of a counter that are shown from the
    start; others follow when they come.
    """

    name: str
    type: Type
    text: str
    labels: tuple[str, ...] = ()
    most: int = 1024
    known: tuple[str, ...] = ()

    @property
    def exported(self) -> str:
        """The name that Prometheus sees."""
        return PREFIX + self.name + ("_total" if self.type is Type.COUNTER else "")


def counter(name: str, text: str, *labels: str, most: int = 1024, known: tuple[str, ...] = ()) -> Row:
    """Return the row of a counter."""
    return Row(name, Type.COUNTER, text, labels, most, known)


def gauge(name: str, text: str, *labels: str, most: int = 1024) -> Row:
    """Return the row of a gauge."""
    return Row(name, Type.GAUGE, text, labels, most)


BUILD = gauge("build_info", "1, with the build in its labels", "version", "build", "contracts")
TABLE = (
    # the process
    BUILD,
    gauge("ready", "Whether /readyz answers 200"),
    gauge("problems", "Reasons that /readyz shows, by topic", "topic"),
    gauge("job_problem", "1 while something in this job fails", "assay_job", most=MAX_SERIES),
    counter("ticks", "Rounds of the main loop, by result", "result", known=ROUNDS),
    counter("failures", f"Failures by what failed: {', '.join(FAILURES)}", "of", known=FAILURES),
    # the chain
    gauge("rpc_up", "Whether the last round reached the chain"),
    gauge("block", "Number of the last block that was looked at"),
    gauge("head_age_seconds", "Age of the newest block when it was last looked at"),
    gauge("rpc_latency_seconds", "Time of the endpoint's last answer", "endpoint", most=MAX_SERIES),
    counter("rpc_failures", "Requests without an answer that makes sense", "endpoint", most=MAX_SERIES),
    counter("rpc_disagreements", "Answers unlike those of the other endpoints", "endpoint", most=MAX_SERIES),
    gauge("signer_up", "Whether the remote signer last signed, or last answered"),
    gauge("rpc_endpoint_up", "Whether the endpoint answered the last request", "endpoint", most=MAX_SERIES),
    gauge("rpc_agreeing", "Endpoints that show the block that was looked at"),
    counter("stakes_withheld", "Stakes that waited because too few endpoints agree"),
    # transactions and money
    counter("transactions", "Transactions by how they ended", "status", known=ENDS),
    gauge("open_transactions", "Transactions that are sent and not mined yet"),
    counter("gas_used", "Gas used by mined transactions", "action"),
    counter("replacements", "Transactions sent again with a higher fee", "action"),
    gauge("balance_ether", "Ether of the account"),
    gauge("staked_ether", "Ether that the contracts hold as our stakes"),
    gauge("reserved_ether", "Ether of the account that jobs on which we have staked may still take"),
    gauge("credits_ether", "Ether that the account can withdraw from the contracts"),
    # claims and disputes
    gauge("claims", "Claimed roots of open jobs, by what our own run says", "verdict"),
    counter(
        "claims_checked",
        "Claimed roots that were found valid or invalid",
        "verdict",
        known=("valid", "invalid"),
    ),
    gauge("open_matches", "Open matches in which our result is at stake, by phase", "phase"),
    gauge(
        "clock_seconds_left",
        "Seconds left on a side's clock in an open match of ours",
        "assay_job",
        "match",
        "side",
        most=2 * MAX_SERIES,
    ),
    gauge(
        "next_deadline_timestamp_seconds", "When the first of our clocks and periods runs out; 0 if none runs"
    ),
    # runs
    gauge("steps_done", "Steps of a run that are done", "assay_job", most=MAX_SERIES),
    gauge("steps", "Steps of a run", "assay_job", most=MAX_SERIES),
    gauge("step_rate", "Recent steps per second of a run", "assay_job", most=MAX_SERIES),
    gauge("loss", "First number that the program of a run gives: the loss", "assay_job", most=MAX_SERIES),
    # artifacts
    counter("fetched_bytes", "Bytes of artifacts that arrived from other nodes"),
    counter("served_bytes", "Bytes of artifacts that were served to other nodes"),
    counter("fetch_failures", "Artifacts that a peer did not deliver", "peer", most=MAX_SERIES),
    counter("wasted_bytes", "Bytes of downloads that did not end with the artifact", "peer", most=MAX_SERIES),
    gauge("peers_given_up", "Servers that are not asked for a job's data now: they only cost"),
    # disk
    gauge("store_bytes", "Disk space that the store takes, by kind of artifact", "kind"),
    gauge("store_files", "Files of the store, by kind of artifact", "kind"),
    gauge("database_bytes", "Disk space that the database takes"),
    gauge("disk_free_bytes", "Free space of the data directory's disk"),
    gauge("disk_reserved_bytes", "Disk space that jobs on which we have staked may still take"),
    counter("disk_full", "Writes that the disk refused for want of space"),
    counter("store_freed_bytes", "Bytes that garbage collection has removed"),
)


class Metrics:
    """The counters and gauges of one process, a node's if no other ``table`` is given. Safe for several threads."""

    def __init__(self, table: Sequence[Row] = TABLE) -> None:
        self.registry = CollectorRegistry()
        self._rows = {row.name: row for row in table}
        self._lock = threading.Lock()
        self._seen: dict[str, dict[tuple[str, ...], None]] = {row.name: {} for row in table}
        """By metric: its series, that changed longest ago first."""
        self._waiting = {row.name for row in table if row.type is Type.GAUGE and not row.labels}
        """Gauges without labels that have no value yet: the library would show them as 0 once they are registered."""
        self._made: dict[str, Counter | Gauge] = {}
        for row in table:
            kind = Counter if row.type is Type.COUNTER else Gauge
            at_once = None if row.name in self._waiting else self.registry
            self._made[row.name] = kind(PREFIX + row.name, row.text, row.labels, registry=at_once)
            for value in row.known:
                self.start(row.name, value)
        ProcessCollector(registry=self.registry)

    def start(self, name: str, *labels: str) -> None:
        """Show a series of a counter as 0, if it is not shown yet. Raises as :meth:`add`."""
        self.add(name, *labels, by=0)

    def add(self, name: str, *labels: str, by: float = 1) -> None:
        """Raise a counter by ``by``, which is not negative. Raises KeyError for a name that is not in the table."""
        with self._lock:
            self._series(name, labels).inc(by)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge. Raises as :meth:`add`."""
        with self._lock:
            made = self._series(name, labels)
            assert isinstance(made, Gauge)
            made.set(value)
            if name in self._waiting:
                self._waiting.remove(name)
                self.registry.register(made)

    def drop(self, name: str, *first: str) -> None:
        """Remove the series whose labels begin with these; all series without any."""
        with self._lock:
            for labels in [known for known in self._seen[name] if known[: len(first)] == first]:
                del self._seen[name][labels]
                self._made[name].remove(*labels)

    def value(self, name: str, *labels: str) -> float:
        """Return the present value; 0 for a series that is not shown."""
        found = self.registry.get_sample_value(
            self._rows[name].exported, dict(zip(self._rows[name].labels, labels, strict=True))
        )
        return 0.0 if found is None else found

    def _series(self, name: str, labels: tuple[str, ...]) -> Counter | Gauge:
        made = self._made[name]
        if not labels:
            return made
        seen = self._seen[name]
        seen.pop(labels, None)
        seen[labels] = None
        if len(seen) > self._rows[name].most:
            oldest = next(iter(seen))
            del seen[oldest]
            made.remove(*oldest)
        return made.labels(*labels)
