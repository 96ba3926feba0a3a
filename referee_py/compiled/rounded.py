"""Compiled steps in the mode rounded-f64 at 32 bits: operators that have a log are calls to the evaluator, all others
are the kernels of repops-f32, whose bits are the rounded ones (referee_py/rounding/backend.py).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from repops import cpu
from repops.cpu import Bound
from repops.opset import F32, Shape, Spec, lookup
from repops.strided import Matrices
from repops.tensors import NUMPY_DTYPE

from ..commit.tensor import Array
from ..rounding.backend import Operands, Rounded
from ..rounding.evaluate import Kind, kind_of
from .graph import Node
from .machine import Bind, Call, Cpu, Matmul


class RoundedCpu(Cpu):
    """The C kernels and an evaluator, on numpy arrays. `backend` rounds to 32 bits."""

    def __init__(self, backend: Rounded) -> None:
        self._backend = backend

    def is_logged(self, node: Node, inputs: Sequence[Spec]) -> bool:
        # NOTE: a cast has no log, but is rounded twice, and that is not what the kernel does with integers beyond 2^53.
        what = kind_of(node.op, inputs[0][0] if inputs else None, node.attrs)
        return what is Kind.SUM or (what is Kind.SINGLE and node.op == "cast")

    def begin(self, step: int) -> None:
        self._backend.begin(step)

    def end(self) -> None:
        self._backend.end()

    def operator(self, node: Node, inputs: Sequence[Spec]) -> Bind:
        if not self.is_logged(node, inputs):
            return super().operator(node, inputs)
        outputs = lookup(node.op).infer(list(inputs), node.attrs)

        def bind(addresses: Sequence[int]) -> Call:
            operands = [_at(a, *spec) for a, spec in zip(addresses, inputs, strict=False)]
            results = [_at(a, *spec) for a, spec in zip(addresses[len(inputs) :], outputs, strict=True)]

            def call() -> None:
                found = self._backend.execute(node.number, node.op, operands, node.attrs)
                for result, values in zip(results, found, strict=True):
                    np.copyto(result, values)

            return call

        return bind

    def product(self, node: Node, shape: Matmul) -> Bind | None:
        batch, m, k, n, (left, right, _) = shape

        def bind(addresses: Sequence[int]) -> Call:
            a, b = _matrices(addresses[0], batch, m, k, left), _matrices(addresses[1], batch, k, n, right)
            result = _at(addresses[2], F32, (*batch, m, n))

            def call() -> None:
                operands = Operands([partial(_whole, a), partial(_whole, b)])
                evaluation = self._backend.evaluator.product(a, b, self._backend.rounding.bounds)
                self._backend.round(node.number, node.op, operands, node.attrs, evaluation, result)

            return call

        return bind

    def sequence(self, calls: Sequence[Call]) -> Callable[[], None]:
        def run() -> None:
            threads, isa = cpu.get_num_threads(), cpu.get_isa()
            for call in calls:
                if not isinstance(call, Bound):
                    call()
                elif call.kernel(call.signature, call.data, threads, isa):
                    raise MemoryError("no memory for a kernel's working space")

        return run


def _whole(view: Array) -> Array:
    """An operand of a product as the operator has it."""
    return view if view.ndim == 2 else view.reshape(-1, *view.shape[-2:])


def _at(address: int, dtype: int, shape: Shape, strides: Shape | None = None) -> Array:
    """What lies at an address; strides in elements. SAFETY: the compiled step keeps the memory."""
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
