"""Ordinary code that a build once refused or misread: weights that forward writes, autocast inside, wrappers, marks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, Adam, CaptureError, Recipe, build

X = np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)
DATA: dict[str, Any] = {"x": X, "y": np.arange(16) % 3}


def _clamped(layer: torch.Tensor) -> None:
    layer.clamp_(-0.2, 0.2)


def _normalised(layer: torch.Tensor) -> None:
    layer.div_(layer.norm(dim=1, keepdim=True) + 1e-3)


@pytest.mark.parametrize("write", [_clamped, _normalised, lambda layer: layer.mul_(0.99)])
@pytest.mark.parametrize("rule", [SGD(0.1), Adam(0.01)])
def test_an_update_begins_with_what_forward_leaves_of_a_weight(write: Any, rule: Any) -> None:
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                write(self.layer.weight)
            y: torch.Tensor = self.layer(x)
            return y

    said = build(
        Recipe("written", Written(), nn.functional.cross_entropy, rule, DATA, steps=4, batch_size=8)
    ).labels["checked"]
    assert "weights and states after two updates by given gradients are torch.optim" in said
    assert "but for" not in said


def test_autocast_inside_of_forward_is_compared_as_bf16() -> None:
    class Narrow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                y = torch.relu(self.first(x))
            found: torch.Tensor = self.last(y.float())
            return found

    recipe = Recipe("narrow", Narrow(), nn.functional.cross_entropy, SGD(0.1), DATA, steps=4, batch_size=8)
    bundle = build(recipe)
    assert "those of PyTorch; so are those with weights moved by a tenth" in bundle.labels["checked"]


def test_marks_of_the_profiler_are_left_out() -> None:
    class Marked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.profiler.record_function("layer"):
                y: torch.Tensor = self.layer(x)
            return y

    build(Recipe("marked", Marked(), nn.functional.cross_entropy, SGD(0.1), DATA, steps=4, batch_size=8))


def test_a_wrapper_that_does_more_than_to_call_is_refused_or_run() -> None:
    def doubled(_module: Any, _given: Any, y: torch.Tensor) -> torch.Tensor:
        return 2 * y

    def recipe(module: nn.Module) -> Recipe:
        return Recipe("wrapped", module, nn.functional.cross_entropy, SGD(0.1), DATA, steps=4, batch_size=8)

    hooked = nn.DataParallel(nn.Linear(6, 3))
    build(recipe(hooked))
    hooked.register_forward_hook(doubled)
    with pytest.raises(CaptureError, match="the DataParallel around the module has hooks"):
        build(recipe(hooked))

    class Doubling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self._orig_mod = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * self._orig_mod(x)

    module = Doubling()
    loss = build(replace(recipe(module), initial="module")).labels["losses"]["at the first step"]
    inside = build(replace(recipe(module._orig_mod), initial="module")).labels["losses"]["at the first step"]
    assert loss[0] != inside[0]


def test_modes_of_the_process_are_put_back() -> None:
    class Setting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.use_deterministic_algorithms(True, warn_only=True)
            torch.set_float32_matmul_precision("high")
            y: torch.Tensor = self.layer(x)
            return y

    build(Recipe("setting", Setting(), nn.functional.cross_entropy, SGD(0.1), DATA, steps=4, batch_size=8))
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_float32_matmul_precision() == "highest"
