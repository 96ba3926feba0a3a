"""Runs one step of a program, node by node, over a backend; commits to it if asked.

A `NodeHook` sees every node and may replace what goes in, what comes out and what is recorded. Metrics are read
through one, and tests and demonstrations cheat through one: an honest run has no hook, or one that only looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ..commit import NO_LOG, Record, Tag, Tree
from ..commit.tensor import Array
from ..compiled import Cuda
from ..errors import InvalidInput
from ..program import Kind, Operand, Program
from ..rounding.backend import Rounded
from .plan import Instruction, StepPlan
from .values import Device, State, Value

Lookup = Callable[[Operand], Value]


class Operators(Protocol):
    """What executes an operator in the mode repops-f32: see `repops.backend`."""

    @property
    def name(self) -> str: ...

    @property
    def execute(self) -> Callable[[str, Sequence[Array], dict[str, Any]], list[Array]]: ...


Backend = Operators | Rounded
"""What computes a program's nodes; it also says in which arithmetic mode."""


def device_of(backend: Backend) -> Device | None:
    """Where a backend has its values; None for the host's memory. Raises CudaUnavailable."""
    if isinstance(backend, Rounded):
        return backend.device
    return Cuda() if backend.name == "cuda" else None


class Arithmetic(Protocol):
    """The nodes of a step, one after the other, and what is to be recorded of them beside their values."""

    def begin(self, step: int) -> None: ...

    def execute(self, node: int, name: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> list[Any]: ...

    def log(self, node: int) -> bytes:
        """The log hash of a node that was executed."""
        ...

    def end(self) -> None:
        """All nodes were executed."""
        ...


class _Exact:
    """The mode repops-f32: nothing beside the values."""

    def __init__(self, execute: Callable[..., list[Any]]) -> None:
        self._execute = execute

    def begin(self, step: int) -> None: ...

    def execute(self, node: int, name: str, inputs: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:  # noqa: ARG002
        return self._execute(name, inputs, attrs)

    def log(self, node: int) -> bytes:  # noqa: ARG002
        return NO_LOG

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Site:
    """Where a hook is called: a node of a step. `lookup` gives any slot, constant or output of an earlier node."""

    step: int
    node: int
    lookup: Lookup


class NodeHook:
    """Sees every node of every step. This one changes nothing; subclass it.

    `keeps_values` is set by a hook that looks values up: then nothing is released before the step ends.
    """

    keeps_values = False

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:  # noqa: ARG002
        """The inputs to use."""
        return inputs

    def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:  # noqa: ARG002
        """The outputs to carry on with."""
        return outputs

    def record(self, at: Site, record: Record) -> Record:  # noqa: ARG002
        """The record to commit to. Called only in committed steps."""
        return record


@dataclass(frozen=True)
class StepTrace:
    """What a step did, node by node."""

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
    """Whatever computes steps. Wrap one to change a whole step; see `NodeHook` for a single node."""

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        """The state after step `state.step + 1`, and its trace if `commit`."""
        ...


class Interpreter:
    """The honest executor of a validated program. Constants must have been checked against it.

    Values stay on the backend's device, if it has one, until somebody looks at them. Another `device` takes the place
    of a backend of the mode repops-f32.
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
        self._arithmetic: Arithmetic = (
            backend if isinstance(backend, Rounded) else _Exact(device.execute if device else backend.execute)
        )
        self._constants = [
            Value(array, descriptor.hash)
            for array, descriptor in zip(constants, program.constants, strict=True)
        ]
        self._slots = program.slots

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        if len(state.values) != len(self._slots):
            raise InvalidInput(f"a state of {len(state.values)} slots; the program has {len(self._slots)}")
        run = _Step(self, state)
        self._arithmetic.begin(run.number)
        records = [run.execute(instruction, commit) for instruction in self.plan.instructions]
        self._arithmetic.end()
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
        device, arithmetic = self._interpreter.device, self._interpreter._arithmetic
        results = arithmetic.execute(
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
                arithmetic.log(node),
            )
            if hook:
                record = hook.record(site, record)
        if not (hook and hook.keeps_values):
            for done in instruction.release:
                self.nodes[done] = self._released
        return record
