"""Lowering rules: reductions and layout."""

# ruff: noqa: ARG001  (a rule has the signature of its ATen operator)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from repops.opset import BOOL, F32, I64

from ..builder import Ref
from .index import index_put
from .rules import Context, lowers


def dims_of(x: Ref, dims: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return the dimensions in ascending order, non-negative; all if none is given."""
    given = [dims] if isinstance(dims, int) else list(dims or [])
    return tuple(sorted(d % x.rank for d in given)) if given and x.rank else tuple(range(x.rank))


def reduce(c: Context, op: str, x: Ref, dims: int | Sequence[int] | None, keepdim: bool) -> Ref:
    """Reduce dimensions. NOTE: a tensor without dimensions may be reduced along 0 or -1, and stays what it is."""
    if not x.rank:
        return x
    return c.b.op(op, x, dims=dims_of(x, dims), keepdim=int(keepdim))


# ------------------------------------------------------------------------------------------------- reductions


@lowers("aten.sum.dim_IntList", "aten.sum.default", "prims.sum.default")
def sum_(c: Context, x: Ref, dims: Sequence[int] | None = None, keepdim: bool = False, **_: Any) -> Ref:
    return reduce(c, "sum", c.tensor(x, c.out.dtype), dims, keepdim)


@lowers("aten.mean.dim", "aten.mean.default")
def mean(
    c: Context, x: Ref, dims: Sequence[int] | None = None, keepdim: bool = False, dtype: Any = None
) -> Ref:
    total = sum_(c, x, dims, keepdim)
    return c.b.op("div", total, c.b.full(math.prod(x.shape[d] for d in dims_of(x, dims))))


@lowers("prims.var.default")
def var(c: Context, x: Ref, dims: Sequence[int], correction: float = 1, **_: Any) -> Ref:
    """Compute the mean first, then the squared deviations: this avoids cancellation."""
    size = math.prod(x.shape[d] for d in dims_of(x, dims))
    deviation = c.b.op("sub", x, c.b.op("div", reduce(c, "sum", x, dims, True), c.b.full(size)))
    squares = reduce(c, "sum", c.b.op("mul", deviation, deviation), dims, False)
    return c.b.op("div", squares, c.b.full(size - correction))


@lowers("aten.amax.default", "aten.max.default")
def amax(c: Context, x: Ref, dims: Sequence[int] | None = None, keepdim: bool = False) -> Ref:
    return reduce(c, "amax", x, dims, keepdim)


@lowers("aten.amin.default", "aten.min.default")
def amin(c: Context, x: Ref, dims: Sequence[int] | None = None, keepdim: bool = False) -> Ref:
    return c.b.op("neg", reduce(c, "amax", c.b.op("neg", x), dims, keepdim))


@lowers("aten.max.dim")
def max_along(c: Context, x: Ref, dim: int, keepdim: bool = False) -> tuple[Ref, Ref]:
    return amax(c, x, [dim], keepdim), argmax(c, x, dim, keepdim)


@lowers("aten.min.dim")
def min_along(c: Context, x: Ref, dim: int, keepdim: bool = False) -> tuple[Ref, Ref]:
    values, indices = max_along(c, c.b.op("neg", x), dim, keepdim)
    return c.b.op("neg", values), indices


@lowers("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(c: Context, x: Ref, dims: int | Sequence[int] | None = None, keepdim: bool = False) -> Ref:
    ones = c.tensor(c.tensor(x, BOOL), F32)
    return c.b.op("gt", reduce(c, "amax", ones, dims, keepdim), c.b.full(0.0))


@lowers("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_(c: Context, x: Ref, dims: int | Sequence[int] | None = None, keepdim: bool = False) -> Ref:
    return c.b.op("logical_not", any_(c, c.b.op("logical_not", c.tensor(x, BOOL)), dims, keepdim))


@lowers("aten.argmin.default")
def argmin(c: Context, x: Ref, dim: int | None = None, keepdim: bool = False) -> Ref:
    return argmax(c, c.b.op("neg", x), dim, keepdim)


@lowers("aten.argmax.default")
def argmax(c: Context, x: Ref, dim: int | None = None, keepdim: bool = False) -> Ref:
    if not x.rank:
        return c.b.full(0, I64)
    if dim is None:
        x, dim = c.b.op("reshape", x, shape=(x.count,)), 0
    return c.b.op("argmax", x, dim=dim % x.rank, keepdim=int(keepdim))


# ----------------------------------------------------------------------------------------------------- layout


@lowers(
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten.unsqueeze.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "prims.view_of.default",
    "prims.squeeze.default",
    "prims.collapse_view.default",
)
def reshape(c: Context, x: Ref, *_: Any) -> Ref:
    return c.b.op("reshape", x, shape=c.out.shape)


@lowers("aten.t.default")
def t(c: Context, x: Ref) -> Ref:
    return c.b.op("permute", x, dims=tuple(reversed(range(x.rank))))


@lowers("aten.transpose.int")
def transpose(c: Context, x: Ref, a: int, b: int) -> Ref:
    dims = list(range(x.rank))
    if dims:
        dims[a], dims[b] = dims[b], dims[a]
    return c.b.op("permute", x, dims=tuple(dims))


@lowers("aten.permute.default", "prims.transpose.default")
def permute(c: Context, x: Ref, dims: Sequence[int]) -> Ref:
    return c.b.op("permute", x, dims=tuple(d % x.rank for d in dims))


@lowers("aten.expand.default")
def expand(c: Context, x: Ref, _: Sequence[int], implicit: bool = False) -> Ref:
    return c.b.op("expand", x, shape=c.out.shape)


@lowers("prims.broadcast_in_dim.default")
def broadcast_in_dim(c: Context, x: Ref, shape: Sequence[int], places: Sequence[int]) -> Ref:
    """Expand x so that its dimension k becomes dimension places[k]; the others are new."""
    aligned = [1] * len(shape)
    for size, place in zip(x.shape, places, strict=True):
        aligned[place] = size
    return c.b.op("expand", c.b.op("reshape", x, shape=tuple(aligned)), shape=tuple(shape))


@lowers("aten.cat.default", "prims.cat.default")
def cat(c: Context, parts: Sequence[Ref], dim: int = 0) -> Ref:
    """Concatenate. As PyTorch, skip parts of shape [0] for any rank of the others."""
    rest = [c.tensor(part, c.out.dtype) for part in parts if part.shape != (0,) or c.out.shape == (0,)]
    return c.b.op("cat", *rest, dim=dim % len(c.out.shape)) if len(rest) > 1 else rest[0]


@lowers("aten.slice.Tensor")
def slice_(
    c: Context, x: Ref, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Ref:
    dim %= x.rank
    first, stop, step = slice(start, end, step).indices(x.shape[dim])
    return c.b.op("slice", x, dim=dim, start=first, stop=max(first, stop), step=step)


@lowers("aten.split.Tensor", "aten.split_with_sizes.default")
def split(c: Context, x: Ref, _: Any, dim: int = 0) -> tuple[Ref, ...]:
    dim, parts, start = dim % x.rank, [], 0
    for type_ in c.outputs:
        assert type_ is not None
        stop = start + type_.shape[dim]
        parts.append(c.b.op("slice", x, dim=dim, start=start, stop=stop, step=1))
        start = stop
    return tuple(parts)


@lowers("aten.select.int")
def select(c: Context, x: Ref, dim: int, index: int) -> Ref:
    dim %= x.rank
    row = index % x.shape[dim]
    one = c.b.op("slice", x, dim=dim, start=row, stop=row + 1, step=1)
    return c.b.op("reshape", one, shape=c.out.shape)


@lowers("aten.slice_backward.default")
def slice_backward(
    c: Context, grad: Ref, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Ref:
    dim %= len(sizes)
    first = slice(start, end).indices(sizes[dim])[0]
    if step != 1:  # step - 1 zeros after each element
        before, after = grad.shape[:dim], grad.shape[dim + 1 :]
        apart = c.b.op("reshape", grad, shape=(*before, grad.shape[dim], 1, *after))
        apart = _padded(c, apart, dim + 1, 0, step - 1, 0)
        grad = c.b.op("reshape", apart, shape=(*before, grad.shape[dim] * step, *after))
    return _padded(c, grad, dim, first, sizes[dim] - first - grad.shape[dim], 0)


@lowers("aten.select_backward.default")
def select_backward(c: Context, grad: Ref, sizes: Sequence[int], dim: int, index: int) -> Ref:
    dim %= len(sizes)
    row = index % sizes[dim]
    one = c.b.op("reshape", grad, shape=(*sizes[:dim], 1, *sizes[dim + 1 :]))
    return _padded(c, one, dim, row, sizes[dim] - row - 1, 0)


def _padded(c: Context, x: Ref, dim: int, before: int, after: int, value: float) -> Ref:
    """Pad `x` with `before` and `after` copies of a value; a negative number cuts off as many elements."""
    if min(before, after) < 0:
        start, stop = max(0, -before), x.shape[dim] - max(0, -after)
        x = c.b.op("slice", x, dim=dim, start=start, stop=stop, step=1)

    def side(size: int) -> list[Ref]:
        shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
        return [c.b.full(value, x.dtype, shape)] if size > 0 else []

    parts = [*side(before), x, *side(after)]
    return c.b.op("cat", *parts, dim=dim) if len(parts) > 1 else x


@lowers("aten.constant_pad_nd.default")
def constant_pad_nd(c: Context, x: Ref, pad: Sequence[int], value: float = 0) -> Ref:
    """Pad each dimension. `pad` lists both sides of the last dimension, then of the one before it, and so on."""
    for k in range(len(pad) // 2):
        x = _padded(c, x, x.rank - 1 - k, pad[2 * k], pad[2 * k + 1], value)
    return x


@lowers("aten.slice_scatter.default")
def slice_scatter(
    c: Context,
    x: Ref,
    source: Ref,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Ref:
    """Return `x` with a slice of it replaced."""
    dim %= x.rank
    first, stop, _ = slice(start, end).indices(x.shape[dim])
    if step == 1:
        return _replaced(c, x, source, dim, first, max(first, stop))
    rows = c.b.op("arange", n=source.shape[dim])
    rows = c.b.op("add", c.b.op("mul", rows, c.b.full(step, I64)), c.b.full(first, I64))
    return index_put(c, x, [*[None] * dim, rows], source)


@lowers("aten.select_scatter.default")
def select_scatter(c: Context, x: Ref, source: Ref, dim: int, index: int) -> Ref:
    dim %= x.rank
    row = index % x.shape[dim]
    one = c.b.op("reshape", source, shape=(*x.shape[:dim], 1, *x.shape[dim + 1 :]))
    return _replaced(c, x, one, dim, row, row + 1)


def _replaced(c: Context, x: Ref, source: Ref, dim: int, first: int, stop: int) -> Ref:
    ends = [(0, first), (stop, x.shape[dim])]
    before, after = ([c.b.op("slice", x, dim=dim, start=a, stop=b, step=1)] if a < b else [] for a, b in ends)
    parts = [*before, c.tensor(source, x.dtype), *after]
    return c.b.op("cat", *parts, dim=dim) if len(parts) > 1 else parts[0]


@lowers("aten.repeat.default")
def repeat(c: Context, x: Ref, times: Sequence[int]) -> Ref:
    """Repeat by splitting each dimension d into (times, d) and expanding all of them at once."""
    sizes = (1,) * (len(times) - x.rank) + x.shape
    pairs = [(n, size) for n, size in zip(times, sizes, strict=True)]
    apart = c.b.op("reshape", x, shape=tuple(s for _, size in pairs for s in (1, size)))
    return c.b.op(
        "reshape", c.b.op("expand", apart, shape=tuple(s for p in pairs for s in p)), shape=c.out.shape
    )


@lowers("aten.roll.default")
def roll(c: Context, x: Ref, shifts: Sequence[int], dims: Sequence[int] = ()) -> Ref:
    """Move the end of each dimension to its start; without dims, roll all elements in row-major order."""
    shape = x.shape
    if not dims:
        x, dims = c.b.op("reshape", x, shape=(x.count,)), (0,)
    for shift, dim in zip(shifts, dims, strict=True):
        size, dim = x.shape[dim], dim % x.rank
        cut = -shift % size if size else 0
        if cut:
            tail = c.b.op("slice", x, dim=dim, start=cut, stop=size, step=1)
            x = c.b.op("cat", tail, c.b.op("slice", x, dim=dim, start=0, stop=cut, step=1), dim=dim)
    return c.b.op("reshape", x, shape=shape)
