"""One interval of a published run, replayed from its first state and compared with the checkpoint at its end.

C_(k-1) ── slots ── replay ── our C_k      equal to the claim's: MATCH
                                └─ other: into the published finer trees, as a dispute walks:
                                     interval ─> step ─> operator ─> element
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property, partial
from typing import Any

import numpy as np

from referee_py.commit import Record, Tree, canonical
from referee_py.commit.tensor import Array
from referee_py.errors import AssayError, Unavailable
from referee_py.execute import Backend, Run, State, StepTrace
from referee_py.rounding.log_source import LogSource
from referee_py.rounding.step_log import StepLog

from ..run.fetched_logs import step_limit
from ..run.modes import backend_here
from ..run.package import Package
from ..storage.store import Store
from .claimed import ClaimedRun

_ENDS = "the search ends here"


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

    @property
    def sought(self) -> bool:
        """True if the place where the runs part is not found as far as it can be: not enough is published."""
        return self.verdict is Verdict.DIFFERS and self.reason.startswith(_ENDS)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}


Computes = Callable[[LogSource | None], Backend]
"""Makes the backend that computes a run, which follows the claim's rounding logs in a mode with them."""


def computes(mode: int, device: str = "cpu", evaluator: str = "torch") -> Computes:
    """Return what computes a run of a mode on a device."""
    return partial(backend_here, mode, device, evaluator)


class _NotKept(Unavailable):
    """Nobody serves the state at the end of an interval."""


class Auditor:
    """Checks intervals of one run. Holds the program; and from the first replay on its tensors and its compiled step.

    ``back``: how many intervals are computed, at most, to reach the state before one that must be checked, where the
    states in between were not kept. ``package`` reads the run's into memory, by default from its publishers.
    """

    def __init__(
        self,
        published: ClaimedRun,
        max_memory: int,
        computes: Computes,
        back: int = 0,
        package: Callable[[], Package] | None = None,
    ) -> None:
        self.published, self._back = published, back
        self._read = package or partial(published.package, max_memory)
        self.log_bytes = step_limit(published.program, max_memory)
        follows = published.terms.arithmetic.follows_logs
        self.logs = FollowedLogs(published, self.log_bytes) if follows else None
        self.backend = computes(self.logs)
        self._ready: tuple[int, State] | None = None

    @cached_property
    def package(self) -> Package:
        """The program with its tensors."""
        return self._read()

    @cached_property
    def _run(self) -> Run:
        return Run.of(self.package, self.backend)

    def release(self) -> None:
        """Drop the tensors until the next replay."""
        self._ready = None
        for name in ("package", "_run"):
            self.__dict__.pop(name, None)

    def check(self, interval: int, on_step: Callable[[int], None] = lambda _: None) -> Finding:
        """Replay an interval, counted from 1. Every failure of the publisher's data is UNCHECKED, with a reason."""
        start, end = self.published.span(interval)
        try:
            claimed = self.published.tree.leaves[interval - 1]
            if self.replay(interval, on_step) == claimed:
                return Finding(interval, start, end, Verdict.MATCH)
        except (AssayError, MemoryError) as error:
            return Finding(interval, start, end, Verdict.UNCHECKED, _brief(error))
        found: dict[str, Any] = {}
        try:
            self._locate(self.first(interval), end, claimed, found)
        except (AssayError, MemoryError) as error:
            found["reason"] = f"{_ENDS}: {_brief(error)}"
        return Finding(interval, start, end, Verdict.DIFFERS, **found)

    def ready(self, interval: int) -> None:
        """Read what the replay of an interval begins with, and compile its steps: `replay` computes at once."""
        self._ready = interval, self.first(interval)
        self._run.prepare()

    def replay(self, interval: int, on_step: Callable[[int], None] = lambda _: None) -> bytes:
        """Return the checkpoint at the end of an interval, computed from the claim's state before it."""
        end, stride = self.published.span(interval)[1], self.published.terms.strides[0]
        ready, self._ready = self._ready, None
        first = ready[1] if ready is not None and ready[0] == interval else self.first(interval)
        ours = self._run.commit_interval(first, end, stride, on_step=lambda now, _: on_step(now.step))
        return ours.checkpoints[-1]

    def commit_step(self, state: State) -> tuple[State, StepTrace]:
        """Return the state after the next step, and its trace. NOTE: the given state is used up."""
        return self._run.commit_step(state)

    def node_outputs(self, state: State, node: int) -> Sequence[Array]:
        """Return what a node gives in the step after a state."""
        return self._run.node_values(state, node)[node].outputs

    def bring(self, interval: int) -> Iterator[None]:
        """Bring what `replay` needs, part by part (`ClaimedRun.bring`)."""
        return self.published.bring(interval, self.log_bytes)

    def first(self, interval: int) -> State:
        """Return the claim's state before an interval; that before the first one is the initial state.

        One that nobody serves is computed from the last one before it. INVARIANT: it leads to the claim's checkpoint,
        as one that is served does.
        """
        for kept in range(interval - 1, max(-1, interval - 2 - self._back), -1):
            try:
                return self._forward(self._kept(kept), kept, interval - 1)
            except _NotKept as error:
                missing = error
        raise Unavailable(f"{missing}; --back {self._back + 1} looks one checkpoint further back")

    def _kept(self, number: int) -> State:
        """Return the state at the end of an interval, from those who serve it. Raises _NotKept."""
        run = self._run  # its own data may be missing, where no other state helps
        if number == 0:
            return run.initial()
        try:
            return run.restore(self.published.span(number)[1], self.published.slots(number))
        except Unavailable as error:
            raise _NotKept(str(error)) from error

    def _forward(self, state: State, kept: int, number: int) -> State:
        """Return the state at the end of an interval, computed from that at the end of an earlier one."""
        if kept == number:
            return state
        end, stride = self.published.span(number)[1], self.published.terms.strides[0]
        found = self._run.commit_interval(state, end, stride, snapshots=[end])
        if found.checkpoints != tuple(self.published.tree.leaves[kept:number]):
            raise Unavailable(
                f"the state after step {end} is not kept, and what is computed from step {state.step} is not the "
                f"claim's: check intervals {kept + 1} to {number} first"
            )
        return found.snapshots[end]

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
    """NOTE: JSON has no NaN or infinity; findings have the largest number with a sign for both."""
    return value if math.isfinite(value) else math.copysign(1.7976931348623157e308, value)


def _brief(error: AssayError | MemoryError) -> str:
    return (str(error) or "this machine has too little memory").replace("\n", " ")[:400]


class FollowedLogs:
    """The rounding logs of the claim, which every replay of it follows."""

    def __init__(self, claimed: ClaimedRun, limit: int) -> None:
        self._claimed, self._limit = claimed, limit

    def get(self, step: int) -> StepLog:
        return self._claimed.log(step, self._limit)

    def put(self, step: int, log: StepLog) -> None:  # noqa: ARG002
        raise Unavailable(f"step {step} has no log")

    @property
    def tree(self) -> Tree:
        """The tree over the roots of all steps' logs."""
        return self._claimed.run_log_tree()

    def missing(self) -> tuple[int, ...]:
        """NOTE: a follower writes none, so it can lose none."""
        return ()

    def publish(self, store: Store) -> bytes:
        return store.put_tree(self.tree)

    def keep(self) -> None:
        """Do nothing: what was fetched is on disk."""
