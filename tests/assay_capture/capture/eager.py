"""Eager PyTorch beside a captured program: losses step by step, gradients of the first step against FP64."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import repops
import torch
from torch import nn

from assay_capture.capture import Built
from referee_py.execute import Metrics, Run

CPU = repops.backend("cpu")
Data = Mapping[str, np.ndarray[Any, Any]]
Objective = Callable[[nn.Module, dict[str, torch.Tensor]], torch.Tensor]
EagerOptimizer = Callable[[Any], torch.optim.Optimizer]


def own_loss(module: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the loss of a model that computes it itself."""
    return module(**batch).loss


def of(loss: Callable[..., torch.Tensor]) -> Objective:
    """Return an objective whose input is the first array; the others go to the loss."""

    def objective(module: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        x, *rest = batch.values()
        return loss(module(x), *rest)

    return objective


def batches(data: Data, order: Any) -> Iterator[dict[str, torch.Tensor]]:
    for rows in order:
        yield {name: torch.from_numpy(array[rows]) for name, array in data.items()}


class Apply(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def run_program(built: Built, steps: int) -> tuple[list[float], dict[str, np.ndarray[Any, Any]]]:
    """Return the loss of every step, and the slots after the last."""
    metrics = Metrics(built.labels.metrics)
    run = Run(built.program, built.constants, built.initial, steps, (1,), CPU, hook=metrics)
    losses: list[float] = []
    state = run.advance(run.initial(), steps, lambda *_: losses.append(float(metrics.latest["loss"])))
    return losses, dict(zip(built.labels.slots, state.arrays, strict=True))


def first_metrics(built: Built) -> dict[str, np.ndarray[Any, Any]]:
    """Return all metrics of the first step."""
    metrics = Metrics(built.labels.metrics)
    run = Run(built.program, built.constants, built.initial, 1, (1,), CPU, hook=metrics)
    run.advance(run.initial(), 1)
    return metrics.latest


def run_eager(
    module: nn.Module,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    data: Data,
    order: Any,
    scheduler: Any = None,
) -> list[float]:
    losses = []
    for batch in batches(data, order):
        optimizer.zero_grad()
        value = objective(module, batch)
        value.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(value.item())
    return losses


def gradients_f64(
    module: nn.Module, objective: Objective, data: Data, order: Any
) -> tuple[float, dict[str, np.ndarray[Any, Any]]]:
    """Return loss and gradients of the first step, in FP64."""
    double = copy.deepcopy(module).double()
    batch = {
        name: value.double() if value.is_floating_point() else value
        for name, value in next(batches(data, order)).items()
    }
    value = objective(double, batch)
    value.backward()
    found = {n: p.grad.numpy() for n, p in double.named_parameters() if p.grad is not None}
    return value.item(), found


def gradients_f32(module: nn.Module, objective: Objective, data: Data, order: Any) -> dict[str, Any]:
    """Return the gradients of the first step by eager PyTorch."""
    single = copy.deepcopy(module)
    objective(single, next(batches(data, order))).backward()
    return {n: p.grad.numpy() for n, p in single.named_parameters() if p.grad is not None}


def relative_error(found: Mapping[str, Any], exact: Mapping[str, Any]) -> float:
    """Return the largest error of an entry, in units of the largest entry of its gradient.

    NOTE: some gradients are differences of much larger terms: that of a key's bias is zero in exact arithmetic, that of
    a classifier's bias a sum over examples that nearly cancel. The unit is at least a hundredth of the largest of all.
    """
    largest = max(np.abs(gradient).max() for gradient in exact.values())
    return max(
        float(np.abs(found[name] - gradient).max() / max(np.abs(gradient).max(), 1e-2 * largest))
        for name, gradient in exact.items()
    )


def check_gradients(
    built: Built, module: nn.Module, objective: Objective, data: Data, order: Any, tolerance: float = 1e-5
) -> None:
    """Check that loss and gradients of the first step agree with FP64."""
    value, exact = gradients_f64(module, objective, data, order)
    metrics = first_metrics(built)
    np.testing.assert_allclose(metrics["loss"], value, rtol=1e-5)
    found = {name.removeprefix("gradient."): array for name, array in metrics.items() if name != "loss"}
    assert set(found) == set(exact)
    assert relative_error(found, exact) <= tolerance
