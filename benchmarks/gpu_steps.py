"""Whole training steps on a GPU: the roots of the processor, and the time of eager PyTorch's FP32 without TF32.

Needs the extras [capture] and [models] in addition to those of gpu_check.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import repops
from repops.backends import Backend

from referee_py.compiled import Machine
from referee_py.execute import FastExecutor, State
from trainer_node.bundle import Bundle
from trainer_node.capture import build

from .gpu_checks import Differs
from .recipes import built_in

MODELS = ("gpt2-small", "resnet50", "distilbert")
TURNS = 7


def same_roots(names: tuple[str, ...], backend: Backend, machine: Machine) -> int:
    """Check that two plain steps and a committed one give one state and one checkpoint on processor and GPU."""
    for name in names:
        bundle = build(built_in(name, steps=4))
        cpu = repops.backend("cpu", backend.exact)
        here = _run(bundle, FastExecutor(bundle.program, bundle.constants, cpu))
        there = _run(bundle, FastExecutor(bundle.program, bundle.constants, backend, machine=machine))
        for what, a, b in zip(("state after step 2", "checkpoint of step 3"), here, there, strict=True):
            if a != b:
                raise Differs(f"{name}: {what}")
    return len(names)


def _run(bundle: Bundle, executor: FastExecutor) -> tuple[list[bytes], bytes]:
    state = State.of(0, bundle.initial)
    for _ in range(2):
        state, _ = executor.step(state, False)
    hashes = state.slot_hashes()
    _, trace = executor.step(state, True)
    assert trace is not None
    return hashes, trace.root


def timings() -> list[str]:
    """Return a line for each model: milliseconds per step, ours in both modes (replayed CUDA graphs) and eager's, in
    turns."""
    import torch

    from .models import eager_step

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    lines = []
    for name in MODELS:
        recipe = built_in(name, steps=100)
        bundle = build(recipe)
        works = [_ours(bundle, False), _ours(bundle, True), eager_step(recipe, device="cuda")]
        times: list[list[float]] = [[] for _ in works]
        for turn in range(3 + TURNS):
            for found, work in zip(times, works, strict=True):
                torch.cuda.synchronize()
                began = time.perf_counter()
                work()
                torch.cuda.synchronize()
                if turn >= 3:  # kernels are loaded, the graph is captured
                    found.append(time.perf_counter() - began)
        ours, exact, eager = [1e3 * statistics.median(found) for found in times]
        lines.append(
            f"{name}: repops-f32 {ours:.2f} ms, exact {exact:.2f} ms, eager {eager:.2f} ms, "
            f"ratios {eager / ours:.2f} and {eager / exact:.2f}"
        )
    return lines


def _ours(bundle: Bundle, exact: bool) -> Callable[[], object]:
    """Return a function that takes the next step on the GPU in a mode."""
    from referee_py.compiled import Cuda

    backend, machine = repops.backend("cuda", exact), Cuda(exact=exact)
    executor = FastExecutor(bundle.program, bundle.constants, backend, machine=machine)
    state = State.of(0, bundle.initial)

    def step() -> None:
        nonlocal state
        state, _ = executor.step(state, False)
        state.offer()

    return step
