"""Plans of the operators that move elements or create them from attributes (kernels/cuda/layout.cu)."""

from __future__ import annotations

from ..fuse.phases import row_major
from ..opset import ITEM_SIZE, MAX_RANK, Shape
from ..tensors import Call
from .plan import (
    Axes,
    LaunchPlan,
    Ref,
    Target,
    Word,
    ceil_div,
    elements,
    grid,
    inputs_of,
    item_size,
    launch,
    merge,
    outputs_of,
    planner,
)
from .pointwise import broadcast_strides

THREADS = 256
TILE = 32


def _strides(call: Call) -> tuple[int, tuple[int, ...]]:
    """Return the input offset of output element (0, 0, ...), and each output dimension's stride in the input."""
    shape, out, attrs = call.inputs[0][1], call.outputs[0][1], call.attrs
    own = row_major(shape)
    if call.op.name == "permute":
        return 0, tuple(own[d] for d in attrs["dims"])
    if call.op.name == "slice":
        dim = attrs["dim"]
        steps = tuple(step * attrs["step"] if d == dim else step for d, step in enumerate(own))
        return attrs["start"] * own[dim], steps
    return 0, broadcast_strides(shape, out) if call.op.name == "expand" else own


@planner("permute", "expand", "slice", "reshape")
def move(call: Call, target: Target) -> LaunchPlan:
    """Plan a move. NOTE: reshape is a view, and is planned only if its result is wanted in given memory."""
    out = call.outputs[0][1]
    if call.op.name == "reshape":
        return copy_plan((elements(out),), (1,), item_size(call), target)
    offset, steps = _strides(call)
    return copy_plan(out, steps, item_size(call), target, offset)


def copy_plan(shape: Shape, strides: Shape, size: int, target: Target, offset: int = 0) -> LaunchPlan:
    """Plan a copy of a view of buffer 0 to buffer 1, elements in row-major order. `size` is an item's, in bytes."""
    n, buffers = elements(shape), [Ref(0), Ref(1)]
    if n == 0:
        return LaunchPlan(())
    dims, (strides,) = merge(shape, strides)
    if not dims:
        dims, strides = (1,), (1,)
    line = next((d for d in range(len(dims) - 1) if strides[d] == 1 and dims[d] >= 4), None)
    if line is not None and strides[-1] > 1:
        turned, tiles = _transposition(dims, strides, line)
        kernel = f"layout.transpose_{size}"
        return LaunchPlan((launch(kernel, grid(tiles, 1, target), THREADS, [*turned, offset, *buffers]),))
    per_block = THREADS * (16 // size if strides[-1] == 1 else 1)
    words: list[Word] = [n, *Axes(dims, strides).words(), offset, *buffers]
    return LaunchPlan((launch(f"layout.move_{size}", grid(n, per_block, target), THREADS, words),))


def _transposition(dims: tuple[int, ...], strides: tuple[int, ...], line: int) -> tuple[list[Word], int]:
    steps = row_major(dims)
    others = [d for d in range(len(dims) - 1) if d != line]
    tiles = ceil_div(dims[line], TILE) * ceil_div(dims[-1], TILE) * elements(tuple(dims[d] for d in others))
    axes = Axes(tuple(dims[d] for d in others), tuple(strides[d] for d in others))
    to = [*(steps[d] for d in others), *[0] * (MAX_RANK - len(others))]
    return [dims[line], dims[-1], steps[line], strides[-1], tiles, *axes.words(), *to], tiles


@planner("cat")
def cat(call: Call, target: Target) -> LaunchPlan:
    dim, size = call.attrs["dim"], item_size(call)
    out = call.outputs[0][1]
    inner = elements(out[dim + 1 :]) * size
    pitch, start, launches = out[dim] * inner, 0, []
    for part, (_, shape) in zip(inputs_of(call), call.inputs, strict=True):
        run, total = shape[dim] * inner, elements(shape) * size
        if total:
            words: list[Word] = [total, run, pitch, part, Ref(len(call.inputs), start)]
            launches.append(launch("layout.cat_part", grid(total, THREADS * 16, target), THREADS, words))
        start += run
    return LaunchPlan(tuple(launches))


@planner("take")
def take(call: Call, target: Target) -> LaunchPlan:
    (_, x), _ = call.inputs
    size = item_size(call)
    total, row = elements(call.outputs[0][1]) * size, elements(x[1:]) * size
    if total == 0:
        return LaunchPlan(())
    words: list[Word] = [total, x[0], row, *inputs_of(call), *outputs_of(call)]
    return LaunchPlan((launch("layout.take", grid(total, THREADS * 16, target), THREADS, words),))


@planner("full", "arange")
def constant(call: Call, target: Target) -> LaunchPlan:
    n = elements(call.outputs[0][1])
    if n == 0:
        return LaunchPlan(())
    kernel = "arange" if call.op.name == "arange" else f"fill_{ITEM_SIZE[call.attrs['dtype']]}"
    words: list[Word] = [n, call.attrs.get("bits", 0), *outputs_of(call)]
    return LaunchPlan((launch(f"layout.{kernel}", grid(n, THREADS * 4, target), THREADS, words),))


@planner("philox")
def philox(call: Call, target: Target) -> LaunchPlan:
    n = elements(call.outputs[0][1])
    if n == 0:
        return LaunchPlan(())
    words: list[Word] = [n, call.attrs["site"], *inputs_of(call), *outputs_of(call)]
    kernel = f"layout.philox_{call.outputs[0][0].name.lower()}"
    return LaunchPlan((launch(kernel, grid(n, THREADS * 4, target), THREADS, words),))
