"""Runs in the mode tc16: the reference, the kernels node by node and the compiled step give one root."""

from __future__ import annotations

import pytest
import repops
from repops.host import cpu
from repops.host.library import BEST_ISA
from repops.sums import SumMode

from referee_py.execute import Interpreter, Run
from referee_py.program.modes import TC16

from .narrow_layer import written

STEPS, STRIDES = 4, (2, 1)


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
