"""A worker's part of a step, node by node: for committed steps, and for every step where there is no compiled one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from referee_py import pauses
from referee_py.commit.tensor import Array
from referee_py.execute import Backend, StepPlan, Value
from referee_py.execute.backends import device_of, node_executor
from referee_py.program import Kind, Operand, Program

from .plan import Message, Output, Part, Stage

Hashes = dict[int, tuple[bytes, ...]]
"""By node: the hashes of its outputs, then that of its rounding log."""


class ByNode:
    """Executes a part's stages over a backend. ``slots`` are the values before the step, of the part's slots; ``kept``
    are outputs that are read after it."""

    def __init__(
        self,
        program: Program,
        constants: Sequence[Array],
        backend: Backend,
        part: Part,
        kept: Iterable[Output] = (),
    ) -> None:
        self._program, self._part = program, part
        self._instructions = StepPlan(program).instructions
        self._device = device_of(backend)
        self._nodes = node_executor(backend, self._device)
        self._constants = [
            Value(array, descriptor.hash)
            for array, descriptor in zip(constants, program.constants, strict=True)
        ]
        self._release = _last_uses(program, part, kept)
        self._values: dict[Output, Value] = {}
        self._taken: dict[Output, Value] = {}
        self._before: dict[int, Value] = {}
        """The slots before the last step: with what was taken in it, all that its nodes come from."""
        self.slots: dict[int, Value] = {}
        self._step = 0

    def load(self, slots: Mapping[int, Value]) -> None:
        """Take the state before the next step."""
        self.slots = dict(slots)
        self._taken, self._before = {}, {}

    def begin(self, step: int) -> None:
        self._step, self._values, self._taken, self._before = step, {}, {}, self.slots
        self._nodes.begin(step)

    def take(self, message: Message, arrays: Sequence[Array]) -> None:
        """Take the values of a message that has come. NOTE: they are copied, since the next step writes to a message's
        memory, and a new slot may be a view of it."""
        for output, array in zip(message.outputs, arrays, strict=True):
            self._values[output] = self._taken[output] = Value(np.array(array))

    def run(self, stage: Stage, owned: frozenset[int] = frozenset()) -> Hashes:
        """Execute a stage. Return the hashes of the nodes in ``owned``."""
        hashes: Hashes = {}
        act = pauses.asked()
        for number in stage.nodes:
            outputs = self._execute(number)
            for k, value in enumerate(outputs):
                self._values[number, k] = value
            if number in owned:
                hashes[number] = (*(value.hash() for value in outputs), self._nodes.log(number))
            for output in self._release.get(number, ()):
                self._values.pop(output, None)
            if act is not None:
                act()
        return hashes

    def get(self, output: Output) -> Array:
        """Return a value of the step on the host."""
        return self._values[output].array

    def end(self) -> None:
        """Finish the step: its new slots become the state. Those that nobody has sent stay (`Plan.is_kept`)."""
        self._nodes.end()
        after = {}
        for slot in self._part.slots:
            source = self._program.slots[slot]
            after[slot] = self._values.get((source.node, source.output), self.slots[slot])
        self.slots, self._values = after, {}

    # ------------------------------------------------------------------ the last step once more

    def operands(self, number: int) -> list[Array]:
        """Return the operands of a node of the last step, apart from constants and the step's number; those of its own
        nodes that lead to them are executed again."""
        self._values = dict(self._taken)
        after, self.slots = self.slots, self._before
        try:
            self._nodes.begin(self._step)
            for needed in self._leading_to(number):
                for k, value in enumerate(self._execute(needed)):
                    self._values[needed, k] = value
            inputs = self._program.nodes[number].inputs
            return [self._lookup(o).array for o in inputs if o.kind in (Kind.NODE, Kind.SLOT)]
        finally:
            self.slots, self._values = after, {}

    def outputs(self, number: int, step: int, operands: Sequence[Array]) -> tuple[bytes, ...]:
        """Return the hashes of a node's outputs, from the operands that another worker has for it in a step."""
        given, inputs = iter(operands), []
        self._step = step
        for operand in self._program.nodes[number].inputs:
            known = operand.kind in (Kind.CONSTANT, Kind.STEP)
            inputs.append((self._lookup(operand) if known else Value(next(given))).on(self._device))
        self._nodes.begin(step)
        instruction = self._instructions[number]
        results = self._nodes.execute(number, instruction.op, inputs, instruction.attrs)
        return tuple(value.hash() for value in self._made(results))

    def _leading_to(self, number: int) -> list[int]:
        """Return the part's nodes from which a node's operands come, in the order of the part."""
        needed: set[int] = set()
        todo = [number]
        while todo:
            for operand in self._program.nodes[todo.pop()].inputs:
                output = operand.index, operand.output
                if operand.kind is Kind.NODE and output not in self._taken and operand.index not in needed:
                    needed.add(operand.index)
                    todo.append(operand.index)
        return [n for stage in self._part.stages for n in stage.nodes if n in needed]

    # ------------------------------------------------------------------ inside

    def _lookup(self, operand: Operand) -> Value:
        match operand.kind:
            case Kind.NODE:
                return self._values[operand.index, operand.output]
            case Kind.SLOT:
                return self.slots[operand.index]
            case Kind.CONSTANT:
                return self._constants[operand.index]
        return Value(np.array(self._step, dtype=np.int64))

    def _execute(self, number: int) -> list[Value]:
        instruction, device = self._instructions[number], self._device
        inputs = [self._lookup(operand).on(device) for operand in instruction.inputs]
        return self._made(self._nodes.execute(number, instruction.op, inputs, instruction.attrs))

    def _made(self, results: Sequence[Any]) -> list[Value]:
        device = self._device
        return [Value.there(tensor, device) if device else Value(tensor) for tensor in results]


def _last_uses(program: Program, part: Part, kept: Iterable[Output]) -> dict[int, list[Output]]:
    """Return for each of a part's nodes the values that are not needed after it.

    What is sent, new slots and ``kept`` stay until the step has ended.
    """
    last: dict[Output, int] = {}
    stay = {(source.node, source.output) for source in program.slots} | set(kept)
    for stage in part.stages:
        for number in stage.nodes:
            for k in range(len(program.nodes[number].outputs)):
                last[number, k] = number
            for operand in program.nodes[number].inputs:
                if operand.kind is Kind.NODE:
                    last[operand.index, operand.output] = number
        for message in stage.sends:
            stay.update(message.outputs)
    release: dict[int, list[Output]] = {}
    for output, number in last.items():
        if output not in stay:
            release.setdefault(number, []).append(output)
    return release
