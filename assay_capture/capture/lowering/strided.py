"""Lowering rules: views by strides. A program has no strides, so the elements are taken by their places in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from repops.opset import I64

from ..builder import Ref
from ..errors import Unsupported
from .index import index_put
from .rules import Context, lowers


def _memory_order(c: Context, x: Ref) -> tuple[int, ...]:
    """Return the dims of x from the slowest in memory to the fastest. Raises Unsupported if x has gaps or overlaps."""
    traced: torch.Tensor = c.traced[0]
    strides = traced.stride()
    order = tuple(sorted(range(x.rank), key=lambda d: (-strides[d], d)))
    dense = traced.permute(order).is_contiguous()
    if not dense:
        raise Unsupported(f"as_strided of {list(x.shape)}, a view with gaps", "call contiguous() first")
    return order


def _in_memory(c: Context, x: Ref, order: Sequence[int]) -> Ref:
    return c.b.op("reshape", c.b.op("permute", x, dims=tuple(order)), shape=(x.count,))


def _places(c: Context, size: Sequence[int], stride: Sequence[int], offset: int) -> Ref:
    """Return the place in memory of each element, i64 of this size."""
    place = c.b.full(offset, I64, (1,) * len(size))
    for d, (n, step) in enumerate(zip(size, stride, strict=True)):
        steps = c.b.op("mul", c.b.op("arange", n=n), c.b.full(step, I64))
        place = c.b.op(
            "add", place, c.b.op("reshape", steps, shape=tuple(n if k == d else 1 for k in range(len(size))))
        )
    return c.b.op("expand", place, shape=tuple(size))


def _same(c: Context, x: Ref, size: Sequence[int], stride: Sequence[int], offset: int | None) -> bool:
    """Return whether a view is a reshape of the tensor, or repeats its own strides."""
    traced = c.traced[0]
    dense = [math.prod(size[d + 1 :]) for d in range(len(size))]
    wanted = traced.stride() if tuple(size) == x.shape else dense if traced.is_contiguous() else ()
    equal = len(wanted) == len(size) and all(
        n == 1 or a == b for n, a, b in zip(size, stride, wanted, strict=True)
    )
    return equal and not offset and math.prod(size) == x.count


@lowers("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(
    c: Context, x: Ref, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Ref:
    if _same(c, x, size, stride, offset):
        return c.b.op("reshape", x, shape=tuple(size))
    memory = _in_memory(c, x, _memory_order(c, x))
    _check(x, size, stride, offset)
    return c.b.op("take", memory, _places(c, size, stride, offset or 0))


@lowers("aten.as_strided_scatter.default")
def as_strided_scatter(
    c: Context, x: Ref, source: Ref, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Ref:
    """Replace the elements of a view."""
    if _same(c, x, size, stride, offset):
        return c.b.op("reshape", source, shape=x.shape)
    order = _memory_order(c, x)
    _check(x, size, stride, offset)
    flat = c.b.op("reshape", _places(c, size, stride, offset or 0), shape=(math.prod(size),))
    memory = index_put(
        c, _in_memory(c, x, order), [flat], c.b.op("reshape", source, shape=(math.prod(size),))
    )
    moved = c.b.op("reshape", memory, shape=tuple(x.shape[d] for d in order))
    return c.b.op("permute", moved, dims=tuple(order.index(d) for d in range(x.rank)))


def _check(x: Ref, size: Sequence[int], stride: Sequence[int], offset: int | None) -> None:
    """Raise Unsupported for a view that leaves the tensor: it belongs to a larger one."""
    last = (offset or 0) + sum((n - 1) * step for n, step in zip(size, stride, strict=True) if n)
    if min(stride, default=0) < 0 or last >= max(x.count, 1):
        raise Unsupported(f"as_strided of {list(x.shape)} up to place {last}", "use slices, or an index")
