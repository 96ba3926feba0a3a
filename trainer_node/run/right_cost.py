"""Estimates how long the processor takes to execute a program's slowest operator, as it is judged (`Replay.right`).

A run may compute on a GPU, or with a library's sums and logs; before an appeal the disputed operator is executed on the
processor. SAFETY: that may take hours where the run takes seconds, so it is measured before a stake is paid: for each
kind of operator on the largest of a program, or on a small part of it, as long as the whole may take too long to try.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from repops.opset import OpError

from referee_py.commit.tensor import Array
from referee_py.errors import Unavailable
from referee_py.execute import NodeHook, Site, Value
from referee_py.program import Program, Structure, TensorType

from .trial_cost import hashing_rate, longest_chain

Right = Callable[[Structure, Sequence[Array]], object]
"""Executes an operator as it is judged."""
Cut = tuple[tuple[int, int], ...]
"""Inputs and their axes that are cut to the same length: then an operator has proportionally less to do."""

ENOUGH_S = 0.1
"""Seconds of a part that says enough about the whole."""
FIRST_WORK = 1 << 20
"""Terms of the first part that is tried."""
LARGER = 4
"""Factor from one part to the next."""

CUTS: dict[str, tuple[Cut, ...]] = {
    "mm": (((0, 0),), ((1, 1),)),
    "bmm": (((0, 0), (1, 0)), ((0, 1),), ((1, 2),)),
    "conv2d": (((0, 0),), ((1, 0),)),
    "conv2d_input_grad": (((0, 0),), ((1, 1),)),
    "conv2d_weight_grad": (((0, 0), (1, 0)), ((0, 1),)),
}
"""Axes of rows, columns, batches and channels. All other operators have as much to do as they read and write, which is
bounded by memory; they are tried whole."""


class RightCost(NodeHook):
    """Sees the operands of a step. ``clock`` gives seconds. Raises Unavailable once ``stop`` returns True."""

    def __init__(
        self, program: Program, mode: int, right: Right, stop: Callable[[], bool], clock: Callable[[], float]
    ) -> None:
        self._program, self._mode, self._right, self._stop, self._clock = program, mode, right, stop, clock
        types = [[program.type_of(operand) for operand in node.inputs] for node in program.nodes]
        self._work = [_work(node, of, mode) for node, of in zip(program.nodes, types, strict=True)]
        self._bytes = [
            sum(kind.nbytes for kind in (*of, *node.outputs))
            for node, of in zip(program.nodes, types, strict=True)
        ]
        largest: dict[str, int] = {}
        for number, node in enumerate(program.nodes):
            if self._work[number] > self._work[largest.setdefault(node.name, number)]:
                largest[node.name] = number
        self._wanted = set(largest.values())
        self._pace: dict[str, float] = {}
        """By operator: seconds for each unit of work."""

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
        if self._stop():
            raise Unavailable("told to stop before the operators were measured on the processor")
        if at.node in self._wanted:
            self._wanted.discard(at.node)
            node = self._program.nodes[at.node]
            self._pace[node.name] = self._measured(node, [value.array for value in inputs])
        return inputs

    def seconds(self) -> float:
        """Return the seconds of the slowest operator, with the hashes of its tensors; 0 for a program without nodes."""
        hashing = hashing_rate(self._clock)
        return max(
            (
                work * self._pace.get(node.name, 0.0) + size / hashing
                for node, work, size in zip(self._program.nodes, self._work, self._bytes, strict=True)
            ),
            default=0.0,
        )

    def _measured(self, node: Structure, inputs: list[Array]) -> float:
        """Return the seconds for a unit of work of an operator, from the smallest part that says enough."""
        types = [TensorType.of(array) for array in inputs]
        whole = _work(node, types, self._mode)
        cut = max(CUTS.get(node.name, ()), key=lambda cut: _length(cut, types), default=None)
        length = 1 if cut is None else _length(cut, types)
        kept = length if cut is None else max(1, length * FIRST_WORK // whole)
        while True:
            part, given = (node, inputs) if cut is None or kept >= length else _part(node, inputs, cut, kept)
            work = _work(part, [TensorType.of(array) for array in given], self._mode)
            took = self._timed(part, given)
            if took < ENOUGH_S:  # NOTE: the first execution also loads libraries and fills caches
                took = min(took, self._timed(part, given))
            if given is inputs or took >= ENOUGH_S:
                return took / work
            kept *= LARGER

    def _timed(self, node: Structure, inputs: Sequence[Array]) -> float:
        began = self._clock()
        self._right(node, inputs)
        return self._clock() - began


def _length(cut: Cut, types: Sequence[TensorType]) -> int:
    number, axis = cut[0]
    return types[number].shape[axis]


def _part(node: Structure, inputs: list[Array], cut: Cut, kept: int) -> tuple[Structure, list[Array]]:
    """Return an operator on a part of its inputs; the whole if its attributes fit no part (groups of channels)."""
    given = list(inputs)
    for number, axis in cut:
        given[number] = np.ascontiguousarray(inputs[number][(slice(None),) * axis + (slice(kept),)])
    specs = [(kind.dtype, kind.shape) for kind in map(TensorType.of, given)]
    try:
        outputs = tuple(itertools.starmap(TensorType, node.row.infer(specs, node.attrs)))
    except OpError:
        return node, inputs
    return replace(node, outputs=outputs), given


def _work(node: Structure, inputs: Sequence[TensorType], mode: int) -> int:
    """Return the terms of all elements of a node, at least 1, or what it reads and writes if that is more."""
    terms = longest_chain(node, inputs, mode) * sum(output.count for output in node.outputs)
    return max(1, terms, sum(math.prod(kind.shape) for kind in (*inputs, *node.outputs)))
