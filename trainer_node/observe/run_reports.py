"""Reports to others about a run while it is computed: steps, rate and the numbers that the program gives.

    GET /v1/progress/<job>      a `RunReport` as JSON, of at most `MAX_REPORT_BYTES`

A package has no names, so a number is identified by the node that gives it; a client with the bundle knows their names.
SAFETY: neither roots nor hashes of states are reported. Before the reveal, whoever had them could claim the result of
somebody else's training, or continue from a state and train only the rest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from referee_py.commit.tensor import Array
from referee_py.program import Kind, Program, SlotSource

from .pace import Pace

MAX_NUMBERS = 8
"""Maximum numbers per step in a report."""
MAX_POINTS = 256
"""Maximum points of a run's history; when there are more, every other one is dropped."""
MAX_REPORT_BYTES = 1 << 16
MAX_REPORTS = 256
"""Maximum runs that a node reports: the last ones."""

Numbers = Annotated[list[float], Field(max_length=MAX_NUMBERS)]
_Index = Annotated[int, Field(ge=0, lt=1 << 32)]
_Step = Annotated[int, Field(ge=0, lt=1 << 48)]


class Point(BaseModel):
    """The numbers of one step."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    step: _Step
    numbers: Numbers


class RunReport(BaseModel):
    """Progress of a run. ``nodes`` are the nodes and outputs that give the numbers. ``kept``: the last step after which
    the state is on disk."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    job: int = Field(ge=0, lt=1 << 64)
    program: str = Field(pattern="^[0-9a-f]{64}$")
    step: _Step
    steps: _Step
    kept: _Step
    rate: float | None = Field(ge=0, allow_inf_nan=False)
    """Recent steps per second."""
    nodes: list[tuple[_Index, _Index]] = Field(max_length=MAX_NUMBERS)
    history: list[Point] = Field(max_length=MAX_POINTS)
    """Some steps, the last of them that of the report."""


class Board:
    """The reports of a node's runs. Safe for several threads."""

    def __init__(self) -> None:
        self._reports: dict[int, RunReport] = {}
        self._lock = threading.Lock()

    def put(self, report: RunReport) -> None:
        with self._lock:
            self._reports.pop(report.job, None)
            self._reports[report.job] = report
            while len(self._reports) > MAX_REPORTS:
                del self._reports[next(iter(self._reports))]

    def get(self, job: int) -> RunReport | None:
        with self._lock:
            return self._reports.get(job)


def told_outputs(program: Program) -> dict[str, SlotSource]:
    """Return the numbers that a program gives to be looked at: outputs of rank 0 that nothing in it reads."""
    read = {(o.index, o.output) for node in program.nodes for o in node.inputs if o.kind is Kind.NODE}
    read |= {(slot.node, slot.output) for slot in program.slots}
    found = [
        SlotSource(number, output)
        for number, node in enumerate(program.nodes)
        for output, type_ in enumerate(node.outputs)
        if not type_.shape and (number, output) not in read
    ]
    return {f"{source.node}.{source.output}": source for source in found[:MAX_NUMBERS]}


class Reporter:
    """Makes the reports of one run, which continues after step ``first``. ``sources`` are those of `told_outputs`."""

    def __init__(
        self, job: int, program: bytes, sources: Mapping[str, SlotSource], first: int, steps: int
    ) -> None:
        self._job, self._program = job, program
        self._sources = sources
        self._history: list[Point] = []
        self._apart = 1
        self.pace = Pace(first, steps, time.monotonic())

    def note(self, step: int) -> None:
        """Take note of a finished step."""
        self.pace.note(step, time.monotonic())

    def report(self, latest: Mapping[str, Array], kept: int) -> RunReport:
        """Return the report about the step noted last; ``latest`` are its numbers."""
        pace = self.pace
        numbers = [float(latest[name]) for name in self._sources if name in latest]
        now = Point(step=pace.step, numbers=numbers)
        if not self._history or pace.step - self._history[-1].step >= self._apart:
            self._history.append(now)
        if len(self._history) >= MAX_POINTS:
            del self._history[1::2]
            self._apart = max(self._history[-1].step - self._history[0].step, 1) * 2 // MAX_POINTS or 1
        history = self._history if self._history[-1] == now else [*self._history, now]
        return RunReport(
            job=self._job,
            program=self._program.hex(),
            step=pace.step,
            steps=pace.steps,
            kept=kept,
            rate=pace.rate,
            nodes=[(source.node, source.output) for source in self._sources.values()],
            history=list(history),
        )
