"""A compiled step gives the interpreter's bits: for random programs, at any number of threads, step after step."""

from __future__ import annotations

import numpy as np
import pytest
import repops

from referee_py.commit import tensor_hash
from referee_py.compiled import Compiled
from referee_py.execute import Capture, Interpreter, State
from referee_py.program import SlotSource, validate

from .random_program import RandomProgram

STEPS = 3


def _check(seed: int, size: int) -> None:
    made = RandomProgram(seed, size)
    validate(made.program)
    draw = np.random.default_rng(seed)
    nodes = sorted({int(k) for k in draw.integers(0, len(made.nodes), 3)})
    watched = [SlotSource(node, 0) for node in nodes]
    capture = Capture(*nodes)
    interpreter = Interpreter(made.program, made.constants, repops.backend("cpu"), capture)
    compiled = Compiled(made.program, made.constants, watched)
    state = State.of(0, made.initial)
    compiled.load(made.initial)
    for step in range(1, STEPS + 1):
        repops.set_num_threads(int(draw.integers(1, 4)))
        state, _ = interpreter.step(state, False)
        compiled.run(step)
        for slot, (expected, got) in enumerate(zip(state.arrays, compiled.slots, strict=True)):
            assert tensor_hash(got) == tensor_hash(expected), f"seed {seed}, step {step}, slot {slot}"
        for source in watched:
            expected = capture.found[source.node].outputs[0]
            assert tensor_hash(compiled.value(source)) == tensor_hash(expected), f"seed {seed}: {source}"


@pytest.fixture(autouse=True)
def _threads() -> object:
    before = repops.get_num_threads()
    yield
    repops.set_num_threads(before)


@pytest.mark.parametrize("part", range(8))
def test_random_programs(part: int) -> None:
    for seed in range(part, 400, 8):
        _check(seed, size=8 + seed % 60)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_random_programs(part: int) -> None:
    for seed in range(1000 + part, 11000, 20):
        _check(seed, size=8 + seed % 150)
