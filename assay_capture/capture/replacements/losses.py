"""Losses whose decomposition by PyTorch is wrong, or which look at a value."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn import functional

from ..errors import Unsupported
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


@replaces(aten.multi_margin_loss.default)
def multi_margin_loss(
    x: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:
    """x [N, C] or [C]; target [N] or []. NOTE: a margin that is NaN counts as none, as in PyTorch's own kernel."""
    rows, classes = torch.atleast_2d(x), target.reshape(-1)
    gap = margin - rows.gather(1, classes.unsqueeze(1)) + rows
    others = classes.unsqueeze(1) != torch.arange(rows.shape[1])
    counted = (gap > 0) & others
    gap = torch.where(counted, gap, 1.0)
    each = gap if p == 1 else gap * gap
    if weight is not None:
        each = each * weight.index_select(0, classes).unsqueeze(1)
    total: Tensor = torch.where(counted, each, 0.0).sum(1) / rows.shape[1]
    if reduction == _MEAN:
        return total.mean()
    if reduction == _SUM:
        return total.sum()
    return total if x.ndim > 1 else total.squeeze(0)


@replaces(aten.soft_margin_loss.default)
def soft_margin_loss(x: Tensor, target: Tensor, reduction: int = _MEAN) -> Tensor:
    """log(1 + exp(-t x)). NOTE: PyTorch's decomposition of the gradient subtracts two numbers that are nearly 1."""
    each: Tensor = torch.log1p((-target * x).exp())
    return each.mean() if reduction == _MEAN else each.sum() if reduction == _SUM else each


_IMPOSSIBLE = -1e30
"""The logarithm of no probability: finite, so that a gradient is 0 times a number."""
_MOST_FRAMES = 1024


@replaces(aten.ctc_loss.Tensor)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: int = _MEAN,
    zero_infinity: bool = False,
) -> Tensor:
    """log_probs [T, N, C] or [T, C]; targets [N, S], or one after the other.

    One frame after the other, the probabilities of all places in the targets with blanks between them. The gradient is
    PyTorch's, which takes the probabilities of a frame for normalised.
    """
    if log_probs.shape[0] > _MOST_FRAMES:
        raise Unsupported(
            f"ctc_loss of {log_probs.shape[0]} frames", f"give at most {_MOST_FRAMES}, or average neighbours"
        )
    if log_probs.ndim == 2:
        batch = (
            log_probs.unsqueeze(1),
            targets.reshape(1, -1),
            input_lengths.reshape(1),
            target_lengths.reshape(1),
        )
        found = ctc_loss(*batch, blank, reduction, zero_infinity)
        return found if reduction in (_MEAN, _SUM) else found.squeeze(0)
    frames, n, _ = log_probs.shape
    input_lengths, target_lengths = input_lengths.long(), target_lengths.long()
    if targets.ndim == 1:
        starts = target_lengths.cumsum(0) - target_lengths
        places = starts.unsqueeze(1) + torch.arange(targets.shape[0])
        targets = targets[places.clamp(max=max(targets.shape[0] - 1, 0))]
    labels = torch.stack([torch.full_like(targets, blank), targets], 2).flatten(1).long()
    labels = functional.pad(labels, (0, 1), value=blank)
    size = labels.shape[1]
    is_other = (torch.arange(size - 2) % 2 == 1) & (labels[:, 2:] != labels[:, :-2])
    each = log_probs.gather(2, labels.expand(frames, n, size))
    alpha = torch.where(torch.arange(size) < 2, each[0], _IMPOSSIBLE)
    for t in range(1, frames):
        one = functional.pad(alpha[:, :-1], (1, 0), value=_IMPOSSIBLE)
        two = functional.pad(torch.where(is_other, alpha[:, :-2], _IMPOSSIBLE), (2, 0), value=_IMPOSSIBLE)
        ways = torch.stack([alpha, one, two])
        most = ways.detach().amax(0)
        joined = each[t] + most + (ways - most).exp().sum(0).log()
        alpha = torch.where((input_lengths > t).unsqueeze(1), joined, alpha)
    last = alpha.gather(1, 2 * target_lengths.unsqueeze(1)).squeeze(1)
    before = alpha.gather(1, (2 * target_lengths - 1).clamp(min=0).unsqueeze(1)).squeeze(1)
    total = torch.logaddexp(last, torch.where(target_lengths > 0, before, _IMPOSSIBLE))
    counted = (torch.arange(frames).unsqueeze(1) < input_lengths).unsqueeze(2)
    own = torch.where(counted, log_probs.detach().exp() * (log_probs - log_probs.detach()), 0.0).sum((0, 2))
    infinite = total < _IMPOSSIBLE / 2
    loss = torch.where(infinite, 0.0 if zero_infinity else math.inf, own - total)
    if reduction == _MEAN:
        return (loss / target_lengths.clamp(min=1)).mean()
    return loss.sum() if reduction == _SUM else loss


@replaces(aten.ctc_loss.IntList)
def ctc_loss_of_lists(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int = 0,
    reduction: int = _MEAN,
    zero_infinity: bool = False,
) -> Tensor:
    lengths = torch.tensor(list(input_lengths)), torch.tensor(list(target_lengths))
    return ctc_loss(log_probs, targets, *lengths, blank, reduction, zero_infinity)


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
