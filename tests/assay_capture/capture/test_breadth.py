"""Breadth of capture: a function agrees with eager PyTorch in loss and gradients, or is refused with a remedy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, CaptureError, capture

from . import eager
from .breadth import CASES, REFUSED, Function

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
ORDER = np.arange(4).reshape(1, 4)
TOLERANCE = 2e-5
QUICK_OF = 3
"""One of so many functions is a quick test. The functions of one kind stand side by side, so each kind has some."""


class Tried(nn.Module):
    """A function behind a linear layer. Every element of its result has a weight of its own."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.function = nn.Linear(6, 6), function
        inside = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
        self.inside = nn.ModuleList(module for module in inside if isinstance(module, nn.Module))
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: Any = self.function(self.layer(x))
        if isinstance(y, tuple):
            y = sum(
                (t * t).sum() if t.is_floating_point() else t.float().sum() for t in y if torch.is_tensor(t)
            )
        y = y.float()
        return y * torch.sin(torch.arange(1.0, y.numel() + 1).reshape(y.shape)) * self.scale[0]


def loss(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return y.sum() + 0 * target.sum()


def captured(function: Function) -> tuple[nn.Module, Any]:
    module = Tried(function)
    data = {"x": X, "y": np.zeros(4, np.float32)}
    return module, capture(module, loss, SGD(0.1), data, ORDER, gradients=True)


def expect_the_same(function: Function) -> None:
    """Check that loss and gradients of a function's program are those of eager PyTorch."""
    module, built = captured(function)
    found = eager.first_metrics(built)
    value = module(torch.from_numpy(X)).sum()
    value.backward()
    want = {f"gradient.{n}": p.grad.numpy() for n, p in module.named_parameters() if p.grad is not None}
    want["loss"] = value.detach().numpy()
    assert set(found) == set(want)
    assert eager.relative_error(found, want) <= TOLERANCE


@pytest.mark.parametrize(
    "name",
    [
        name if place % QUICK_OF == 0 else pytest.param(name, marks=pytest.mark.slow)
        for place, name in enumerate(name for name in CASES if name not in REFUSED)
    ],
)
def test_a_function_is_that_of_pytorch(name: str) -> None:
    expect_the_same(CASES[name])


@pytest.mark.slow
def test_what_cannot_be_a_program_is_refused_by_module_operator_and_remedy() -> None:
    """At least 95 of 100 refusals name all three; the others name the module."""
    whole = []
    for name in sorted(REFUSED):
        with pytest.raises(CaptureError, match=r"^(module Tried|loss or gradient)[,:] ") as caught:
            captured(CASES[name])
        message = str(caught.value)
        operator = re.search(r"aten\.\w+|aten::\w+|the derivative for '\w+|a sort of rows", message)
        remedy = re.search(r"; \w.{9}|\(\w.{9,}\)$", message)
        if operator and remedy:
            whole.append(name)
        else:
            print(f"{name}: {message}")
    print(f"{len(whole)} of {len(REFUSED)} refusals name module, operator and remedy")
    assert len(whole) >= 0.95 * len(REFUSED)
