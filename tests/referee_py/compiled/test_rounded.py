"""Compiled steps in the mode rounded-f64: with one party's logs, honest or forged, the interpreter and the compiled
step have one state. Either of the two may have written the logs, and the other may use any library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pytest

from assay_lab.evaluators import VARIATIONS
from referee_py.commit.tensor import Array
from referee_py.compiled import Compiled
from referee_py.compiled.rounded import RoundedCpu
from referee_py.execute import FastExecutor, Interpreter, State
from referee_py.program import Program, SlotSource, TensorDescriptor
from referee_py.program.modes import Bounds, Form, Rounding
from referee_py.rounding.backend import OnForged, Rounded
from referee_py.rounding.entries import Log
from referee_py.rounding.evaluate import ELEMENTARY
from referee_py.rounding.log_source import LogSource, MemoryLogs
from referee_py.rounding.primitives import rnd
from referee_py.rounding.step_log import NodeLog, StepLog
from tests.trainer_node import near
from trainer_node.rounded.evaluators import evaluator_of

from ..program.tiny import Writer, constant, slot
from .random_program import RandomProgram

STEPS = 3


class Lent:
    """The log source of another party, read only."""

    def __init__(self, log_source: LogSource) -> None:
        self._log_source = log_source

    def get(self, step: int) -> StepLog | None:
        found = self._log_source.get(step)
        assert found is not None
        return found

    def put(self, step: int, log: StepLog) -> None:
        raise AssertionError(f"step {step}: a follower has written a log of {len(log.nodes)} nodes")


class Parties(Protocol):
    """A program and its data."""

    @property
    def program(self) -> Program: ...
    @property
    def constants(self) -> Sequence[Array]: ...
    @property
    def initial(self) -> Sequence[Array]: ...


def _run(made: Parties, backend: Rounded, compiled: bool) -> list[bytes]:
    executor = (
        FastExecutor(made.program, made.constants, backend, machine=RoundedCpu(backend))
        if compiled
        else Interpreter(made.program, made.constants, backend)
    )
    state, hashes = State.of(0, made.initial), []
    for _ in range(STEPS):
        state, _ = executor.step(state, False)
        hashes.append(b"".join(state.slot_hashes()))
    return hashes


def _all_agree(
    made: Parties, rounding: Rounding, names: Sequence[str], compiled: bool
) -> list[dict[int, NodeLog]]:
    """Run with the first library, follow with the others, compiled and interpreted, and return the logs."""
    log_source = MemoryLogs()
    want = _run(made, Rounded(rounding, log_source, evaluator_of(names[0])), compiled)
    for other, name in zip((True, False), names[1:], strict=True):
        assert _run(made, Rounded(rounding, Lent(log_source), evaluator_of(name)), other) == want, (
            f"compiled: {other}"
        )
    logs = [log_source.get(step) for step in range(1, STEPS + 1)]
    return [dict(log.nodes) for log in logs if log is not None]


@pytest.mark.parametrize("bits", [26, 29, 31, 32])
@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.slow) for part in (2, 3))])
def test_random_programs(part: int, bits: int) -> None:
    names = sorted(VARIATIONS) * 2
    for seed in range(part, 60, 4):
        made = RandomProgram(seed, 8 + seed % 60)
        rounding = Rounding(bits, Bounds(seed % 2), Form(seed // 2 % 2))
        first = seed % len(VARIATIONS)
        _all_agree(made, rounding, names[first : first + 3], compiled=seed % 3 == 0)


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("bounds", Bounds)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
def test_sums_near_ties(compiled: bool, bounds: Bounds, form: Form) -> None:
    """NOTE: random programs this small hardly have a result near a midpoint, so their sparse logs are nearly empty."""
    logs = _all_agree(near.package(), Rounding(32, bounds, form), ["torch", "numpy", "halves"], compiled)
    assert all(log[near.TIES].elements == near.WIDTH for log in logs)
    assert len(logs) == STEPS


# ------------------------------------------------------------------------------------- functions near midpoints

SIZE = 24
FUNCTIONS = (0, 1, 2, 3)


@dataclass(frozen=True)
class Made:
    """A program and its data."""

    program: Program
    constants: list[Array]
    initial: list[Array]


def near_midpoints(bits: int) -> Made:
    """Return a program of tanh(x) sin(x) + exp(y) + w, times rsqrt of the square of its maximum: one group, with
    functions in the middle. And of tanh(-x), which has the same operands in every step, but not the same log.

    Every third x is a midpoint of the grid, and so small that tanh(x) and sin(x) are nearly x; every third y is such
    that exp(y) is nearly a midpoint. These values may be rounded either way.
    """
    half = 2.0 ** (8 - bits)
    rng = np.random.default_rng(bits)
    x, y = (rnd(rng.normal(size=SIZE), bits).astype(np.float32) for _ in range(2))
    x[::3] = 2.0**-40 * (rng.integers(1 << bits - 9, 1 << bits - 8, SIZE // 3) * 2 + 1) * half
    y[::3] = half * (1 - half / 2)
    constants: list[Array] = [x.reshape(4, 6), y.reshape(4, 6), -x.reshape(4, 6)]
    initial: list[Array] = [np.zeros((4, 6), np.float32), np.zeros((4, 6), np.float32)]
    op = Writer(constants, initial)
    tanh, sin, exp = op("tanh", constant(0)), op("sin", constant(0)), op("exp", constant(1))
    opposite = op("tanh", constant(2))
    total = op("add", op("mul", tanh, sin), op("add", exp, slot(0)))
    top = op("amax", total, dims=(1,), keepdim=1)
    weight = op("mul", total, op("rsqrt", op("mul", top, top)))
    last = op("add", weight, op("add", tanh, sin))
    fixed, first = (tuple(map(TensorDescriptor.of, tensors)) for tensors in (constants, initial))
    slots = SlotSource(last.index, 0), SlotSource(opposite.index, 0)
    program = Program(tuple(op.nodes), slots, fixed, first)
    return Made(program, constants, initial)


@pytest.mark.parametrize("bits", [26, 29, 31])
@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("bounds", Bounds)
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "interpreted"])
def test_functions_near_midpoints(compiled: bool, bounds: Bounds, form: Form, bits: int) -> None:
    made, rounding = near_midpoints(bits), Rounding(bits, bounds, form)
    for log in _all_agree(made, rounding, ["torch", "numpy", "halves"], compiled):
        for node in FUNCTIONS:
            entries = log[node].read()
            assert {*range(0, SIZE, 3)} <= {*entries.narrow.tolist()}, "what is in doubt has an entry"


@pytest.mark.parametrize("bits", [26, 31])
@pytest.mark.parametrize("form", Form)
def test_logs_of_functions_are_the_same_compiled_or_not(form: Form, bits: int) -> None:
    """With one library. NOTE: logs of sums may differ, since operands lie elsewhere and the order may be another."""
    programs: list[Made | RandomProgram] = [
        near_midpoints(bits),
        *(RandomProgram(seed, 60) for seed in range(8)),
    ]
    for made in programs:
        found = []
        for compiled in (True, False):
            log_source = MemoryLogs()
            _run(made, Rounded(Rounding(bits, form=form), log_source, evaluator_of("torch")), compiled)
            logs = [log_source.get(step) for step in range(1, STEPS + 1)]
            functions = [n for n, node in enumerate(made.program.nodes) if node.name in ELEMENTARY]
            found.append([[log.nodes.get(n) for n in functions] for log in logs if log is not None])
        assert found[0] == found[1]
        assert len(found[0]) == STEPS


class Forged:
    """A log in every step with an entry for every element of these nodes, `sizes` elements each."""

    def __init__(self, sizes: Mapping[int, int], seed: int) -> None:
        self._sizes, self._seed = sizes, seed

    def get(self, step: int) -> StepLog:
        rng, logs = np.random.default_rng((self._seed, step)), {}
        for node, size in self._sizes.items():
            wide = rng.random(size) < 0.5
            values = rng.choice([0.0, 1.0, -np.inf, np.nan, 0.5, -0.25], int(wide.sum()))
            up = rng.random(size - values.size) < 0.5
            log = Log(size, np.flatnonzero(~wide), up, np.flatnonzero(wide), values)
            logs[node] = NodeLog.of(log, Form.SPARSE)
        return StepLog(logs)

    def put(self, step: int, log: StepLog) -> None:
        raise AssertionError(f"step {step}: a follower has written a log of {len(log.nodes)} nodes")


@pytest.mark.parametrize(("bits", "tasks"), [(26, 1), (32, 2)])
def test_a_function_that_has_a_log_is_computed_once(bits: int, tasks: int) -> None:
    """Even if its result is read far away, and recomputing it would be cheaper."""
    constants: list[Array] = [np.ones((4, 4), np.float32)]
    initial: list[Array] = [np.ones((4, 4), np.float32)]
    op = Writer(constants, initial)
    tanh = op("tanh", slot(0))
    product = op("mm", op("add", tanh, constant(0)), constant(0))
    last = op("mul", product, tanh)
    fixed, first = (tuple(map(TensorDescriptor.of, tensors)) for tensors in (constants, initial))
    program = Program(tuple(op.nodes), (SlotSource(last.index, 0),), fixed, first)
    backend = Rounded(Rounding(bits), MemoryLogs(), evaluator_of("torch"))
    compiled = Compiled(program, constants, machine=RoundedCpu(backend))
    assert sum("tanh" in task.name for task in compiled.tasks) == tasks


def _followed(
    made: Parties, bits: int, log_source: LogSource, evaluator: str, compiled: bool
) -> tuple[list[bytes], set[int]]:
    """Return the states, and the nodes whose entries were ignored."""
    forged = set[int]()
    told: OnForged = lambda _step, node, _element: forged.add(node)  # noqa: E731
    return _run(made, Rounded(Rounding(bits), log_source, evaluator_of(evaluator), told), compiled), forged


@pytest.mark.parametrize("bits", [26, 31])
def test_entries_of_functions_count_where_they_may_and_nowhere_else(bits: int) -> None:
    made, states = near_midpoints(bits), set[bytes]()
    for seed in range(6):
        log_source = Forged(dict.fromkeys(FUNCTIONS, SIZE), seed)
        truth = _followed(made, bits, log_source, "torch", False)
        assert truth[1] == {*FUNCTIONS}
        for name in ("torch", "numpy"):
            assert _followed(made, bits, log_source, name, True) == truth
        states.add(truth[0][0])
    assert len(states) == 6, "directions of what may be rounded either way make a difference"


@pytest.mark.parametrize("bits", [26, 31])
def test_forged_logs_of_random_programs(bits: int) -> None:
    for seed in range(12):
        made = RandomProgram(seed, 60)
        nodes = made.program.nodes
        logged = (*ELEMENTARY, "sum", "mm", "bmm")
        sizes = {n: node.outputs[0].count for n, node in enumerate(nodes) if node.name in logged}
        log_source = Forged({n: size for n, size in sizes.items() if size}, seed)
        assert (
            _followed(made, bits, log_source, "torch", True)[0]
            == _followed(made, bits, log_source, "numpy", False)[0]
        )
