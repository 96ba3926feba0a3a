"""A step compiled for a GPU gives the interpreter's bits; its plans and generated kernels run on the host."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import repops
from repops.cuda import fusion
from repops.cuda.plan import Launch
from repops.opset import ITEM_SIZE, Shape, Spec
from repops.sums import SumMode
from repops.tensors import NUMPY_DTYPE

from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from referee_py.compiled import Compiled, Cuda
from referee_py.execute import FastExecutor, Interpreter, Run, State
from referee_py.program import Program
from tests.kernels.cuda import emulation

from ..execute.test_tc16 import written
from ..program import tiny
from .random_program import RandomProgram
from .random_slots import RandomSlots
from .random_views import RandomViews
from .schedules import Play, Truth

pytestmark = emulation.needs_gcc

PROGRAMS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]


class EmulatedGpu(Cuda):
    """`Cuda` without the driver and torch: memory is numpy's, and g++ compiles fused kernels."""

    def __init__(self, folder: Path, sums: SumMode = SumMode.REPOPS_F32) -> None:
        self._folder, self._sums = folder, sums
        self._texts: dict[str, str] = {}
        self._gpu: Any = SimpleNamespace(target=emulation.TARGET, load_text=self._texts.__setitem__)
        self._fused: ctypes.CDLL | None = None
        self.launched = 0

    def sequence(self, calls: Sequence[Any]) -> Callable[[], None]:
        def run() -> None:
            for call in calls:
                works = [np.empty(size, np.uint8) for size in call.plan.workspaces]
                addresses = [*call.addresses, *(work.ctypes.data for work in works)]
                for launch in call.plan.launches:
                    self._launch(launch, addresses)

        return run

    def _launch(self, launch: Launch, addresses: Sequence[int]) -> None:
        source = launch.kernel.partition(".")[0]
        library = self._library() if source in self._texts else emulation.library()
        error = emulation.start(library, launch, addresses)
        assert error is None, f"{launch.kernel}: {error!r}"
        self.launched += 1

    def _library(self) -> ctypes.CDLL:
        if self._fused is None:
            options = [*emulation.OPTIONS, "-O0", *emulation.SHIM]
            sources = [*emulation.MACHINE]
            for name, text in self._texts.items():
                sources.append(self._folder / f"{name}.cpp")
                sources[-1].write_text(text)
            built = self._folder / "fused.so"
            subprocess.run(["g++", *options, "-shared", *map(str, sources), "-o", str(built)], check=True)
            self._fused = emulation.load(built)
        return self._fused

    def new(self, spec: Spec) -> Array:
        return np.full(spec[1], 1, NUMPY_DTYPE[spec[0]])

    def part(self, arena: Array, offset: int, spec: Spec) -> Array:
        dtype, shape = spec
        piece = arena[offset : offset + int(np.prod(shape, dtype=np.int64)) * ITEM_SIZE[dtype]]
        return piece.view(NUMPY_DTYPE[dtype]).reshape(shape)

    def address(self, buffer: Array) -> int:
        return buffer.ctypes.data

    def write(self, buffer: Array, content: Array) -> None:
        np.copyto(buffer, content)

    def read(self, buffer: Array) -> Array:
        return buffer.copy()

    def copied(self, buffer: Array) -> Array:
        return buffer.copy()

    def place(self, array: Array) -> Array:
        return array.copy()

    def hash(self, buffer: Array) -> bytes:
        return tensor_hash(buffer)

    def execute(self, name: str, inputs: Sequence[Array], attrs: Mapping[str, Any]) -> list[Array]:
        return emulation.execute(name, inputs, attrs, sums=self._sums)


def check(
    folder: Path,
    program: Program,
    constants: list[Array],
    initial: list[Array],
    steps: int,
    sums: SumMode = SumMode.REPOPS_F32,
) -> None:
    machine = EmulatedGpu(folder, sums)
    compiled = Compiled(program, constants, machine=machine)
    compiled.load(initial)
    interpreter = Interpreter(program, constants, repops.backend("cpu", sums))
    state = State.of(0, initial)
    for step in range(1, steps + 1):
        state, _ = interpreter.step(state, False)
        compiled.run(step)
        for slot, (want, got) in enumerate(zip(state.arrays, compiled.slots, strict=True)):
            assert tensor_hash(got) == tensor_hash(want), f"step {step}, slot {slot}"
    assert machine.launched


@pytest.mark.parametrize("sums", list(SumMode))
def test_linear_regression(tmp_path: Path, sums: SumMode) -> None:
    check(tmp_path, tiny.program(), *tiny.tensors(), tiny.STEPS, sums)


@pytest.mark.parametrize("seed", PROGRAMS)
def test_random_programs(tmp_path: Path, seed: int) -> None:
    made = RandomProgram(seed, size=40)
    check(tmp_path, made.program, made.constants, made.initial, 2)


@pytest.mark.parametrize("seed", PROGRAMS)
def test_random_programs_in_the_mode_exact(tmp_path: Path, seed: int) -> None:
    made = RandomProgram(seed + 100, size=40)
    check(tmp_path, made.program, made.constants, made.initial, 2, SumMode.EXACT)


@pytest.mark.parametrize("seed", PROGRAMS[:3])
def test_random_views(tmp_path: Path, seed: int) -> None:
    made = RandomViews(seed, size=40)
    check(tmp_path, made.program, made.constants, made.initial, 2)


class Rows(RandomProgram):
    """Operators around a sum of rows, which one kernel computes."""

    def _shapes(self, _seed: int) -> tuple[list[Shape], int]:
        return [(3, 40)] * 5, 3

    def _grow(self) -> None:
        row = self.made("neg", self.pool[1])
        mean = self.made("mul", self.made("sum", row, dims=(1,), keepdim=1), self.full(0.25))
        centred = self.made("sub", row, mean)
        self.made("mul", self.made("exp", centred), centred)


def test_in_the_mode_exact_long_sums_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Rows(0, 1)

    def kernels(sums: SumMode) -> list[list[str]]:
        tasks = Compiled(made.program, made.constants, machine=EmulatedGpu(tmp_path, sums)).tasks
        return [task.name.split()[1:] for task in tasks if task.name.startswith("fused")]

    assert ["neg", "sum", "mul", "sub", "exp", "mul"] in kernels(SumMode.REPOPS_F32)
    assert kernels(SumMode.EXACT) == kernels(SumMode.REPOPS_F32)
    monkeypatch.setattr(fusion, "KEPT_ROW", 0)
    assert not any("sum" in names for names in kernels(SumMode.EXACT))
    assert ["sub", "exp", "mul"] in kernels(SumMode.EXACT)


@pytest.mark.parametrize("sums", list(SumMode))
def test_a_run_on_a_gpu_has_the_root_of_the_reference(tmp_path: Path, sums: SumMode) -> None:
    """Committed steps run node by node, plain steps compiled, and states stay on the device."""
    program, (constants, initial) = tiny.program(), tiny.tensors()
    reference = repops.backend("reference", sums)
    executor = FastExecutor(program, constants, reference, machine=EmulatedGpu(tmp_path, sums))
    run = Run(program, constants, initial, tiny.STEPS, (5, 1), reference, executor=executor)
    interval = run.commit_interval(run.initial(), tiny.STEPS, 5, snapshots=(4, 7))
    expected = Run(program, constants, initial, tiny.STEPS, (5, 1), reference)
    assert interval.checkpoints == expected.commit_run().checkpoints
    for step, state in interval.snapshots.items():
        assert state.slot_hashes() == expected.advance(expected.initial(), step).slot_hashes()


def test_training_in_bf16_by_blocks_of_tensor_cores(tmp_path: Path) -> None:
    check(tmp_path, *written(), 3, SumMode.TC16)


@pytest.mark.parametrize("seed", range(0, 9, 3))
def test_random_schedules(tmp_path: Path, seed: int) -> None:
    """Slots are handed on and states are held, on a device."""
    made, cpu = RandomSlots(seed, 12), repops.backend("cpu")
    assert made.moving
    machine = EmulatedGpu(tmp_path)
    executor = FastExecutor(made.program, made.constants, cpu, machine=machine)
    with np.errstate(all="ignore"):
        played = Play(Truth(made, cpu), executor, seed).run()
    assert machine.launched
    assert played.steps
    assert not played.wrong


def test_models_have_the_same_roots(tmp_path: Path) -> None:
    """Runs the check that scripts/gpu_check does with large models on a real device."""
    pytest.importorskip("torch", reason="needs the extra [capture]")
    from benchmarks.gpu_steps import bundle_of, same_roots

    bundles = {"digits-cnn": bundle_of("digits-cnn")}
    assert same_roots(bundles, repops.backend("cpu"), EmulatedGpu(tmp_path)) == 1
