"""Losses whose decomposition by PyTorch is wrong, or which look at a value."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from .registry import PATCHES, replaces

aten = torch.ops.aten
Tensor = torch.Tensor

_MEAN, _SUM = 1, 2


@replaces(aten.multilabel_margin_loss.default)
def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int = _MEAN) -> Tensor:
    """x [N, C]; target [N, C]: classes, up to the first -1. NOTE: PyTorch's decomposition gives another number."""
    rows, classes = torch.atleast_2d(x), torch.atleast_2d(target)
    listed = (classes < 0).cumsum(1) == 0
    chosen = classes.clamp(min=0)
    is_class = chosen.unsqueeze(-1) == torch.arange(rows.shape[1])
    wrong = ~(is_class & listed.unsqueeze(-1)).any(1)
    margin = 1 - (rows.gather(1, chosen).unsqueeze(-1) - rows.unsqueeze(1))
    counted = listed.unsqueeze(-1) & wrong.unsqueeze(1)
    each: Tensor = torch.where(counted, margin.clamp(min=0), 0.0).sum((1, 2)) / rows.shape[1]
    if reduction == _MEAN:
        return each.mean()
    if reduction == _SUM:
        return each.sum()
    return each if x.ndim > 1 else each.squeeze(0)


def gaussian_nll_loss(
    x: Tensor,
    target: Tensor,
    variance: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """PyTorch's function without its look at the sign of the variance, which no program can take."""
    given = torch.as_tensor(variance, dtype=x.dtype)
    if given.shape != x.shape and x.shape[:-1] == given.shape:
        given = given.unsqueeze(-1)
    bounded = given + (given.detach().clamp(min=eps) - given.detach())
    each = 0.5 * (bounded.log() + (x - target) ** 2 / bounded)
    if full:
        each = each + 0.5 * math.log(2 * math.pi)
    return each.mean() if reduction == "mean" else each.sum() if reduction == "sum" else each


PATCHES.append((functional, "gaussian_nll_loss", gaussian_nll_loss))
