"""Plans of sum and scatter_add in the mode exact (kernels/cuda/exact_reduce.cu)."""

from __future__ import annotations

from ..tensors import Call
from .plan import (
    LaunchPlan,
    Target,
    Word,
    ceil_div,
    elements,
    grid,
    inputs_of,
    launch,
    outputs_of,
    planner,
    workspace_of,
)
from .reduce import layout_of
from .scatter import scatter

THREADS = 128
ROW, COLUMN = 4096, 512  # elements of a result that one warp adds, and that one thread adds
DIGITS = 8 * (22 + 1)  # bytes of an exact sum


@planner("sum", exact=True)
def total(call: Call, target: Target) -> LaunchPlan:
    results = elements(call.outputs[0][1])
    if results == 0:
        return LaunchPlan(())
    outer, n, width, kept, reduced = layout_of(call, results)
    length = ROW if width == 1 else COLUMN
    blocks = max(1, ceil_div(n, length))
    (out,) = outputs_of(call)
    parts = workspace_of(call) if blocks > 1 else 0
    words: list[Word] = [outer, n, width, blocks, length, *kept.words(), *reduced.words(), *inputs_of(call)]
    if width == 1:
        kernel, grid_blocks = "exact_sum_rows", grid(outer * blocks, THREADS // 32, target)
    else:
        kernel, grid_blocks = "exact_sum_columns", grid(results * blocks, THREADS, target)
    first = launch(f"exact_reduce.{kernel}", grid_blocks, THREADS, [*words, out, parts])
    if blocks == 1:
        return LaunchPlan((first,))
    join = launch(
        "exact_reduce.exact_sum_join",
        grid(results, THREADS // 32, target),
        THREADS,
        [results, blocks, parts, out],
    )
    return LaunchPlan((first, join), (DIGITS * results * blocks,))


@planner("scatter_add", exact=True)
def scatter_add(call: Call, target: Target) -> LaunchPlan:
    return scatter(call, target, "exact_reduce.exact_add_rows")
