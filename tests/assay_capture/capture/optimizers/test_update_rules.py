"""Rules that are functions of tensors, averages of weights, and clipping by value, beside eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, Averaged, UpdateRule, from_torch, like_parameter, lion

from .. import eager
from .test_optimizers import DATA, ORDER, STEPS, captured, check, cross_entropy, mlp, plain


def matrices() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(6, 16, bias=False), nn.Tanh(), nn.Linear(16, 4, bias=False))


@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
def test_muon(adjust: str) -> None:
    """NOTE: PyTorch iterates in bfloat16, so only the first losses are near."""
    module = matrices()
    optimizer = torch.optim.Muon(module.parameters(), 0.01, adjust_lr_fn=adjust)
    ours, _ = eager.run_program(captured(module, from_torch(optimizer)), STEPS)
    np.testing.assert_allclose(ours, plain(optimizer)(module), rtol=0.02)


def test_lion_and_a_rule_of_ones_own() -> None:
    def signum(
        p: torch.Tensor, g: torch.Tensor, state: dict[str, torch.Tensor], n: Any
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        momentum = 0.9 * state["momentum"] + 0.1 * g
        return p - n[0] * momentum.sign(), {"momentum": momentum}

    def train(own: bool) -> Callable[[nn.Module], list[float]]:
        def eager_steps(module: nn.Module) -> list[float]:
            kept = {name: torch.zeros_like(p) for name, p in module.named_parameters()}
            losses = []
            for batch in eager.batches(DATA, ORDER):
                module.zero_grad()
                value = eager.of(cross_entropy)(module, batch)
                value.backward()
                losses.append(value.item())
                with torch.no_grad():
                    for name, p in module.named_parameters():
                        assert p.grad is not None
                        m = kept[name]
                        direction = (0.9 * m + 0.1 * p.grad).sign()
                        kept[name] = 0.9 * m + 0.1 * p.grad if own else 0.99 * m + 0.01 * p.grad
                        p.sub_(0.001 * direction if own else 0.001 * direction + 0.001 * 0.1 * p)
            return losses

        return eager_steps

    rule = UpdateRule(signum, lr=0.001, states={"momentum": like_parameter})
    check(captured(mlp(), rule), mlp(), train(True))
    check(captured(mlp(), lion(0.001, weight_decay=0.1)), mlp(), train(False))


def test_an_average_of_the_weights_after_each_step() -> None:
    module = mlp()
    built = captured(module, Averaged(SGD(0.1), 0.9))
    averaged = torch.optim.swa_utils.AveragedModel(
        module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    averaged.update_parameters(module)  # PyTorch's first update copies
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for batch in eager.batches(DATA, ORDER):
        optimizer.zero_grad()
        eager.of(cross_entropy)(module, batch).backward()
        optimizer.step()
        averaged.update_parameters(module)
    _, slots = eager.run_program(built, STEPS)
    for name, p in averaged.module.named_parameters():
        np.testing.assert_allclose(slots[f"average.{name}"], p.detach(), rtol=1e-3, atol=1e-4)


def test_gradients_are_clipped_by_value() -> None:
    module = mlp()

    def train(module: nn.Module) -> list[float]:
        optimizer, losses = torch.optim.SGD(module.parameters(), 0.1), []
        for batch in eager.batches(DATA, ORDER):
            optimizer.zero_grad()
            value = eager.of(cross_entropy)(module, batch)
            value.backward()
            nn.utils.clip_grad_value_(module.parameters(), 0.01)
            optimizer.step()
            losses.append(value.item())
        return losses

    check(captured(module, SGD(0.1), clip_value=0.01), module, train)
