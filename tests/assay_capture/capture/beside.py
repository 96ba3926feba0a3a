"""A function in a module, and beside it what a guard may be talked out of an error by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

BESIDE = ("nothing", "NaN", "random numbers", "kinks")


class Beside(nn.Module):
    """A function behind a linear layer, and beside it what is hard to compare."""

    terms: torch.Tensor

    def __init__(self, function: Callable[..., Any], what: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.function, self.what = nn.Linear(6, 8), function, what
        self.v = nn.Parameter(torch.tensor([-1.0, 4.0]))
        self.square = nn.Parameter(torch.linspace(-1, 1, 64).reshape(8, 8).sin())
        self.norm, self.picture = nn.BatchNorm1d(8), nn.Conv2d(1, 2, 2, padding=1)
        self.words = nn.Embedding(5, 8)
        draw = np.random.default_rng(2)
        half = (draw.standard_normal((32, 32)) * 10.0 ** draw.integers(0, 6, (32, 32))).astype(np.float32)
        left = np.full((32, 1), 1e-3, np.float32) * draw.choice([-1, 1], (32, 1)).astype(np.float32)
        terms = draw.permuted(np.concatenate([half, -half, left], axis=1), axis=1)
        self.register_buffer("terms", torch.from_numpy(terms))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.layer(x)
        if self.what == "random numbers":
            h = h + 0.1 * torch.randn_like(h)
        if self.what == "kinks":
            h = h * (1 + 0.05 * torch.sign((x[:, :1, None] * self.terms).sum(2)).mean(1, keepdim=True))
        y = self.function(self, h)
        y = (y * torch.cos(torch.arange(float(y.numel())).reshape(y.shape))).sum() + 0.1 * self.v.sum()
        if (
            self.what == "NaN"
        ):  # the loss is finite, and one element of the gradient of v is NaN, in PyTorch too
            y = y + torch.where(self.v > 0, self.v.sqrt(), self.v).sum()
        return y
