"""Plans of sum and amax (kernels/cuda/reduce.cu): one launch for each level of blocks."""

from __future__ import annotations

from typing import NamedTuple

from ..fuse.phases import row_major
from ..opset import ITEM_SIZE
from ..tensors import Call
from .plan import (
    Axes,
    Launch,
    LaunchPlan,
    Target,
    ceil_div,
    elements,
    grid,
    inputs_of,
    launch,
    merge,
    outputs_of,
    planner,
    workspace_of,
)

BLOCK = 4096
LANES = 32
THREADS = 256


class Layout(NamedTuple):
    """The input as [outer, n, width]: `kept` maps an outer index to its place, `reduced` one of the n elements.

    `width` neighbouring results; 1 if the innermost dimension is reduced.
    """

    outer: int
    n: int
    width: int
    kept: Axes
    reduced: Axes


def layout_of(call: Call, results: int) -> Layout:
    shape = call.inputs[0][1]
    dims, strides = call.attrs["dims"], row_major(shape)

    def axes(reduced: bool) -> Axes:
        chosen = [d for d in range(len(shape)) if (d in dims) is reduced]
        sizes, (steps,) = merge([shape[d] for d in chosen], [strides[d] for d in chosen])
        return Axes(sizes, steps)

    kept, reduced = axes(False), axes(True)
    n = elements(reduced.dims)
    width = 1
    if kept.dims and kept.strides[-1] == 1 and n > 1:
        width, kept = kept.dims[-1], Axes(kept.dims[:-1], kept.strides[:-1])
    if n == 0:  # NOTE: nothing is read; axes of size 0 would divide by 0
        kept, reduced = Axes((), ()), Axes((), ())
    return Layout(results // width, n, width, kept, reduced)


@planner("sum", "amax")
def reduce(call: Call, target: Target) -> LaunchPlan:
    dtype = call.inputs[0][0]
    results = elements(call.outputs[0][1])
    if results == 0:
        return LaunchPlan(())
    kernel = f"reduce.{call.op.name}_{dtype.name.lower()}"
    outer, n, width, kept, reduced = layout_of(call, results)
    source = inputs_of(call)[0]
    launches: list[Launch] = []
    workspaces: list[int] = []
    while True:
        blocks = max(1, ceil_div(n, BLOCK))
        to = outputs_of(call)[0]
        if blocks > 1:
            to = workspace_of(call, len(workspaces))
            workspaces.append(results * blocks * ITEM_SIZE[dtype])
        words = [outer, n, width, blocks, *kept.words(), *reduced.words(), source, to]
        launches.append(launch(*_shape_of(kernel, outer, n, width, blocks, target), words))
        if blocks == 1:
            return LaunchPlan(tuple(launches), tuple(workspaces))
        # The next level: rows of block results, each contiguous.
        source, outer, width, n = to, results, 1, blocks
        kept, reduced = Axes((results,), (blocks,)), Axes((blocks,), (1,))


def _shape_of(
    kernel: str, outer: int, n: int, width: int, blocks: int, target: Target
) -> tuple[str, int, int]:
    """Return the kernel, and its numbers of blocks and threads."""
    if width == 1:
        return f"{kernel}_rows", grid(outer * blocks, THREADS // 32, target), THREADS
    if n <= LANES:
        return f"{kernel}_short_columns", grid(outer * width, THREADS, target), THREADS
    return f"{kernel}_columns", grid(outer * blocks * ceil_div(width, 32), 1, target), THREADS
