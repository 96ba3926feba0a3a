"""Models of every family become programs unchanged: losses as in eager PyTorch, gradients as in FP64."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, Adam, Optimizer, capture
from assay_capture.capture.seeded import data_order

from . import eager
from .families import EXAMPLES, FAMILIES, Family, family

STEPS = 60

RATES = {  # of Adam and of SGD: each family learns with them without becoming chaotic
    "logistic regression": (3e-2, 0.3),
    "softmax regression": (3e-2, 0.3),
    "vgg11": (3e-4, 1e-2),
    "resnet": (1e-3, 1e-2),
    "gpt2": (1e-3, 0.1),
    "distilbert": (1e-3, 0.1),
    "llama": (1e-3, 0.1),
    "llama with lora": (3e-2, 10.0),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_of_the_first_step_are_those_of_fp64(name: str) -> None:
    member = family(name)
    order = data_order(1, EXAMPLES, 8, 1)
    built = capture(member.module, member.loss, SGD(0.1), member.data, order, gradients=True)
    eager.check_gradients(built, member.module, member.objective, member.data, order)


def check_losses(member: Family, optimizer: Optimizer, of: Callable[[Any], torch.optim.Optimizer]) -> None:
    """FP32 noise is the distance of eager FP32 from eager FP64 so far; ten times that is still noise."""
    order = data_order(2, EXAMPLES, 8, STEPS)
    built = capture(member.module, member.loss, optimizer, member.data, order)
    ours, _ = eager.run_program(built, STEPS)
    exact = copy.deepcopy(member.module).double()
    double = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in member.data.items()}
    in_f64, in_f32 = (
        np.array(eager.run_eager(m, member.objective, of(m), data, order))
        for m, data in ((exact, double), (member.module, member.data))
    )
    noise = np.maximum.accumulate(np.abs(in_f32 - in_f64)) + 1e-6 * in_f64
    error = np.abs(np.array(ours) - in_f64)
    assert (error <= 10 * noise).all(), f"{(error / noise).max():.1f} times the noise"
    assert noise.max() < 0.02 * in_f64.mean(), "a chaotic run shows nothing"
    assert np.mean(ours[-8:]) < 0.98 * np.mean(ours[:8]), "it learns"


def trained(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module.parameters() if p.requires_grad]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name.startswith(("resnet", "distil", "llama")) else [])
        for name in FAMILIES
    ],
)
def test_losses_are_those_of_eager_pytorch_for_sixty_steps_of_adam(name: str) -> None:
    rate = RATES[name][0]
    check_losses(family(name), Adam(rate), lambda m: torch.optim.Adam(trained(m), rate))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_losses_are_those_of_eager_pytorch_for_sixty_steps_of_sgd(name: str) -> None:
    rate = RATES[name][1]
    check_losses(
        family(name, seed=1),
        SGD(rate, momentum=0.5),
        lambda m: torch.optim.SGD(trained(m), rate, momentum=0.5),
    )


def test_frozen_weights_are_constants_and_tied_weights_one_slot() -> None:
    frozen, tied = family("llama with lora"), family("gpt2")
    order = data_order(1, EXAMPLES, 8, 1)
    labels = capture(frozen.module, None, Adam(), frozen.data, order).labels
    assert all("lora_" in name for name in labels.slots)
    assert sum(name.startswith("frozen.") for name in labels.constants) == 1 + 2 * 9 + 1 + 1
    labels = capture(tied.module, None, SGD(0.1), tied.data, order).labels
    assert not any("lm_head" in name for name in labels.slots)


def test_running_statistics_end_where_eager_pytorch_has_them() -> None:
    member = family("resnet")
    order = data_order(2, EXAMPLES, 8, 5)
    built = capture(member.module, None, SGD(0.01), member.data, order)
    _, slots = eager.run_program(built, 5)
    optimizer = torch.optim.SGD(member.module.parameters(), 0.01)
    eager.run_eager(member.module, member.objective, optimizer, member.data, order)
    for name, buffer in member.module.named_buffers():
        np.testing.assert_allclose(slots[f"buffer.{name}"], buffer.numpy(), rtol=1e-3, atol=1e-5)
