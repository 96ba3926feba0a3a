"""Search for where two runs part: the last checkpoint with the same state ─> step ─> operator ─> element.

Both sides are replayed from their own state at that checkpoint. Where the replays do not part though the claims do, one
claim is not what its program computes; then its published trees lead to the place, as in an audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from referee_py.commit import canonical
from referee_py.commit.tensor import Array
from referee_py.errors import AssayError
from referee_py.program import TensorType
from referee_py.program.describe import Names, value_of
from referee_py.program.describe_diff import differences

from .interval import Auditor, Verdict, computes
from .published import PublishedRun

MAX_STEPS = 1 << 14
"""Steps of the longest interval that is searched. SAFETY: publishers choose how long intervals are."""
MAX_UNREAD = 64
"""Checkpoints whose states cannot be read before no more are asked for."""


@dataclass(frozen=True)
class Place:
    """The first difference of two runs, as far as it was found; what is not known is None.

    start, end       both have the same state after step ``start``, and another checkpoint after ``end``
    first, second    both values of the element
    note             why it goes no further, or which claim is not what its program computes
    """

    start: int
    end: int
    step: int | None = None
    node: int | None = None
    operator: str | None = None
    label: str = ""
    output: int | None = None
    element: int | None = None
    first: str | None = None
    second: str | None = None
    note: str = ""


def place_words(place: Place) -> str:
    """Return where two runs part, in words."""
    words = [f"in steps {place.start + 1} to {place.end}"]
    if place.step is not None:
        words.append(f"first at step {place.step}")
    if place.node is not None:
        words.append(f"operator {place.node} ({place.operator}{f', {place.label}' if place.label else ''})")
    if place.element is not None:
        words.append(f"output {place.output}, element {place.element}: A {place.first}, B {place.second}")
    return ", ".join(words) + (f"; {place.note}" if place.note else "")


def first_element(one: Array, other: Array) -> tuple[int, str, str, int] | None:
    """Return the first element that differs, both values, and how many differ; None if types or nothing differ."""
    kind = TensorType.of(one)
    if kind != TensorType.of(other):
        return None
    width = np.dtype(f"u{one.dtype.itemsize}")
    first, second = (np.ascontiguousarray(canonical(a)).reshape(-1).view(width) for a in (one, other))
    unlike = np.flatnonzero(first != second)
    if not len(unlike):
        return None
    at = int(unlike[0])
    values = [value_of(int(bits[at]), kind.dtype) for bits in (first, second)]
    return at, values[0], values[1], len(unlike)


class Search:
    """Searches where two published runs part. ``unknown`` says after `place` why that is not known, if it is not."""

    def __init__(
        self, one: PublishedRun, other: PublishedRun, names: Names, max_memory: int, device: str
    ) -> None:
        self._runs, self._names = (one, other), names
        self._max_memory, self._device = max_memory, device
        self._alike = differences(one.program, other.program, names, names).same_structure
        self._same_program = one.claim.program_file == other.claim.program_file
        self.unknown = ""

    @cached_property
    def common(self) -> list[int]:
        """The steps after which both runs have a checkpoint, ascending."""
        pairs = [[run.span(k)[1] for k in range(1, run.count + 1)] for run in self._runs]
        return sorted({*pairs[0]} & {*pairs[1]})

    def place(self, *, replay: bool) -> Place | None:
        """Return where the runs part, as far as it can be found; None if no common checkpoint is known to differ."""
        span = self._span()
        if span is None:
            return None
        found = Place(*span)
        if not self._alike:
            return replace(
                found, note="the programs have other operators, so these are not compared one by one"
            )
        if not replay:
            return replace(found, note="nothing was replayed; leave out --no-replay to find the step")
        if (steps := found.end - found.start) > MAX_STEPS:
            return replace(
                found,
                note=f"these {steps} steps are not searched, the limit is {MAX_STEPS}: publish runs with a first "
                f"stride of at most that",
            )
        try:
            return self._within(found)
        except (AssayError, MemoryError) as error:
            return replace(found, note=f"the search ends here: {str(error) or 'too little memory'}"[:400])

    def _span(self) -> tuple[int, int] | None:
        """Return the last common checkpoint that is equal, and the first that differs."""
        if not self.common:
            self.unknown = "they have no checkpoint after the same step"
            return None
        if self._alike and not (self._same_program and self._runs[0].terms.mode == self._runs[1].terms.mode):
            return self._span_of_states()
        first = next((k for k, step in enumerate(self.common) if self._differ(step)), None)
        return None if first is None else (self.common[first - 1] if first else 0, self.common[first])

    def _differ(self, step: int) -> bool:
        leaves = [run.tree.leaves[_interval(run, step) - 1] for run in self._runs]
        return leaves[0] != leaves[1]

    def _span_of_states(self) -> tuple[int, int] | None:
        """As `_span`, by states: checkpoints commit to the data, too, so with other data all of them differ.

        NOTE: states that differ stay so. Checkpoints whose states cannot be read say nothing, and are passed over.
        """
        steps, unread = list(self.common), 0
        low, high = 0, len(steps)
        while low < high and unread < MAX_UNREAD:
            middle = (low + high) // 2
            unlike = self._states_differ(steps[middle])
            if unlike is None:
                del steps[middle]
                high, unread = high - 1, unread + 1
            else:
                low, high = (low, middle) if unlike else (middle + 1, high)
        start = steps[low - 1] if low else 0
        if high < len(steps):
            return start, steps[high]
        if low < high or unread:
            self.unknown = (
                f"not read: the states at {unread} of {len(self.common)} checkpoints, from step {start + 1} on; keep "
                "them (--keep all) and publish the run again"
            )
        return None

    def _states_differ(self, step: int) -> bool | None:
        """Return whether the slots differ after a step; None where they cannot be read."""
        try:
            pair = [run.slot_records(_interval(run, step)) for run in self._runs]
        except (AssayError, OSError):
            return None
        slots = [[found[slot.node].outputs[slot.output] for slot in run.program.slots]
                 for run, found in zip(self._runs, pair, strict=True)]  # fmt: skip
        return slots[0] != slots[1]

    def _within(self, found: Place) -> Place:
        """Replay both from the state that they have in common, step by step."""
        auditors = [
            Auditor(run, self._max_memory, computes(run.terms.mode, self._device)) for run in self._runs
        ]
        first = [_interval(run, found.start) + 1 for run in self._runs]
        states = [a.first(k) for a, k in zip(auditors, first, strict=True)]
        for step in range(found.start + 1, found.end + 1):
            before = [state.copy() for state in states]
            traced = [a.commit_step(state) for a, state in zip(auditors, states, strict=True)]
            states = [state for state, _ in traced]
            records = [trace.records for _, trace in traced]
            node = next(
                (k for k, (a, b) in enumerate(zip(*records, strict=True)) if a.outputs != b.outputs), None
            )
            if node is not None:
                return self._at(replace(found, step=step), node, [
                    a.node_outputs(state, node) for a, state in zip(auditors, before, strict=True)
                ])  # fmt: skip
        return self._claimed(found, auditors, first)

    def _at(self, found: Place, node: int, outputs: Sequence[Sequence[Array]]) -> Place:
        name = self._runs[0].program.nodes[node].name
        found = replace(found, node=node, operator=name, label=self._names.label(node))
        for k, (a, b) in enumerate(zip(*outputs, strict=True)):
            if (at := first_element(a, b)) is not None:
                return replace(found, output=k, element=at[0], first=at[1], second=at[2])
        return found

    def _claimed(self, found: Place, auditors: Sequence[Auditor], first: Sequence[int]) -> Place:
        """Find the claim that is not what its program computes, and where."""
        for k, (auditor, begin) in enumerate(zip(auditors, first, strict=True)):
            for interval in range(begin, _interval(self._runs[k], found.end) + 1):
                told = auditor.check(interval)
                if told.verdict is not Verdict.DIFFERS:
                    continue
                values = [None, None] if told.element is None else [repr(told.claimed), repr(told.computed)]
                return Place(
                    found.start,
                    told.end,
                    told.step,
                    told.node,
                    told.operator,
                    "" if told.node is None else self._names.label(told.node),
                    told.output,
                    told.element,
                    values[k],
                    values[1 - k],
                    ": ".join(
                        filter(None, (f"{'AB'[k]} claims what its program does not compute", told.reason))
                    ),
                )
        return replace(
            found, note="both claims are what their programs compute; their records differ in inputs alone"
        )


def _interval(run: PublishedRun, step: int) -> int:
    """Return the number of the interval that ends after a step; 0 for the initial state."""
    return -(-step // run.terms.strides[0])
