"""Whole programs on a device: with one party's logs, the roots of their steps are those of the processor."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import repops

from assay_capture.capture import build, load_recipe
from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from referee_py.execute import Capture, FastExecutor, Interpreter, Run
from referee_py.execute.run import executor_for
from referee_py.program.modes import Bounds, Form, Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.log_source import LogSource, MemoryLogs
from referee_py.rounding.step_log import NodeLog, StepLog
from tests.referee_py.compiled.random_program import RandomProgram
from trainer_node.local.bundle import Bundle
from trainer_node.rounded.device import TensorEvaluator
from trainer_node.rounded.evaluators import evaluator_of

from .places import GPU, PLACES, device_of

STEPS = 2


def party(rounding: Rounding, log_source: LogSource, place: str | None) -> Rounded:
    evaluator = evaluator_of("permuted") if place is None else TensorEvaluator(device_of(place), place)
    return Rounded(rounding, log_source, evaluator)


@cache
def bundle(name: str) -> Bundle:
    pytest.importorskip("transformers", reason="needs the extra [models]")
    return build(load_recipe(name, steps=STEPS))


def run(made: Bundle | RandomProgram, backend: Rounded) -> tuple[list[bytes], list[bytes]]:
    """Return the checkpoint of every step, and the slots after the last."""
    whole = Run(made.program, made.constants, made.initial, STEPS, (1,), backend)
    interval = whole.commit_interval(whole.initial(), STEPS, 1, snapshots=(STEPS,))
    return list(interval.checkpoints), interval.snapshots[STEPS].slot_hashes()


def turn(log: StepLog, form: Form) -> StepLog:
    """Return a step log with every direction reversed."""
    said = {node: written.read() for node, written in log.nodes.items()}
    return StepLog({node: NodeLog.of(replace(one, up=~one.up), form) for node, one in said.items()})


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "rounding",
    [
        Rounding(28, Bounds.PROBABLE),
        Rounding(32, form=Form.DENSE),
        pytest.param(Rounding(32), marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["digits-cnn", pytest.param("gpt2-tiny", marks=pytest.mark.slow)])
def test_models_have_the_same_roots_whoever_wrote_the_log(name: str, rounding: Rounding, place: str) -> None:
    made = bundle(name)
    for trainer, auditor in itertools.permutations((None, place)):
        log_source = MemoryLogs()
        expected = run(made, party(rounding, log_source, trainer))
        assert all(log is not None and log.nodes for log in map(log_source.get, range(1, STEPS + 1)))
        assert run(made, party(rounding, log_source, auditor)) == expected
        turned = MemoryLogs()
        for step in range(1, STEPS + 1):
            given = log_source.get(step)
            assert given is not None
            turned.put(step, turn(given, rounding.form))
        sides = [party(rounding, turned, side) for side in (trainer, auditor)]
        found = [run(made, side) for side in sides]
        assert found[0] == found[1] != expected, "what is admissible is followed, and all else is ignored"
        assert sides[0].corrections, "he wrote the opposite"


@pytest.mark.parametrize("place", PLACES)
def test_random_programs(place: str) -> None:
    """Every operator, including those on integers and truth values."""
    logged = 0
    for seed in range(30):
        made = RandomProgram(seed, 8 + seed % 50)
        rounding = Rounding((32, 26, 30)[seed % 3], Bounds(seed % 2), Form(seed // 2 % 2))
        for trainer, auditor in itertools.permutations((None, place)):
            log_source = MemoryLogs()
            expected = run(made, party(rounding, log_source, trainer))
            assert run(made, party(rounding, log_source, auditor)) == expected, f"seed {seed}"
            first = log_source.get(1)
            assert first is not None
            logged += len(first.nodes)
    assert logged


@pytest.mark.parametrize("place", PLACES)
def test_values_stay_on_the_device_until_somebody_looks(place: str) -> None:
    """In a plain step with an honest log, only the elements to decide exactly are copied from there."""
    made, reads = bundle("digits-cnn"), 0

    kind: Any = type(device_of(place))

    class Counting(kind):
        def read(self, buffer: object) -> Array:
            nonlocal reads
            reads += 1
            return super().read(buffer)

    backend = Rounded(Rounding(32), MemoryLogs(), TensorEvaluator(Counting(), place))
    whole = Run(made.program, made.constants, made.initial, STEPS, (1,), backend)
    assert isinstance(whole.executor, Interpreter)
    assert whole.executor.device is backend.device
    state = whole.advance(whole.initial(), STEPS)
    assert reads == 0
    arrays = state.arrays
    assert reads == len(arrays)
    node = next(i for i, node in enumerate(made.program.nodes) if node.name == "mm")
    values = whole.node_values(whole.initial(), node)[node]
    host = Run(
        made.program, made.constants, made.initial, STEPS, (1,), party(Rounding(32), backend.log_source, None)
    )
    expected = host.node_values(host.initial(), node)[node]
    for found, wanted in ((values.inputs, expected.inputs), (values.outputs, expected.outputs)):
        assert [v.tobytes() for v in found] == [v.tobytes() for v in wanted]
    after = host.advance(host.initial(), STEPS).arrays
    assert [v.tobytes() for v in arrays] == [v.tobytes() for v in after]


def test_only_arrays_are_compiled() -> None:
    made = RandomProgram(1, 20)
    here, there = (party(Rounding(32), MemoryLogs(), place) for place in (None, "cpu"))
    assert isinstance(executor_for(made.program, made.constants, here), FastExecutor)
    found = executor_for(made.program, made.constants, there, Capture())
    assert isinstance(found, Interpreter)
    assert found.device is there.device


@pytest.mark.gpu
@GPU
def test_single_nodes_can_be_shown_from_a_gpu_in_repops_f32() -> None:
    """An interpreter with the backend of a GPU has its values there."""
    made = RandomProgram(3, 30)
    nodes = range(len(made.program.nodes))
    found = []
    for name in ("cpu", "cuda"):
        whole = Run(made.program, made.constants, made.initial, STEPS, (1,), repops.backend(name))
        values = whole.node_values(whole.initial(), *nodes)
        found.append([[tensor_hash(v) for v in values[node].outputs] for node in nodes])
    assert found[0] == found[1]
