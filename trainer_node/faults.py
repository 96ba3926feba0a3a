"""Lies for demonstrations and tests: the ways in which a trainer may cheat, each a small change to an honest run.

A liar here is consistent: it really computes with its lie, commits to what it computed, and defends that in a dispute
with the same player as everybody. What decides against it is the table `EXPECTED`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from referee_py.commit import Record, Tag, digest
from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.execute import (
    Backend,
    Capture,
    Chain,
    Executor,
    Interpreter,
    NodeHook,
    NodeValues,
    Site,
    State,
    StepTrace,
    Value,
    executor_for,
)
from referee_py.game.state import Reason
from referee_py.program import Kind, Operand, Program, SlotSource
from referee_py.rounding.backend import Rounded
from referee_py.rounding.book import MemoryBook
from referee_py.rounding.entries import Log
from referee_py.rounding.mode import is_rounded
from referee_py.rounding.primitives import quantum
from referee_py.rounding.step_log import NodeLog, StepLog


class Fault(StrEnum):
    """What a party does wrong."""

    NONE = "none"
    POISON_DATA = "poison-data"
    SKIP_STEPS = "skip-steps"
    WRONG_OP_OUTPUT = "wrong-op-output"
    WRONG_STRUCTURE = "wrong-structure"
    WRONG_INPUT = "wrong-input"
    STALE_WEIGHTS = "stale-weights"
    WITHHOLD = "withhold"
    FORGED_LOG = "forged-log"
    WRONG_LOG = "wrong-log"


OF_LOGS = frozenset({Fault.FORGED_LOG, Fault.WRONG_LOG})
"""Faults of the mode rounded-f64 only."""


def fits(fault: Fault, mode: int) -> bool:
    """Whether a program of that arithmetic mode can have the fault."""
    return fault not in OF_LOGS or is_rounded(mode)


EXPECTED: dict[Fault, Reason] = {
    Fault.POISON_DATA: Reason.INPUT_CONSTANT,
    Fault.SKIP_STEPS: Reason.INPUT_STEP,
    Fault.WRONG_OP_OUTPUT: Reason.OPERATOR,
    Fault.WRONG_STRUCTURE: Reason.STRUCTURE,
    Fault.WRONG_INPUT: Reason.INPUT_NODE,
    Fault.STALE_WEIGHTS: Reason.INPUT_CHECKPOINT,
    Fault.WITHHOLD: Reason.TIMEOUT,
    Fault.FORGED_LOG: Reason.OPERATOR,
    Fault.WRONG_LOG: Reason.LOG,
}
"""What must decide the dispute about a run with that fault."""


@dataclass(frozen=True, slots=True)
class Lie:
    """A fault and where it is: from ``step`` (counted from 1) on; of ``node``, where the fault is one of any node."""

    fault: Fault = Fault.NONE
    step: int = 1
    node: int | None = None
    appeals: bool = False
    """Whether the liar appeals from verdicts against it, which costs it a bond."""


HONEST = Lie()


@dataclass(frozen=True, slots=True)
class Target:
    """What a lie is told about."""

    program: Program
    constants: Sequence[Array]
    initial: Sequence[Array]
    backend: Backend
    step: int
    node: int | None = None


def executor_of(fault: Fault, target: Target) -> Executor | None:
    """The executor that tells this lie; None for an honest one. Raises InvalidInput if the program cannot have it."""
    if fault is Fault.NONE:
        return None
    if fault is Fault.SKIP_STEPS:
        return _SkipSteps(target)
    if fault is Fault.FORGED_LOG:
        return _Forger(target)
    return _Liar(fault, target)


def values_of(fault: Fault, target: Target, state: State, node: int) -> NodeValues:
    """The tensors of a node in the step after ``state`` as the liar says they are; for an honest one as they are."""
    capture = Capture(node)
    lies = fault in _HOOKS
    hook: NodeHook = Chain(hook_of(fault, target), capture) if lies else capture
    Interpreter(target.program, target.constants, target.backend, hook).step(state, False)
    return capture.found[node]


class _Liar:
    """Honest and fast, but for the step of the lie, and for what is committed to."""

    def __init__(self, fault: Fault, target: Target) -> None:
        self._step = target.step
        self._honest = executor_for(target.program, target.constants, target.backend)
        hook = hook_of(fault, target)
        self._lying = Interpreter(target.program, target.constants, target.backend, hook)

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        lies = commit or state.step + 1 == self._step
        return (self._lying if lies else self._honest).step(state, commit)


def hook_of(fault: Fault, target: Target) -> NodeHook:
    """The hook that tells this lie at single nodes."""
    return _HOOKS[fault](target)


class _Forger(_Liar):
    """Writes an entry that no rounding of the exact result gives into the log of a step, and goes by it.

    NOTE: who does not write the log himself (a challenger) can only go by it; then it is a wrong output.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(Fault.FORGED_LOG, target)
        self._target = target

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        backend = _rounded(self._target)
        if state.step + 1 == self._step and backend.book.get(self._step) is None:
            backend.book.put(self._step, self._forged(state, backend))
        return super().step(state, commit)

    def _forged(self, state: State, honest: Rounded) -> StepLog:
        """The honest log of the step, with the one entry."""
        target, book = self._target, MemoryBook()
        node, form = _free(target.program), honest.rounding.form
        capture = Capture(node)
        backend = Rounded(honest.rounding, book, honest.evaluator)
        Interpreter(target.program, target.constants, backend, capture).step(state, False)
        written = book.get(self._step)
        assert written is not None
        (result,) = capture.found[node].outputs
        element, value = _beyond(result, honest.rounding.bits)
        log = written.entries(node, result.size)
        kept, wide = log.narrow != element, log.wide < element
        forged = Log(
            result.size,
            log.narrow[kept],
            log.up[kept],
            np.concatenate([log.wide[wide], [element], log.wide[log.wide > element]]),
            np.concatenate([log.values[wide], [value], log.values[log.wide > element]]),
        )
        return StepLog({**written.nodes, node: NodeLog.of(forged, form)})


class _WrongLog(NodeHook):
    """From its step on, one node is said to go by a log that is not the one committed to."""

    def __init__(self, target: Target) -> None:
        _rounded(target)
        self._step = target.step
        self._node = _free(target.program)

    def record(self, at: Site, record: Record) -> Record:
        if at.step < self._step or at.node != self._node:
            return record
        return Record(record.structure, record.inputs, record.outputs, digest(Tag.ROUNDING_LOG, record.log))


class _AppliesForged(NodeHook):
    """The output that the forged entry asks for."""

    def __init__(self, target: Target) -> None:
        self._step = target.step
        self._node = _free(target.program)
        self._bits = _rounded(target).rounding.bits

    def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:
        if (at.step, at.node) != (self._step, self._node):
            return outputs
        array = outputs[0].array.copy()
        element, value = _beyond(array, self._bits)
        array.reshape(-1)[element] = value
        return [Value(array)]


def _rounded(target: Target) -> Rounded:
    """Raises InvalidInput for a fault of logs in a mode without them."""
    if not isinstance(target.backend, Rounded):
        raise InvalidInput(
            "repops-f32 has no rounding logs to lie about; choose another fault, or rounded-f64"
        )
    return target.backend


def _free(program: Program) -> int:
    """The first contraction: a node whose order of additions is free."""
    return _find(program, "mm")


def _beyond(result: Array, bits: int) -> tuple[int, float]:
    """An element, and a value for it that is no rounding of anything near: the largest, two quanta further on."""
    flat = result.reshape(-1).astype(np.float64)
    element = int(np.argmax(np.abs(flat)))
    return element, float(flat[element] + 2 * quantum(flat[element : element + 1], bits)[0])


class _PoisonData(NodeHook):
    """One label that the batch uses is changed in one step."""

    def __init__(self, target: Target) -> None:
        self._step = target.step
        self._node = _find(target.program, "take", lambda node: _labels(target.program, node))

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
        if (at.step, at.node) != (self._step, self._node):
            return inputs
        labels = inputs[0].array.copy()
        labels[inputs[1].array.flat[0]] ^= 1
        return [Value(labels), *inputs[1:]]


class _WrongOutput(NodeHook):
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
            flat[0] = np.nextafter(flat[0], np.float32(np.inf))
        elif flat.size:
            middle = flat.size // 2
            flat[middle] = not flat[middle] if array.dtype == np.bool_ else flat[middle] * 2 + 1
        return [Value(array) if i == self._source.output else value for i, value in enumerate(outputs)]


class _WrongStructure(NodeHook):
    """From its step on, one node is said to be another operator."""

    def __init__(self, target: Target) -> None:
        self._step = target.step
        self._node = _find(target.program, "mm")
        self._other = target.program.nodes[_find(target.program, "add")].hash()

    def record(self, at: Site, record: Record) -> Record:
        if at.step < self._step or at.node != self._node:
            return record
        return Record(self._other, record.inputs, record.outputs, record.log)


class _WrongInput(NodeHook):
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


class _StaleWeights(NodeHook):
    """One node reads a weight as it was before training."""

    def __init__(self, target: Target) -> None:
        self._step = target.step
        self._initial = target.initial
        self._program = target.program
        self._node = _find(target.program, None, lambda node: _reads_weight(target.program, node))

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
        if (at.step, at.node) != (self._step, self._node):
            return inputs
        operands = self._program.nodes[at.node].inputs
        return [
            Value(self._initial[operand.index]) if operand.kind is Kind.SLOT else value
            for operand, value in zip(operands, inputs, strict=True)
        ]


class _SkipSteps:
    """From its step on nothing is computed any more: the last real step is presented again and again, log and all."""

    def __init__(self, target: Target) -> None:
        if target.step < 2:
            raise InvalidInput(
                f"steps cannot be skipped from step {target.step}; the first real one is needed"
            )
        self._step = target.step
        self._backend = target.backend
        self._honest = executor_for(target.program, target.constants, target.backend)
        self._initial = State.of(0, target.initial)
        self._last: StepTrace | None = None

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        if state.step + 1 < self._step:
            return self._honest.step(state, commit)
        after = State(state.step + 1, state.values)
        if isinstance(self._backend, Rounded) and self._backend.book.get(after.step) is None:
            log = self._backend.book.get(self._step - 1)
            assert log is not None, "the last real step has written it"
            self._backend.book.put(after.step, log)
        return after, StepTrace(after.step, self._last_real().records) if commit else None

    def _last_real(self) -> StepTrace:
        if self._last is None:
            state = self._initial
            while state.step < self._step - 2:
                state, _ = self._honest.step(state, False)
            _, self._last = self._honest.step(state, True)
        assert self._last is not None
        return self._last


_HOOKS: dict[Fault, Callable[[Target], NodeHook]] = {
    Fault.POISON_DATA: _PoisonData,
    Fault.WRONG_OP_OUTPUT: _WrongOutput,
    Fault.WRONG_STRUCTURE: _WrongStructure,
    Fault.WRONG_INPUT: _WrongInput,
    Fault.STALE_WEIGHTS: _StaleWeights,
    Fault.FORGED_LOG: _AppliesForged,
    Fault.WRONG_LOG: _WrongLog,
    # NOTE: who withholds has something to hide; its silence is the node's part (trainer_node/trainer.py).
    Fault.WITHHOLD: _WrongOutput,
}


def _find(program: Program, name: str | None, accepts: Callable[[int], bool] = lambda _: True) -> int:
    """The first node of that operator (of any, if None) that is accepted."""
    for node, structure in enumerate(program.nodes):
        if name in (None, structure.name) and accepts(node):
            return node
    raise InvalidInput(f"the program has no {name or 'fitting'} node to lie about; choose another fault")


def _reads_weight(program: Program, node: int) -> bool:
    """Whether an input is a slot that is a matrix or larger."""
    slots = [operand.index for operand in program.nodes[node].inputs if operand.kind is Kind.SLOT]
    return any(len(program.initial[slot].type.shape) > 1 for slot in slots)


def _labels(program: Program, node: int) -> bool:
    source = program.nodes[node].inputs[0]
    if source.kind is not Kind.CONSTANT:
        return False
    kind = program.constants[source.index].type
    return kind.dtype.name == "I64" and len(kind.shape) == 1
