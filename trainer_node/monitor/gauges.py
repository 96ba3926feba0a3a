"""Findings of the monitor, as metrics for Prometheus."""

from __future__ import annotations

import math
from collections import Counter

from ..observe.build import Build
from ..observe.metrics import BUILD, Metrics, counter, gauge
from .alerts import Kind, Level
from .rounds import Board

TABLE = (
    BUILD,
    gauge("monitor_up", "Whether the last round could read the chain"),
    gauge("monitor_block", "Number of the block that was read last"),
    gauge("monitor_head_age_seconds", "Seconds since the newest block"),
    gauge("monitor_jobs", "Jobs by phase", "phase"),
    gauge("monitor_alerts", "Alerts that stand, by kind and level", "kind", "level"),
    gauge("monitor_alerts_unchecked", "Alerts that could not be looked at again in the last round"),
    gauge("monitor_jobs_unchecked", "Jobs of which something could not be read"),
    gauge("monitor_deployment_unchecked", "Things of the whole deployment that could not be read"),
    gauge("monitor_open_matches", "Matches whose clocks run or whose hearing is open"),
    gauge("monitor_open_requests", "Data requests without a response"),
    gauge("monitor_next_deadline_seconds", "Seconds until the first clock of any match or trial runs out"),
    counter("monitor_rounds", "Rounds by result", "result", known=("ok", "unchecked")),
)
"""All metrics of the monitor (docs/operating.md, section 15)."""


class Gauges:
    """The metrics of one monitor."""

    def __init__(self) -> None:
        self._metrics = Metrics(TABLE)
        self.registry = self._metrics.registry
        build = Build.this()
        self._metrics.set("build_info", 1, build.version, build.source, build.contracts)

    def show(self, board: Board) -> None:
        """Take over what a round has found."""
        metrics, whole = self._metrics, board.unchecked.get(0, ())
        metrics.set("monitor_up", not any(reason.startswith("chain: ") for reason in whole))
        metrics.add("monitor_rounds", "unchecked" if board.unchecked else "ok")
        metrics.set("monitor_block", board.block)
        if math.isfinite(board.head_age_s):
            metrics.set("monitor_head_age_seconds", board.head_age_s)
        metrics.set("monitor_alerts_unchecked", sum(standing.unchecked for standing in board.alerts))
        metrics.set("monitor_jobs_unchecked", sum(job != 0 for job in board.unchecked))
        metrics.set("monitor_deployment_unchecked", len(whole))
        matches = [match for line in board.lines for match in line.matches]
        metrics.set("monitor_open_matches", len(matches))
        metrics.set("monitor_open_requests", sum(line.requests for line in board.lines))
        left = [seconds for match in matches for seconds in match["left"].values()]
        metrics.set("monitor_next_deadline_seconds", min(left, default=math.inf))
        metrics.drop("monitor_jobs")
        for phase, count in board.phases.items():
            metrics.set("monitor_jobs", count, phase)
        found = Counter((standing.alert.kind, standing.alert.level) for standing in board.alerts)
        for kind in Kind:
            for level in Level:
                metrics.set("monitor_alerts", found[kind, level], kind.value, level.name.lower())
