"""Cheating of a dishonest party: a hook or a wrapped executor can tell every lie of the game.

Each test tells one lie at one step and checks the first record that differs, and the part of it that differs. The
referee judges by that part (docs/protocol.md, section 7).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import repops

from referee_py.commit import Record
from referee_py.execute import (
    Executor,
    Interpreter,
    NodeHook,
    Run,
    Site,
    State,
    StepTrace,
    Value,
)
from referee_py.program import Kind, Operand

from ..program import tiny

PROGRAM = tiny.program()
CPU = repops.backend("cpu")
LIE_AT = 4


class Recorder:
    """Keeps the trace of every committed step of the executor that it wraps."""

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.traces: dict[int, StepTrace] = {}

    def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
        after, trace = self.inner.step(state, commit)
        if trace:
            self.traces[after.step] = trace
        return after, trace


def traces(
    hook: NodeHook | None = None, wrap: Callable[[Executor], Executor] | None = None
) -> dict[int, StepTrace]:
    """Return all step traces of a run by an executor that may cheat."""
    constants, initial = tiny.tensors()
    inner: Executor = Interpreter(PROGRAM, constants, CPU, hook)
    recorder = Recorder(wrap(inner) if wrap else inner)
    run = Run(PROGRAM, constants, initial, tiny.STEPS, (1,), CPU, executor=recorder)
    run.commit_run()
    return recorder.traces


HONEST = traces()


def first_difference(found: dict[int, StepTrace]) -> tuple[int, int, Record, Record]:
    """Return (step, node, honest record, other record) of the first difference."""
    for step, trace in HONEST.items():
        for node, (honest, other) in enumerate(zip(trace.records, found[step].records, strict=True)):
            if honest != other:
                return step, node, honest, other
    raise AssertionError("the lie has changed nothing")


def replaced_input(found: dict[int, StepTrace], operand: Operand) -> None:
    """Check that the first difference is this operand as an input, in the step of the lie; the structure is honest."""
    step, node, honest, other = first_difference(found)
    assert step == LIE_AT
    assert honest.structure == other.structure
    differing = [
        source
        for source, a, b in zip(PROGRAM.nodes[node].inputs, honest.inputs, other.inputs, strict=True)
        if a != b
    ]
    assert differing == [operand]


def is_carried_on(found: dict[int, StepTrace]) -> None:
    """Check that the lie changes the state, and that every later step follows honestly from it."""
    for before, after in zip(range(LIE_AT, tiny.STEPS), range(LIE_AT + 1, tiny.STEPS + 1), strict=True):
        assert found[after].root != HONEST[after].root
        for structure, record in zip(PROGRAM.nodes, found[after].records, strict=True):
            for operand, given in zip(structure.inputs, record.inputs, strict=True):
                if operand.kind == Kind.SLOT:
                    source = PROGRAM.slots[operand.index]
                    assert given == found[before].records[source.node].outputs[source.output]


class ReplaceInput(NodeHook):
    """Replaces each read of `operand` in one step by `value(honest value, site)`."""

    keeps_values = True

    def __init__(self, operand: Operand, value: Callable[[Value, Site], Value]) -> None:
        self.operand, self.value = operand, value

    def inputs(self, at: Site, inputs: list[Value]) -> list[Value]:
        if at.step != LIE_AT:
            return inputs
        return [
            self.value(given, at) if source == self.operand else given
            for source, given in zip(PROGRAM.nodes[at.node].inputs, inputs, strict=True)
        ]


def test_a_poisoned_constant() -> None:
    found = traces(ReplaceInput(tiny.constant(tiny.Y), lambda given, _: Value(given.array + 1)))
    replaced_input(found, tiny.constant(tiny.Y))
    is_carried_on(found)


def test_one_wrong_element_of_one_output() -> None:
    class Flip(NodeHook):
        def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:
            if (at.step, at.node) != (LIE_AT, tiny.GRADIENT):
                return outputs
            wrong = outputs[0].array.copy()
            wrong.view(np.uint32)[1] ^= 1 << 20
            return [Value(wrong)]

    found = traces(Flip())
    step, node, honest, other = first_difference(found)
    assert (step, node) == (LIE_AT, tiny.GRADIENT)
    assert (honest.structure, honest.inputs) == (other.structure, other.inputs)
    assert honest.outputs != other.outputs
    is_carried_on(found)


def test_another_structure_in_a_record() -> None:
    class OtherOperator(NodeHook):
        def record(self, at: Site, record: Record) -> Record:
            if (at.step, at.node) != (LIE_AT, tiny.GRADIENT):
                return record
            return Record(PROGRAM.nodes[0].hash(), record.inputs, record.outputs)

    step, node, honest, other = first_difference(traces(OtherOperator()))
    assert (step, node) == (LIE_AT, tiny.GRADIENT)
    assert honest.structure != other.structure
    assert (honest.inputs, honest.outputs) == (other.inputs, other.outputs)


def test_a_different_earlier_value_for_an_operand() -> None:
    """The weight's update gets the raw gradient instead of the velocity: momentum is left out."""
    velocity = PROGRAM.nodes[13].inputs[0]
    found = traces(ReplaceInput(velocity, lambda _, at: at.lookup(tiny.node(tiny.GRADIENT))))
    replaced_input(found, velocity)
    is_carried_on(found)


def test_the_wrong_step_number() -> None:
    found = traces(ReplaceInput(tiny.STEP, lambda given, _: Value(np.asarray(given.array - 1))))
    replaced_input(found, tiny.STEP)


def test_a_stale_slot() -> None:
    class Stale:
        """Uses the velocity of the step before, in one step."""

        def __init__(self, inner: Executor) -> None:
            self.inner = inner
            self.earlier: Value | None = None

        def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
            used = state
            if state.step + 1 == LIE_AT:
                assert self.earlier is not None
                used = state.replace(tiny.VELOCITY, self.earlier)
            self.earlier = state.values[tiny.VELOCITY]
            return self.inner.step(used, commit)

    found = traces(wrap=Stale)
    replaced_input(found, tiny.slot(tiny.VELOCITY))
    is_carried_on(found)


def test_skipped_steps() -> None:
    class Lazy:
        """Trains nothing from some step on: returns the last trace and state again."""

        def __init__(self, inner: Executor) -> None:
            self.inner = inner
            self.last: StepTrace | None = None

        def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
            if state.step + 1 >= LIE_AT:
                return State(state.step + 1, state.values), self.last
            after, self.last = self.inner.step(state, commit)
            return after, self.last

    found = traces(wrap=Lazy)
    step, node, honest, other = first_difference(found)
    assert step == LIE_AT
    assert PROGRAM.nodes[node].inputs[0] == tiny.STEP
    assert honest.inputs != other.inputs, "the step number gives it away"
    assert found[tiny.STEPS].root == found[LIE_AT - 1].root
