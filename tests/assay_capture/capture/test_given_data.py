"""Types and parts in which data is given: the guard refuses a module that computes something else with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, CaptureError, Recipe, build

from .eager import Apply

RNG = np.random.default_rng(0)
LABELS = np.arange(32) % 3
NUMBERS = RNG.standard_normal((32, 8)).astype(np.float32)


def built(data: dict[str, Any], module: nn.Module, **options: Any) -> None:
    build(
        Recipe(
            *("given", module, nn.functional.cross_entropy, SGD(0.1), data),
            steps=4,
            batch_size=8,
            initial="module",
            **options,
        )
    )


def after(function: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Apply(function), nn.Linear(8, 3))


@pytest.mark.parametrize(
    ("dtype", "function"),
    [
        (np.uint8, lambda x: (x + 100).float() / 255),
        (np.uint8, lambda x: (-x).float() / 255),
        (np.int8, lambda x: (x * x).float() / 255),
        (np.int16, lambda x: (x * x).float() / 255),
        (np.uint8, lambda x: x.float() / 255 if x.dtype == torch.uint8 else x.float()),
        (np.float16, lambda x: (x * x).float()),
        (np.float16, lambda x: (x + 2048).float() - 2048),
    ],
)
def test_a_module_that_computes_in_the_given_type_is_refused(dtype: Any, function: Any) -> None:
    data = {"x": RNG.integers(0, 100, (32, 8)).astype(dtype), "y": LABELS}
    with pytest.raises(
        CaptureError,
        match=rf"data x is {np.dtype(dtype)}, which a program takes as (int64|float32): .*convert x",
    ):
        built(data, after(function))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32, np.float16])
def test_a_module_that_converts_first_is_taken(dtype: Any) -> None:
    data = {"x": RNG.integers(0, 100, (32, 8)).astype(dtype), "y": LABELS.astype(np.int32)}
    built(data, after(lambda x: x.float() / 255))


@pytest.mark.parametrize("parts", [{"micro_batches": 4}, {"accumulate": 2}])
@pytest.mark.parametrize(
    "hook",
    [
        lambda g: g.clamp(-1, 1),
        lambda g: g / g.norm(),
        torch.sign,
        lambda g: torch.where(g.abs() < 1e-6, 0, g),
    ],
)
def test_gradients_that_do_not_grow_with_the_loss_need_a_batch_in_one_part(
    parts: dict[str, int], hook: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    module = nn.Linear(8, 3)
    module.weight.register_hook(hook)
    data = {"x": NUMBERS, "y": LABELS}
    with pytest.raises(
        CaptureError, match=r"gradient of weight does not grow with the loss .* parts of a batch"
    ):
        built(data, module, **parts)
    built(data, module)


def test_a_hook_of_an_activation_that_clips_is_found_too() -> None:
    def clipped(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        y.register_hook(lambda gradient: gradient.clamp(-1, 1))
        return y

    module = nn.Sequential(nn.Linear(8, 3), Apply(clipped))
    with pytest.raises(CaptureError, match="does not grow with the loss"):
        built({"x": NUMBERS, "y": LABELS}, module, micro_batches=4)


def test_a_hook_that_is_a_factor_is_taken_in_parts() -> None:
    module = nn.Linear(8, 3)
    module.weight.register_hook(lambda gradient: gradient * 0.5)
    built({"x": NUMBERS, "y": LABELS}, module, micro_batches=4)
