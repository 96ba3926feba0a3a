"""A small job: real data, a real network, forty steps."""

from __future__ import annotations

import pytest

from trainer_node.local.bundle import Bundle
from trainer_node.roles.sampling.budget import Means
from trainer_node.roles.sampling.sampler import Sampler


@pytest.fixture(scope="session")
def bundle() -> Bundle:
    """Digits, 64-16-10, 40 steps, three levels of strides."""
    from dataclasses import replace

    from torch import nn

    from assay_capture.capture import Recipe, build, load_recipe

    recipe = load_recipe("digits-mlp", steps=40, batch_size=16)
    assert isinstance(recipe, Recipe)
    module = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))
    return build(replace(recipe, module=module, strides=(20, 5, 1)))


@pytest.fixture
def parts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a whole run be too much for every sampler, so that it has its refutations alone."""
    monkeypatch.setattr(Means, "takes_whole", lambda *_: False)
    monkeypatch.setattr(Sampler, "_takes_whole", lambda *_: False)
