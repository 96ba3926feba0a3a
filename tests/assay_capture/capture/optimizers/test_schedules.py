"""Schedules that do more than to give a rate for each step are refused, and all is left as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from assay_capture.capture import CaptureError, Optimizer, from_torch

from .test_optimizers import STEPS, Parameters, captured, mlp


def of_weights(p: Parameters, read: Callable[[torch.Tensor], Any]) -> Optimizer:
    weights = list(p)
    optimizer = torch.optim.SGD(weights, 0.1)
    schedule = lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + abs(step * float(read(weights[0])))))
    return from_torch(optimizer, schedule, STEPS)


class Meddling(lr_scheduler.LRScheduler):
    """A schedule that does more than to set rates, in its fourth step."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, meddle: Callable[[torch.optim.Optimizer], object]
    ) -> None:
        self.meddle = meddle
        super().__init__(optimizer)

    def get_lr(self) -> Any:
        if self.last_epoch == 3:
            self.meddle(self.optimizer)
        return [group["lr"] for group in self.optimizer.param_groups]


def meddled(meddle: Callable[[Any], object]) -> Callable[[Parameters], Optimizer]:
    def make(p: Parameters) -> Optimizer:
        optimizer = torch.optim.SGD(p, 0.1)
        return from_torch(optimizer, Meddling(optimizer, meddle), STEPS)

    return make


REFUSED: dict[str, tuple[Callable[[Parameters], Optimizer], str]] = {
    "rates from a norm": (lambda p: of_weights(p, torch.norm), "LambdaLR computes a rate from weights"),
    "rates from a copy": (
        lambda p: of_weights(p, lambda weight: weight.detach().numpy().sum()),
        "LambdaLR computes a rate from weights",
    ),
    "a schedule of a sign": (
        meddled(lambda o: o.param_groups[0].update(maximize=True)),
        "Meddling changes maximize, not only the rate",
    ),
    "a schedule of states": (meddled(lambda o: o.state.clear()), "reads or changes the optimizer's state"),
    "a schedule that freezes": (
        meddled(lambda o: o.param_groups[0]["params"][0].requires_grad_(False)),
        "Meddling freezes a parameter in step 4",
    ),
    "a schedule of groups": (
        meddled(lambda o: o.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})),
        "Meddling changes the parameter groups in step 4",
    ),
    "a schedule that drops a parameter": (
        meddled(lambda o: o.param_groups[0]["params"].pop()),
        "Meddling changes the parameter groups in step 4",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_schedule_that_does_more_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    module = mlp()
    with pytest.raises(CaptureError, match=message):
        make(module.parameters())
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_what_a_schedule_counts_is_what_it_was() -> None:
    calls, module = [0], mlp()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)

    def rate(_: int) -> float:
        calls[0] += 1
        return 1 / calls[0]

    schedule = lr_scheduler.LambdaLR(optimizer, rate)
    first, again = (from_torch(optimizer, schedule, STEPS) for _ in range(2))
    assert calls == [1]
    built = [captured(module, rule) for rule in (first, again)]
    assert built[0].program.constant_root == built[1].program.constant_root
