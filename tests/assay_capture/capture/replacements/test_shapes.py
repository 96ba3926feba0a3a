"""Samples of images by a grid of places, and what is trained of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import grid_sample

from assay_capture.capture import SGD, capture
from tests.assay_capture.capture.eager import of, run_eager, run_program


class Sampling(nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.mode, self.weight = mode, nn.Parameter(torch.randn(1, 1, 4, 4))
        self.grid = nn.Parameter(torch.rand(1, 3, 3, 2) - 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = x[:, 0].sum() * self.weight
        return grid_sample(image, self.grid, mode=self.mode, align_corners=False).square().mean()


def itself(loss: torch.Tensor) -> torch.Tensor:
    return loss


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_a_trained_grid_decays_as_in_pytorch(mode: str) -> None:
    """The nearest pixel does not move with its place: PyTorch gives the grid zeros, and it decays."""
    data, order = {"x": np.ones((2, 1), np.float32)}, np.zeros((3, 1), np.int64)
    built = capture(Sampling(mode), itself, SGD(0.1, weight_decay=0.5), data, order)
    _, slots = run_program(built, 3)
    found = {name.removeprefix("param."): array for name, array in slots.items()}
    eager = Sampling(mode)
    run_eager(eager, of(itself), torch.optim.SGD(eager.parameters(), 0.1, weight_decay=0.5), data, order)
    for name, weight in eager.named_parameters():
        assert np.allclose(found[name], weight.detach().numpy(), rtol=1e-5, atol=1e-6), name
    assert not np.allclose(found["grid"], Sampling(mode).grid.detach().numpy())
