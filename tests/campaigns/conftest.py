"""The job of a campaign: as small as a job with refinements can be, because it is played hundreds of times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainer_node.local.bundle import Bundle


@pytest.fixture(scope="session")
def bundle() -> Bundle:
    """Digits, 64-4-10, 8 steps, two levels of strides."""
    from torch import nn

    from assay_capture.capture import Recipe, build, load_recipe

    recipe = load_recipe("digits-mlp", steps=8, batch_size=8)
    assert isinstance(recipe, Recipe)
    module = nn.Sequential(nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 10))
    return build(replace(recipe, module=module, strides=(4, 1)))
