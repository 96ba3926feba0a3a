"""The metrics of a run as a file of JSON lines, one for each step:

    {"step": 17, "seconds": 0.42, "loss": 2.1731}

``seconds`` counts the computing of the run up to this step, over all its resumptions. Numbers that are not finite are
the strings "NaN", "Infinity" and "-Infinity", since JSON has no others.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic_core import from_json

from referee_py.errors import InvalidInput

RESERVED = frozenset({"step", "seconds"})

OnRow = Callable[[int, Mapping[str, float]], object]


class MetricsFile:
    """The file of one run. INVARIANT: its lines are the steps 1, 2, 3, ... in order, unless somebody takes lines out;
    `cut` restores that after a crash."""

    def __init__(self, path: Path) -> None:
        """Open or create the file for appending. Raises OSError."""
        self.path = path
        self._file = path.open("ab", buffering=0)

    def cut(self, step: int, on_row: OnRow = lambda *_: None) -> tuple[int, float]:
        """Drop all lines after ``step``, and all from the first that is torn or out of order.

        Return the step and the seconds of the last line that stays; ``on_row`` gets each line that stays.
        """
        size, last, seconds = 0, 0, 0.0
        with self.path.open("rb") as file:
            for line in file:
                row = _parse(line)
                if row is None or not last < row[0] <= step:
                    break
                size, (last, seconds, metrics) = size + len(line), row
                on_row(last, metrics)
        self._file.truncate(size)
        return last, seconds

    def append(self, step: int, seconds: float, metrics: Mapping[str, float]) -> None:
        """Write the line of a step, in one call. Raises OSError, InvalidInput for a metric with a reserved name."""
        if not RESERVED.isdisjoint(metrics):
            raise InvalidInput(
                f"a metric is named {' or '.join(RESERVED & set(metrics))}; give it another name"
            )
        row = {"step": step, "seconds": round(seconds, 6), **{k: json_number(v) for k, v in metrics.items()}}
        data = json.dumps(row).encode() + b"\n"
        # NOTE: a disk that fills up takes a part of the bytes first, and refuses the rest.
        while data:
            data = data[self._file.write(data) :]

    def sync(self) -> None:
        """Put all lines on disk before returning."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def json_number(value: float) -> float | str:
    """Return a number as JSON can say it."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _parse(line: bytes) -> tuple[int, float, dict[str, float]] | None:
    """Return step, seconds and metrics of a whole line; None for any other bytes."""
    if not line.endswith(b"\n"):
        return None
    try:
        row = from_json(line)  # SAFETY: json.loads overflows the C stack on a file of brackets
        return int(row.pop("step")), float(row.pop("seconds")), {k: float(v) for k, v in row.items()}
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError):
        return None
