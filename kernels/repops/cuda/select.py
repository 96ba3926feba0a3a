"""Plans of argmax and max_pool2d (kernels/cuda/select.cu)."""

from __future__ import annotations

from ..tensors import Call
from .plan import LaunchPlan, Target, elements, grid, inputs_of, launch, outputs_of, planner

THREADS = 256


@planner("argmax")
def argmax(call: Call, target: Target) -> LaunchPlan:
    (dtype, shape), dim = call.inputs[0], call.attrs["dim"]
    outer, inner = elements(shape[:dim]), elements(shape[dim + 1 :])
    if outer * inner == 0:
        return LaunchPlan(())
    words = [outer, shape[dim], inner, *inputs_of(call), *outputs_of(call)]
    name = f"select.argmax_{dtype.name.lower()}"
    if inner == 1:
        return LaunchPlan((launch(f"{name}_rows", grid(outer, 1, target), THREADS, words),))
    return LaunchPlan((launch(f"{name}_columns", grid(outer * inner, THREADS, target), THREADS, words),))


@planner("max_pool2d")
def max_pool2d(call: Call, target: Target) -> LaunchPlan:
    results = elements(call.outputs[0][1])
    if results == 0:
        return LaunchPlan(())
    pairs = (call.attrs[name] for name in ("kernel", "stride", "padding", "dilation"))
    words = [results, *call.inputs[0][1][2:], *call.outputs[0][1][2:], *[v for pair in pairs for v in pair]]
    words += [*inputs_of(call), *outputs_of(call)]
    return LaunchPlan((launch("select.max_pool2d", grid(results, THREADS, target), THREADS, words),))
