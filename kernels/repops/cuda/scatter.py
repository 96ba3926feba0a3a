"""Plan of scatter_add (kernels/cuda/scatter.cu)."""

from __future__ import annotations

from ..tensors import Call
from .plan import (
    Launch,
    LaunchPlan,
    Ref,
    Target,
    TooLarge,
    Word,
    ceil_div,
    divisor,
    elements,
    grid,
    inputs_of,
    launch,
    outputs_of,
    planner,
    workspace_of,
)

THREADS = 256
WARP = 32
SEGMENT = 1024
DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS


@planner("scatter_add")
def scatter_add(call: Call, target: Target) -> LaunchPlan:
    return scatter(call, target, "scatter.scatter_add_rows")


def scatter(call: Call, target: Target, kernel: str) -> LaunchPlan:
    """Plan the sort of positions by row, then a kernel that adds them up (its struct is `Adding`)."""
    (_, shape), (_, idx), _ = call.inputs
    base, index, src = inputs_of(call)
    (out,) = outputs_of(call)
    rows, width, count, total = shape[0], elements(shape[1:]), elements(idx), elements(shape)
    if total == 0:
        return LaunchPlan(())
    if count >= 1 << 32:
        raise TooLarge("scatter_add: counts are 32 bits wide", positions=count)
    adding: list[Word] = [total, *divisor(width), base, src]
    blocks = grid(total, THREADS, target)
    if count == 0:
        return LaunchPlan((launch(kernel, blocks, THREADS, [*adding, 0, 0, out]),))

    counts, starts, *sorted_ = [workspace_of(call, i) for i in range(4)]
    segments = ceil_div(count, SEGMENT)
    launches: list[Launch] = []
    before: Ref | None = None
    for number in range(ceil_div(rows.bit_length(), DIGIT_BITS)):
        after = sorted_[number % 2]
        words: list[Word] = [count, rows, segments, number * DIGIT_BITS, index, before or 0, counts, after]
        launches += [
            launch("scatter.scatter_count", segments, WARP, words),
            launch("scatter.scatter_scan", 1, 1024, words),
            launch("scatter.scatter_place", segments, WARP, words),
        ]
        before = after
    assert before is not None, "a row to add to has at least one digit"
    words = [count, rows, index, before, starts]
    launches.append(launch("scatter.scatter_row_starts", grid(rows + 1, THREADS, target), THREADS, words))
    launches.append(launch(kernel, blocks, THREADS, [*adding, before, starts, out]))
    return LaunchPlan(tuple(launches), (4 * DIGITS * segments, 8 * (rows + 1), 8 * count, 8 * count))
