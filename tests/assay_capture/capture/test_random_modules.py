"""Random modules made of supported layers can be captured, with the loss and gradients of eager PyTorch.

`make test` runs 50 of them, `make test-all` 600.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from assay_capture.capture import SGD, capture
from assay_capture.capture.seeded import data_order

from . import eager
from .random_modules import EXAMPLES, random_family

ORDER = data_order(0, EXAMPLES, EXAMPLES, 1)
CHUNK = 25


def check(seed: int) -> None:
    """Check that it is as near to FP64 as eager FP32, up to a factor, or within 1e-5 of the largest gradient."""
    member = random_family(seed)
    exact, expected = eager.gradients_f64(member.module, member.objective, member.data, ORDER)
    if not np.isfinite(exact):
        pytest.fail(f"seed {seed}: the module overflows by itself")
    single = copy.deepcopy(member.module)
    value = member.objective(single, next(eager.batches(member.data, ORDER)))
    value.backward()
    theirs = {name: p.grad.numpy() for name, p in single.named_parameters() if p.grad is not None}
    built = capture(member.module, member.loss, SGD(0.1), member.data, ORDER, gradients=True)
    ours = eager.first_metrics(built)
    where = f"seed {seed}: {member.module}"
    near = abs(value.item() - exact)
    assert abs(ours["loss"] - exact) <= 10 * near + 1e-5 * max(abs(exact), 1), where
    largest = max((np.abs(g).max() for g in expected.values() if g.size), default=0.0)
    for name, gradient in expected.items():
        error = np.abs(ours[f"gradient.{name}"] - gradient).max()
        noise = np.abs(theirs[name] - gradient).max()
        assert error <= 10 * noise + 1e-5 * largest, f"{name}, {where}"


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 20))]
)
def test_a_random_module(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(20, 600, CHUNK))
def test_many_random_modules(chunk: int) -> None:
    for seed in range(chunk, chunk + CHUNK):
        check(seed)


def test_they_reach_most_of_the_rules() -> None:
    """A generator that always draws the same few layers would show little."""
    kinds = {
        type(layer).__name__ + (f" {layer.name}" if hasattr(layer, "name") else "")
        for seed in range(600)
        for layer in random_family(seed).module.modules()
    }
    assert len(kinds) >= 60


def test_a_seed_makes_the_same_module_again() -> None:
    one, two = random_family(7), random_family(7)
    assert str(one.module) == str(two.module)
    assert all(
        torch.equal(a, b) for a, b in zip(one.module.parameters(), two.module.parameters(), strict=True)
    )
