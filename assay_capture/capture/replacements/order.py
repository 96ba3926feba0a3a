"""Sorting and what follows from it, by comparing every two elements of a row.

The rank of an element is the number of those that come before it; among equal ones, the order of the row. So indices
are those of a stable sort. NaN comes after every number, as in PyTorch.
"""

# ruff: noqa: ARG001  (a function has the signature of its ATen operator)

from __future__ import annotations

import torch

from ..errors import Unsupported
from .registry import decomposes, replaces

aten = torch.ops.aten
Tensor = torch.Tensor

LONGEST = 2048
"""Elements of a row: its comparisons are this number squared."""


def _ranks(x: Tensor, descending: bool) -> Tensor:
    """Return the rank of each element in its row, the last dimension, i64."""
    if x.shape[-1] > LONGEST:
        raise Unsupported(
            f"a sort of rows of {x.shape[-1]} elements, which takes the square of that in comparisons",
            f"sort at most {LONGEST} at once, or sort as data beforehand",
        )
    if x.dtype == torch.bool:
        x = x.long()
    mine, other = x.unsqueeze(-1), x.unsqueeze(-2)
    places = torch.arange(x.shape[-1])
    first = other > mine if descending else other < mine
    same = other == mine
    if x.is_floating_point():
        mine_last, other_last = mine != mine, other != other
        first = first | (other_last & ~mine_last if descending else mine_last & ~other_last)
        same = same | (mine_last & other_last)
    return (first | (same & (places < places.unsqueeze(-1)))).sum(-1)


def _chosen(x: Tensor, ranks: range, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Return values and indices of these ranks along `dim`, in their order."""
    if x.ndim == 0:
        return x.clone(), torch.zeros((), dtype=torch.long)
    rows = x.detach().movedim(dim, -1)
    wanted = torch.arange(ranks.start, ranks.stop).unsqueeze(-1)
    hit = _ranks(rows, descending).unsqueeze(-2) == wanted
    index = hit.long().argmax(-1).movedim(-1, dim)
    return x.gather(dim, index), index


@replaces(aten.sort.default)
def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    return _chosen(x, range(x.shape[dim] if x.ndim else 1), dim, descending)


@replaces(aten.sort.stable)
def sort_stable(
    x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return sort(x, dim, descending)


@replaces(aten.argsort.default)
def argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    return sort(x, dim, descending)[1]


@replaces(aten.argsort.stable)
def argsort_stable(x: Tensor, *, stable: bool, dim: int = -1, descending: bool = False) -> Tensor:
    return sort(x, dim, descending)[1]


@replaces(aten.topk.default)
def topk(
    x: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: A002
) -> tuple[Tensor, Tensor]:
    return _chosen(x, range(k), dim, largest)


@replaces(aten.kthvalue.default)
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, index = _chosen(x, range(k - 1, k), dim, False)
    return (values, index) if keepdim or not x.ndim else (values.squeeze(dim), index.squeeze(dim))


@replaces(aten.median.dim)
def median(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the lower of the two middle elements, as PyTorch does; the first NaN of a row that has one."""
    middle = (x.shape[dim] - 1) // 2 + 1 if x.ndim else 1
    if not (x.ndim and x.is_floating_point()):
        return kthvalue(x, middle, dim, keepdim)
    rows = x.detach().movedim(dim, -1)
    numbers = (rows == rows).sum(-1, keepdim=True)
    hit = _ranks(rows, False) == torch.where(numbers < x.shape[dim], numbers, middle - 1)
    index = hit.long().argmax(-1, keepdim=True).movedim(-1, dim)
    values = x.gather(dim, index)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


@replaces(aten.median.default)
def median_of_all(x: Tensor) -> Tensor:
    return median(x.reshape(-1), 0)[0]


@replaces(aten.searchsorted.Tensor, aten.searchsorted.Scalar)
def searchsorted(
    bounds: Tensor,
    values: Tensor | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Count the bounds below each value."""
    if sorter is not None:
        bounds = bounds.gather(-1, sorter)
    place = torch.as_tensor(values).unsqueeze(-1)
    limits = bounds.unsqueeze(-2) if bounds.ndim > 1 else bounds
    below = limits <= place if right or side == "right" else limits < place
    return below.sum(-1).to(torch.int32 if out_int32 else torch.int64)


@replaces(aten.bucketize.Tensor, aten.bucketize.Scalar)
def bucketize(
    values: Tensor | float, bounds: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    # NOTE: PyTorch's own decomposition is a binary search, whose places are divided by 2.
    return searchsorted(bounds, values, out_int32=out_int32, right=right)


@decomposes(aten.histc.default)
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:  # noqa: A002
    """Count the elements in each of the equal parts of [min, max]."""
    if min == max:
        raise Unsupported("histc over a range of its data's own", "give min and max")
    place = ((x.reshape(-1) - min) * (bins / (max - min))).floor().clamp(max=bins - 1)
    inside = (x.reshape(-1) >= min) & (x.reshape(-1) <= max)
    hit = (place.unsqueeze(-1) == torch.arange(bins)) & inside.unsqueeze(-1)
    return hit.to(x.dtype).sum(0)
