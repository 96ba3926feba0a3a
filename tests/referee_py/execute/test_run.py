"""Runs: intervals, refinements, interruption and resumption all lead to the same roots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import repops
from hypothesis import given, settings
from hypothesis import strategies as st
from repops.host import cpu

from referee_py.commit import Tag, Tree, fold_path
from referee_py.errors import HashMismatch, InvalidInput, InvalidProgram
from referee_py.execute import Run, State, StepTrace, checkpoint_steps, initial_root

from ..program import tiny

PROGRAM = tiny.program()
N = tiny.STEPS


def run(strides: tuple[int, ...] = (5, 1), backend: str = "cpu", **options: Any) -> Run:
    return Run(PROGRAM, *tiny.tensors(), N, strides, repops.backend(backend), **options)


def roots_of_every_step() -> list[bytes]:
    one = run((1,))
    return list(one.commit_interval(one.initial(), N, 1).checkpoints)


ROOTS = roots_of_every_step()


def test_the_run_tree_has_the_checkpoints_of_the_protocol() -> None:
    interval = run((5, 1)).commit_run()
    assert checkpoint_steps(0, N, 5) == [5, 10, 12]
    assert interval.checkpoints == (ROOTS[4], ROOTS[9], ROOTS[11])
    assert interval.root == Tree(Tag.RUN_TREE, interval.checkpoints).root


def test_the_claim_proves_its_last_checkpoint() -> None:
    claim = run((5, 1)).commit_run().claim()
    assert claim.last == ROOTS[-1]
    assert fold_path(Tag.RUN_TREE, claim.last, 2, claim.path) == claim.root


def test_c_0_is_the_initial_root() -> None:
    assert initial_root(tiny.tensors()[1]) == PROGRAM.initial_root


@settings(deadline=None)
@given(st.integers(0, N - 1), st.integers(1, N), st.integers(1, N + 3))
def test_every_interval_at_every_stride_has_the_same_checkpoints(a: int, length: int, stride: int) -> None:
    b = min(a + length, N)
    one = run()
    interval = one.commit_interval(one.advance(one.initial(), a), b, stride)
    steps = [min(a + (k + 1) * stride, b) for k in range(-(-(b - a) // stride))]
    assert interval.checkpoints == tuple(ROOTS[step - 1] for step in steps)


class Stop(Exception):
    """An operator's Ctrl-C, as the code sees it."""


@settings(deadline=None)
@given(st.integers(1, N - 1), st.integers(1, 6))
def test_an_interrupted_run_resumes_to_the_same_root(stop_after: int, stride: int) -> None:
    """The state is stored as bytes and restored."""
    seen: list[tuple[State, bytes | None]] = []

    def on_step(state: State, trace: StepTrace | None) -> None:
        seen.append((state, trace.root if trace else None))
        if state.step == stop_after:
            raise Stop

    first = run()
    with pytest.raises(Stop):
        first.commit_interval(first.initial(), N, stride, on_step=on_step)
    stored = [array.tobytes() for array in seen[-1][0].arrays]
    done = [root for _, root in seen if root]

    second = run()
    shapes = [tensor.type.shape for tensor in PROGRAM.initial]
    arrays = [np.frombuffer(b, np.float32).reshape(s) for b, s in zip(stored, shapes, strict=True)]
    state = second.restore(stop_after, arrays)
    resumed = second.commit_interval(state, N, stride, start=0, done=done)
    assert resumed == run().commit_interval(run().initial(), N, stride)


def test_resuming_from_the_wrong_place_is_refused() -> None:
    one = run()
    state = one.advance(one.initial(), 6)
    with pytest.raises(InvalidInput, match="0 checkpoints are known"):
        one.commit_interval(state, N, 5, start=0)
    with pytest.raises(InvalidInput, match="2 checkpoints are known"):
        one.commit_interval(state, N, 5, start=0, done=[ROOTS[4], ROOTS[9]])


def test_snapshots_are_the_states_that_were_asked_for() -> None:
    one = run()
    interval = one.commit_interval(one.initial(), N, 5, snapshots=(0, 5, 7))
    assert sorted(interval.snapshots) == [0, 5, 7]
    for step, state in interval.snapshots.items():
        assert state.step == step
        assert state.slot_hashes() == one.advance(one.initial(), step).slot_hashes()
    refined = one.commit_interval(interval.snapshots[5], 10, 1)
    assert refined.checkpoints == tuple(ROOTS[5:10])
    assert refined.checkpoints[-1] == interval.checkpoints[1]


def test_roots_do_not_depend_on_the_number_of_threads() -> None:
    before = cpu.get_num_threads()
    try:
        found = set()
        for threads in (1, 2, 3):
            cpu.set_num_threads(threads)
            found.add(run().commit_run().root)
    finally:
        cpu.set_num_threads(before)
    assert len(found) == 1


def test_the_reference_commits_to_the_same_run() -> None:
    assert run(backend="reference").commit_run() == run().commit_run()


def test_node_values_are_those_of_the_step_after_the_state() -> None:
    one = run()
    state = one.advance(one.initial(), 3)
    values = one.node_values(state, tiny.NEW_WEIGHT, tiny.GRADIENT)
    after = one.advance(state, 4)
    np.testing.assert_array_equal(values[tiny.NEW_WEIGHT].outputs[0], after.arrays[tiny.WEIGHT])
    np.testing.assert_array_equal(values[tiny.NEW_WEIGHT].inputs[0], state.arrays[tiny.WEIGHT])
    assert sorted(values) == [tiny.GRADIENT, tiny.NEW_WEIGHT]


def test_nothing_runs_on_wrong_tensors() -> None:
    constants, initial = tiny.tensors()
    initial[0][1] = 1
    with pytest.raises(HashMismatch, match="initial slot 0 has hash"):
        Run(PROGRAM, constants, initial, N, (1,), repops.backend("cpu"))


def test_a_snapshot_that_does_not_fit_is_refused() -> None:
    one = run()
    for step, arrays in (
        (3, one.initial().arrays[:1]),
        (3, [array.astype(np.int64) for array in one.initial().arrays]),
        (N + 1, one.initial().arrays),
    ):
        with pytest.raises(InvalidInput, match="does not fit"):
            one.restore(step, arrays)


def test_steps_out_of_reach_are_refused() -> None:
    one = run()
    with pytest.raises(InvalidInput, match="cannot be reached"):
        one.advance(one.initial(), N + 1)
    with pytest.raises(InvalidInput, match="cannot be reached"):
        one.advance(one.advance(one.initial(), 4), 3)
    with pytest.raises(InvalidInput, match="must hold a step"):
        one.commit_interval(one.initial(), 0, 1)
    with pytest.raises(InvalidProgram, match="strides"):
        run((5, 2))
