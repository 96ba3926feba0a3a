"""Flush-to-zero set by another library in the process: no value is lost, or the loss is reported."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from repops.host.environment import Standard
from repops.opset import BOOL, F32

from assay_lab.evaluators import VARIATIONS
from referee_py.commit.tensor import Array
from referee_py.element import evaluate
from referee_py.errors import Disturbed
from referee_py.program import Program, SlotSource, TensorDescriptor
from referee_py.program.canonical import canonical_program
from referee_py.program.modes import REPOPS_F32
from referee_py.rounding import Bounds, Evaluation, Form, Log, Rounding, truth
from referee_py.rounding.backend import Evaluator, Rounded
from referee_py.rounding.blocks import LogTree, log_digest
from referee_py.rounding.forms import pack, unpack
from referee_py.rounding.log_source import MemoryLogs
from tests.referee_py.compiled.test_rounded import _run
from tests.referee_py.element.operands import cases_of, reader
from tests.referee_py.program.tiny import Writer, constant, slot
from tests.referee_py.rounding.operators import Case
from tests.referee_py.trial.parties import Setting, play
from trainer_node.rounded.device import TensorEvaluator
from trainer_node.rounded.divergence import Compared
from trainer_node.rounded.evaluators import NumpyEvaluator, evaluator_of

from .places import device_of

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="MXCSR is x86")

SMALL = np.float32(2.0**-140)
FLUSHING, ROUND_UP = 0x8040, 0x4000
ROUNDING = Rounding(26)
libm = ctypes.CDLL("libm.so.6")


def control() -> int:
    """Return MXCSR without its exception flags."""
    environment = (ctypes.c_uint32 * 8)()
    libm.fegetenv(environment)
    return environment[7] & ~0x3F


def set_control(value: int) -> None:
    environment = (ctypes.c_uint32 * 8)()
    libm.fegetenv(environment)
    environment[7] = value
    libm.fesetenv(environment)


@pytest.fixture(params=["torch", "register", "upwards"])
def disturbed(request: pytest.FixtureRequest) -> Iterator[int]:
    """The control register of the calling thread."""
    before = control()
    if request.param == "torch":
        assert torch.set_flush_denormal(True)
    else:
        set_control(before | (FLUSHING if request.param == "register" else ROUND_UP))
    if request.param != "upwards":
        assert np.float32(SMALL).astype(np.float64) == 0, "arithmetic obeys it"
    yield control()
    set_control(before)


def small(*shape: int) -> Array:
    """Return subnormal numbers. NOTE: made of bits, because an environment that flushes cannot compute one."""
    return np.full(shape, 1 << 9, np.uint32).view(np.float32)


ones = np.ones((4, 3), np.float32)
CASES = [
    (Case("mm", [small(5, 4), ones], {}), 2.0**-138),
    (Case("bmm", [small(2, 5, 4), np.stack([ones, ones])], {}), 2.0**-138),
    (Case("sum", [small(6, 4)], {"dims": (1,), "keepdim": 0}), 2.0**-138),
    (Case("scatter_add", [small(3), np.arange(3).repeat(3), small(9)], {}), 2.0**-138),
    (Case("tanh", [small(7)], {}), 2.0**-140),
    (Case("sin", [small(7)], {}), 2.0**-140),
    (Case("add", [small(7), small(7)], {}), 2.0**-139),
    (Case("mul", [small(7), np.full(7, 4, np.float32)], {}), 2.0**-138),
    (
        Case(
            "conv2d",
            [small(1, 4, 3, 3), np.ones((2, 4, 1, 1), np.float32)],
            {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1},
        ),
        2.0**-138,
    ),
]


def bits_of(values: Array) -> set[int]:
    return set(values.view(np.uint32).reshape(-1).tolist())


def want(value: float) -> set[int]:
    return {int(value / 2.0**-149)}


def test_the_numbers_are_what_they_seem() -> None:
    assert float(small(1)[0]) == 2.0**-140
    for case, value in CASES:
        assert bits_of(truth(case.name, case.inputs, case.attrs, None, ROUNDING)[0]) == want(value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].name)
@pytest.mark.parametrize("name", [*VARIATIONS, "tensors"])
def test_no_evaluator_loses_what_is_small(name: str, case: tuple[Case, float], disturbed: int) -> None:
    """Written and followed. Afterwards the environment is the caller's again."""
    evaluator: Evaluator = (
        TensorEvaluator(device_of("cpu"), "cpu") if name == "tensors" else evaluator_of(name)
    )
    operator, value = case
    log_source = MemoryLogs()
    for _ in range(2):
        backend = Rounded(ROUNDING, log_source, evaluator)
        backend.begin(1)
        inputs = [v if backend.device is None else backend.device.place(v) for v in operator.inputs]
        (found,) = backend.execute(0, operator.name, inputs, operator.attrs)
        backend.end()
        assert bits_of(found if backend.device is None else found.numpy()) == want(value)
    assert control() == disturbed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].name)
def test_a_verifier_loses_nothing(case: tuple[Case, float], disturbed: int) -> None:
    operator, value = case
    for log in (
        None,
        Log.empty(truth(operator.name, operator.inputs, operator.attrs, None, ROUNDING)[0].size),
    ):
        (found,) = truth(operator.name, operator.inputs, operator.attrs, log, ROUNDING)
        assert bits_of(found) == want(value)
    assert control() == disturbed


@pytest.mark.parametrize("bits", [26, 32])
def test_compiled_steps_lose_nothing(bits: int, disturbed: int) -> None:
    from tests.referee_py.compiled.test_rounded import Made

    constants: list[Array] = [small(4, 4), np.ones((4, 4), np.float32)]
    initial: list[Array] = [small(4, 4)]
    op = Writer(constants, initial)
    product = op("mm", op("tanh", slot(0)), constant(1))
    total = op("sum", op("add", product, constant(0)), dims=(1,), keepdim=1)
    last = op("expand", total, shape=(4, 4))
    fixed, first = (tuple(map(TensorDescriptor.of, tensors)) for tensors in (constants, initial))
    made = Made(Program(tuple(op.nodes), (SlotSource(last.index, 0),), fixed, first), constants, initial)
    with Standard():
        expected = _run(made, Rounded(Rounding(bits), MemoryLogs(), evaluator_of("numpy")), False)
    for compiled in (True, False):
        for name in ("torch", "numpy"):
            backend = Rounded(Rounding(bits), MemoryLogs(), evaluator_of(name))
            assert _run(made, backend, compiled) == expected, (name, compiled)
    assert control() == disturbed


def test_evaluators_that_are_compared_lose_nothing(disturbed: int) -> None:
    compared = Compared(26, [evaluator_of(name) for name in VARIATIONS])
    compared.begin(1)
    for node, (case, value) in enumerate(CASES):
        (found,) = compared.execute(node, case.name, case.inputs, case.attrs)
        assert bits_of(found) == want(value)
    assert all(tally.quanta == 0 for tally in compared.tallies if tally.operator in ("mm", "sum"))
    assert control() == disturbed


def test_logs_are_read_and_written_as_ever(disturbed: int) -> None:
    with Standard():
        values = small(1).astype(np.float64)
    log = Log(8, np.array([1]), np.array([True]), np.array([3]), values)
    for form in Form:
        with Standard():
            written, digest = pack(log, form), log_digest(log)
        assert pack(log, form) == written
        found = unpack(written, 8, form)
        assert log_digest(found) == LogTree(found).digest == digest
    assert control() == disturbed


def test_elements_and_trials_lose_nothing(disturbed: int) -> None:
    """The twin of the contract's rules computes in binary64, and the contract has no flush-to-zero."""
    lost = 0
    for mode in (REPOPS_F32.byte, ROUNDING.mode):
        for operator, value in CASES:
            (case, *_) = cases_of(operator.name, operator.inputs, operator.attrs, [0.5])
            bits = evaluate(replace(case, mode=mode), reader(operator.inputs))
            assert {bits} == want(value), (operator.name, mode)
            setting = Setting.of(operator.name, operator.inputs, operator.attrs, 0.5, 0, mode=mode)
            assert setting is not None
            state, _ = play(setting, True)
            lost += state.losers == 2
    assert lost == 2 * len(CASES), "the side with one wrong element loses"
    assert control() == disturbed


@pytest.mark.parametrize("name", ["gt", "eq", "cast"])
def test_known_values_are_worked_out_as_ever(name: str, disturbed: int) -> None:
    """Otherwise the canonical form would be another program in such an environment: a tiny number would become zero."""
    write = Writer([], [np.zeros((), np.bool_)])
    tiny, zero = (write("full", shape=(), dtype=F32, bits=bits) for bits in (1 << 9, 0))
    made = write("cast", tiny, dtype=BOOL) if name == "cast" else write(name, tiny, zero)
    described = (TensorDescriptor.of(np.zeros((), np.bool_)),)
    program = Program(tuple(write.nodes), (SlotSource(made.index, 0),), (), described)
    (node,) = canonical_program(program)[0].nodes
    assert (node.name, node.attrs["bits"]) == ("full", int(name != "eq"))
    assert control() == disturbed


class Meddling(NumpyEvaluator):
    """A library that sets flush-to-zero while it works, and does not restore it."""

    def evaluate(self, name: str, inputs: Any, attrs: Any, bounds: Bounds) -> Evaluation:
        torch.set_flush_denormal(True)
        return super().evaluate(name, inputs, attrs, bounds)

    def single(self, name: str, inputs: Any, bits: int) -> Array:
        set_control(control() | ROUND_UP)
        return super().single(name, inputs, bits)


@pytest.mark.parametrize("name", ["mm", "add"])
def test_a_library_that_changes_the_environment_is_told_of(name: str) -> None:
    """And nothing of the step is kept."""
    before, log_source = control(), MemoryLogs()
    backend = Rounded(ROUNDING, log_source, Meddling())
    backend.begin(1)
    with pytest.raises(Disturbed, match=r"evaluator numpy has left .* find the library"):
        backend.execute(0, name, [ones.T.copy(), ones] if name == "mm" else [ones, ones], {})
    assert log_source.get(1) is None
    assert control() == before


POOL = """
import sys
import torch
from trainer_node.rounded.probe import Probe
from referee_py.errors import Disturbed
from referee_py.rounding.backend import Rounded
from referee_py.rounding.log_source import MemoryLogs
from referee_py.program.modes import Rounding
from assay_lab.evaluators import VARIATIONS
from trainer_node.rounded.evaluators import evaluator_of

def threads(count):
    torch.set_num_threads(count)
    torch.ones(1 << 20).double()  # those that are missing are started, with the registers of this one

when = sys.argv[1]
threads({"early": 1, "grown": 3}.get(when, 4))
torch.set_flush_denormal(when in ("early", "grown"))
threads(4)
torch.set_flush_denormal(when == "late")
for name in VARIATIONS:
    try:
        Rounded(Rounding(32), MemoryLogs(), evaluator_of(name)).begin(1)
        print("well", end=" ")
    except Disturbed as error:
        assert "threads of torch" in str(error)
        print("told", end=" ")
"""


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("grown", "told"),
        *(
            pytest.param(when, said, marks=pytest.mark.slow)
            for when, said in (("early", "told"), ("never", "well"), ("late", "well"))
        ),
    ],
)
def test_threads_that_flush_are_found(when: str, said: str) -> None:
    """The register of the calling thread is in order, but those of torch's pool are not, or one of three is not."""
    done = subprocess.run([sys.executable, "-c", POOL, when], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["well" if name == "numpy" else said for name in VARIATIONS]
