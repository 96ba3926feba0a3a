"""Runs one step of a program, node by node, over a backend; commits to it on request.

A `NodeHook` sees every node and may replace its inputs, its outputs and its record. Metrics are read through a hook,
and tests and demonstrations cheat through one. An honest run has no hook, or one that only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from .. import pauses
from ..commit import Record, Tag, Tree
from ..commit.tensor import Array
from ..device import Device
from ..errors import InvalidInput
from ..program import Kind, Operand, Program
from .backends import Backend, device_of, node_executor
from .plan import Instruction, StepPlan
from .values import State, Value

Lookup = Callable[[Operand], Value]


@dataclass(frozen=True, slots=True)
class Site:
    """A node of a step, given to a hook. `lookup` returns any slot, constant or output of an earlier node."""

    step: int
    node: int
    lookup: Lookup


class NodeHook:
    """Sees every node of every step. The base class changes nothing; subclass it.

    A hook that looks values up sets `keeps_values`: then nothing is released before the step ends.
    """

    keeps_values = False

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:  # noqa: ARG002
        """Return the inputs to use."""
        return inputs

    def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:  # noqa: ARG002
        """Return the outputs to carry on with."""
        return outputs

    def record(self, at: Site, record: Record) -> Record:  # noqa: ARG002
        """Return the record to commit to. Called only in committed steps."""
        return record


@dataclass(frozen=True)
class StepTrace:
    """The records of one step, node by node."""

    step: int
    records: tuple[Record, ...]

    @cached_property
    def tree(self) -> Tree:
        return Tree(Tag.STEP_TREE, [record.hash() for record in self.records])

    @property
    def root(self) -> bytes:
        """The checkpoint `C_step`."""
        return self.tree.root


class Executor(Protocol):
    """Computes steps. Wrap one to change a whole step; see `NodeHook` for a single node."""

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        """Return the state after step `state.step + 1`, and its trace if `commit`."""
        ...


class Interpreter:
    """The honest executor of a validated program. The caller has checked the constants against the program.

    Values stay on the backend's device, if it has one, until they are read on the host. In a mode without logs a given
    `device` replaces the backend.
    """

    def __init__(
        self,
        program: Program,
        constants: Sequence[Array],
        backend: Backend,
        hook: NodeHook | None = None,
        device: Device | None = None,
    ) -> None:
        self.plan = StepPlan(program)
        self.hook = hook
        self.device = device = device or device_of(backend)
        self._nodes = node_executor(backend, device)
        self._constants = [
            Value(array, descriptor.hash)
            for array, descriptor in zip(constants, program.constants, strict=True)
        ]
        self._slots = program.slots

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        if len(state.values) != len(self._slots):
            raise InvalidInput(f"a state of {len(state.values)} slots; the program has {len(self._slots)}")
        run = _Step(self, state)
        self._nodes.begin(run.number)
        records, act = [], pauses.asked()
        if act is not None:
            act()
        for instruction in self.plan.instructions:
            records.append(run.execute(instruction, commit))
            if act is not None:
                act()
        self._nodes.end()
        after = State(run.number, tuple(run.nodes[slot.node][slot.output] for slot in self._slots))
        return after, StepTrace(run.number, tuple(r for r in records if r)) if commit else None


class _Step:
    """The values of one step while it runs."""

    def __init__(self, interpreter: Interpreter, state: State) -> None:
        self.number = state.step + 1
        self.nodes: list[list[Value]] = []
        self._released: list[Value] = []
        self._interpreter = interpreter
        self._sources: dict[Kind, Sequence[Value]] = {
            Kind.SLOT: state.values,
            Kind.CONSTANT: interpreter._constants,
            Kind.STEP: [Value(np.array(self.number, dtype=np.int64))],
        }

    def lookup(self, operand: Operand) -> Value:
        if operand.kind == Kind.NODE:
            return self.nodes[operand.index][operand.output]
        return self._sources[operand.kind][operand.index]

    def execute(self, instruction: Instruction, commit: bool) -> Record | None:
        hook, node = self._interpreter.hook, instruction.node
        inputs = [self.lookup(operand) for operand in instruction.inputs]
        if hook:
            site = Site(self.number, node, self.lookup)
            inputs = hook.inputs(site, inputs)
        device, nodes = self._interpreter.device, self._interpreter._nodes
        results = nodes.execute(
            node, instruction.op, [value.on(device) for value in inputs], instruction.attrs
        )
        outputs = [Value.there(tensor, device) if device else Value(tensor) for tensor in results]
        if hook:
            outputs = hook.outputs(site, outputs)
        self.nodes.append(outputs)
        record = None
        if commit:
            record = Record(
                instruction.structure_hash,
                tuple(value.hash() for value in inputs),
                tuple(value.hash() for value in outputs),
                nodes.log(node),
            )
            if hook:
                record = hook.record(site, record)
        if not (hook and hook.keeps_values):
            for done in instruction.release:
                self.nodes[done] = self._released
        return record
