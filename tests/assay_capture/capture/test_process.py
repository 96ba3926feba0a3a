"""A capture leaves the process as it was: also one that is refused, and whatever the module does in it."""

from __future__ import annotations

import functools
import platform
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, CaptureError, Recipe, build
from assay_capture.capture.process import give_memory_back

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)


@functools.lru_cache
def places(n: int) -> torch.Tensor:
    return torch.arange(float(n))


@functools.cache
def pairs(n: int) -> dict[str, Any]:
    return {"first": (torch.arange(n), n)}


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * places(6) + pairs(6)["first"][0]


class Toggling(Cached):
    """Changes its own state, default dtype and hooks while it runs, as some libraries do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.layer.eval()
        self.seen = x
        torch.set_default_dtype(torch.float32)
        return self.layer(x) + 0 * torch.rand(6)


class Refused(Cached):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.layer.eval()
        if (self.layer(x) * places(6)).sum() > 0:
            return x
        return self.layer(x)


def recipe(module: nn.Module) -> Recipe:
    return Recipe(
        "kept",
        module,
        lambda y, *_: y.square().sum(),
        SGD(0.1),
        {"x": X},
        2,
        2,
        initial="module",
        strides=(1,),
    )


def state_of(module: nn.Module) -> Any:
    return (
        {name: value.clone() for name, value in module.state_dict().items()},
        [
            (child.training, sorted(vars(child)), len(child._forward_hooks), len(child._forward_pre_hooks))
            for child in module.modules()
        ],
        [parameter.grad for parameter in module.parameters()],
        [parameter.requires_grad for parameter in module.parameters()],
    )


@pytest.mark.parametrize("kind", [Cached, Toggling, Refused])
def test_a_module_and_the_generators_are_as_they_were(kind: Callable[[], nn.Module]) -> None:
    torch.manual_seed(3)
    module = kind()
    before, draws = state_of(module), (torch.get_rng_state(), random.getstate(), str(np.random.get_state()))
    try:
        build(recipe(module))
    except CaptureError:
        assert kind is Refused
    after = state_of(module)
    assert all(torch.equal(before[0][name], after[0][name]) for name in before[0])
    assert before[1:] == after[1:]
    assert torch.equal(draws[0], torch.get_rng_state())
    assert draws[1:] == (random.getstate(), str(np.random.get_state()))


def test_caches_of_functions_hold_no_tensor_of_a_trace_and_change_no_program() -> None:
    module = Cached()
    first = build(recipe(module)).terms.hash()
    assert (
        module(torch.from_numpy(X)).isfinite().all()
    )  # eager PyTorch, which fills the caches with tensors of its own
    assert build(recipe(module)).terms.hash() == first
    assert torch.equal(places(6), torch.arange(6.0))
    with pytest.raises(CaptureError):
        build(recipe(Refused()))
    assert torch.equal(places(6), torch.arange(6.0))


@pytest.mark.parametrize(
    "around", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)]
)
def test_a_program_does_not_depend_on_the_callers_modes(around: Callable[[], Any]) -> None:
    module = Cached()
    first = build(recipe(module)).terms.hash()
    with around():
        assert build(recipe(module)).terms.hash() == first


def test_a_tensor_that_a_trace_left_in_a_global_is_refused_by_name() -> None:
    kept: dict[int, torch.Tensor] = {}

    class Global(Cached):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if 6 not in kept:
                kept[6] = torch.arange(6.0) + x.sum().detach() * 0
            return self.layer(x) * kept[6]

    with pytest.raises(CaptureError, match=r"an earlier trace|module"):
        build(recipe(Global()))


def resident() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="another C library gives memory back by rules of its own"
)
def test_freed_tensors_give_their_memory_back() -> None:
    """glibc's heap grows by blocks as large as one that was freed, and shrinks from its end only, where one is kept."""
    large = [np.ones(1 << 21)]
    large.clear()
    tensors = [np.ones(1 << 17) for _ in range(256)]
    del tensors[:-1]
    before = resident()
    give_memory_back()
    assert resident() < before - (128 << 20)
    assert tensors[0].all()
