"""Whole training steps on a GPU: the roots of the processor, and the time of eager PyTorch's FP32 without TF32.

Needs the extras [capture] and [models] in addition to those of gpu_check.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import cache

import repops
from repops.backends import Backend

from assay_capture.capture import Recipe, build
from referee_py.compiled import Machine
from referee_py.execute import FastExecutor, State
from trainer_node.local.bundle import Bundle

from .gpu_checks import Differs
from .recipes import built_in

SMALL = ("digits-cnn", "gpt2-tiny")
MODELS = ("resnet50", "distilbert", "gpt2-small")
TURNS = 7
PLAIN = 4
"""Steps before the committed one: the first loads the kernels, the second is captured, and the others are replays."""


@cache
def _built(name: str) -> tuple[Recipe, Bundle]:
    recipe = built_in(name, steps=100)
    return recipe, build(recipe)


def bundle_of(name: str) -> Bundle:
    """Return the program of a recipe for measurements, in f32."""
    return _built(name)[1]


def same_roots(bundles: Mapping[str, Bundle], backend: Backend, machine: Machine) -> int:
    """Check that some plain steps and a committed one give one state and one checkpoint on processor and GPU.

    Raise Differs with all that differs.
    """
    found: dict[str, list[str]] = {}
    for name, bundle in bundles.items():
        cpu = repops.backend("cpu", backend.sums)
        here = _run(bundle, FastExecutor(bundle.program, bundle.constants, cpu))
        there = _run(bundle, FastExecutor(bundle.program, bundle.constants, backend, machine=machine))
        for (what, a), (_, b) in zip(here, there, strict=True):
            if a != b:
                found.setdefault(name, []).append(f"{name}: {what}")
    if found:
        raise Differs(found)
    return len(bundles)


def _run(bundle: Bundle, executor: FastExecutor) -> list[tuple[str, bytes]]:
    """Return what must be the same, with names."""
    state = State.of(0, bundle.initial)
    for _ in range(PLAIN):
        state, _ = executor.step(state, False)
        state.offer()  # or every step takes new memory, and none is a replay
    hashes = [(f"slot {slot} after step {PLAIN}", h) for slot, h in enumerate(state.slot_hashes())]
    _, trace = executor.step(state, True)
    assert trace is not None
    return [*hashes, (f"checkpoint of step {PLAIN + 1}", trace.root)]


def timing(name: str) -> str:
    """Return a line: milliseconds per step, ours in each mode (replayed CUDA graphs) and eager's, in turns."""
    import torch

    from .eager import eager_step

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    recipe, bundle = _built(name)
    works = [*[step_of(bundle, sums) for sums in repops.SumMode], eager_step(recipe, device="cuda")]
    times: list[list[float]] = [[] for _ in works]
    for turn in range(3 + TURNS):
        for found, work in zip(times, works, strict=True):
            torch.cuda.synchronize()
            began = time.perf_counter()
            work()
            torch.cuda.synchronize()
            if turn >= 3:  # kernels are loaded, the graph is captured
                found.append(time.perf_counter() - began)
    *ours, eager = [1e3 * statistics.median(found) for found in times]
    modes = [
        f"{sums} {own:.2f} ms (ratio {eager / own:.2f})"
        for sums, own in zip(repops.SumMode, ours, strict=True)
    ]
    return f"{name}: {', '.join(modes)}, eager {eager:.2f} ms"


def step_of(bundle: Bundle, sums: repops.SumMode) -> Callable[[], object]:
    """Return a function that takes the next step on the GPU in a mode."""
    from referee_py.compiled import Cuda

    backend, machine = repops.backend("cuda", sums), Cuda(sums=sums)
    executor = FastExecutor(bundle.program, bundle.constants, backend, machine=machine)
    state = State.of(0, bundle.initial)

    def step() -> None:
        nonlocal state
        state, _ = executor.step(state, False)
        state.offer()

    return step
