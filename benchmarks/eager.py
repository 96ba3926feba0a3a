"""A training step of eager torch: the same module, loss and optimizer as a recipe's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from assay_capture.capture import SGD, Adam, Groups, Optimizer, Recipe
from assay_capture.capture.seeded import data_order


def eager_step(
    recipe: Recipe,
    keep: bool = True,
    device: str = "cpu",
    autocast: bool = False,
    compiled: bool = False,
) -> Callable[[], object]:
    """Return a step that trains a copy of the recipe's module, or if not `keep`, the module itself; in bf16 inside
    torch.autocast, or by torch.compile."""
    module = (copy.deepcopy(recipe.module) if keep else recipe.module).to(device)
    optimizer = optimizer_of(recipe.optimizer, module)
    called: Callable[..., Any] = torch.compile(module) if compiled else module
    data = {
        name: torch.from_numpy(np.ascontiguousarray(array)).to(device) for name, array in recipe.data.items()
    }
    size = len(next(iter(data.values())))
    order = torch.from_numpy(data_order(recipe.seed, size, recipe.batch_size, recipe.steps)).to(device)
    step = 0

    def one() -> object:
        nonlocal step
        chosen = order[step % len(order)]
        step += 1
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            loss = loss_of(recipe, called, {name: tensor[chosen] for name, tensor in data.items()})
        loss.backward()
        optimizer.step()
        return loss

    return one


def loss_of(recipe: Recipe, module: Callable[..., Any], batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the loss that a recipe minimises: the module's own, or one of its output and the labels."""
    if recipe.loss is None:
        found: torch.Tensor = module(**batch).loss
        return found
    return recipe.loss(module(batch["x"]), batch["y"])


def optimizer_of(ours: Optimizer | torch.optim.Optimizer, module: torch.nn.Module) -> torch.optim.Optimizer:
    """Return torch's own optimizer. Raise ValueError if there is none for these options."""
    match ours:
        case SGD(lr=float(lr)):
            options: dict[str, Any] = {
                "momentum": ours.momentum,
                "weight_decay": ours.weight_decay,
                "nesterov": ours.nesterov,
            }
            return torch.optim.SGD(module.parameters(), lr, **options)
        case Adam(lr=float(lr)):
            kind = torch.optim.AdamW if ours.decoupled else torch.optim.Adam
            return kind(module.parameters(), lr, ours.betas, ours.eps, ours.weight_decay)
        case Groups():
            return torch.optim.AdamW(_groups(ours, module))
    raise ValueError(f"no torch optimizer for {ours}")


def _groups(ours: Groups, module: torch.nn.Module) -> list[dict[str, Any]]:
    """Return parameter groups for AdamW. Raise ValueError for rules other than Adam's."""
    groups: list[dict[str, Any]] = []
    for rule, _ in ours.groups:
        if not isinstance(rule, Adam) or (rule.weight_decay and not rule.decoupled):
            raise ValueError(f"no torch optimizer for {ours}")
        options = {"lr": rule.lr, "betas": rule.betas, "eps": rule.eps, "weight_decay": rule.weight_decay}
        groups.append({"params": [], **options})
    for name, tensor in module.named_parameters():
        seen: Any = SimpleNamespace(name=name, value=SimpleNamespace(rank=tensor.ndim))
        claims = [claim(seen) if callable(claim) else name in claim for _, claim in ours.groups]
        groups[claims.index(True)]["params"].append(tensor)
    return groups
