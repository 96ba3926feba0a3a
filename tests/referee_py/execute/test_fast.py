"""States that share memory with a running executor are never changed under their holders."""

from __future__ import annotations

import numpy as np
import pytest
import repops
from repops.opset import BF16, F32

from referee_py.errors import InvalidInput
from referee_py.execute import FastExecutor, Interpreter, Metrics, State, Value
from referee_py.execute.fast import MAX_VALUES
from referee_py.program import SlotSource

from ..compiled.hostile_programs import Hostile, heavy, view_chain
from ..program import tiny

CPU = repops.backend("cpu")


def fast() -> FastExecutor:
    return FastExecutor(tiny.program(), tiny.tensors()[0], CPU)


def expected(steps: int) -> list[bytes]:
    """Return the hashes of the state after this many steps, by the interpreter."""
    interpreter, state = Interpreter(tiny.program(), tiny.tensors()[0], CPU), State.of(0, tiny.tensors()[1])
    for _ in range(steps):
        state, _ = interpreter.step(state, False)
    return state.slot_hashes()


def start() -> State:
    return State.of(0, tiny.tensors()[1])


def hashes(arrays: list[np.ndarray]) -> list[bytes]:
    return State.of(0, arrays).slot_hashes()


def places(executor: FastExecutor) -> list[int]:
    """Return the addresses of the compiled step's slots."""
    assert executor.compiled is not None
    return [slot.ctypes.data for slot in executor.compiled.slots]


def test_an_offered_state_is_taken_and_says_so() -> None:
    executor = fast()
    one, _ = executor.step(start(), False)
    before = places(executor)
    one.offer()
    two, _ = executor.step(one, False)
    assert places(executor) == before
    assert two.slot_hashes() == expected(2)
    with pytest.raises(InvalidInput, match="after step 1 was offered and is gone"):
        _ = one.values


def test_a_state_that_is_not_offered_stays() -> None:
    executor = fast()
    one, _ = executor.step(start(), False)
    two, _ = executor.step(one, False)
    again, _ = executor.step(one, False)
    assert one.slot_hashes() == expected(1)
    assert two.slot_hashes() == again.slot_hashes() == expected(2)


def test_arrays_outlive_their_state() -> None:
    executor = fast()
    one, _ = executor.step(start(), False)
    arrays = one.arrays
    one.offer()
    two, _ = executor.step(one, False)
    del one, two
    executor.step(start(), False)
    assert hashes(arrays) == expected(1)


def test_states_made_of_another_ones_values() -> None:
    executor = fast()
    one, _ = executor.step(start(), False)
    changed = one.replace(tiny.WEIGHT, Value(np.ones((3, 1), np.float32)))
    shared = State(one.step, one.values)
    executor.step(one, False)
    executor.step(start(), False)
    assert shared.slot_hashes() == expected(1)
    assert changed.slot_hashes()[tiny.VELOCITY] == expected(1)[tiny.VELOCITY]


def test_what_shares_the_values_of_a_state_that_was_taken_is_gone_too() -> None:
    executor = fast()
    one, _ = executor.step(start(), False)
    shared, copied = State(one.step, one.values), one.copy()
    one.offer()
    executor.step(one, False)
    for look in (State.slot_hashes, lambda state: state.arrays, State.copy):
        with pytest.raises(InvalidInput, match="after step 1 was offered and is gone"):
            look(shared)
    assert copied.slot_hashes() == expected(1)


def test_an_offered_state_stays_unless_a_step_goes_on_from_it() -> None:
    executor = fast()
    one, _ = executor.step(start(), False)
    one.offer()
    executor.step(start(), False)
    executor.step(one, True)
    executor.step(one, False)
    assert one.slot_hashes() == expected(1)


def test_a_committed_step_copies_nothing() -> None:
    """The state that it reads gets the compiled step's memory."""
    executor = fast()
    one, _ = executor.step(start(), False)
    before = places(executor)
    executor.step(one, True)
    assert [array.ctypes.data for array in one.arrays] == before
    assert places(executor) == []


def test_restoring_from_its_own_arrays_changes_nothing() -> None:
    executor = fast()
    one, _ = executor.step(start(), False)
    arrays = one.arrays
    del one
    for _ in range(3):
        two, _ = executor.step(State.of(1, arrays), False)
        assert two.slot_hashes() == expected(2)
    assert hashes(arrays) == expected(1)


def test_committed_steps_in_between() -> None:
    executor = fast()
    state, traces = start(), []
    for step in range(1, 7):
        state.offer()
        state, trace = executor.step(state, step % 3 == 0)
        traces.append(trace)
    assert [trace is not None for trace in traces] == [False, False, True] * 2
    assert state.slot_hashes() == expected(6)


def test_metrics_of_every_step() -> None:
    sources = {"error": SlotSource(tiny.CENTRED, 0)}
    executor = FastExecutor(tiny.program(), tiny.tensors()[0], CPU, sources)
    hook = Metrics(sources)
    interpreter, slow, state = Interpreter(tiny.program(), tiny.tensors()[0], CPU, hook), start(), start()
    for step in range(1, 5):
        slow, _ = interpreter.step(slow, False)
        state, _ = executor.step(state, step == 3)
        np.testing.assert_array_equal(executor.latest["error"], hook.latest["error"])


def test_a_state_of_another_program() -> None:
    with pytest.raises(InvalidInput, match="a state of 1 slots; the program has 2"):
        fast().step(State.of(0, tiny.tensors()[1][:1]), False)


def test_a_program_of_too_many_nodes_runs_node_by_node() -> None:
    made = view_chain(MAX_VALUES)
    program = made.program
    executor = FastExecutor(program, made.constants, CPU)
    assert executor.compiled is None
    state, trace = executor.step(State.of(0, made.initial), False)
    wanted, _ = Interpreter(program, made.constants, CPU).step(State.of(0, made.initial), False)
    assert trace is None
    assert state.slot_hashes() == wanted.slot_hashes()


def test_slots_count_too() -> None:
    """A program of one node may have a million slots."""
    many = Hostile(*[()] * MAX_VALUES)
    made = many.add("exp", many.slot(0))
    for slot in range(MAX_VALUES):
        many.update(slot, made)
    assert FastExecutor(many.program, many.constants, CPU).compiled is None


def test_a_step_that_would_need_more_memory_compiled_runs_node_by_node() -> None:
    made = heavy(columns=1 << 20, groups=40)
    sources = {"first": SlotSource(3, 0)}
    executor = FastExecutor(made.program, made.constants, CPU, sources)
    assert executor.compiled is None
    state, _ = executor.step(State.of(0, made.initial), False)
    hook = Metrics(sources)
    wanted, _ = Interpreter(made.program, made.constants, CPU, hook).step(State.of(0, made.initial), False)
    assert state.slot_hashes() == wanted.slot_hashes()
    np.testing.assert_array_equal(executor.latest["first"], hook.latest["first"])
    small = heavy(columns=1 << 10, groups=40)
    assert FastExecutor(small.program, small.constants, CPU).compiled is not None


def test_casts_are_not_kept_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node by node, one cast of these slots is in memory at a time."""
    made = Hostile((), *[(64, 64)] * 50)
    total = made.slot(0)
    for slot in range(1, 51):
        narrow = made.add("cast", made.slot(slot), dtype=BF16)
        wide = made.add("cast", made.add("mm", narrow, narrow), dtype=F32)
        total = made.add("add", total, made.add("sum", wide, dims=(0, 1), keepdim=0))
        made.update(slot, made.add("reshape", made.slot(slot), shape=(64, 64)))
    made.update(0, total)
    for spare, keeps in ((0, False), (50 * 64 * 64 * 2, True)):
        monkeypatch.setattr("referee_py.execute.fast.SPARE_BYTES", spare)
        executor = FastExecutor(made.program, made.constants, CPU)
        assert executor.compiled is not None
        assert executor.compiled.keeps_casts == keeps
        state, other = (State.of(0, made.initial) for _ in range(2))
        interpreter = Interpreter(made.program, made.constants, CPU)
        for _ in range(2):
            state, other = executor.step(state, False)[0], interpreter.step(other, False)[0]
            assert state.slot_hashes() == other.slot_hashes()
