"""Layout and padding, by tables of places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch._decomp import decomposition_table

from .registry import decomposes, replaces

aten = torch.ops.aten
Tensor = torch.Tensor


def _by_places(x: Tensor, pad: Sequence[int], wrap: bool) -> Tensor:
    """Pad the last dimensions with elements of x itself: the nearest ones, or those of the other end.

    A negative width cuts off. NOTE: PyTorch wraps what is left then, and not what was there.
    """
    for k in range(len(pad) // 2):
        dim = x.ndim - 1 - k
        before, after = pad[2 * k], pad[2 * k + 1]
        first, end = (max(-before, 0), x.shape[dim] - max(-after, 0)) if wrap else (0, x.shape[dim])
        places = torch.arange(-before, x.shape[dim] + after)
        inside = (places - first).remainder(end - first) + first if wrap else places.clamp(first, end - 1)
        x = x.index_select(dim, inside)
    return x


@replaces(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
def replication_pad(x: Tensor, pad: Sequence[int]) -> Tensor:
    return _by_places(x, pad, False)


@replaces(aten._pad_circular.default)
def pad_circular(x: Tensor, pad: Sequence[int]) -> Tensor:
    return _by_places(x, pad, True)


def _triangle(rows: int, columns: int, offset: int, upper: bool, dtype: torch.dtype | None) -> Tensor:
    find = np.triu_indices if upper else np.tril_indices
    return torch.tensor(np.stack(find(rows, offset, columns)), dtype=dtype or torch.int64)


@decomposes(aten.tril_indices.default)
def tril_indices(
    rows: int, columns: int, offset: int = 0, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    return _triangle(rows, columns, offset, False, dtype)


@decomposes(aten.triu_indices.default)
def triu_indices(
    rows: int, columns: int, offset: int = 0, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    return _triangle(rows, columns, offset, True, dtype)


@replaces(aten.affine_grid_generator.default)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Return theta applied to the places of an image, from -1 to 1: [N, H, W, 2] or [N, D, H, W, 3]."""
    axes = []
    for n in size[2:]:
        ends = torch.arange(n, dtype=theta.dtype)
        axes.append(ends * (2 / max(n - 1, 1)) - 1 if align_corners else (ends * 2 + 1) / n - 1)
    grids = torch.meshgrid(*axes, indexing="ij")
    homogeneous = torch.stack([*reversed(grids), torch.ones_like(grids[0])], -1)
    flat = homogeneous.reshape(1, -1, homogeneous.shape[-1]).expand(size[0], -1, -1)
    found: Tensor = flat.bmm(theta.transpose(1, 2)).reshape(size[0], *size[2:], len(axes))
    return found


@replaces(aten._weight_norm_interface.default)
def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    others = [d for d in range(v.ndim) if d != dim]
    norm = (v * v).sum(others, keepdim=True).sqrt()
    return v * (g / norm), norm


@replaces(aten.bilinear.default)
def bilinear(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """first [..., I], second [..., J], weight [O, I, J] -> [..., O]"""
    by_first: Tensor = (first @ weight.permute(1, 0, 2).flatten(1)).unflatten(
        -1, (weight.shape[0], weight.shape[2])
    )
    y: Tensor = (by_first @ second.unsqueeze(-1)).squeeze(-1)
    return y if bias is None else y + bias


@decomposes(aten.diagonal_backward.default)
def diagonal_backward(grad: Tensor, sizes: Sequence[int], offset: int, first: int, second: int) -> Tensor:
    """Return zeros with the gradient in the diagonal. NOTE: PyTorch's decomposition writes into a view."""
    places = torch.arange(grad.shape[-1])
    rows, columns = places + max(-offset, 0), places + max(offset, 0)
    height, width = sizes[first], sizes[second]
    flat = grad.new_zeros(*grad.shape[:-1], height * width).index_add(-1, rows * width + columns, grad)
    planes: Tensor = flat.unflatten(-1, (height, width))
    return planes.movedim((-2, -1), (first % len(sizes), second % len(sizes)))


@decomposes(aten.diagonal_scatter.default)
def diagonal_scatter(x: Tensor, values: Tensor, offset: int = 0, first: int = 0, second: int = 1) -> Tensor:
    """Return x with the values in its diagonal. NOTE: PyTorch's decomposition writes into a view."""
    where = offset, first % x.ndim, second % x.ndim
    chosen = diagonal_backward(torch.ones_like(values), x.shape, *where) != 0
    return torch.where(chosen, diagonal_backward(values, x.shape, *where), x)


@decomposes(aten.logspace.default)
def logspace(
    start: float, end: float, steps: int, base: float = 10.0, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    values = np.logspace(start, end, steps, base=base)
    return torch.tensor(values.tolist(), dtype=dtype or torch.float32)


class _WithoutEffect(torch.autograd.Function):
    """The first tensor, with a gradient of zeros for the second: it is stepped, as by decay, and not left out."""

    @staticmethod
    def forward(context: Any, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(x)
        return y.clone()

    @staticmethod
    def backward(context: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        (x,) = context.saved_tensors
        return grad, torch.zeros_like(x)


@replaces(aten.grid_sampler_2d.default)
def grid_sampler_2d(
    x: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> torch.Tensor:
    by_parts = decomposition_table[aten.grid_sampler_2d.default]
    y: torch.Tensor = by_parts(x, grid, interpolation_mode, padding_mode, align_corners)
    # NOTE: the nearest pixel does not move with its place.
    nearest = interpolation_mode == 1 and grid.requires_grad
    return _WithoutEffect.apply(y, grid) if nearest else y  # type: ignore[no-untyped-call]


def _smooth_weights(size: int, wanted: int, align_corners: bool, scale: float | None, cubic: bool) -> Tensor:
    """Return the matrix [wanted, size] that resizes one axis with antialiasing, as PyTorch and Pillow define it."""
    if align_corners:
        ratio = (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    else:
        ratio = 1 / scale if scale else size / wanted
    reach, unit = (2.0 if cubic else 1.0) * max(ratio, 1.0), 1 / max(ratio, 1.0)
    matrix = np.zeros((wanted, size))
    for i in range(wanted):
        centre = ratio * (i + 0.5)
        first, end = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), size)
        t = np.abs((np.arange(first, end) - centre + 0.5) * unit)
        near = ((1.5 * t - 2.5) * t) * t + 1 if cubic else 1 - t
        far = ((-0.5 * t + 2.5) * t - 4) * t + 2 if cubic else 0 * t
        weights = np.where(t < 1, near, np.where(t < 2, far, 0)) if cubic else np.maximum(near, 0)
        matrix[i, first:end] = weights / weights.sum()
    return torch.tensor(matrix.astype(np.float32).tolist())


def _smooth(
    x: Tensor, size: Sequence[int], corners: bool, scales: Sequence[float | None], cubic: bool
) -> Tensor:
    down = _smooth_weights(x.shape[2], size[0], corners, scales[0], cubic)
    across = _smooth_weights(x.shape[3], size[1], corners, scales[1], cubic)
    return down @ (x @ across.T)


@replaces(aten._upsample_bilinear2d_aa.default)
def bilinear_smooth(
    x: Tensor, size: Sequence[int], corners: bool, down: float | None = None, across: float | None = None
) -> Tensor:
    return _smooth(x, size, corners, (down, across), False)


@replaces(aten._upsample_bicubic2d_aa.default)
def bicubic_smooth(
    x: Tensor, size: Sequence[int], corners: bool, down: float | None = None, across: float | None = None
) -> Tensor:
    return _smooth(x, size, corners, (down, across), True)
