"""One interval of a published run, replayed from its first state and compared with the checkpoint at its end.

C_(k-1) ── slots ── replay ── our C_k      equal to the claim's: MATCH
                                └─ other: into the published finer trees, as a dispute walks:
                                     interval ─> step ─> operator ─> element
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from referee_py.commit import Record, Tag, canonical
from referee_py.commit.tensor import Array
from referee_py.errors import AssayError, Unavailable
from referee_py.execute import Run, State, StepTrace
from referee_py.program.mode import Rounding, is_rounded
from referee_py.rounding.backend import Rounded
from referee_py.rounding.step_log import StepLog

from ..artifacts import Kind, Name
from ..devices import backend_of, evaluator_of
from ..log_sources import step_limit
from ..package import Package
from .published import PublishedRun


class Verdict(StrEnum):
    """UNCHECKED: something that the check needs is missing or damaged. It says nothing about the interval."""

    MATCH = "MATCH"
    UNCHECKED = "UNCHECKED"
    DIFFERS = "DIFFERS"


@dataclass(frozen=True)
class Finding:
    """The result of one interval `(start, end]`. What is not known is None, and `reason` says why.

    step, node  the first that differ
    output      of the node; `element` is the place in it, row-major
    claimed     the claim's value of that element; `computed` is ours
    """

    interval: int
    start: int
    end: int
    verdict: Verdict
    reason: str = ""
    step: int | None = None
    node: int | None = None
    operator: str | None = None
    output: int | None = None
    element: int | None = None
    claimed: float | None = None
    computed: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}


class Auditor:
    """Checks intervals of one run. Holds the program, its constants and its compiled step."""

    def __init__(
        self, published: PublishedRun, max_memory: int, device: str = "cpu", evaluator: str = "torch"
    ) -> None:
        self.published = published
        package, terms = published.package(max_memory), published.terms
        if is_rounded(terms.mode):
            logs = _Logs(published, max_memory)
            backend: Any = Rounded(Rounding.of(terms.mode), logs, evaluator_of(evaluator, device))
        else:
            backend = backend_of(device, terms.mode)
        self._package: Package = package
        self._run = Run(
            package.program, package.constants, package.initial, terms.steps, terms.strides, backend
        )

    def check(self, interval: int, on_step: Callable[[int], None] = lambda _: None) -> Finding:
        """Replay an interval, counted from 1. Every failure of the publisher's data is UNCHECKED, with a reason."""
        start, end = self.published.span(interval)
        try:
            state = self._state(interval - 1)
            claimed = self.published.tree.leaves[interval - 1]
            stride = self.published.terms.strides[0]
            ours = self._run.commit_interval(state, end, stride, on_step=lambda now, _: on_step(now.step))
            if ours.checkpoints[-1] == claimed:
                return Finding(interval, start, end, Verdict.MATCH)
        except AssayError as error:
            return Finding(interval, start, end, Verdict.UNCHECKED, _brief(error))
        found: dict[str, Any] = {}
        try:
            self._locate(self._state(interval - 1), end, claimed, found)
        except AssayError as error:
            found["reason"] = f"the search ends here: {_brief(error)}"
        return Finding(interval, start, end, Verdict.DIFFERS, **found)

    def _state(self, interval: int) -> State:
        """Return the claim's state at the end of an interval; interval 0 is the initial state."""
        if interval == 0:
            return self._run.initial()
        return self._run.restore(self.published.span(interval)[1], self.published.slots(interval))

    # ------------------------------------------------------------------ where the runs part

    def _locate(self, state: State, end: int, claimed: bytes, found: dict[str, Any]) -> None:
        """Note in `found` what can be found out. `claimed` is the claim's checkpoint after step `end`."""
        while end - state.step > 1:
            stride = next(s for s in self.published.terms.strides if s < end - state.step)
            theirs = self.published.refined(state.step, end, stride, claimed)
            ours = self._run.commit_interval(state.copy(), end, stride)
            first = next(k for k, leaf in enumerate(theirs.leaves) if leaf != ours.checkpoints[k])
            start, claimed = state.step + first * stride, theirs.leaves[first]
            end = min(start + stride, end)
            state = self._run.advance(state, start)
        found["step"] = end
        _, trace = self._run.commit_step(state.copy())
        self._locate_node(state, trace, claimed, found)

    def _locate_node(self, state: State, trace: StepTrace, claimed: bytes, found: dict[str, Any]) -> None:
        theirs = self.published.step_tree(claimed)
        node = next(k for k, leaf in enumerate(theirs.leaves) if leaf != trace.tree.leaves[k])
        found |= {"node": node, "operator": self.published.program.nodes[node].name}
        record = self.published.source.record(theirs.leaves[node])
        what = _difference(record, trace.records[node])
        if what is not None:
            found["reason"] = what
            return
        own = self._run.node_values(state, node)[node].outputs
        for output, (first, second) in enumerate(
            zip(record.outputs, trace.records[node].outputs, strict=True)
        ):
            if first != second:
                found["output"] = output
                limit = own[output].nbytes + 256
                array = self.published.source.tensor(first, limit)
                found |= _element(array, canonical(own[output]))
                return


def _difference(theirs: Record, ours: Record) -> str | None:
    """Return what else than a value of an output differs; None if only outputs do."""
    if theirs.structure != ours.structure:
        return "its record is of another operator"
    if len(theirs.inputs) != len(ours.inputs) or len(theirs.outputs) != len(ours.outputs):
        return "its record has another number of inputs or outputs"
    if theirs.inputs != ours.inputs:
        first = next(
            k for k, pair in enumerate(zip(theirs.inputs, ours.inputs, strict=True)) if pair[0] != pair[1]
        )
        return f"input {first} of its record is not what the step has there"
    return "its rounding log is another one" if theirs.log != ours.log else None


def _element(theirs: Array, ours: Array) -> dict[str, Any]:
    if theirs.shape != ours.shape or theirs.dtype != ours.dtype:
        return {
            "reason": f"its output is {theirs.dtype} {list(theirs.shape)}, not {ours.dtype} {list(ours.shape)}"
        }
    width = np.dtype(f"u{ours.dtype.itemsize}")
    first, second = (np.ascontiguousarray(a).reshape(-1).view(width) for a in (theirs, ours))
    place = int(np.flatnonzero(first != second)[0])
    values = [float(a.reshape(-1)[place].astype(np.float64)) for a in (theirs, ours)]
    return {"element": place, "claimed": _finite(values[0]), "computed": _finite(values[1])}


def _finite(value: float) -> float:
    """NOTE: JSON has no NaN or infinity; both are told as the largest number with a sign in findings."""
    return value if math.isfinite(value) else math.copysign(1.7976931348623157e308, value)


def _brief(error: AssayError) -> str:
    return str(error).replace("\n", " ")[:400]


class _Logs:
    """The rounding logs of the claim, which every replay follows."""

    def __init__(self, published: PublishedRun, memory: int) -> None:
        self._published = published
        self._limit = step_limit(published.program, memory)
        self._roots: tuple[bytes, ...] | None = None

    def get(self, step: int) -> StepLog:
        terms, source = self._published.terms, self._published.source
        if self._roots is None:
            logs = bytes.fromhex(self._published.claim.logs)
            self._roots = tuple(source.tree(Tag.LOG_RUN_TREE, logs, terms.steps).leaves)
        root = self._roots[step - 1]
        source.fetch(Name(Kind.LOG, root, count=terms.node_count), self._limit)
        return source.store.get_log(root, terms.node_count)

    def put(self, step: int, log: StepLog) -> None:  # noqa: ARG002
        raise Unavailable(f"step {step} has no log")
