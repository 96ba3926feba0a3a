"""Mixtures of experts in transformers, with a fixed number of places for each expert.

Which expert takes which token depends on values, so PyTorch's forms have sizes that do. Here each expert has a fixed
number of places: a token goes to the next free place of each expert that it chose, and one that finds none is left out
by that expert. By default there are as many places as tokens, so none is left out and the result is PyTorch's; this
costs experts / chosen times the work. A factor, `expert_capacity` of a recipe, gives each expert that many times its
even share of places (Lepikhin et al., "GShard", 2020, section 2.2).
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch

from .registry import LATE_PATCHES, Patch

Tensor = torch.Tensor

_FACTOR: ContextVar[float | None] = ContextVar("expert_capacity", default=None)


@contextlib.contextmanager
def capacity(factor: float | None) -> Iterator[None]:
    """Give each expert `factor` times its even share of places; None: as many as tokens."""
    token = _FACTOR.set(factor)
    try:
        yield
    finally:
        _FACTOR.reset(token)


def experts_forward(module: Any, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """x [T, H], chosen i64 [T, K] and weights [T, K] of experts -> [T, H]; the weights are those of the module."""
    tokens, k = chosen.shape
    count = int(module.num_experts)
    factor = _FACTOR.get()
    places = tokens if factor is None else min(tokens, max(1, math.ceil(factor * tokens * k / count)))
    with torch.no_grad():
        flat = chosen.reshape(-1)
        is_expert = flat.unsqueeze(-1) == torch.arange(count)
        before = is_expert.long().cumsum(0) - 1
        place = torch.where(is_expert, before, 0).sum(-1)
        index = torch.where((place < places) & (flat < count), flat * places + place, count * places)
        # The token at an index, counted from 1; 0: none. The last index is for what is left out.
        number = (torch.arange(tokens * k) // k + 1).float()
        token = torch.zeros(count * places + 1).index_add(0, index, number)[:-1].long()
        token = torch.where(token > tokens, 0, token)
    padded = torch.cat([x.new_zeros(1, x.shape[1]), x])
    y = _apply(module, padded.index_select(0, token).unflatten(0, (count, places)))
    rows = torch.cat([y.flatten(0, 1), y.new_zeros(1, y.shape[-1])])
    taken = rows.index_select(0, index).unflatten(0, (tokens, k))
    result: Tensor = (taken * weights.unsqueeze(-1)).sum(1).to(x.dtype)
    return result


def _apply(module: Any, x: Tensor) -> Tensor:
    """x [E, places, H]: every expert computes its places."""
    name = "gate_up_proj" if module.has_gate else "up_proj"
    y = _linear(module, name, x)
    y = module._apply_gate(y) if module.has_gate else module.act_fn(y)
    y = _linear(module, "down_proj", y)
    if module.has_post_expert_norm:
        y = module.post_expert_norm(y)
    return y


def _linear(module: Any, name: str, x: Tensor) -> Tensor:
    weight = getattr(module, name)
    y: Tensor = x @ (weight if module.is_transposed else weight.transpose(1, 2))
    return y + getattr(module, f"{name}_bias").unsqueeze(1) if module.has_bias else y


def _patches() -> list[Patch]:
    moe = sys.modules.get("transformers.integrations.moe")
    if moe is None:
        return []
    return [(moe.ExpertsInterface, "get_interface", lambda *_: experts_forward)]


LATE_PATCHES.append(_patches)
