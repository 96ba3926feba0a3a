"""Running sums, products and maxima along a dimension, and products, in log2(n) rounds.

Round k joins each element with the one 2^k places before it. So n elements take n log2(n) operations, and a sum's
rounding errors grow with log2(n) only.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .registry import decomposes, replaces

aten = torch.ops.aten
Tensor = torch.Tensor


def _scan(x: Tensor, dim: int, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return x_0, join(x_0, x_1), ...; `join(earlier, later)`."""
    if not x.ndim:
        return x.clone()
    size, reach = x.shape[dim], 1
    while reach < size:
        later = join(x.narrow(dim, 0, size - reach), x.narrow(dim, reach, size - reach))
        x = torch.cat([x.narrow(dim, 0, reach), later], dim)
        reach *= 2
    return x


@decomposes(aten.cumsum.default)
def cumsum(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    if dtype is None:
        dtype = x.dtype if x.is_floating_point() else torch.int64
    return _scan(x.to(dtype), dim, torch.add)


@replaces(aten.cumprod.default)
def cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    if dtype is None:
        dtype = x.dtype if x.is_floating_point() else torch.int64
    return _scan(x.to(dtype), dim, torch.mul)


@replaces(aten.logcumsumexp.default)
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    return _scan(x, dim, torch.logaddexp)


def _extreme(x: Tensor, dim: int, sign: int) -> tuple[Tensor, Tensor]:
    """Return running extremes and the last index at which each occurs. A NaN stays the extreme from there on."""
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.long)
    size = x.shape[dim]
    index = torch.arange(size).reshape([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)])
    index, best, reach = index.expand(x.shape), x.detach(), 1
    while reach < size:
        earlier, later = best.narrow(dim, 0, size - reach), best.narrow(dim, reach, size - reach)
        keeps = earlier > later if sign > 0 else earlier < later
        if x.is_floating_point():
            keeps = (keeps | (earlier != earlier)) & (later == later)
        parts = (index.narrow(dim, 0, size - reach), index.narrow(dim, reach, size - reach))
        index = torch.cat([index.narrow(dim, 0, reach), torch.where(keeps, *parts)], dim)
        best = torch.cat([best.narrow(dim, 0, reach), torch.where(keeps, earlier, later)], dim)
        reach *= 2
    return x.gather(dim, index), index


@replaces(aten.cummax.default)
def cummax(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _extreme(x, dim, 1)


@replaces(aten.cummin.default)
def cummin(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _extreme(x, dim, -1)


@replaces(aten.prod.dim_int)
def prod(x: Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Multiply halves of the dimension until one element is left."""
    if dtype is None:
        dtype = x.dtype if x.is_floating_point() else torch.int64
    x = x.to(dtype)
    if not x.ndim:
        return x.clone()
    if x.shape[dim] == 0:
        return torch.ones_like(x.sum(dim, keepdim))
    while (size := x.shape[dim]) > 1:
        half = size // 2
        joined = x.narrow(dim, 0, half) * x.narrow(dim, half, half)
        x = torch.cat([joined, x.narrow(dim, 2 * half, 1)], dim) if size % 2 else joined
    return x if keepdim else x.squeeze(dim)


@replaces(aten.prod.default)
def prod_of_all(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return prod(x.reshape(-1), 0, dtype=dtype)
