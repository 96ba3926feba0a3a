"""Reductions of elements that are sent to places: scatter_reduce, bags of embeddings, masked_scatter."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ..errors import Unsupported
from .registry import replaces

aten = torch.ops.aten
Tensor = torch.Tensor

MOST = 1 << 26
"""Elements of a comparison of every element with every place."""


_PAIRS = {"amax": torch.maximum, "amin": torch.minimum, "prod": torch.mul}
_REDUCED: dict[str, Callable[..., Tensor]] = {"amax": torch.amax, "amin": torch.amin, "prod": torch.prod}


def _joined(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    """Return the largest, the smallest or the product (amax, amin, prod) of the elements sent to each place."""
    if x.ndim == 0:
        row = _joined(x.reshape(1), 0, index.reshape(-1), source.reshape(-1), reduce, include_self)
        return row.reshape(())
    x, index, source = (t.movedim(dim, -1) for t in (x, index, source))
    lead = tuple(slice(0, n) for n in index.shape[:-1])
    sent = index.unsqueeze(-2) == torch.arange(x.shape[-1]).unsqueeze(-1)
    if sent.numel() > MOST:
        raise Unsupported(
            f"scatter_reduce of {index.shape[-1]} elements to {x.shape[-1]} places in each of "
            f"{index.numel() // index.shape[-1]} rows by comparison, more than {MOST} of them",
            "use the reductions sum or mean",
        )
    nothing = {"amax": -math.inf, "amin": math.inf, "prod": 1.0}[reduce]
    elements = torch.where(sent, source[(*lead, slice(0, index.shape[-1]))].unsqueeze(-2), nothing)
    found = _REDUCED[reduce](elements, -1)
    hit, old = sent.any(-1), x[lead]
    if include_self:
        found = _PAIRS[reduce](found, old)
    new = torch.where(hit, found, old)
    for d, n in enumerate(index.shape[:-1]):  # places that the index does not reach keep their values
        if n < x.shape[d]:
            rest = x[tuple(slice(0, m) for m in index.shape[:d])].narrow(d, n, x.shape[d] - n)
            rest = rest[(slice(None),) * (d + 1) + tuple(slice(0, m) for m in index.shape[d + 1 : -1])]
            if any(m < k for m, k in zip(index.shape[d + 1 : -1], x.shape[d + 1 : -1], strict=True)):
                raise Unsupported("scatter_reduce with an index smaller than the tensor", "expand the index")
            new = torch.cat([new, rest], d)
    return new.movedim(-1, dim)


@replaces(aten.scatter_reduce.two)
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if reduce in _PAIRS:
        return _joined(x, dim, index, source, reduce, include_self)
    ones = torch.ones_like(source)
    if not include_self:
        x = x.scatter(dim, index, 0.0)
    total = x.scatter_add(dim, index, source)
    if reduce == "sum":
        return total
    counts = (torch.ones_like(x) if include_self else torch.zeros_like(x)).scatter_add(dim, index, ones)
    return total / counts.clamp(min=1)


@replaces(aten.index_reduce.default)
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    shape = [-1 if d == dim % x.ndim else 1 for d in range(x.ndim)]
    places = index.reshape(shape).expand(source.shape)  # NOTE: a tensor without dimensions has one place
    return scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


@replaces(aten.masked_scatter.default)
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    mask, x = torch.broadcast_tensors(mask, x)
    place = mask.reshape(-1).long().cumsum(0) - 1
    taken = source.reshape(-1).index_select(0, place.clamp(0, source.numel() - 1)).reshape(x.shape)
    return torch.where(mask, taken, x)


@replaces(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the sum, mean or maximum (mode 0, 1, 2) of the embeddings between two offsets; and nothing else."""
    if scale_grad_by_freq or sparse:
        raise Unsupported(
            "an embedding bag with scale_grad_by_freq or sparse", "leave them at their defaults"
        )
    if include_last_offset:
        offsets = offsets[:-1]
    bag = (torch.arange(indices.shape[0]).unsqueeze(-1) >= offsets).sum(-1) - 1
    rows = weight.index_select(0, indices)
    counts = indices != padding_idx
    none = torch.empty(0, dtype=torch.long)
    zeros = torch.zeros(offsets.shape[0], weight.shape[1], dtype=weight.dtype)
    if mode == 2:
        lowest = torch.where(counts.unsqueeze(-1), rows, -math.inf)
        found = index_reduce(zeros - math.inf, 0, bag, lowest, "amax")
        return torch.where(found == -math.inf, 0.0, found), none, none, none
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    total = zeros.index_add(0, bag, torch.where(counts.unsqueeze(-1), rows, 0.0))
    if mode == 1:
        sizes = torch.zeros(offsets.shape[0], dtype=weight.dtype).index_add(0, bag, counts.to(weight.dtype))
        total = total / sizes.clamp(min=1).unsqueeze(-1)
    return total, none, none, none
