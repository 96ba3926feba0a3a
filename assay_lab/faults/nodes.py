"""Lies about one node: another input, output or structure than the honest run has."""

from __future__ import annotations

import numpy as np

from referee_py.commit import Record
from referee_py.errors import InvalidInput
from referee_py.execute import NodeHook, Site, Value
from referee_py.program import Kind, Operand, Program, SlotSource

from .kinds import Target, find


class PoisonData(NodeHook):
    """One label that the batch uses is changed in one step."""

    def __init__(self, target: Target) -> None:
        self._step = target.step
        self._node = find(target.program, "take", lambda node: _labels(target.program, node))

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
        if (at.step, at.node) != (self._step, self._node):
            return inputs
        labels = inputs[0].array.copy()
        labels[inputs[1].array.flat[0]] ^= 1
        return [Value(labels), *inputs[1:]]


class WrongOutput(NodeHook):
    """One element of one operator is wrong: a weight after its update is off by one unit in the last place, so that it
    stays; of a node that was named, an element in the middle is another number altogether.
    """

    def __init__(self, target: Target) -> None:
        self._step = target.step
        self._source = target.program.slots[0] if target.node is None else SlotSource(target.node, 0)
        self._barely = target.node is None
        if self._source.node >= len(target.program.nodes):
            raise InvalidInput(
                f"node {self._source.node} of a program with {len(target.program.nodes)} nodes; choose an earlier one"
            )

    def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:
        if (at.step, at.node) != (self._step, self._source.node):
            return outputs
        array = outputs[self._source.output].array.copy()
        flat = array.reshape(-1)
        if self._barely:
            flat[0] = np.nextafter(flat[0], flat.dtype.type(np.inf))
        elif flat.size:
            middle = flat.size // 2
            flat[middle] = not flat[middle] if array.dtype == np.bool_ else flat[middle] * 2 + 1
        return [Value(array) if i == self._source.output else value for i, value in enumerate(outputs)]


class WrongStructure(NodeHook):
    """From its step on, the records call one node another operator."""

    def __init__(self, target: Target) -> None:
        self._step = target.step
        self._node = find(target.program, "mm")
        self._other = target.program.nodes[find(target.program, "add")].hash()

    def record(self, at: Site, record: Record) -> Record:
        if at.step < self._step or at.node != self._node:
            return record
        return Record(self._other, record.inputs, record.outputs, record.log)


class WrongInput(NodeHook):
    """One node takes another earlier value of the same type in place of its input."""

    keeps_values = True

    def __init__(self, target: Target) -> None:
        self._step = target.step
        self._program = target.program

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
        if at.step != self._step or self._program.nodes[at.node].name != "mm":
            return inputs
        for position, operand in enumerate(self._program.nodes[at.node].inputs):
            other = self._another(at, operand) if operand.kind is Kind.NODE else None
            if other is not None:
                return [*inputs[:position], other, *inputs[position + 1 :]]
        return inputs

    def _another(self, at: Site, operand: Operand) -> Value | None:
        """The latest earlier value of the operand's type that is not the operand's."""
        right = at.lookup(operand)
        for node in reversed(range(at.node)):
            for output, kind in enumerate(self._program.nodes[node].outputs):
                if kind != self._program.nodes[operand.index].outputs[operand.output]:
                    continue
                value = at.lookup(Operand(Kind.NODE, node, output))
                if value.hash() != right.hash():
                    return value
        return None


class StaleWeights(NodeHook):
    """One node reads a weight as it was before training."""

    def __init__(self, target: Target) -> None:
        self._step = target.step
        self._initial = target.initial
        self._program = target.program
        self._node = find(target.program, None, lambda node: _reads_weight(target.program, node))

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
        if (at.step, at.node) != (self._step, self._node):
            return inputs
        operands = self._program.nodes[at.node].inputs
        return [
            Value(self._initial[operand.index]) if operand.kind is Kind.SLOT else value
            for operand, value in zip(operands, inputs, strict=True)
        ]


def _reads_weight(program: Program, node: int) -> bool:
    """Return whether an input is a slot that is a matrix or larger."""
    slots = [operand.index for operand in program.nodes[node].inputs if operand.kind is Kind.SLOT]
    return any(len(program.initial[slot].type.shape) > 1 for slot in slots)


def _labels(program: Program, node: int) -> bool:
    source = program.nodes[node].inputs[0]
    if source.kind is not Kind.CONSTANT:
        return False
    kind = program.constants[source.index].type
    return kind.dtype.name == "I64" and len(kind.shape) == 1
