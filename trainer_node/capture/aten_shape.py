"""Lowering rules: reductions, layout, indexing."""
# ruff: noqa: ARG001  (a rule has the signature of its ATen operator)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repops.opset import BOOL, F32, I64

from .builder import Ref, count
from .errors import Unsupported
from .lowering import Context, lowers


def dims_of(x: Ref, dims: int | Sequence[int] | None) -> tuple[int, ...]:
    """Ascending, non-negative; none given means all."""
    given = [dims] if isinstance(dims, int) else list(dims or [])
    return tuple(sorted(d % x.rank for d in given)) if given else tuple(range(x.rank))


def reduce(c: Context, op: str, x: Ref, dims: int | Sequence[int] | None, keepdim: bool) -> Ref:
    return c.b.op(op, x, dims=dims_of(x, dims), keepdim=int(keepdim))


# ------------------------------------------------------------------------------------------------- reductions


@lowers("aten.sum.dim_IntList", "aten.sum.default")
def sum_(
    c: Context, x: Ref, dims: Sequence[int] | None = None, keepdim: bool = False, dtype: Any = None
) -> Ref:
    return reduce(c, "sum", c.tensor(x, c.out.dtype), dims, keepdim)


@lowers("aten.mean.dim", "aten.mean.default")
def mean(
    c: Context, x: Ref, dims: Sequence[int] | None = None, keepdim: bool = False, dtype: Any = None
) -> Ref:
    total = sum_(c, x, dims, keepdim)
    return c.b.op("div", total, c.b.full(count([x.shape[d] for d in dims_of(x, dims)])))


@lowers("prims.sum.default")
def prims_sum(c: Context, x: Ref, dims: Sequence[int], **_: Any) -> Ref:
    return reduce(c, "sum", x, dims, False)


@lowers("prims.var.default")
def var(c: Context, x: Ref, dims: Sequence[int], correction: float = 1, **_: Any) -> Ref:
    """The mean first, then the squared deviations: no cancellation."""
    size = count([x.shape[d] for d in dims_of(x, dims)])
    deviation = c.b.op("sub", x, c.b.op("div", reduce(c, "sum", x, dims, True), c.b.full(size)))
    squares = reduce(c, "sum", c.b.op("mul", deviation, deviation), dims, False)
    return c.b.op("div", squares, c.b.full(size - correction))


@lowers("aten.amax.default")
def amax(c: Context, x: Ref, dims: Sequence[int] | None = None, keepdim: bool = False) -> Ref:
    return reduce(c, "amax", x, dims, keepdim)


@lowers("aten.argmax.default")
def argmax(c: Context, x: Ref, dim: int | None = None, keepdim: bool = False) -> Ref:
    if dim is None:
        x, dim = c.b.op("reshape", x, shape=(count(x.shape),)), 0
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
)
def reshape(c: Context, x: Ref, *_: Any) -> Ref:
    return c.b.op("reshape", x, shape=c.out.shape)


@lowers("aten.t.default")
def t(c: Context, x: Ref) -> Ref:
    return c.b.op("permute", x, dims=tuple(reversed(range(x.rank))))


@lowers("aten.transpose.int")
def transpose(c: Context, x: Ref, a: int, b: int) -> Ref:
    dims = list(range(x.rank))
    dims[a], dims[b] = dims[b], dims[a]
    return c.b.op("permute", x, dims=tuple(dims))


@lowers("aten.permute.default")
def permute(c: Context, x: Ref, dims: Sequence[int]) -> Ref:
    return c.b.op("permute", x, dims=tuple(d % x.rank for d in dims))


@lowers("aten.expand.default")
def expand(c: Context, x: Ref, _: Sequence[int], implicit: bool = False) -> Ref:
    return c.b.op("expand", x, shape=c.out.shape)


@lowers("prims.broadcast_in_dim.default")
def broadcast_in_dim(c: Context, x: Ref, shape: Sequence[int], places: Sequence[int]) -> Ref:
    """Dimension k of x becomes dimension places[k]; the others are new."""
    aligned = [1] * len(shape)
    for size, place in zip(x.shape, places, strict=True):
        aligned[place] = size
    return c.b.op("expand", c.b.op("reshape", x, shape=tuple(aligned)), shape=tuple(shape))


@lowers("aten.cat.default")
def cat(c: Context, parts: Sequence[Ref], dim: int = 0) -> Ref:
    return c.b.op("cat", *(c.tensor(part, c.out.dtype) for part in parts), dim=dim % len(c.out.shape))


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
    if step != 1:
        raise Unsupported("the gradient of a slice with a step", "slice without a step, or index with take")
    dim %= len(sizes)
    first, stop, _ = slice(start, end).indices(sizes[dim])
    return _between_zeros(c, grad, dim, first, sizes[dim] - max(first, stop))


@lowers("aten.select_backward.default")
def select_backward(c: Context, grad: Ref, sizes: Sequence[int], dim: int, index: int) -> Ref:
    dim %= len(sizes)
    row = index % sizes[dim]
    one = c.b.op("reshape", grad, shape=(*sizes[:dim], 1, *sizes[dim + 1 :]))
    return _between_zeros(c, one, dim, row, sizes[dim] - row - 1)


def _between_zeros(c: Context, x: Ref, dim: int, before: int, after: int) -> Ref:
    def zeros(size: int) -> list[Ref]:
        shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
        return [c.b.full(0.0, F32, shape)] if size else []

    parts = [*zeros(before), x, *zeros(after)]
    return c.b.op("cat", *parts, dim=dim) if len(parts) > 1 else x


# --------------------------------------------------------------------------------------------------- indexing


@lowers("aten.arange.default")
def arange(c: Context, n: int, **_: Any) -> Ref:
    return _range(c, n)


@lowers("aten.arange.start")
def arange_start(c: Context, start: int, end: int, **_: Any) -> Ref:
    return c.b.op("add", _range(c, end - start), c.b.full(start, I64)) if start else _range(c, end)


def _range(c: Context, n: int) -> Ref:
    if c.out.dtype != I64:
        raise Unsupported(f"an arange of {c.out.dtype.name.lower()}", "make it of integers and cast it")
    return c.b.op("arange", n=n)


@lowers("aten.embedding.default")
def embedding(c: Context, weight: Ref, index: Ref, padding_idx: int = -1, *_: Any) -> Ref:
    return c.b.op("take", weight, index)


@lowers("aten.embedding_dense_backward.default")
def embedding_dense_backward(
    c: Context, grad: Ref, index: Ref, rows: int, padding_idx: int, scale: bool
) -> Ref:
    if padding_idx != -1 or scale:
        raise Unsupported(
            "an embedding with padding_idx or scale_grad_by_freq", "leave both at their default"
        )
    return c.b.op("scatter_add", c.b.full(0.0, F32, (rows, grad.shape[-1])), index, grad)


@lowers("aten.index.Tensor")
def index_(c: Context, x: Ref, indices: Sequence[Ref | None]) -> Ref:
    """NOTE: `take` gives zeros for a row that does not exist, where PyTorch raises."""
    first, *rest = indices
    if first is None or rest or first.dtype == BOOL:
        raise Unsupported(
            "indexing by several tensors or a mask", "index the first dimension with one i64 tensor"
        )
    return c.b.op("take", x, first)
