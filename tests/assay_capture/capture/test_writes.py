"""Writes into tensors and into views of them: the program does what eager PyTorch does, refusals included.

In a program nothing is overwritten: whoever has the tensor, or another view of it, must see the write all the same.
"""

from __future__ import annotations

import pytest
import torch

from assay_capture.capture import CaptureError

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
