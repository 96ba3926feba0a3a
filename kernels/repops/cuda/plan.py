"""Plans: the kernels that a call launches, with grids and arguments. Making a plan is pure and needs no GPU.

    call = call_of(name, specs, attrs)
    plan = plan_of(call, target)               launches, in order, and the bytes of each workspace
    run them with repops.cuda.device           ... or, in the tests, on the host

A kernel takes one struct of 64-bit words (kernels/cuda/device.cuh). In a plan the words that are addresses are `Ref`s.
Buffers are numbered: inputs, then outputs, then workspaces.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..opset import ITEM_SIZE, MAX_RANK, OpError, Shape
from ..sums import SumMode
from ..tensors import Call

MAX_GRID = (1 << 31) - 1


class TooLarge(OpError):
    """A call whose grid or workspace is too large for any GPU."""


class Ref(NamedTuple):
    """The address of a buffer of the call, or of a place in it."""

    buffer: int
    offset: int = 0


class Boxes(NamedTuple):
    """A `TensorMap` (kernels/cuda/hopper.cuh): a tensor of bf16 that is read in boxes. Sizes are of columns, rows and
    batches, steps are bytes between rows and between batches, multiples of BOX_ALIGNMENT; a box has BOX_WIDTH columns.
    """

    start: Ref
    sizes: tuple[int, int, int]
    steps: tuple[int, int]
    rows: int  # of a box


Word = int | Ref | Boxes
BOX_WIDTH, BOX_ALIGNMENT = 64, 16
"""Columns of a box; bytes of which the start and the steps of its tensor are multiples."""
BOXES_WORDS = 16


class Launch(NamedTuple):
    """One kernel on one grid. `kernel` is "source.name"; the source is kernels/cuda/<source>.cu."""

    kernel: str
    blocks: int
    threads: int
    words: bytes
    refs: tuple[tuple[int, Ref], ...]  # (byte offset in words, address to put there)
    boxes: tuple[tuple[int, Boxes], ...] = ()  # (byte offset in words, tensor map to put there)
    shared: int = 0
    """Bytes of shared memory of a block, besides what the kernel itself declares."""


class LaunchPlan(NamedTuple):
    launches: tuple[Launch, ...]
    workspaces: tuple[int, ...] = ()  # bytes


class Target(NamedTuple):
    """Properties of a GPU that a plan may depend on. INVARIANT: results do not depend on them."""

    multiprocessors: int
    least_by_bytes: int = 64
    """Rows and columns from which a product of bf16 in the mode exact is made of products of bytes (`exact_int8`)."""
    warpgroups: bool = False
    """True where warpgroups multiply (sm_90a), and all buffers are aligned to BOX_ALIGNMENT."""

    def at(self, addresses: Iterable[int]) -> Target:
        """Return the target of plans for buffers at these addresses."""
        return self._replace(warpgroups=False) if any(a % BOX_ALIGNMENT for a in addresses) else self


Planner = Callable[[Call, Target], LaunchPlan]
PLANNERS: dict[SumMode, dict[str, Planner]] = {sums: {} for sums in SumMode}
"""Planners by operator: all of repops-f32, and of other modes those for what they compute differently."""


def planner(*names: str, sums: SumMode = SumMode.REPOPS_F32) -> Callable[[Planner], Planner]:
    """Register the function that plans these operators in a mode."""

    def register(function: Planner) -> Planner:
        PLANNERS[sums].update(dict.fromkeys(names, function))
        return function

    return register


def launch(kernel: str, blocks: int, threads: int, words: Sequence[Word], shared: int = 0) -> Launch:
    """Return a launch with its words packed (modulo 2^64). Raise TooLarge for the grid."""
    if blocks > MAX_GRID:
        raise TooLarge(f"{kernel}: grid too large", blocks=blocks)
    numbers: list[int] = []
    refs: list[tuple[int, Ref]] = []
    boxes: list[tuple[int, Boxes]] = []
    for word in words:
        at = 8 * len(numbers)
        if isinstance(word, Boxes):
            boxes.append((at, word))
        elif isinstance(word, Ref):
            refs.append((at, word))
        numbers += (
            [word % (1 << 64)]
            if isinstance(word, int)
            else [0] * (BOXES_WORDS if isinstance(word, Boxes) else 1)
        )
    packed = struct.pack(f"<{len(numbers)}Q", *numbers)
    return Launch(kernel, blocks, threads, packed, tuple(refs), tuple(boxes), shared)


def inputs_of(call: Call) -> list[Ref]:
    return [Ref(i) for i in range(len(call.inputs))]


def outputs_of(call: Call) -> list[Ref]:
    return [Ref(len(call.inputs) + i) for i in range(len(call.outputs))]


def workspace_of(call: Call, index: int = 0) -> Ref:
    return Ref(len(call.inputs) + len(call.outputs) + index)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def elements(shape: Shape) -> int:
    return math.prod(shape)


def grid(items: int, per_block: int, target: Target, waves: int = 32) -> int:
    """Return the number of blocks of a grid-stride loop: one per piece, at most `waves` for each multiprocessor."""
    return max(1, min(ceil_div(items, per_block), target.multiprocessors * waves))


# ------------------------------------------------------------------------------------ structs of common.cuh


def divisor(d: int) -> list[Word]:
    """Return `Divisor`: d, and the constants that turn a division by d into a multiplication (for 0 <= n < 2^31)."""
    shift = (d - 1).bit_length() if d < 1 << 31 else 0
    magic = ((1 << 32) * ((1 << shift) - d) // d + 1) % (1 << 32) if 0 < d < 1 << 31 else 0
    return [d, magic | shift << 32]


class Axes(NamedTuple):
    """Dimensions and strides in elements, outermost first, with neighbours merged where they are contiguous."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]

    def words(self) -> list[Word]:
        gap = MAX_RANK - len(self.dims)
        dims = itertools.chain.from_iterable(divisor(d) for d in (*self.dims, *[1] * gap))
        return [len(self.dims), *dims, *self.strides, *[0] * gap]


def merge(dims: Sequence[int], *strides: Sequence[int]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Drop dimensions of size 1 and merge neighbours that every operand walks as one."""
    kept: list[tuple[int, list[int]]] = []
    for d, size in enumerate(dims):
        steps = [operand[d] for operand in strides]
        if size == 1:
            continue
        if kept and all(outer == size * step for outer, step in zip(kept[-1][1], steps, strict=True)):
            kept[-1] = (kept[-1][0] * size, steps)
        else:
            kept.append((size, steps))
    return tuple(size for size, _ in kept), [tuple(s[o] for _, s in kept) for o in range(len(strides))]


def item_size(call: Call) -> int:
    return ITEM_SIZE[call.outputs[0][0]]
