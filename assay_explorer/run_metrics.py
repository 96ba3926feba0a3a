"""The published metrics of a run: as a table, as curves, and to download as CSV and JSON.

SAFETY: their publisher may have written anything. A file is bounded, what is no number is left out, and names are cut
where they are shown. NOTE: in a download they stand as they are, apart from what a spreadsheet would compute.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from referee_py.errors import Unavailable
from trainer_node.audit.address import Address
from trainer_node.local.metrics_file import RESERVED, json_number
from trainer_node.observe.pace import Pace

from . import curve, text

METRICS, MAX_METRICS_BYTES = "metrics.jsonl", 16 << 20
MAX_NAMES = 256
MAX_CURVES = 4
Rows = dict[int, tuple[float, dict[str, float]]]


@dataclass(frozen=True)
class Summary:
    """One metric over all steps: its first, last, least and largest finite value, each with its step."""

    name: str
    first: str
    last: str
    least: str
    most: str


class RunMetrics:
    """Metrics by step: seconds of computing, and values by name. ``names`` in the order in which they come."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.names = list(dict.fromkeys(name for _, values in rows.values() for name in values))[:MAX_NAMES]

    @classmethod
    def read(cls, address: Address) -> RunMetrics:
        """Read the metrics at an address; none where none are published."""
        try:
            data = address.read(METRICS, MAX_METRICS_BYTES)
        except Unavailable:
            return cls({})
        rows: Rows = {}
        last = 0
        for line in data.splitlines():
            row = _row(line)
            if row is not None and row[0] > last:
                last = row[0]
                rows[last] = row[1:]
        return cls(rows)

    @property
    def step(self) -> int:
        """The last step; 0 without any."""
        return next(reversed(self.rows), 0)

    def series(self) -> Sequence[curve.Series]:
        """Return the first `MAX_CURVES` metrics with more than one finite value, as curves."""
        found = [(text.said(name, 40), self._finite(name)) for name in self.names]
        return [(name, points) for name, points in found if len(points) > 1][:MAX_CURVES]

    def summaries(self) -> list[Summary]:
        """Return each metric over all steps."""
        found = []
        for name in self.names:
            points = self._finite(name)
            if not points:
                continue
            low, high = min(points, key=lambda p: p[1]), max(points, key=lambda p: p[1])
            found.append(
                Summary(text.said(name, 80), *(_at(*point) for point in (points[0], points[-1], low, high)))
            )
        return found

    def latest(self) -> list[str]:
        """Return the values of the last step, in words."""
        _, values = self.rows.get(self.step, (0.0, {}))
        return [f"{text.said(name, 40)} {value:.6g}" for name, value in list(values.items())[:MAX_CURVES]]

    def pace(self, steps: int) -> Pace:
        """Return the pace of the run by its own seconds."""
        found: Pace | None = None
        for step, (seconds, _) in self.rows.items():
            if found is None:
                found = Pace(step - 1, steps, 0.0 if step == 1 else seconds)
            found.note(step, seconds)
        return found or Pace(0, steps, 0.0)

    def as_csv(self) -> bytes:
        """Return the table: step, seconds, and a column for each metric; a cell is empty where a step has none."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(["step", "seconds", *map(_cell, self.names)])
        for step, (seconds, values) in self.rows.items():
            writer.writerow(
                [step, seconds, *(json_number(values[name]) if name in values else "" for name in self.names)]
            )
        return out.getvalue().encode()

    def as_json(self) -> bytes:
        """Return a list of rows, as in the published file. Numbers that are not finite are strings."""
        rows = [
            {"step": step, "seconds": seconds, **{name: json_number(value) for name, value in values.items()}}
            for step, (seconds, values) in self.rows.items()
        ]
        return json.dumps(rows).encode() + b"\n"

    def _finite(self, name: str) -> list[tuple[int, float]]:
        return [
            (step, values[name])
            for step, (_, values) in self.rows.items()
            if name in values and math.isfinite(values[name])
        ]


def _row(line: bytes) -> tuple[int, float, dict[str, float]] | None:
    """Return step, seconds and metrics of a line; None for one that is no row."""
    try:
        row: Any = from_json(line)  # SAFETY: this parser limits nesting
    except ValueError:
        return None
    step = row.get("step") if isinstance(row, dict) else None
    if not isinstance(step, int) or isinstance(step, bool) or not 0 < step < 1 << 48:
        return None
    seconds = _number(row.get("seconds"))
    named = ((name, _number(value)) for name, value in _few(row))
    values = {name: value for name, value in named if value is not None}
    return step, seconds if seconds is not None and math.isfinite(seconds) else 0.0, values


def _few(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    found = [(name, value) for name, value in row.items() if name not in RESERVED]
    return iter(found[:MAX_NAMES])


def _number(value: Any) -> float | None:
    """Return a number, or what our files say for one that is not finite; None for anything else, such as an integer
    beyond all floats."""
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _cell(name: str) -> str:
    """SAFETY: spreadsheets compute what begins like this; behind an apostrophe it is text."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def _at(step: int, value: float) -> str:
    return f"{value:.6g} after step {step:,}"
