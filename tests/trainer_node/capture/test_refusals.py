"""What cannot become a program is refused with module path, ATen operator and remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from trainer_node.capture import SGD, Adam, CaptureError, Optimizer, Unsupported, capture
from trainer_node.capture.sampling import data_order

X = np.zeros((20, 6), np.float32)
CLASSES = np.zeros(20, np.int64)
ORDER = data_order(0, 20, 4, 3)
cross_entropy = nn.functional.cross_entropy


def captured(
    module: nn.Module,
    loss: Callable[..., Any] = cross_entropy,
    x: np.ndarray[Any, Any] = X,
    y: np.ndarray[Any, Any] = CLASSES,
    order: np.ndarray[Any, Any] = ORDER,
    optimizer: Optimizer | None = None,
) -> None:
    capture(module, loss, optimizer or SGD(0.1), {"x": x, "y": y}, order)


class Block(nn.Module):
    """A module in a module, so that the path has more than one part."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 6), layer)
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(x))


class Lambda(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


OPERATORS: dict[str, tuple[nn.Module, str, str]] = {
    "noise": (Lambda(lambda x: x + torch.randn_like(x)), "aten.randn_like", "dropout is the only random"),
    "random numbers": (Lambda(lambda x: x + torch.rand(6)), "aten.rand", "dropout is the only random"),
    "bernoulli": (Lambda(lambda x: x + torch.bernoulli(x)), "aten.bernoulli", "dropout is the only random"),
    "permutation": (Lambda(lambda x: x[:, torch.randperm(6)]), "aten.randperm", "dropout is the only random"),
    "float64": (Lambda(lambda x: x.double().float()), "aten._to_copy", "use one of torch.float32"),
    "half": (Lambda(lambda x: x.half().float()), "aten._to_copy", "use one of torch.float32"),
    "bfloat16": (Lambda(lambda x: x.bfloat16().float()), "aten._to_copy", "use one of torch.float32"),
    "complex": (Lambda(lambda x: torch.fft.fft(x).real), "aten._fft_r2c", "use one of torch.float32"),
    "floor": (Lambda(torch.floor), "aten.floor.default", "add a rule"),
    "median": (Lambda(lambda x: x.median(1, keepdim=True)[0] + x), "aten.median", "add a rule"),
    "mask": (Lambda(lambda x: x.masked_scatter(x > 0, x)), "aten.masked_scatter", "add a rule"),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_unsupported_operator_is_named_with_its_module_and_a_remedy(name: str) -> None:
    layer, operator, remedy = OPERATORS[name]
    with pytest.raises(Unsupported) as caught:
        captured(Block(layer))
    message = str(caught.value)
    assert message.startswith("module inner.1, ATen operator ")
    assert operator in message
    assert remedy in message


def test_the_loss_has_no_module_path() -> None:
    with pytest.raises(Unsupported, match=r"loss or gradient, ATen operator aten\.floor"):
        captured(nn.Linear(6, 3), lambda out, y: cross_entropy(torch.floor(out), y))


BAD_INPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "float64 data": ({"x": X.astype(np.float64)}, "torch.float64 is not in the operator set"),
    "a target that is no class": ({"y": CLASSES + 3}, "targets from 3 to 3 for 3 scores"),
    "a negative target": ({"y": CLASSES - 7}, "targets from -7"),
    "lengths that differ": ({"y": CLASSES[:-1]}, "as many examples each"),
    "data that is not finite": ({"x": X + np.float32(np.nan)}, "data x holds values that are not finite"),
    "an order beyond the data": ({"order": ORDER + 20}, "the data has 20"),
    "an order of floats": ({"order": ORDER.astype(np.float32)}, "order must be i64"),
    "a short learning-rate table": ({"optimizer": SGD([0.1, 0.1])}, "for 3 steps; give one number for each"),
    "nesterov without momentum": ({"optimizer": SGD(0.1, nesterov=True)}, "needs a momentum"),
    "a loss for each example": (
        {"loss": lambda o, y: cross_entropy(o, y, reduction="none")},
        "must be a scalar",
    ),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_input_is_refused(name: str) -> None:
    options, message = BAD_INPUTS[name]
    with pytest.raises(CaptureError, match=message):
        captured(nn.Linear(6, 3), **options)


def test_parameters_must_be_float32() -> None:
    with pytest.raises(CaptureError, match=r"weight: dtype torch\.float64"):
        captured(nn.Linear(6, 3).double(), lambda out, y: cross_entropy(out.float(), y))


def test_there_must_be_something_to_train() -> None:
    with pytest.raises(CaptureError, match="nothing to train"):
        captured(nn.Linear(6, 3).requires_grad_(False))


def test_a_parameter_outside_the_module_is_not_baked_in() -> None:
    outside = nn.Linear(3, 3)
    with pytest.raises(Unsupported, match="register it in the module"):
        captured(nn.Linear(6, 3), lambda out, y: cross_entropy(outside(out), y), optimizer=Adam())
