"""A training step: ours, ours with every node committed, and the same model and optimizer in eager torch."""

from __future__ import annotations

import copy
import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import repops
import torch

from assay_capture.capture import SGD, Adam, Groups, Optimizer, Recipe, build
from assay_capture.capture.seeded import data_order
from referee_py.execute import Run

from .recipes import built_in
from .report import RATIO, Table, factor, ms
from .timing import Work, medians, ratio, take_turns

STEPS = 100
STRIDE = 100
THREADS = (1, 2)


def wide_mlp() -> Recipe:
    """Return 784-1024-1024-10 on random data, batches of 128: large enough that arithmetic dominates."""
    draw = np.random.default_rng(0)
    layers = [torch.nn.Linear(784, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
    return Recipe(
        name="wide-mlp",
        module=torch.nn.Sequential(*layers, torch.nn.Linear(1024, 10)),
        loss=torch.nn.functional.cross_entropy,
        optimizer=SGD(lr=0.01, momentum=0.9),
        data={"x": draw.standard_normal((1024, 784), dtype=np.float32), "y": draw.integers(0, 10, 1024)},
        steps=STEPS,
        batch_size=128,
    )


def measure(turns: int) -> Table:
    """Return milliseconds per step, and the extra time of commitments."""
    columns = ["model", "threads", "ours", "ours, committed", "eager torch", RATIO]
    table = Table("steps", [*columns, "a commitment adds", f"at stride {STRIDE}"])
    for recipe in (
        built_in("digits-mlp", steps=STEPS),
        built_in("digits-cnn", steps=STEPS),
        wide_mlp(),
    ):
        works = [*_ours(recipe), _theirs(recipe)]
        for threads in THREADS:
            torch.set_num_threads(threads)
            repops.set_num_threads(threads)
            plain, committed, eager = take_turns(works, turns)
            added = ratio(committed, plain) - 1
            row = [recipe.name, str(threads), *map(ms, medians([plain, committed, eager]))]
            table.add(*row, factor(ratio(eager, plain)), f"{added:+.0%}", f"{added / STRIDE:+.1%}")
    return table


def _ours(recipe: Recipe) -> list[Work]:
    """Return one step from the initial state, without and with its commitment."""
    bundle = build(dataclasses.replace(recipe, strides=(STRIDE, 10, 1)))
    tensors = (bundle.program, bundle.constants, bundle.initial)
    run = Run(*tensors, bundle.terms.steps, bundle.terms.strides, repops.backend("cpu"))
    # NOTE: a state remembers its hashes, and each step of a training run starts from a state that was never hashed.
    arrays = [value.array for value in run.advance(run.initial(), 1).values]

    def plain() -> object:
        return run.advance(run.restore(1, arrays), 2)

    def committed() -> object:
        return run.commit_step(run.restore(1, arrays))[1].root

    return [plain, committed]


def _theirs(recipe: Recipe) -> Work:
    module, loss_function = copy.deepcopy(recipe.module), recipe.loss
    assert loss_function is not None
    optimizer = optimizer_of(recipe.optimizer, module)
    x, y = (torch.from_numpy(np.ascontiguousarray(array)) for array in recipe.data.values())
    order = torch.from_numpy(data_order(recipe.seed, len(x), recipe.batch_size, recipe.steps))
    step = 0

    def one() -> object:
        nonlocal step
        chosen = order[step % len(order)]
        step += 1
        optimizer.zero_grad()
        loss = loss_function(module(x[chosen]), y[chosen])
        loss.backward()
        optimizer.step()
        return loss

    return one


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
