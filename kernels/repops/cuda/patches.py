"""Convolutions of bf16 in the mode tc16 by warpgroups: products of a matrix and an image's patches
(kernels/cuda/tc16_patches.cu)."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..opset import BF16, ITEM_SIZE, Shape
from ..reference.tensor_core import padded
from ..tensors import Call
from . import warpgroups
from .contraction import Contraction
from .conv import NEAR
from .plan import (
    Launch,
    Ref,
    Target,
    Word,
    ceil_div,
    divisor,
    elements,
    grid,
    inputs_of,
    launch,
    outputs_of,
    workspace_of,
)
from .warpgroups import PIECE, Operand, Placement

LEAST_ROWS, LEAST_COLUMNS = 24, 64
"""Rows and columns of a product from which warpgroups are faster than tc16_conv.cu."""
MAX_PATCHES = 1 << 30
"""Bytes of the copy of patches that a call may take; with more images it is made for some of them at a time."""
AT_POINTS = ((1, 1), (0, 0), (1, 1))
"""Stride, padding and dilation of a convolution of single points, whose image is its own patches."""
THREADS = 256


class Convolved(NamedTuple):
    """A convolution in the letters of kernels/cuda/conv.cuh."""

    name: str
    groups: int
    c: int
    f: int
    images: int
    x: Shape
    y: Shape
    window: Shape
    steps: tuple[Shape, Shape, Shape]
    """Stride, padding, dilation."""

    @property
    def taps(self) -> int:
        return math.prod(self.window)


class Rows(NamedTuple):
    """The other operand: how numbers of its rows are arranged in the call's own array (`Rearranged`)."""

    there: int
    inner: int
    group: int
    row: int
    outer: int
    step: int


def by_warpgroups(call: Call, target: Target) -> tuple[list[Launch], tuple[int, ...]] | None:
    """Return launches and workspaces, or None for a call that is not for warpgroups."""
    v = _convolved(call)
    if v.name == "conv2d_weight_grad":
        return _weight_grad(call, v, target)
    forward = v.name == "conv2d"
    channels, m = (v.c, v.f) if forward else (v.f, v.c)
    image, positions = (v.x, v.y) if forward else (v.y, v.x)
    of, other = inputs_of(call) if forward else [inputs_of(call)[0], inputs_of(call)[1]]
    width, plane = padded(channels), math.prod(positions)
    k = v.taps * width
    if m < LEAST_ROWS or v.images * plane < LEAST_COLUMNS or not channels * v.taps:
        return None
    matrix_bytes = v.groups * m * k * ITEM_SIZE[BF16]
    one = v.groups * k * (plane + PIECE) * ITEM_SIZE[BF16]
    if max(one, matrix_bytes) > MAX_PATCHES or max(v.groups * m * plane, k * PIECE) >= NEAR:
        return None
    rows = Rows(
        channels,
        width,
        v.f * v.c * v.taps,
        *((v.c * v.taps, 1, v.taps) if forward else (v.taps, 1, v.c * v.taps)),
    )
    matrix = workspace_of(call, 0)
    launches = [_rearranged(matrix, other, v.groups, m, k, rows, target)]
    (out,) = outputs_of(call)
    if (v.taps, v.steps, v.groups) == (1, AT_POINTS, 1) and k == channels and plane % PIECE == 0:
        size, space, kind = v.images * m * plane, workspace_of(call, 1), call.outputs[0][0]
        points = Contraction(m, plane, v.images, k, out, size, space, kind)
        a, b = Operand(matrix, k, shared=True), Operand(of, plane)
        found, needs = warpgroups.product(points, target, a, b, Placement(m * plane, plane, plane))
        return [*launches, *found], (matrix_bytes, *needs)
    at_once = min(v.images, MAX_PATCHES // one, (NEAR - PIECE) // plane)
    dtype = call.outputs[0][0]
    workspaces: tuple[int, ...] = (matrix_bytes, v.groups * k * _pitch(at_once * plane) * ITEM_SIZE[BF16])
    more: tuple[int, ...] = ()
    for first in range(0, v.images, at_once):
        images = min(at_once, v.images - first)
        columns = images * plane
        source = Ref(of.buffer, of.offset + first * v.groups * channels * math.prod(image) * ITEM_SIZE[BF16])
        to = Ref(out.buffer, out.offset + first * v.groups * m * plane * ITEM_SIZE[dtype])
        patches = workspace_of(call, 1)
        launches.append(_patches(patches, source, v, k, columns, width, channels, image, positions, target))
        c = Contraction(
            m, columns, v.groups, k, to, images * v.groups * m * plane, workspace_of(call, 2), dtype
        )
        placement = Placement(m * plane, plane, plane, v.groups * m * plane)
        a, b = Operand(matrix, k), Operand(patches, _pitch(columns))
        found, needs = warpgroups.product(c, target, a, b, placement)
        launches += found
        more = max(more, needs)
    return launches, (*workspaces, *more)


def _weight_grad(call: Call, v: Convolved, target: Target) -> tuple[list[Launch], tuple[int, ...]] | None:
    dy, x = inputs_of(call)
    plane = math.prod(v.y)
    n, k = v.c * v.taps, v.images * plane
    pitch = _pitch(k)
    sizes = tuple(v.groups * rows * pitch * ITEM_SIZE[BF16] for rows in (v.f, n))
    if v.f < LEAST_ROWS or n < LEAST_COLUMNS or not k or max(sizes) > MAX_PATCHES or k + PIECE > NEAR:
        return None
    rows = Rows(plane, plane, v.f * plane, plane, v.groups * v.f * plane, 1)
    matrix, patches = workspace_of(call, 0), workspace_of(call, 1)
    c = Contraction(
        v.f,
        n,
        v.groups,
        k,
        outputs_of(call)[0],
        elements(call.outputs[0][1]),
        workspace_of(call, 2),
        call.outputs[0][0],
    )
    a, b = Operand(matrix, pitch), Operand(patches, pitch)
    found, more = warpgroups.product(c, target, a, b, Placement(v.f * n, n, n), rows_are_k=False)
    launches = [
        _rearranged(matrix, dy, v.groups, v.f, k, rows, target),
        _patches(patches, x, v, n, k, 1, v.c, v.x, v.y, target),
        *found,
    ]
    return launches, (*sizes, *more)


def _pitch(columns: int) -> int:
    return ceil_div(columns, PIECE) * PIECE


def _pieces(groups: int, rows: int, columns: int) -> list[Word]:
    """Return `Pieces`."""
    of_row = ceil_div(columns, PIECE)
    return [groups * rows * of_row, *divisor(of_row), *divisor(rows)]


def _rearranged(
    to: Ref, source: Ref, groups: int, rows: int, columns: int, how: Rows, target: Target
) -> Launch:
    words: list[Word] = [*_pieces(groups, rows, columns), columns, *divisor(how.inner)]
    words += [how.there, how.group, how.row, how.outer, how.step, source, to]
    blocks = grid(groups * rows * _pitch(columns), PIECE * THREADS, target)
    return launch("tc16_patches.tc16_rearranged", blocks, THREADS, words)


def _patches(
    to: Ref,
    source: Ref,
    v: Convolved,
    rows: int,
    columns: int,
    width: int,
    channels: int,
    image: Shape,
    positions: Shape,
    target: Target,
) -> Launch:
    words: list[Word] = [*_pieces(v.groups, rows, columns), v.groups, columns, channels]
    words += [*divisor(width), *divisor(v.taps), *divisor(v.window[1]), *image]
    words += [*divisor(math.prod(positions)), *divisor(positions[1])]
    words += [number for pair in v.steps for number in pair]
    words += [source, to]
    blocks = grid(v.groups * rows * _pitch(columns), PIECE * THREADS, target)
    return launch(f"tc16_patches.tc16_patches_{v.name}", blocks, THREADS, words)


def _convolved(call: Call) -> Convolved:
    name, attrs = call.op.name, call.attrs
    shapes = [shape for _, shape in (*call.inputs, *call.outputs)]
    x, w, y = {
        "conv2d": shapes,
        "conv2d_input_grad": [shapes[2], shapes[1], shapes[0]],
        "conv2d_weight_grad": [shapes[1], shapes[2], shapes[0]],
    }[name]
    groups = attrs["groups"]
    steps = (attrs["stride"], attrs["padding"], attrs["dilation"])
    return Convolved(name, groups, w[1], w[0] // groups, x[0], x[2:], y[2:], w[2:], steps)
