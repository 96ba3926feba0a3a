"""Whole training steps of full-size models: ours, and the same module and optimizer in eager torch.

Times are CPU times of one process with one thread each, step after step in turns, so other programs do not count. A
committed step hashes every node's results. Peak memory is measured in separate processes.
"""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path

import repops

from assay_capture.capture import Recipe, build
from referee_py.execute import FastExecutor, State

from .eager import eager_step
from .peak_memory import peak_bytes
from .recipes import built_in
from .report import Table, factor, ms
from .timing import medians, one_thread, ratio

MODELS = ("gpt2-small", "llama-100m", "resnet50", "distilbert", "bert-base", "vit-base", "convnext-tiny")
WARM_UP = 2
STRIDE = 100


def measure(turns: int) -> Table:
    """Return milliseconds of CPU time per step."""
    columns = ["model", "parameters", "nodes", "kernel calls", "ours", "eager torch", "torch / ours"]
    columns += ["committed", "GB hashed", f"at stride {STRIDE}", "peak GB", "eager"]
    table = Table("models", columns)
    with one_thread():
        for name in MODELS:
            table.add(*_row(built_in(name, steps=100), turns))
            gc.collect()
    return table


def _row(recipe: Recipe, turns: int) -> list[str]:
    theirs = eager_step(recipe)
    bundle = build(recipe)
    executor = FastExecutor(bundle.program, bundle.constants, repops.backend("cpu"), bundle.metrics)
    state = State.of(0, bundle.initial)

    def ours() -> None:
        nonlocal state
        state, _ = executor.step(state, False)
        state.offer()

    times: list[list[float]] = [[], []]
    for turn in range(WARM_UP + turns):
        for found, work in zip(times, (ours, theirs), strict=True):
            began = time.process_time()
            work()
            if turn >= WARM_UP:
                found.append(time.process_time() - began)
    began = time.process_time()
    _, trace = executor.step(state, True)
    assert trace is not None
    trace.root  # noqa: B018  (computed when first asked for)
    committed = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder:
        path = bundle.write(Path(folder))
        peaks = [peak_bytes(whose, recipe.name, path) for whose in ("ours", "eager")]
    parameters = sum(p.numel() for p in recipe.module.parameters())
    calls = len(executor.compiled.tasks) if executor.compiled else 0
    mine, eager = medians(times)
    counts = [f"{parameters / 1e6:.1f} M", str(len(bundle.program.nodes)), str(calls)]
    hashed = sum(type_.nbytes for node in bundle.program.nodes for type_ in node.outputs)
    commitment = [ms(committed), f"{hashed / 1e9:.2f}", f"{(committed - mine) / mine / STRIDE:+.1%}"]
    memory = [f"{peak / 1e9:.2f}" for peak in peaks]
    return [
        recipe.name,
        *counts,
        ms(mine),
        ms(eager),
        factor(ratio(times[1], times[0])),
        *commitment,
        *memory,
    ]
