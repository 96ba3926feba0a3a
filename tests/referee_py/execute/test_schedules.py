"""A step has one result in every order: random programs under random schedules, both modes, every executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest
import repops

from assay_lab.evaluators import VARIATIONS
from referee_py.compiled.rounded import RoundedCpu
from referee_py.execute import Executor, FastExecutor, Interpreter
from referee_py.program import SlotSource, validate
from referee_py.program.modes import Bounds, Form, Rounding
from referee_py.rounding.backend import Evaluator, Rounded
from referee_py.rounding.log_source import MemoryLogs
from tests.trainer_node.rounded.places import CpuTensors
from trainer_node.rounded.device import TensorEvaluator
from trainer_node.rounded.evaluators import evaluator_of

from ..compiled.random_slots import RandomSlots
from ..compiled.schedules import Play, Truth
from ..compiled.tensor_machine import TensorMachine

CPU = repops.backend("cpu")
Sources = Mapping[str, SlotSource]


def exact(made: RandomSlots, watched: Sources, seed: int) -> dict[str, Executor]:
    """Return executors of repops-f32; for one program in five also the interpreter, which defines the truth."""
    given = made.program, made.constants, CPU
    found: dict[str, Executor] = {
        "fast": FastExecutor(*given, watched),
        "fast on tensors": FastExecutor(*given, watched, TensorMachine()),
    }
    if seed % 5 == 0:
        found["interpreter"] = Interpreter(*given, device=CpuTensors() if seed % 2 else None)
    return found


def rounded(
    made: RandomSlots, watched: Sources, party: Callable[[Evaluator], Rounded], seed: int
) -> dict[str, Executor]:
    """Return executors of rounded-f64 with libraries of their own, which follow the log of the truth's executor."""
    names = sorted(VARIATIONS)
    one, other = (evaluator_of(names[(seed + k) % len(names)]) for k in (1, 2))
    fast = party(one)
    found: dict[str, Executor] = {
        "fast": FastExecutor(made.program, made.constants, fast, watched, RoundedCpu(fast))
    }
    if seed % 5 == 0:
        slow = party(TensorEvaluator(CpuTensors(), "cpu") if seed % 2 else other)
        found["interpreter"] = Interpreter(made.program, made.constants, slow)
    return found


@dataclass
class Found:
    programs: int = 0
    moving: int = 0
    steps: int = 0
    looks: int = 0
    wrong: int = 0

    def add(self, play: Play, name: str) -> None:
        self.steps += play.steps
        self.looks += play.looks
        self.wrong += play.wrong
        assert not play.wrong, (
            f"seed {play.seed}, {name}: {play.wrong} of {play.looks} looks found other bits"
        )


def play(seed: int, size: int, found: Found) -> None:
    """Play one program in both modes by every executor, each under a schedule of its own."""
    made = RandomSlots(seed, size)
    validate(made.program.skeleton)
    draw = np.random.default_rng(seed)
    sources = [SlotSource(int(k), 0) for k in draw.integers(0, len(made.program.nodes), 2)]
    watched = {f"metric {k}": source for k, source in enumerate(sources)}
    places = {name: k for k, name in enumerate(watched)}
    log_source = MemoryLogs()
    rounding = Rounding((26, 29, 31, 32)[seed % 4], Bounds(seed // 4 % 2), Form(seed // 8 % 2))

    def party(evaluator: Evaluator) -> Rounded:
        return Rounded(rounding, log_source, evaluator)

    first = party(evaluator_of(sorted(VARIATIONS)[seed % len(VARIATIONS)]))
    with np.errstate(all="ignore"):
        modes = (
            (Truth(made, CPU, sources), exact(made, watched, seed)),
            (Truth(made, first, sources), rounded(made, watched, party, seed)),
        )
        for truth, executors in modes:
            for k, (name, executor) in enumerate(executors.items()):
                told = places if isinstance(executor, FastExecutor) else {}
                found.add(Play(truth, executor, seed * 8 + k, told).run(), name)
    found.programs += 1
    found.moving += made.moving


@pytest.mark.parametrize(
    "count", [pytest.param(15, id="quick"), pytest.param(45, id="slow", marks=pytest.mark.slow)]
)
def test_random_programs_under_random_schedules(count: int) -> None:
    found = Found()
    for seed in range(count):
        play(seed, 4 + seed % 30, found)
    assert found.moving == count // 3
    assert found.steps > count * 3 * 10


@pytest.mark.slow
@pytest.mark.parametrize("part", range(60))
def test_many_random_programs_under_random_schedules(part: int) -> None:
    found = Found()
    for seed in range(1000 + part, 6100, 60):
        play(seed, 4 + seed % 12 + 30 * (seed % 7 == 0), found)
    print(found)
