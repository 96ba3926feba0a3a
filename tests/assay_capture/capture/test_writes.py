"""Writes into tensors and into views of them: the program does what eager PyTorch does, refusals included.

In a program nothing is overwritten: whoever has the tensor, or another view of it, must see the write all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, CaptureError, capture
from assay_capture.capture.seeded import data_order

from . import eager
from .refused import Function
from .test_breadth import captured, expect_the_same


def written(write: Function) -> Function:
    """Return the function that copies its input, writes into the copy, and reads all of it."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = 1.5 * x
        write(y)
        return y

    return function


def base_then_view(x: torch.Tensor) -> torch.Tensor:
    y = 1.5 * x
    part = y[1]
    y.mul_(2.0)
    return y + part


def view_then_other_view(x: torch.Tensor) -> torch.Tensor:
    y = 1.5 * x
    rows, columns = y.view(24), y.t()
    rows[3:7] = 0.25
    return columns * columns


def chained(x: torch.Tensor) -> torch.Tensor:
    y = 1.5 * x
    y.view(2, 12)[1].view(2, 6)[0].add_(x[0])
    return y


def through_expand(x: torch.Tensor) -> torch.Tensor:
    y = 1.5 * x
    y.copy_(x[0].expand(4, 6))
    return y


WRITES: dict[str, Function] = {
    "a row": written(lambda y: y[1].zero_()),
    "a column": written(lambda y: y[:, 2].fill_(0.5)),
    "an element": written(lambda y: y[1, 2].mul_(3.0)),
    "steps": written(lambda y: y[::2, 1::3].add_(1.0)),
    "a mask": written(lambda y: y.masked_fill_(y > 0, 0.5)),
    "places": written(lambda y: y.__setitem__((torch.tensor([0, 2]), torch.tensor([1, 1])), 0.5)),
    "the transposed": written(lambda y: y.t()[0].mul_(2.0)),
    "the flattened": written(lambda y: y.view(-1)[5:9].copy_(y.view(-1)[:4].clone())),
    "narrowed": written(lambda y: y.narrow(1, 1, 3).clamp_(-0.1, 0.1)),
    "the diagonal": written(lambda y: y.diagonal().fill_(1.0)),
    "unfolded": written(lambda y: y.unfold(1, 2, 2)[0].mul_(2.0)),
    "as strided": written(lambda y: y.as_strided((3,), (7,)).zero_()),
    "all of it, twice": written(lambda y: y.mul_(2.0).add_(y)),
    "an overlapping copy": written(lambda y: y[:, 1:].copy_(y[:, :-1].clone())),
    "base, then view": base_then_view,
    "view, then other view": view_then_other_view,
    "a chain of views": chained,
    "an expanded source": through_expand,
    "scattered": written(lambda y: y.scatter_(1, torch.tensor([[0], [1], [2], [3]]), 0.5)),
    "index_copy": written(lambda y: y.index_copy_(0, torch.tensor([2, 0]), y[:2].clone())),
    "index_fill": written(lambda y: y.index_fill_(1, torch.tensor([0, 5]), 0.5)),
}


MANY: dict[str, Function] = {
    "one of chunks": written(lambda y: y.chunk(2, 1)[1].mul_(0.5)),
    "one of splits": written(lambda y: y.split([1, 3])[1].add_(2.0)),
    "unbound": written(lambda y: y.unbind(0)[2].neg_()),
}
"""What PyTorch itself refuses."""


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_seen_as_in_pytorch(name: str) -> None:
    expect_the_same(WRITES[name])


@pytest.mark.parametrize("name", MANY)
def test_a_write_that_pytorch_refuses_is_refused_in_its_words(name: str) -> None:
    with pytest.raises(CaptureError, match=r"module Tried.*multiple views"):
        captured(MANY[name])


class Kept(nn.Module):
    """A layer whose tensors a function writes to, in amounts that one step does not show."""

    scale: torch.Tensor

    def __init__(self, write: Callable[[Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.write = nn.Linear(6, 3), write
        self.frozen = nn.Parameter(torch.ones(6), requires_grad=False)
        self.register_buffer("scale", torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x * self.scale * self.frozen)
        with torch.no_grad():
            self.write(self)
        return y


def _rebind(module: Any) -> None:
    module.scale = module.scale * (1 + 1e-3)


def _rebind_past_the_module(module: Any) -> None:
    module._buffers["scale"] = module.scale * (1 + 1e-3)


@pytest.mark.parametrize(
    "write",
    [
        lambda m: torch.mul(m.scale, 1 + 1e-3, out=m.scale),
        lambda m: m.scale.view(2, 3)[0].mul_(1 + 1e-3),
        lambda m: m.scale.data.mul_(1 + 1e-3),
        _rebind,
        _rebind_past_the_module,
        lambda m: torch.add(m.frozen, 1e-3, out=m.frozen),
        lambda m: torch.mul(m.layer.weight, 1 - 1e-3, out=m.layer.weight),
        lambda m: m.layer.weight[1].mul_(1 - 1e-3),
    ],
)
def test_what_a_step_writes_slowly_is_there_after_many(write: Callable[[Any], Any]) -> None:
    rng, steps = np.random.default_rng(1), 40
    data: eager.Data = {"x": rng.standard_normal((16, 6)).astype(np.float32), "y": np.arange(16) % 3}
    order, module = data_order(0, 16, 4, steps), Kept(write)
    loss = nn.functional.cross_entropy
    ours, slots = eager.run_program(capture(module, loss, SGD(0.1), data, order), steps)
    theirs = eager.run_eager(module, eager.of(loss), torch.optim.SGD(module.parameters(), 0.1), data, order)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    kept = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    for label, slot in slots.items():
        np.testing.assert_allclose(slot, kept[label.partition(".")[2]].detach().numpy(), rtol=1e-4, atol=1e-5)
