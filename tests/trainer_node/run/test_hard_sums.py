"""Sums that data make slow: what they take at most, and what a job is given for them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import repops
from repops.host import cpu, tensor_core
from repops.host.exact import NANOSECONDS_A_TERM, decided
from repops.sums import SumMode

from referee_py.adjudication import execute_right
from referee_py.program import Program, SlotSource, TensorDescriptor
from referee_py.program.modes import EXACT, TC16
from referee_py.program.terms import Terms
from tests.referee_py.element.tensor_data import KINDS as KINDS_OF_DATA
from tests.referee_py.execute.narrow_layer import written
from tests.referee_py.program.tiny import Writer, constant, slot
from trainer_node.run.cost_estimate import SHORT_SUM, SURE_RATE, hardest, hardest_s, measure, surely_short
from trainer_node.run.modes import backend_of, hard_sums_of
from trainer_node.run.package import Package

from ..desk import tiny_package


def test_data_may_make_later_steps_of_the_mode_exact_slower() -> None:
    """A matrix that is multiplied with itself: first zeros, whose sums are exact, then what cancels to a midpoint."""
    package = tiny_package()
    plain = measure(package, repops.backend("cpu"), limit_s=60)
    assert plain.worst == 1
    assert plain.slower(100) == plain
    exact = replace(package, terms=replace(package.terms, mode=EXACT.byte))
    found = measure(exact, repops.backend("cpu", SumMode.EXACT), limit_s=60)
    assert found.worst > 1
    assert found.slower(1) == found
    some = replace(found, step_s=2.0, commit_s=3.0, worst=50.0)
    assert (some.slower(4).step_s, some.slower(4).commit_s) == (8.0, 9.0)
    assert some.slower(1000).step_s == 100.0


def test_a_gpu_takes_any_product_in_the_same_time_and_its_judge_does_not() -> None:
    """In tc16 a product of bf16 is slow on the processor alone, which judges it; a convolution also on a GPU, which
    computes again what is not a number."""
    program, constants, initial = written()
    terms = Terms.of(program, 10, (5, 1), TC16.byte)
    package = Package(terms, program, tuple(constants), tuple(initial))
    on_cpu = measure(package, repops.backend("cpu", SumMode.TC16), limit_s=60)
    assert on_cpu.worst > 1
    assert on_cpu.right_worst == 1

    class Device:
        name, sums = "a device", SumMode.TC16

        def execute(self, *operator: Any) -> Any:
            return repops.backend("cpu", SumMode.TC16).execute(*operator)

    backend = backend_of("cpu", TC16.byte)
    found = measure(
        package,
        Device(),
        limit_s=60,
        right=lambda structure, inputs: execute_right(structure, inputs, backend, TC16.byte),
    )
    hard = hard_sums_of(TC16.byte)
    assert hard is not None
    products = [name for name, _ in hardest_s(program, TC16.byte, hard)]
    assert sorted(products) == ["conv2d", "mm", "mm"]
    on_device = sum(s for name, s in hardest_s(program, TC16.byte, hard) if name == "conv2d")
    assert found.worst == 1 + on_device / found.step_s
    assert found.right_worst > 1
    some = replace(found, step_s=2.0, worst=1.0, right_s=3.0, right_worst=50.0)
    assert (some.slower(4).step_s, some.slower(4).right_s) == (2.0, 12.0)


@pytest.mark.parametrize("kind", KINDS_OF_DATA)
def test_no_data_take_longer_than_that_in_tc16(kind: str) -> None:
    n = 256
    rng = np.random.default_rng([*kind.encode()])
    a, b = (KINDS_OF_DATA[kind](rng, n * n).view(ml_dtypes.bfloat16).reshape(n, n) for _ in "ab")
    began = time.process_time()
    cpu.execute("mm", [a, b], {}, threads=1, sums=SumMode.TC16)
    assert time.process_time() - began <= n**3 * tensor_core.NANOSECONDS_A_TERM * 1e-9 + 0.5


def test_the_worst_data_take_no_longer_than_that() -> None:
    """Each product of a row has its negative somewhere, and a crumb decides between two neighbours."""
    n = 512
    rng = np.random.default_rng(0)
    a = (rng.standard_normal((n, n)) * 2.0 ** rng.integers(-40, 40, (n, n))).astype(np.float32)
    a[:, n // 2 :] = -a[:, : n // 2]
    b = np.ones((n, n), np.float32)
    b[n // 2 :, :] += np.float32(2.0**-23)
    began = time.process_time()
    before = decided()
    cpu.execute("mm", [a, b], {}, threads=1, sums=SumMode.EXACT)
    taken, after = time.process_time() - began, decided()
    assert after.by_compensated_sums + after.by_sums_without_rounding > sum(before)
    assert taken <= n**2 * (n + SHORT_SUM) * NANOSECONDS_A_TERM * 1e-9 + 0.5


def test_one_long_sum_is_not_spread_over_cores() -> None:
    """The bound for a program with one sum of a million products is the same on any number of cores."""
    k = 1 << 20
    a, b = np.zeros((1, k), np.float32), np.zeros((k, 1), np.float32)
    op = Writer([b], [a])
    product = op("mm", slot(0), constant(0))
    kept = op("expand", product, shape=(1, k))
    described = TensorDescriptor.of(b), TensorDescriptor.of(a)
    program = Program(tuple(op.nodes), (SlotSource(kept.index, 0),), described[:1], described[1:])
    before = repops.get_num_threads()
    try:
        bounds, hard = [], hard_sums_of(EXACT.byte)
        assert hard is not None
        for threads in (1, 16):
            repops.set_num_threads(threads)
            bounds.append(sum(seconds for _, seconds in hardest_s(program, EXACT.byte, hard)))
    finally:
        repops.set_num_threads(before)
    assert bounds[0] == bounds[1] >= k * 28e-9


@pytest.mark.parametrize("isa", [0, 1, 2])
@pytest.mark.parametrize("size", [256, 319])
def test_operators_that_are_sure_to_be_short_are(isa: int, size: int) -> None:
    """A convolution of one channel has one term in each block of sixteen, and one with few positions has panels of 64
    columns for them."""
    if isa > cpu.get_isa():
        pytest.skip("no such instructions here")
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((1, 1, n, n)).astype(ml_dtypes.bfloat16) for n in (size, 256))
    stride = (1, 1) if size == 256 else (8, 8)
    attrs = {"stride": stride, "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    op = Writer([w], [x])
    op("conv2d", slot(0), constant(0), **attrs)
    described = TensorDescriptor.of(w), TensorDescriptor.of(x)
    program = Program(tuple(op.nodes), (SlotSource(0, 0),), described[:1], described[1:])
    limit_s = hardest(program)[0] / SURE_RATE[True]
    assert surely_short(program, TC16.byte, limit_s)
    began = time.process_time()
    cpu.execute("conv2d", [x, w], attrs, threads=1, isa=isa, sums=SumMode.TC16)
    assert time.process_time() - began <= limit_s + 0.5
