"""Counters and gauges of a node, for Prometheus. One object per process role, passed in; nothing is global."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class Metrics:
    """The counters and gauges of one node."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.gas_used = self._counter("gas_used", "Gas used by mined transactions", "action")
        self.transactions = self._counter(
            "transactions", "Transactions by how they ended", "action", "status"
        )
        self.replacements = self._counter(
            "replacements", "Transactions sent again with a higher fee", "action"
        )
        self.ticks = self._counter("ticks", "Rounds of the main loop", "result")
        self.up = Gauge("assay_rpc_up", "Whether the last round reached the chain", registry=self.registry)
        self.block = Gauge(
            "assay_block", "Number of the last block that was looked at", registry=self.registry
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"assay_{name}", text, labels, registry=self.registry)
