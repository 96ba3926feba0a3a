"""Small training jobs of four or eight micro-batches: a perceptron, a language model with dropout, a network with batch
norm, adapters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from assay_capture.capture import Recipe, build, load_recipe
from referee_py.program.modes import mode_named
from trainer_node.local.bundle import Bundle

STEPS = 4
BATCH = 16
MICRO_BATCHES = 4


def _recipe(name: str, **fields: Any) -> Recipe:
    recipe = load_recipe(name, steps=STEPS, batch_size=BATCH)
    assert isinstance(recipe, Recipe)
    return replace(recipe, strides=(2, 1), **fields)


JOBS: dict[str, Callable[[], Recipe]] = {
    "mlp": lambda: _recipe("digits-mlp-adam", clip_norm=1.0),
    "gpt": lambda: _recipe("gpt2-tiny", clip_norm=1.0),
    "resnet": lambda: _recipe("resnet-tiny"),
    "lora": lambda: _recipe("llama-lora-tiny"),
    "bf16": lambda: _recipe("digits-mlp-bf16"),
}


@cache
def _built(name: str, parts: int) -> Bundle:
    return build(replace(JOBS[name](), micro_batches=parts), check=False)


def job(name: str, mode: str = "repops-f32", parts: int = MICRO_BATCHES) -> Bundle:
    """Return a job's bundle in a mode, with so many micro-batches."""
    bundle = _built(name, parts)
    return bundle.with_mode(mode_named(mode).byte)
