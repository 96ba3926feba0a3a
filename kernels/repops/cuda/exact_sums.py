"""Plans of sum and scatter_add in the mode exact (kernels/cuda/exact_reduce.cu)."""

from __future__ import annotations

from ..sums import SumMode
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

THREADS, COLUMN_THREADS = 128, 256
SHORT = 64  # most elements of a result that one thread adds
ROW, COLUMN = 4096, 512  # least elements of a block of a result
WARPS, STRIPS = 32, 8  # of a multiprocessor, so many should have work
JOINED = 64  # parts at once
DIGITS = 8 * (22 + 1)  # bytes of an exact sum


@planner("sum", sums=SumMode.EXACT)
def total(call: Call, target: Target) -> LaunchPlan:
    results = elements(call.outputs[0][1])
    if results == 0:
        return LaunchPlan(())
    outer, n, width, kept, reduced = layout_of(call, results)
    (out,) = outputs_of(call)
    rows, short = width == 1, width > 1 and n <= SHORT
    # Warps, or blocks of threads for 32 neighbouring results.
    items = outer * ceil_div(width, 32)
    wanted = max(1, ceil_div(target.multiprocessors * (WARPS if rows else STRIPS), items))
    length = n if short else max(ROW if rows else COLUMN, ceil_div(n, wanted))
    blocks = max(1, ceil_div(n, max(1, length)))
    parts = workspace_of(call) if blocks > 1 else 0
    words: list[Word] = [outer, n, width, blocks, length, *kept.words(), *reduced.words(), *inputs_of(call)]
    if rows:
        kernel, grid_blocks, threads = "rows", grid(items * blocks, THREADS // 32, target), THREADS
    elif short:
        kernel, grid_blocks, threads = "short_columns", grid(results, THREADS, target), THREADS
    else:
        kernel, grid_blocks, threads = "columns", grid(items * blocks, 1, target), COLUMN_THREADS
    launches = [launch(f"exact_reduce.exact_sum_{kernel}", grid_blocks, threads, [*words, out, parts])]
    workspaces: list[int] = []
    while blocks > 1:
        groups = ceil_div(blocks, JOINED)
        workspaces.append(DIGITS * results * blocks)
        source = workspace_of(call, len(workspaces) - 1)
        to = workspace_of(call, len(workspaces)) if groups > 1 else 0
        joining: list[Word] = [results, blocks, groups, JOINED, source, out, to]
        grid_blocks = grid(results * groups, THREADS // 32, target)
        launches.append(launch("exact_reduce.exact_sum_join", grid_blocks, THREADS, joining))
        blocks = groups
    return LaunchPlan(tuple(launches), tuple(workspaces))


@planner("scatter_add", sums=SumMode.EXACT)
def scatter_add(call: Call, target: Target) -> LaunchPlan:
    return scatter(call, target, "exact_reduce.exact_add_rows")
