"""Findings of the monitor, as metrics for Prometheus."""

from __future__ import annotations

import math
from collections import Counter

from prometheus_client import CollectorRegistry, Gauge

from .alerts import Kind, Level
from .rounds import Board

NAMES = {
    "assay_monitor_up": "Whether the last round could read the chain",
    "assay_monitor_block": "Number of the block that was read last",
    "assay_monitor_head_age_seconds": "Seconds since the newest block",
    "assay_monitor_jobs": "Jobs by phase",
    "assay_monitor_alerts": "Alerts that stand, by kind and level",
    "assay_monitor_alerts_unchecked": "Alerts that could not be looked at again in the last round",
    "assay_monitor_jobs_unchecked": "Jobs of which something could not be read",
    "assay_monitor_open_matches": "Matches whose clocks run or whose hearing is open",
    "assay_monitor_open_requests": "Data requests without a response",
    "assay_monitor_next_deadline_seconds": "Seconds until the first clock of any match or trial runs out",
    "assay_monitor_rounds": "Rounds by result: ok or unchecked",
}
"""All metrics and what they count (docs/operating.md, section 14)."""


class Gauges:
    """The gauges of one monitor."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = {
            "assay_monitor_jobs": ("phase",),
            "assay_monitor_alerts": ("kind", "level"),
            "assay_monitor_rounds": ("result",),
        }
        self._of = {
            name: Gauge(name, text, labels.get(name, ()), registry=self.registry)
            for name, text in NAMES.items()
        }

    def show(self, board: Board) -> None:
        """Take over what a round has found."""
        blind = any(reason.startswith("chain: ") for reason in board.unchecked.get(0, ()))
        self._set("up", 0 if blind else 1)
        self._of["assay_monitor_rounds"].labels("unchecked" if board.unchecked else "ok").inc()
        self._set("block", board.block)
        if math.isfinite(board.head_age_s):
            self._set("head_age_seconds", board.head_age_s)
        self._set("alerts_unchecked", sum(standing.unchecked for standing in board.alerts))
        self._set("jobs_unchecked", sum(job != 0 for job in board.unchecked))
        matches = [match for line in board.lines for match in line.matches]
        self._set("open_matches", len(matches))
        self._set("open_requests", sum(line.requests for line in board.lines))
        left = [seconds for match in matches for seconds in match["left"].values()]
        self._set("next_deadline_seconds", min(left, default=math.inf))
        self._of["assay_monitor_jobs"].clear()
        for phase, count in board.phases.items():
            self._of["assay_monitor_jobs"].labels(phase).set(count)
        found = Counter((standing.alert.kind, standing.alert.level) for standing in board.alerts)
        for kind in Kind:
            for level in Level:
                value = found[kind, level]
                self._of["assay_monitor_alerts"].labels(kind.value, level.name.lower()).set(value)

    def _set(self, name: str, value: float) -> None:
        self._of[f"assay_monitor_{name}"].set(value)
