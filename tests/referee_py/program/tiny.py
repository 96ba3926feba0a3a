"""A program small enough to read: linear regression by gradient descent, with momentum.

node 0  full        1                                node 6  sub    prediction - y
node 1  sub         t - 1                            node 7  permute
node 2  take        the step's examples              node 8  mm     gradient
node 3  take        x                                node 9  mul    velocity * 0.5 ... and so on
"""

from __future__ import annotations

from typing import Any

import numpy as np
from repops.opset import F32, I64, lookup

from referee_py.commit.tensor import Array
from referee_py.program import (
    Kind,
    Operand,
    Program,
    SlotSource,
    Structure,
    TensorDescriptor,
    TensorType,
)

STEPS = 12
WEIGHT, VELOCITY = 0, 1  # slots
ORDER, X, Y = 0, 1, 2  # constants
CENTRED, GRADIENT, NEW_WEIGHT = 6, 8, 14  # nodes


def node(index: int, output: int = 0) -> Operand:
    return Operand(Kind.NODE, index, output)


def slot(index: int) -> Operand:
    return Operand(Kind.SLOT, index)


def constant(index: int) -> Operand:
    return Operand(Kind.CONSTANT, index)


STEP = Operand(Kind.STEP)


def tensors() -> tuple[list[Array], list[Array]]:
    """Return constants (order, x, y) and initial slots (weight, velocity)."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((16, 3)).astype(np.float32)
    y = (x @ np.array([[1.0], [-2.0], [0.5]], dtype=np.float32)).astype(np.float32)
    order = np.stack([rng.permutation(16)[:4] for _ in range(STEPS)]).astype(np.int64)
    return [order, x, y], [np.zeros((3, 1), np.float32), np.zeros((3, 1), np.float32)]


class Writer:
    """Appends nodes, inferring their types."""

    def __init__(self, constants: list[Array], initial: list[Array]) -> None:
        self.types = {
            Kind.CONSTANT: [TensorType.of(a) for a in constants],
            Kind.SLOT: [TensorType.of(a) for a in initial],
            Kind.STEP: [TensorType(I64, ())],
        }
        self.nodes: list[Structure] = []

    def __call__(self, op: str, *inputs: Operand, **attrs: Any) -> Operand:
        known = [
            self.nodes[o.index].outputs[o.output] if o.kind == Kind.NODE else self.types[o.kind][o.index]
            for o in inputs
        ]
        outputs = lookup(op).infer([(t.dtype, t.shape) for t in known], attrs)
        self.nodes.append(Structure.make(op, inputs, [TensorType(d, s) for d, s in outputs], **attrs))
        return node(len(self.nodes) - 1)


def f32_bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def program() -> Program:
    constants, initial = tensors()
    op = Writer(constants, initial)
    one = op("full", shape=(), dtype=I64, bits=1)
    chosen = op("take", constant(ORDER), op("sub", STEP, one))
    x, y = op("take", constant(X), chosen), op("take", constant(Y), chosen)
    error = op("sub", op("mm", x, slot(WEIGHT)), y)
    gradient = op("mm", op("permute", x, dims=(1, 0)), error)
    assert (error, gradient) == (node(CENTRED), node(GRADIENT))
    half = op("full", shape=(), dtype=F32, bits=f32_bits(0.5))
    velocity = op("add", op("mul", slot(VELOCITY), half), gradient)
    rate = op("full", shape=(), dtype=F32, bits=f32_bits(0.05))
    weight = op("sub", slot(WEIGHT), op("mul", velocity, rate))
    assert weight == node(NEW_WEIGHT)
    return Program(
        tuple(op.nodes),
        (SlotSource(weight.index, 0), SlotSource(velocity.index, 0)),
        tuple(map(TensorDescriptor.of, constants)),
        tuple(map(TensorDescriptor.of, initial)),
    )
