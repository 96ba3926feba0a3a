"""The modes side by side: CPU time of a step, bytes of logs, bytes hashed for a commitment, bytes of activations.

Each step runs in one process with one thread, in turns with the others.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import repops
import torch
from repops.opset import BF16

from assay_capture.capture import Recipe, build
from referee_py.execute import Backend, FastExecutor, State
from referee_py.program.modes import Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.log_source import MemoryLogs
from trainer_node.local.bundle import Bundle
from trainer_node.run.devices import evaluator_of

from .eager import eager_step
from .recipes import built_in
from .report import Table, ms
from .timing import medians, one_thread, ratio

MODELS = ("gpt2-small", "resnet50")
WARM_UP = 2
KINDS: dict[str, Callable[[], Backend]] = {
    "repops-f32": lambda: repops.backend("cpu"),
    "exact": lambda: repops.backend("cpu", repops.SumMode.EXACT),
    "tc16": lambda: repops.backend("cpu", repops.SumMode.TC16),
    "rounded-f64": lambda: Rounded(Rounding(), MemoryLogs(), evaluator_of("torch")),
}


@dataclass(eq=False)
class _Case:
    """A program in a mode, and the time of its steps."""

    name: str
    bundle: Bundle
    executor: FastExecutor
    state: State
    logs: MemoryLogs | None
    times: list[float]

    def step(self) -> None:
        began = time.process_time()
        self.state, _ = self.executor.step(self.state, False)
        self.state.offer()
        self.times.append(time.process_time() - began)

    @property
    def log_bytes(self) -> str:
        log = self.logs.get(self.state.step) if self.logs else None
        return f"{len(log.encode()) / 1e3:.1f}" if log else "0"


def measure(turns: int) -> Table:
    """Return a row for each model, dtype and mode."""
    columns = [
        "model",
        "products",
        "mode",
        "ms per step",
        "over repops-f32",
        "over eager FP32",
        "kB of logs per step",
    ]
    table = Table("modes", [*columns, "GB hashed", "of products", "GB of values"])
    with one_thread():
        for name in MODELS:
            _add(table, built_in(name, steps=100), turns)
            gc.collect()
    return table


def _add(table: Table, recipe: Recipe, turns: int) -> None:
    plain = build(recipe)
    for dtype in (None, torch.bfloat16):
        bundle = build(replace(recipe, autocast=dtype)) if dtype else plain
        _compare(table, recipe, plain, bundle, turns)
        gc.collect()


def _compare(table: Table, recipe: Recipe, plain: Bundle, bundle: Bundle, turns: int) -> None:
    """Add the rows of a program: its modes in turns with eager torch and with repops-f32 in f32.

    NOTE: each case of GPT-2 small holds 3 GB, so the two dtypes are not in memory at once. Steps in f32 are the same in
    tc16 and in repops-f32.
    """
    kinds = {mode: make for mode, make in KINDS.items() if mode != "tc16" or bundle is not plain}
    cases = [_case(mode, bundle, make()) for mode, make in kinds.items()]
    first = cases[0] if bundle is plain else _case("repops-f32", plain, KINDS["repops-f32"]())
    theirs, eager = eager_step(recipe), []
    for _ in range(WARM_UP + turns):
        for case in cases if first in cases else (first, *cases):
            case.step()
        began = time.process_time()
        theirs()
        eager.append(time.process_time() - began)
    base = first.times[WARM_UP:]
    for case in cases:
        times, nodes = case.times[WARM_UP:], case.bundle.program.nodes
        narrow = any(type_.dtype == BF16 for node in nodes for type_ in node.outputs)
        hashed = sum(type_.nbytes for node in nodes for type_ in node.outputs)
        products = ("mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad")
        of_products = sum(node.outputs[0].nbytes for node in nodes if node.name in products)
        compiled = case.executor.compiled
        table.add(
            recipe.name,
            "bf16" if narrow else "f32",
            case.name,
            ms(medians([times])[0]),
            f"{ratio(times, base):.2f}",
            f"{ratio(times, eager[WARM_UP:]):.2f}",
            case.log_bytes,
            f"{hashed / 1e9:.2f}",
            f"{of_products / 1e9:.2f}",
            f"{compiled.arena_bytes / 1e9:.2f}" if compiled else "",
        )


def _case(mode: str, bundle: Bundle, backend: Backend) -> _Case:
    executor = FastExecutor(bundle.program, bundle.constants, backend, bundle.metrics)
    logs = backend.log_source if isinstance(backend, Rounded) else None
    assert logs is None or isinstance(logs, MemoryLogs)
    return _Case(mode, bundle, executor, State.of(0, bundle.initial), logs, [])
