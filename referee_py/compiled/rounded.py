"""Compiled steps in the mode rounded-f64.

At 32 bits, operators that have a log are calls to the evaluator. All others are the kernels of repops-f32, whose bits
are the rounded ones (referee_py/rounding/backend.py). Below 32 bits, sums are calls too; kernels that round to the
grid compute arithmetic and elementary functions. The latter have a log, but it seldom matters: few values are near a
midpoint.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from repops.fuse.expression import Expression
from repops.fuse.fusion import IN_DOUBT, Fused
from repops.host import cpu
from repops.host.strided import Matrices
from repops.opset import F32, Arithmetic, Shape, Spec, lookup
from repops.tensors import NUMPY_DTYPE

from ..commit.tensor import Array
from ..program.modes import MAX_BITS, Form
from ..rounding.backend import Operands, Rounded
from ..rounding.evaluate import ELEMENTARY, has_elements
from .graph import GraphNode
from .machine import Bind, Call, Cpu, Matmul
from .unfused import Unfused


class RoundedCpu(Cpu):
    """The C kernels and an evaluator, on numpy arrays, with the rounding of `backend`."""

    def __init__(self, backend: Rounded) -> None:
        super().__init__()
        self._backend = backend
        self.widens = False
        self.bits = backend.rounding.bits

    def is_logged(self, node: GraphNode, inputs: Sequence[Spec]) -> bool:
        logged = _kind(node, inputs) in (
            Arithmetic.SUM,
            *((Arithmetic.ELEMENTARY,) if self.bits < MAX_BITS else ()),
        )
        return logged and has_elements(node.op, inputs, node.attrs)

    def is_alone(self, node: GraphNode, inputs: Sequence[Spec]) -> bool:
        what = _kind(node, inputs)
        if what is Arithmetic.ELEMENTARY and self.bits < MAX_BITS:
            # NOTE: a dense log needs every element in binary64, and powers are exact ties too often.
            return node.op == "pow" or self._backend.rounding.form is Form.DENSE
        # NOTE: a cast has no log, but its definition rounds integers beyond 2^53 twice, which the kernel does not.
        return what is Arithmetic.SUM or (what is Arithmetic.SINGLE and node.op == "cast")

    def begin(self, step: int) -> None:
        self._backend.begin(step)

    def end(self) -> None:
        self._backend.end()

    def fused(
        self, expression: Expression, strides: Sequence[Shape], unfused: Unfused
    ) -> tuple[Bind, set[tuple[int, int]]]:
        kernel = self.kernel(expression, strides)
        functions = self.bits < MAX_BITS and any(each.node.op in ELEMENTARY for each in unfused.operators)
        return (self._guarded(kernel, unfused) if functions else kernel.bind), kernel.shareable

    def _guarded(self, kernel: Fused, unfused: Unfused) -> Bind:
        """Return the kernel, with its operators one by one for when it cannot decide.

        INVARIANT: where a kernel is not in doubt, all permitted values of an element have one rounding, whatever the
        log says, and no evaluation is near enough to a midpoint for an entry. So no log is read or written.
        """

        def bind(addresses: Sequence[int]) -> Call:
            bound = kernel.bind(addresses)
            inputs = [
                _at(a, dtype, unfused.domain, s)
                for a, (dtype, s) in zip(addresses, unfused.inputs, strict=False)
            ]
            places = zip(addresses[len(inputs) :], unfused.outputs.items(), strict=True)
            outputs = {value: _at(a, *spec) for a, (value, spec) in places}

            def call() -> None:
                outcome = bound.kernel(bound.signature, bound.data, cpu.get_num_threads(), cpu.get_isa())
                if outcome == IN_DOUBT:
                    unfused.run(self._backend.execute, inputs, outputs)
                elif outcome:
                    raise MemoryError("no memory for a kernel's working space")

            return call

        return bind

    def operator(self, node: GraphNode, inputs: Sequence[Spec]) -> Bind:
        plain = self.bits == MAX_BITS or _kind(node, inputs) is Arithmetic.MOVED
        if plain and not self.is_alone(node, inputs):
            return super().operator(node, inputs)
        outputs = lookup(node.op).infer(list(inputs), node.attrs)
        logged = self.is_logged(node, inputs)

        def bind(addresses: Sequence[int]) -> Call:
            operands = [_at(a, *spec) for a, spec in zip(addresses, inputs, strict=False)]
            results = [_at(a, *spec) for a, spec in zip(addresses[len(inputs) :], outputs, strict=True)]

            def evaluate() -> None:
                evaluation = self._backend.evaluate(node.op, operands, node.attrs)
                self._backend.round(node.place, node.op, operands, node.attrs, evaluation, results[0])

            def execute() -> None:
                found = self._backend.execute(node.place, node.op, operands, node.attrs)
                for result, values in zip(results, found, strict=True):
                    np.copyto(result, values)

            return evaluate if logged and inputs[0][0] == F32 else execute

        return bind

    def product(self, node: GraphNode, shape: Matmul) -> Bind | None:
        batch, m, k, n, (left, right, result) = shape
        # NOTE: a library may add the terms of a vector's product in another order for a view than for its copy.
        if 0 in (*batch, m, n) or 1 in (m, n) or result.dtype != F32:
            return None  # runs as an operator

        def bind(addresses: Sequence[int]) -> Call:
            a, b = _matrices(addresses[0], batch, m, k, left), _matrices(addresses[1], batch, k, n, right)
            c = _at(addresses[2], F32, (*batch, m, n))

            def call() -> None:
                operands = Operands([partial(_whole, a), partial(_whole, b)])
                evaluation = self._backend.product(a, b)
                self._backend.round(node.place, node.op, operands, node.attrs, evaluation, c)

            return call

        return bind


def _kind(node: GraphNode, inputs: Sequence[Spec]) -> Arithmetic:
    return lookup(node.op).arithmetic_of(inputs[0][0] if inputs else None, node.attrs)


def _whole(view: Array) -> Array:
    """Return an operand of a product in the shape that the operator has."""
    return view if view.ndim == 2 else view.reshape(-1, *view.shape[-2:])


def _at(address: int, dtype: int, shape: Shape, strides: Shape | None = None) -> Array:
    """Return the array at an address; strides in elements. SAFETY: the compiled step keeps the memory alive."""
    kind = np.dtype(NUMPY_DTYPE[dtype])  # type: ignore[index]
    if 0 in shape:
        return np.empty(shape, kind)
    if strides is None:
        extent, steps = math.prod(shape), None
    else:
        extent = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
        steps = [step * kind.itemsize for step in strides]
    memory = (ctypes.c_char * (extent * kind.itemsize)).from_address(address)
    return np.ndarray(shape, kind, memoryview(memory), strides=steps)


def _matrices(address: int, batch: Shape, rows: int, columns: int, lie: Matrices) -> Array:
    return _at(address, F32, (*batch, rows, columns), (*lie.batch, lie.row, lie.column))
