"""Ownership of a state's memory (referee_py/execute/lease.py), in steps that only hand slots on.

All results of such a step lie in memory that it was given, and only the rule decides who may write to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import repops
from repops.opset import F32

from referee_py.commit.tensor import Array
from referee_py.compiled.rounded import RoundedCpu
from referee_py.execute import Backend, Executor, FastExecutor, Interpreter, Run, State
from referee_py.program import Kind, Operand, Program, SlotSource, Structure, TensorDescriptor, TensorType
from referee_py.program.modes import Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.log_source import MemoryLogs
from trainer_node.rounded.evaluators import NumpyEvaluator

from ..compiled.tensor_machine import TensorMachine

CPU = repops.backend("cpu")
TYPE = TensorType(F32, (1,))


def slot(k: int) -> Operand:
    return Operand(Kind.SLOT, k)


def copy_of(k: int) -> Structure:
    return Structure.make("reshape", [slot(k)], [TYPE], shape=(1,))


def program(*nodes: Structure) -> Program:
    """Return a program whose node k gives slot k."""
    described = tuple(map(TensorDescriptor.of, initial()[: len(nodes)]))
    return Program(nodes, tuple(SlotSource(k, 0) for k in range(len(nodes))), (), described)


def initial() -> list[Array]:
    return [np.array([value], np.float32) for value in (1, 2, 3)]


SWAP = program(copy_of(1), copy_of(0))
DELAY = program(Structure.make("add", [slot(0), slot(1)], [TYPE]), copy_of(0), copy_of(1))
FIBONACCI = program(Structure.make("add", [slot(0), slot(1)], [TYPE]), copy_of(0))


def rounding() -> Rounded:
    return Rounded(Rounding(29), MemoryLogs(), NumpyEvaluator())


EXECUTORS: dict[str, Callable[[Program], Executor]] = {
    "interpreter": lambda made: Interpreter(made, (), CPU),
    "fast": lambda made: FastExecutor(made, (), CPU),
    "fast, on tensors": lambda made: FastExecutor(made, (), CPU, machine=TensorMachine()),
    "rounded": lambda made: FastExecutor(made, (), (backend := rounding()), machine=RoundedCpu(backend)),
}
every_executor = pytest.mark.parametrize("name", EXECUTORS)


def numbers(state: State) -> list[float]:
    return [float(array[0]) for array in state.arrays]


def first(made: Program) -> State:
    return State.of(0, initial()[: len(made.slots)])


@every_executor
@pytest.mark.parametrize("offered", [True, False])
def test_a_swap_around_a_committed_step(name: str, offered: bool) -> None:
    executor, state, seen = EXECUTORS[name](SWAP), first(SWAP), []
    for commit in (False, True, False, False, True, True, False):
        if offered:
            state.offer()
        state, _ = executor.step(state, commit)
        seen.append(numbers(state))
    assert seen == [[2, 1], [1, 2]] * 3 + [[2, 1]]


@every_executor
@pytest.mark.parametrize("commit", [True, False])
def test_a_kept_state_stays(name: str, commit: bool) -> None:
    executor = EXECUTORS[name](SWAP)
    state, _ = executor.step(first(SWAP), False)
    kept, _ = executor.step(state, commit)
    state = kept
    for _ in range(3):
        state, _ = executor.step(state, False)
        state.offer()
        assert numbers(kept) == [1, 2]


@every_executor
@pytest.mark.parametrize("commit", [True, False])
def test_a_view_of_an_array_stays_when_all_else_is_gone(name: str, commit: bool) -> None:
    """For a view of a view, numpy's base is the memory's first owner, which does not identify the state."""
    executor, state = EXECUTORS[name](DELAY), first(DELAY)
    views = []
    for step in range(6):
        state, _ = executor.step(state, commit and step % 2 == 1)
        for array in state.arrays:
            view = array.reshape(1, 1)[0][...]
            views.append((view, view.copy()))
        del array
        state.offer()
    assert all((view == before).all() for view, before in views)
    assert len({float(before[0]) for _, before in views}) > 5


@pytest.mark.parametrize("snapshots", [(), (2, 4), (1, 2, 3, 4, 5, 6, 7, 8)])
@pytest.mark.parametrize("made", [FIBONACCI, DELAY, SWAP], ids=["fibonacci", "delay", "swap"])
@pytest.mark.parametrize("mode", ["repops-f32", "rounded-f64"])
def test_a_trainer_commits_to_the_interpreters_root(
    mode: str, made: Program, snapshots: tuple[int, ...]
) -> None:
    found = []
    for interpreted in (True, False):
        backend: Backend = CPU if mode == "repops-f32" else rounding()
        executor = Interpreter(made, (), backend) if interpreted else None
        run = Run(made, (), initial()[: len(made.slots)], 8, (2, 1), backend, executor=executor)
        assert isinstance(run.executor, Interpreter if interpreted else FastExecutor)
        seen: list[list[float]] = []
        interval = run.commit_interval(
            run.initial(),
            8,
            2,
            snapshots=snapshots,
            on_step=partial(lambda seen, s, _: seen.append(numbers(s)), seen),
        )
        kept = {step: numbers(state) for step, state in interval.snapshots.items()}
        assert all(kept[step] == seen[step - 1] for step in snapshots)
        found.append((seen, interval.root, kept))
    assert found[0] == found[1]


def test_the_callers_own_arrays_are_never_written_to() -> None:
    arrays = initial()[:2]
    executor = FastExecutor(SWAP, (), CPU)
    state = State.of(0, arrays)
    for step in range(6):
        state.offer()
        state, _ = executor.step(state, step % 3 == 0)
    assert arrays == initial()[:2]


def test_a_leased_value_is_copied_for_whoever_looks_on_its_own_machine_too() -> None:
    machine = TensorMachine()
    executor = FastExecutor(SWAP, (), CPU, machine=machine)
    state, _ = executor.step(first(SWAP), False)
    seen = [value.on(machine) for value in state.values]
    state.offer()
    executor.step(state, False)
    assert [float(tensor[0]) for tensor in seen] == [2, 1]


def test_the_tensors_of_a_node_from_a_leased_state() -> None:
    run = Run(SWAP, (), initial()[:2], 8, (2, 1), CPU)
    state = run.advance(run.initial(), 3)
    found = run.node_values(state, 0, 1)
    state.offer()
    run.advance(state, 6)
    assert [float(found[k].inputs[0][0]) for k in (0, 1)] == [1, 2]
    assert [float(found[k].outputs[0][0]) for k in (0, 1)] == [1, 2]
