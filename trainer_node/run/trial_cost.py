"""Estimates the time of a trial: the states of the longest chain of a program's nodes, and the node's tensor hashes.

SAFETY: a client may post a program that runs in a second but has an element whose chain takes longer than the clock.
So the walk of the chain is measured on the operands of the first step, before a stake is paid.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from repops.host.chains import KINDS
from repops.host.hashing import tree_root

from referee_py.commit.tensor import DATA, Array
from referee_py.element import Case, rule_of
from referee_py.element.native import native_chain
from referee_py.program import Program, Structure, TensorType

SLOWEST = 1e7
"""Steps per second of any walk on any machine of today (measurements/chains.md); for chains too short to measure."""
FASTEST = 5e7
"""Upper limit of a measured rate, in steps per second. SAFETY: the measurement uses the first step's operands, and the
element in the middle. If idx names only other rows `scatter_add` makes 3 10^9, if only this row 6 10^7. A sum of
numbers far apart takes twice as long as a sum of like numbers, and a window of nothing but padding takes no time."""
SHORT = 1 << 20
"""Chains of at most this many steps are not measured."""
SAMPLE_S = 0.1
SAMPLE_STEPS = 1 << 18
HASHED_BYTES = 1 << 24
"""Bytes hashed to measure the rate of hashing."""
HASHES = 2
"""Times that each byte is hashed: for the root, and for paths to a leaf. The opponent's outputs count like our own."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class TrialCost:
    """The longest trial that a program may lead to, about one element of this node."""

    node: int
    operator: str
    steps: int
    seconds: float

    def __str__(self) -> str:
        return f"node {self.node}, {self.operator}, a chain of {self.steps:,} steps"


NO_TRIAL = TrialCost(0, "none", 0, 0.0)
"""The cost of a program without nodes."""


def longest_chain(structure: Structure, inputs: Sequence[TensorType], mode: int) -> int:
    """Return the steps of the longest chain of a node's elements; 0 if it has no elements."""
    if structure.name not in KINDS:
        return 1
    if structure.name == "max_pool2d":
        return math.prod(map(min, structure.attrs["kernel"], inputs[0].shape[2:]))
    case = _some_element(structure, inputs, mode)
    return rule_of(case).length(case) if case else 0


def walking_rate(
    structure: Structure, inputs: Sequence[Array], mode: int, clock: Clock = time.monotonic
) -> float:
    """Return the steps per second on the chain of the node's middle element, measured for `SAMPLE_S` seconds; at most
    `FASTEST`."""
    case = _some_element(structure, [TensorType.of(array) for array in inputs], mode)
    if case is None:
        return SLOWEST
    chain = native_chain(case, inputs)
    state, done, began, spent = rule_of(case).begin(case), 0, clock(), 0.0
    while done < chain.length and spent < SAMPLE_S:
        after = min(done + SAMPLE_STEPS, chain.length)
        state, done = chain.advance(state, done, after), after
        spent = clock() - began
    return min(done / spent, FASTEST) if spent and done else SLOWEST


def hashing_rate(clock: Clock = time.monotonic) -> float:
    """Return the bytes per second of hashing a tensor's tree."""
    data, began = np.zeros(HASHED_BYTES // 4, np.float32), clock()
    tree_root(data, DATA)
    return HASHED_BYTES / max(clock() - began, 1e-6)


class Sampler:
    """Measures walking rates: for each operator, on its longest chain in a program."""

    def __init__(self, program: Program, mode: int, clock: Clock = time.monotonic) -> None:
        self._program, self._mode, self._clock = program, mode, clock
        self._types = [[program.type_of(operand) for operand in node.inputs] for node in program.nodes]
        self._steps = [
            longest_chain(node, types, mode) for node, types in zip(program.nodes, self._types, strict=True)
        ]
        longest: dict[str, int] = {}
        for number, node in enumerate(program.nodes):
            if self._steps[number] > self._steps[longest.setdefault(node.name, number)]:
                longest[node.name] = number
        self._wanted = {number for number in longest.values() if self._steps[number] > SHORT}
        self._rates: dict[str, float] = {}

    def wants(self, node: int) -> bool:
        """Return whether `see` needs the operands of this node."""
        return node in self._wanted

    def see(self, node: int, inputs: Sequence[Array]) -> None:
        self._wanted.discard(node)
        structure = self._program.nodes[node]
        self._rates[structure.name] = walking_rate(structure, inputs, self._mode, self._clock)

    def cost(self) -> TrialCost:
        """Return the cost of the longest trial; operators that were not measured count with `SLOWEST`."""
        hashing = hashing_rate(self._clock)

        def seconds(number: int) -> float:
            node, types = self._program.nodes[number], self._types[number]
            return _seconds(node, types, self._steps[number], self._rates.get(node.name, SLOWEST), hashing)

        node = max(range(len(self._program.nodes)), key=seconds, default=None)
        if node is None:
            return NO_TRIAL
        return TrialCost(node, self._program.nodes[node].name, self._steps[node], seconds(node))


def cost_of(number: int, structure: Structure, inputs: Sequence[Array], mode: int) -> TrialCost:
    """Return the cost of a trial about node ``number`` with these operands."""
    types = [TensorType.of(array) for array in inputs]
    steps = longest_chain(structure, types, mode)
    rate = walking_rate(structure, inputs, mode) if steps > SHORT else SLOWEST
    return TrialCost(number, structure.name, steps, _seconds(structure, types, steps, rate, hashing_rate()))


def _seconds(
    node: Structure, types: Sequence[TensorType], steps: int, walking: float, hashing: float
) -> float:
    hashed = sum(t.nbytes for t in types) + 2 * sum(t.nbytes for t in node.outputs)
    return steps / walking + HASHES * hashed / hashing


def _some_element(structure: Structure, inputs: Sequence[TensorType], mode: int) -> Case | None:
    """Return the middle element of the first output that has elements; None if there is none."""
    for number, output in enumerate(structure.outputs):
        if output.count:
            middle = sum(size // 2 * math.prod(output.shape[d + 1 :]) for d, size in enumerate(output.shape))
            where = structure.attrs, number, middle, mode
            return Case(structure.name, tuple(inputs), structure.outputs, *where)
    return None
