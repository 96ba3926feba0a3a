"""Distances and covariances of rows, and quantisation that training sees through."""

# ruff: noqa: ARG001  (a function has the signature of its ATen operator)

from __future__ import annotations

import math

import torch

from .registry import decomposes, replaces

aten = torch.ops.aten
Tensor = torch.Tensor


def _norm(d: Tensor, p: float) -> Tensor:
    """Return the p-norm of the last dimension; its gradient is 0 where it is 0, as PyTorch's."""
    if p == 0:  # NOTE: as in PyTorch, whose gradient is 0 and not missing
        return torch.where(torch.zeros_like(d, dtype=torch.bool), d, (d != 0).to(d.dtype)).sum(-1)
    if p == 1:
        return d.abs().sum(-1)
    if math.isinf(p):
        return d.abs().amax(-1)
    total = (d * d).sum(-1) if p == 2 else d.abs().pow(p).sum(-1)
    positive = torch.where(total == 0, 1.0, total)
    root = positive.sqrt() if p == 2 else positive.pow(1 / p)
    return torch.where(total == 0, 0.0, root)


@replaces(aten._cdist_forward.default)
def cdist(a: Tensor, b: Tensor, p: float, compute_mode: int | None = None) -> Tensor:
    """a [..., M, D], b [..., N, D] -> [..., M, N]"""
    return _norm(a.unsqueeze(-2) - b.unsqueeze(-3), p)


@replaces(aten._euclidean_dist.default)
def euclidean(a: Tensor, b: Tensor) -> Tensor:
    return cdist(a, b, 2.0)


@replaces(aten._pdist_forward.default)
def pdist(x: Tensor, p: float = 2) -> Tensor:
    """x [N, D] -> the distances of rows i < j, in the order of (i, j)"""
    first, second = torch.triu_indices(len(x), len(x), 1)
    return _norm(x.index_select(0, first) - x.index_select(0, second), p)


@decomposes(aten.addbmm.default)
def addbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """x [M, N], a [B, M, K], b [B, K, N] -> beta x + alpha times the sum of all products"""
    product = alpha * a.bmm(b).sum(0)
    return product if beta == 0 else beta * x + product


@replaces(aten.cov.default)
def cov(
    x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """x [D, N] or [N] -> covariances of the rows [D, D]; weights count or scale the N columns."""
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    w = torch.ones(rows.shape[1], dtype=rows.dtype)
    w = w if fweights is None else w * fweights
    w = w if aweights is None else w * aweights
    total = w.sum()
    centred = rows - ((rows * w).sum(1) / total).unsqueeze(1)
    lost = correction * ((w * aweights).sum() / total if aweights is not None else 1.0)
    found: Tensor = centred @ (centred * w).mT / (total - lost).clamp(min=0)
    return found.squeeze() if x.ndim < 2 else found


@replaces(aten.fake_quantize_per_tensor_affine.default)
def fake_quantize(x: Tensor, scale: float, zero: int, low: int, high: int) -> Tensor:
    """Round to the grid of `scale`; the gradient is that of x inside the range, and 0 outside."""
    place = (x.detach() * (1 / scale)).round() + zero
    inside = (place >= low) & (place <= high)
    kept = torch.where(inside, x, 0.0)
    return kept + ((place.clamp(low, high) - zero) * scale - kept.detach())
