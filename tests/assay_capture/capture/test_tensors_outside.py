"""Tensors that a step takes from outside its arguments: those that change are refused, and none is changed by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, CaptureError, Unsupported, capture
from assay_capture.capture.seeded import data_order

from . import eager

X = np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)
DATA: eager.Data = {"x": X, "y": np.arange(16) % 3}
ORDER = data_order(0, 16, 4, 4)
cross_entropy = nn.functional.cross_entropy
outside = torch.zeros(3)


class Counting(nn.Module):
    n: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.register_buffer("n", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n.add_(1)
        y: torch.Tensor = self.layer(x)
        return y


def captured(module: nn.Module, loss: Callable[..., torch.Tensor] = cross_entropy) -> None:
    capture(module, loss, SGD(0.1), DATA, ORDER)


@pytest.mark.parametrize("part", [lambda n: n, lambda n: n[:1], lambda n: n.detach().view(2, 2)[0]])
def test_a_buffer_that_is_written_to_is_not_read_past_the_call(part: Callable[[Any], Any]) -> None:
    module = Counting()
    seen = part(module.n)
    with pytest.raises(Unsupported, match=r"reads n of the module from outside forward\(\)"):
        captured(module, lambda y, target: cross_entropy(y, target) * (1 + 1e-6 * seen.sum()))


def test_a_hook_of_a_parameter_does_not_read_a_buffer_that_is_written_to() -> None:
    module = Counting()
    module.layer.weight.register_hook(lambda gradient: gradient * (1 - 1e-5 * module.n[0]))
    with pytest.raises(Unsupported, match=r"reads n of the module from outside forward\(\)"):
        captured(module)


def test_a_buffer_that_nothing_writes_to_may_be_read() -> None:
    module = nn.Linear(6, 3)
    weights = torch.tensor([1.0, 2.0, 3.0])
    module.register_buffer("weights", weights)
    captured(module, lambda y, target: cross_entropy(y, target, weights))


def _write_global(y: torch.Tensor) -> torch.Tensor:
    outside.add_(1)
    return y


def _write_by_out(y: torch.Tensor) -> torch.Tensor:
    torch.add(outside, 1, out=outside)
    return y


def _write_a_view(y: torch.Tensor) -> torch.Tensor:
    outside[:2] += 1
    return y


def _write_from_the_step(y: torch.Tensor) -> torch.Tensor:
    outside.add_(y.detach().mean(0))
    return y


def _write_many(y: torch.Tensor) -> torch.Tensor:
    torch._foreach_add_([outside], 1)
    return y


@pytest.mark.parametrize(
    "write", [_write_global, _write_by_out, _write_a_view, _write_from_the_step, _write_many]
)
def test_a_refused_step_has_changed_no_tensor(write: Callable[[torch.Tensor], torch.Tensor]) -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return write(self.layer(x))

    with pytest.raises(Unsupported, match="writes to a tensor that is not a parameter or buffer"):
        captured(nn.Sequential(Writes()))
    assert not outside.any()


def test_an_array_of_a_tensor_without_data_is_an_error_with_its_place() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.seen = nn.Linear(6, 3), torch.zeros(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.numpy()
            y: torch.Tensor = self.layer(x) + self.seen
            return y

    with pytest.raises(CaptureError, match="module"):
        captured(nn.Sequential(Shared()))
