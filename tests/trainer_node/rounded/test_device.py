"""Operators evaluated on a device: with either side's log, arrays and tensors end at the same bits."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from repops.host import cpu
from repops.opset import F32, I64, Arithmetic
from repops.tensors import canonical

from referee_py.commit.tensor import Array
from referee_py.program.modes import Bounds, Form, Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.evaluate import arithmetic
from referee_py.rounding.log_source import MemoryLogs
from referee_py.rounding.step_log import NodeLog, StepLog
from tests.referee_py.rounding.operators import Case, cases
from trainer_node.rounded.device import TensorEvaluator
from trainer_node.rounded.evaluators import evaluator_of

from .places import PLACES, device_of

ROUNDINGS = [
    Rounding(26),
    Rounding(32, Bounds.PROBABLE),
    Rounding(29, form=Form.DENSE),
    Rounding(32, form=Form.DENSE),
]


class Side:
    """One side that computes one step of one node: arrays in, arrays out, on any device in between."""

    def __init__(self, rounding: Rounding, place: str | None) -> None:
        if place in (None, "torch"):
            evaluator = evaluator_of(place or "numpy")
        else:
            evaluator = TensorEvaluator(device_of(place), place)
        self.ignored: list[int] = []
        self.backend = Rounded(
            rounding, MemoryLogs(), evaluator, lambda *where: self.ignored.append(where[-1])
        )

    def execute(self, case: Case, log_source: MemoryLogs) -> tuple[list[Array], bytes]:
        self.backend.log_source = log_source
        self.backend.begin(1)
        device = self.backend.device
        inputs = [v if device is None else device.place(v) for v in case.inputs]
        found = self.backend.execute(0, case.name, inputs, case.attrs)
        self.backend.end()
        return [v if device is None else device.read(v) for v in found], self.backend.log(0)


def same(a: list[Array], b: list[Array]) -> bool:
    """Whether they are committed alike. NOTE: a device's NaN has other digits before that."""
    return all(
        (x.shape, x.dtype, canonical(x).tobytes()) == (y.shape, y.dtype, canonical(y).tobytes())
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rounding", ROUNDINGS, ids=str)
def test_either_side_follows_the_other(rounding: Rounding, place: str) -> None:
    """Ambiguous and cancelling sums, paddings, non-finite operands, and sizes of 0 and 1."""
    here, there = Side(rounding, None), Side(rounding, place)
    rng = np.random.default_rng(rounding.mode)
    logged = 0
    for case in cases(rng, rounding.bits):
        case = Case(case.name, [np.array(v, order="C") for v in case.inputs], case.attrs)
        for trainer, auditor in ((here, there), (there, here), (there, there)):
            log_source = MemoryLogs()
            values, log = trainer.execute(case, log_source)
            followed = auditor.execute(case, log_source)
            assert same(values, followed[0]), case
            assert log == followed[1]
            logged += log != bytes(32)
    assert logged > 60
    assert not here.ignored
    assert not there.ignored
    # NOTE: the number of corrections depends on the libraries; where they add alike there are none.


@pytest.mark.parametrize("evaluator", ["torch", *PLACES])
def test_a_log_of_few_rows_is_the_log_of_all(evaluator: str) -> None:
    """An evaluation may cover only the rows that receive a sum; its log is the whole node's.

    NOTE: the sums are just below 2^24, half a quantum above a value of the grid and 14 of 2^-30 beyond. Each of 11
    additions is off by at most 2^-30, so every order rounds up; the radius is 22 of 2^-30, so a log may also say down.
    """
    rounding = Rounding(32)
    terms = np.tile(np.array([2.0**24 - 2, 0.5, 14 * 2.0**-30] + 9 * [0], np.float32), (200, 1))
    base = np.zeros(400, np.float32)
    base[::2] = terms[:, 0]
    case = Case("scatter_add", [base, np.arange(0, 400, 2).repeat(11), terms[:, 1:].reshape(-1)], {})
    here, other = Side(rounding, None), Side(rounding, evaluator)
    log_source = MemoryLogs()
    other.execute(case, log_source)
    first = log_source.get(1)
    assert first is not None
    (written,) = first.nodes.values()
    log = written.read()
    log_source.put(1, StepLog({0: NodeLog.of(replace(log, up=~log.up), written.form)}))
    assert same(here.execute(case, log_source)[0], other.execute(case, log_source)[0])
    assert here.backend.corrections == other.backend.corrections == 200


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("bits", [26, 30, 32])
def test_a_forged_log_changes_nothing_there_either(bits: int, place: str) -> None:
    """Directions of one log with the operands of another: inadmissible ones are ignored, on both sides alike."""
    rounding = Rounding(bits)
    here, there = Side(rounding, None), Side(rounding, place)
    by_operator: dict[str, list[Case]] = {}
    for case in cases(np.random.default_rng(bits), bits):
        case = Case(case.name, [np.array(v, order="C") for v in case.inputs], case.attrs)
        by_operator.setdefault(f"{case.name} {[v.shape for v in case.inputs]} {case.attrs}", []).append(case)
    for alike in by_operator.values():
        for honest, other in itertools.pairwise(alike):
            log_source = MemoryLogs()
            here.execute(honest, log_source)
            assert same(here.execute(other, log_source)[0], there.execute(other, log_source)[0]), other
    assert there.ignored
    assert there.ignored == here.ignored


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("bits", [26, 32])
def test_single_operations_have_the_bits_of_arrays(bits: int, place: str) -> None:
    rng = np.random.default_rng(bits)
    side, host = Side(Rounding(bits), place), Side(Rounding(bits), None)
    a, b = (rng.integers(0, 2**32, 4096, dtype=np.uint32).view(np.float32) for _ in range(2))
    a[:6], b[:6] = [0, -0.0, np.inf, -np.inf, np.nan, 1e-45], [-0.0, 0, np.inf, 3e38, 1, 1e-45]
    integers = rng.integers(-(2**63), 2**63 - 1, 4096)
    calls = [Case(name, [a, b], {}) for name in ("add", "sub", "mul", "div")]
    calls += [
        Case("sqrt", [a], {}),
        Case("cast", [integers], {"dtype": F32}),
        Case("cast", [a], {"dtype": I64}),
    ]
    calls += [
        Case("neg", [a], {}),
        Case("maximum", [a, b], {}),
        Case("add", [integers, integers[::-1].copy()], {}),
    ]
    for case in calls:
        with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
            found, expected = side.execute(case, MemoryLogs())[0], host.execute(case, MemoryLogs())[0]
        assert same(found, expected), case
        if (
            bits == 32
            and arithmetic(case.name, case.inputs, case.attrs) is Arithmetic.SINGLE
            and case.name != "cast"
        ):
            assert np.array_equal(
                found[0], cpu.execute(case.name, case.inputs, case.attrs)[0], equal_nan=True
            )
