"""Lowering rules: ranges, embeddings, indexing and its gradients.

The operator set takes and adds rows of the first dimension. To index by several tensors, the rules merge the indexed
dimensions into one, in front, and the tensors into one row number.
"""

# ruff: noqa: ARG001  (a rule has the signature of its ATen operator)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from repops.opset import BOOL, F32, I64

from ..builder import Ref
from ..errors import Unsupported
from .rules import Context, lowers


@lowers("aten.arange.default")
def arange(c: Context, end: float, **_: Any) -> Ref:
    return arange_step(c, 0, end)


@lowers("aten.arange.start", "aten.arange.start_step")
def arange_step(c: Context, start: float, end: float, step: float = 1, **_: Any) -> Ref:
    """Count in integers and scale in the result's dtype, as PyTorch does."""
    dtype = c.out.dtype
    values = c.tensor(c.b.op("arange", n=c.out.shape[0]), dtype)
    if step != 1:
        values = c.b.op("mul", values, c.b.full(step, dtype))
    return c.b.op("add", values, c.b.full(start, dtype)) if start else values


@lowers("prims.iota.default")
def iota(c: Context, n: int, *, start: int, step: int, **_: Any) -> Ref:
    return arange_step(c, start, start + n * step, step)


# -------------------------------------------------------------------------------------------------- embeddings


_MOST_WRITTEN = 4096  # rows that are compared with each other


def _check(c: Context, index: Ref, size: int, lowest: int, what: str) -> None:
    """Check an index. NOTE: a missing row reads as zeros where PyTorch raises, so known indices are checked here."""
    bounds = c.known.bounds(index)
    if bounds is not None and not lowest <= bounds[0] <= bounds[1] < size:
        raise Unsupported(
            f"indices from {bounds[0]} to {bounds[1]} into {what} of {size}", "correct the data"
        )


@lowers("aten.embedding.default")
def embedding(c: Context, weight: Ref, index: Ref, padding_idx: int = -1, *_: Any) -> Ref:
    _check(c, index, weight.shape[0], 0, "an embedding")
    return c.b.op("take", weight, index)


@lowers("aten.embedding_dense_backward.default")
def embedding_dense_backward(
    c: Context, grad: Ref, index: Ref, rows: int, padding_idx: int, scale: bool
) -> Ref:
    """Add the gradients of the rows. Row `padding_idx` gets none: its index becomes -1, which names no row."""
    if scale:
        raise Unsupported("an embedding with scale_grad_by_freq", "leave it at its default")
    if padding_idx >= 0:
        padding = c.b.op("eq", index, c.b.full(padding_idx, I64))
        index = c.b.op("where", padding, c.b.full(-1, I64), index)
    return c.b.op("scatter_add", c.b.full(0.0, F32, (rows, grad.shape[-1])), index, grad)


# ------------------------------------------------------------------------------------- indexing by tensors


class _Places:
    """Dimensions of a shape indexed by tensors that broadcast; `rows` is their common row number.

    As in PyTorch, their place in the result is that of the first one if they are neighbours, else in front.
    """

    def __init__(self, c: Context, shape: Sequence[int], indices: Sequence[Ref | None]) -> None:
        used = [d for d, index in enumerate(indices) if index is not None]
        if any(index is not None and index.dtype == BOOL for index in indices):
            raise Unsupported("indexing by a mask", "use torch.where: the size would depend on values")
        together = used[-1] - used[0] + 1 == len(used)
        self.c, self.shape, self.first = c, tuple(shape), used[0] if together else 0
        self.sizes = tuple(self.shape[d] for d in used)
        others = [d for d in range(len(self.shape)) if d not in used]
        self.rest = tuple(self.shape[d] for d in others)
        self._front = [*used, *others]
        rows: Ref | None = None
        for d in used:
            index = indices[d]
            assert index is not None
            place = self._positive(index, self.shape[d])
            if rows is not None:
                place = c.b.op("add", c.b.op("mul", rows, c.b.full(self.shape[d], I64)), place)
            rows = place
        assert rows is not None
        self.rows = rows

    def _positive(self, index: Ref, size: int) -> Ref:
        """Return the index counted from the start: a negative one counts from the end."""
        index = self.c.tensor(index, I64)
        _check(self.c, index, size, -size, "a dimension")
        bounds = self.c.known.bounds(index)
        if bounds is not None and bounds[0] >= 0:
            return index
        negative = self.c.b.op("lt", index, self.c.b.full(0, I64))
        return self.c.b.op("where", negative, self.c.b.op("add", index, self.c.b.full(size, I64)), index)

    def in_front(self, x: Ref) -> Ref:
        """Return x with the indexed dimensions merged into one, the first."""
        moved = self.c.b.op("permute", x, dims=tuple(self._front))
        return self.c.b.op("reshape", moved, shape=(math.prod(self.sizes), *self.rest))

    def back(self, x: Ref) -> Ref:
        """Undo `in_front`."""
        moved = self.c.b.op("reshape", x, shape=(*self.sizes, *self.rest))
        order = tuple(self._front.index(d) for d in range(len(self.shape)))
        return self.c.b.op("permute", moved, dims=order)

    def taken(self, rank: int) -> tuple[int, ...]:
        """Return the dims that bring a result [*rows.shape, *rest] into PyTorch's order, with the rows' at `first`."""
        r = self.rows.rank
        return (*range(r, r + self.first), *range(r), *range(r + self.first, rank))


@lowers("aten.index.Tensor")
def index_(c: Context, x: Ref, indices: Sequence[Ref | None]) -> Ref:
    places = _Places(c, x.shape, indices)
    rows = places.in_front(x)
    known = c.known.value(places.rows)
    if known is not None and np.array_equal(known.reshape(-1), np.arange(rows.shape[0])):
        found = c.b.op("reshape", rows, shape=(*places.rows.shape, *rows.shape[1:]))  # every row, in order
    else:
        found = c.b.op("take", rows, places.rows)
    return c.b.op("permute", found, dims=places.taken(found.rank))


@lowers("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    c: Context, x: Ref, indices: Sequence[Ref | None], values: Ref, accumulate: bool = False, *_: Any
) -> Ref:
    if indices[0] is not None and indices[0].dtype == BOOL:
        return _masked(c, x, indices, values, accumulate)
    places = _Places(c, x.shape, indices)
    base = places.in_front(x)
    order = places.taken(places.rows.rank + base.rank - 1)
    shape = (*places.rows.shape, *base.shape[1:])
    values = c.b.op("expand", c.tensor(values, x.dtype), shape=tuple(shape[d] for d in order))
    source = c.b.op("permute", values, dims=tuple(order.index(d) for d in range(len(order))))
    if not accumulate:
        return places.back(_assigned(c, base, places.rows, source))
    if x.dtype != F32:
        raise Unsupported("adding integers at an index", "add as float, or use torch.where")
    return places.back(c.b.op("scatter_add", base, places.rows, source))


def _masked(c: Context, x: Ref, indices: Sequence[Ref | None], values: Ref, accumulate: bool) -> Ref:
    """Assign or add where a mask of the first dimensions is 1: values that are the same for all its elements."""
    mask = indices[0]
    assert mask is not None
    if any(index is not None for index in indices[1:]) or values.rank > x.rank - mask.rank:
        raise Unsupported(
            "assignment of a tensor to the places of a mask",
            "use torch.where(mask, values, x) with a whole tensor",
        )
    aligned = c.b.op("reshape", mask, shape=(*mask.shape, *(1,) * (x.rank - mask.rank)))
    values = c.tensor(values, x.dtype)
    return c.b.op("where", aligned, c.b.op("add", x, values) if accumulate else values, x)


def _assigned(c: Context, base: Ref, rows: Ref, source: Ref) -> Ref:
    """Replace rows of the base. Of several that are written to one place, the last stays, as on PyTorch's CPU.

    A place gets the number of the element that is written last to it, and takes that element.
    """
    n = rows.count
    rows = c.b.op("reshape", rows, shape=(n,))
    known = c.known.value(rows)
    if known is None or len(np.unique(known)) < n:
        if n > _MOST_WRITTEN:
            raise Unsupported(
                f"assignment of {n} rows to places that are not known to differ",
                f"assign at most {_MOST_WRITTEN} at once, or use scatter_add into zeros",
            )
        column = c.b.op("reshape", rows, shape=(n, 1))
        places = c.b.op("arange", n=n)
        later = c.b.op("gt", places, c.b.op("reshape", places, shape=(n, 1)))
        again = c.b.op("logical_and", c.b.op("eq", rows, column), later)
        overwritten = c.b.op("gt", c.b.op("amax", c.tensor(again, F32), dims=(1,), keepdim=0), c.b.full(0.0))
        rows = c.b.op("where", overwritten, c.b.full(-1, I64), rows)
    numbers = c.tensor(c.b.op("add", c.b.op("arange", n=n), c.b.full(1, I64)), F32)
    writer = c.b.op("scatter_add", c.b.full(0.0, F32, (base.shape[0],)), rows, numbers)
    found = c.b.op("sub", c.tensor(writer, I64), c.b.full(1, I64))
    taken = c.b.op("take", c.b.op("reshape", source, shape=(n, *base.shape[1:])), found)
    hit = c.b.op(
        "reshape", c.b.op("ge", found, c.b.full(0, I64)), shape=(base.shape[0], *(1,) * (base.rank - 1))
    )
    return c.b.op("where", hit, taken, base)


@lowers("aten.put.default")
def put(c: Context, x: Ref, index: Ref, source: Ref, accumulate: bool = False) -> Ref:
    flat, places, values = (c.b.op("reshape", ref, shape=(ref.count,)) for ref in (x, index, source))
    return c.b.op("reshape", index_put(c, flat, [places], values, accumulate), shape=x.shape)


@lowers("aten.take.default")
def take(c: Context, x: Ref, index: Ref) -> Ref:
    # NOTE: PyTorch's own decomposition takes an index without dimensions for a Python number.
    return index_(c, c.b.op("reshape", x, shape=(x.count,)), [index])


@lowers("aten.index_select.default")
def index_select(c: Context, x: Ref, dim: int, index: Ref) -> Ref:
    if not x.rank:  # its only element, at place 0
        return x
    return index_(c, x, [*[None] * (dim % x.rank), index])


@lowers("aten.index_add.default")
def index_add(c: Context, x: Ref, dim: int, index: Ref, source: Ref, *, alpha: float = 1) -> Ref:
    if alpha != 1:
        source = c.b.op("mul", source, c.b.full(alpha))
    if not x.rank:
        return c.b.op("add", x, c.b.op("reshape", source, shape=()))
    return index_put(c, x, [*[None] * (dim % x.rank), index], source, True)


@lowers("aten.flip.default", "prims.rev.default")
def flip(c: Context, x: Ref, dims: Sequence[int]) -> Ref:
    for dim in dims if x.rank else ():
        last = c.b.full(x.shape[dim] - 1, I64)
        backwards = c.b.op("sub", last, c.b.op("arange", n=x.shape[dim]))
        x = index_(c, x, [*[None] * (dim % x.rank), backwards])
    return x


# ----------------------------------------------------------------------------------------- one index an element


def _everywhere(c: Context, shape: Sequence[int], dim: int, index: Ref) -> list[Ref | None]:
    """Return index tensors for every dimension: `index` along `dim`, each element's own position along the others."""
    tensors: list[Ref | None] = []
    for d in range(len(shape)):
        own = c.b.op("arange", n=index.shape[d])
        aligned = tuple(index.shape[d] if k == d else 1 for k in range(index.rank))
        tensors.append(index if d == dim else c.b.op("reshape", own, shape=aligned))
    return tensors


@lowers("aten.gather.default")
def gather(c: Context, x: Ref, dim: int, index: Ref, **_: Any) -> Ref:
    return index_(c, x, _everywhere(c, x.shape, dim % x.rank, index)) if x.rank else x


@lowers("aten.scatter_add.default")
def scatter_add(c: Context, x: Ref, dim: int, index: Ref, source: Ref) -> Ref:
    if not x.rank:
        return c.b.op("add", x, source)
    if source.shape != index.shape:
        for d, size in enumerate(index.shape):
            source = c.b.op("slice", source, dim=d, start=0, stop=size, step=1)
    return index_put(c, x, _everywhere(c, x.shape, dim % x.rank, index), source, True)


@lowers("aten.scatter.src", "aten.scatter.value")
def scatter(c: Context, x: Ref, dim: int, index: Ref, source: Ref | float) -> Ref:
    if not x.rank:
        return c.tensor(source, x.dtype)
    if not isinstance(source, Ref):
        return index_put(c, x, _everywhere(c, x.shape, dim % x.rank, index), c.tensor(source, x.dtype))
    if c.b.is_zero(x) and c.backward:  # the gradient of a maximum: each place is written once
        return scatter_add(c, x, dim, index, source)
    for d, size in enumerate(index.shape):
        source = c.b.op("slice", source, dim=d, start=0, stop=size, step=1)
    return index_put(c, x, _everywhere(c, x.shape, dim % x.rank, index), source)
