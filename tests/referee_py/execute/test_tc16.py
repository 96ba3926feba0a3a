"""Runs in the mode tc16: the reference, the kernels node by node and the compiled step give one root."""

from __future__ import annotations

import numpy as np
import pytest
import repops
from repops.host import cpu
from repops.host.library import BEST_ISA
from repops.opset import BF16, F32
from repops.sums import SumMode
from repops.tensors import NUMPY_DTYPE

from referee_py.commit.tensor import Array
from referee_py.execute import Interpreter, Run
from referee_py.program import Program, SlotSource, TensorDescriptor
from referee_py.program.modes import TC16

from ..program.tiny import Writer, constant, slot

STEPS, STRIDES = 4, (2, 1)
TYPE = NUMPY_DTYPE[BF16]
WIDE, ROWS, COLUMNS = 560, 6, 5


def written() -> tuple[Program, list[Array], list[Array]]:
    """Return a layer that is trained in bf16: a master copy, a product, its gradient, and a convolution of the errors.

    The product is longer than a chunk, and most of it cancels, so that what blocks cut off shows in bf16. The gradient
    reads a transposed view, which a compiled step leaves where it is.
    """
    rng = np.random.default_rng(16)
    x = (rng.standard_normal((ROWS, WIDE)) * np.exp2(rng.integers(-9, 10, (ROWS, WIDE)))).astype(TYPE)
    half = WIDE // 2
    x[:, half:], x[:, 0] = -x[:, :half], 2.0**-9
    target = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    rate, kernel = np.array(-(2.0**-18), np.float32), rng.standard_normal((3, 2, 2, 1)).astype(TYPE)
    constants = [x, target, rate, kernel]
    weights = rng.standard_normal((half, COLUMNS)).astype(np.float32)
    initial = [np.concatenate([weights, weights]), np.zeros((2, 3, 1, 15), np.float32)]
    write = Writer(constants, initial)
    narrow = write("cast", slot(0), dtype=BF16)
    y = write("mm", constant(0), narrow)
    difference = write("sub", write("cast", y, dtype=F32), constant(1))
    upstream = write("cast", difference, dtype=BF16)
    turned = write("permute", constant(0), dims=(1, 0))
    gradient = write("cast", write("mm", turned, upstream), dtype=F32)
    window = {"stride": (1, 1), "padding": (1, 0), "dilation": (1, 1), "groups": 1}
    image = write("conv2d", write("reshape", upstream, shape=(1, 2, 1, 15)), constant(3), **window)
    seen = write("reshape", write("cast", image, dtype=F32), shape=(2, 3, 1, 15))
    weight = write("add", slot(0), write("mul", gradient, constant(2)))
    program = Program(
        tuple(write.nodes),
        (SlotSource(weight.index, 0), SlotSource(seen.index, 0)),
        tuple(map(TensorDescriptor.of, constants)),
        tuple(map(TensorDescriptor.of, initial)),
    )
    return program, constants, initial


def computed(backend: repops.Backend, by_nodes: bool = False) -> tuple[tuple[bytes, ...], bytes]:
    """Return the checkpoints of a run, and the hash of its terms. Steps between are compiled, unless by nodes."""
    program, constants, initial = written()
    executor = Interpreter(program, constants, backend) if by_nodes else None
    run = Run(program, constants, initial, STEPS, STRIDES, backend, executor=executor)
    assert run.terms.mode == TC16.byte or backend.sums is not SumMode.TC16
    return run.commit_run().checkpoints, run.terms.hash()


@pytest.fixture(scope="module")
def by_the_reference() -> tuple[tuple[bytes, ...], bytes]:
    return computed(repops.backend("reference", SumMode.TC16))


@pytest.mark.parametrize("isa", range(BEST_ISA + 1))
@pytest.mark.parametrize("by_nodes", [False, True])
def test_the_kernels_give_the_run_of_the_reference(
    monkeypatch: pytest.MonkeyPatch,
    by_the_reference: tuple[tuple[bytes, ...], bytes],
    isa: int,
    by_nodes: bool,
) -> None:
    monkeypatch.setattr(cpu, "_isa", isa)
    before = cpu.get_num_threads()
    try:
        for threads in (1, 3):
            cpu.set_num_threads(threads)
            assert computed(repops.backend("cpu", SumMode.TC16), by_nodes) == by_the_reference
    finally:
        cpu.set_num_threads(before)


def test_other_modes_give_other_runs(by_the_reference: tuple[tuple[bytes, ...], bytes]) -> None:
    for sums in (SumMode.REPOPS_F32, SumMode.EXACT):
        checkpoints, terms = computed(repops.backend("cpu", sums))
        assert terms != by_the_reference[1]
        assert checkpoints[1:] != by_the_reference[0][1:]
