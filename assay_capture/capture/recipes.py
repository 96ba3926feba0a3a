"""Recipes by name: `load_recipe`, and built-in ones. This file has those of scikit-learn's handwritten digits (1,797
images of 8 x 8)."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from referee_py.commit.tensor import Array
from trainer_node.suggest import did_you_mean

from . import recipes_models as models
from .errors import CaptureError
from .optimizers import SGD, Adam, Optimizer
from .recipe import Recipe, RecipeJob


def digits(image: bool) -> Mapping[str, Array]:
    """Return pixels in [0, 1], exact in f32 (they are sixteenths), and classes 0..9."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise CaptureError("the digits recipes need scikit-learn; install the extra [demo]") from error
    pixels, classes = load_digits(return_X_y=True)
    shape = (-1, 1, 8, 8) if image else (-1, 64)
    return {"x": (pixels / 16).astype(np.float32).reshape(shape), "y": classes.astype(np.int64)}


def _digits(
    name: str, module: nn.Module, optimizer: Optimizer, size: tuple[int, int, int], image: bool = False
) -> Recipe:
    """Return the recipe of a model that classifies the digits; `size` is (steps, batch size, seed)."""
    return Recipe(name, module, nn.functional.cross_entropy, optimizer, digits(image), *size)


def digits_mlp(steps: int = 200, batch_size: int = 64, seed: int = 0) -> Recipe:
    """Layers 64-128-10, SGD with momentum."""
    module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return _digits("digits-mlp", module, SGD(lr=0.1, momentum=0.9), (steps, batch_size, seed))


def digits_mlp_adam(steps: int = 200, batch_size: int = 64, seed: int = 0) -> Recipe:
    """Layers 64-128-10, AdamW with a linear warm-up and decay."""
    ramp = np.minimum(np.arange(1, steps + 1) / max(1, steps // 10), 1.0)
    fall = np.linspace(1.0, 0.1, steps)
    module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = Adam(lr=(3e-3 * ramp * fall).tolist(), weight_decay=1e-2, decoupled=True)
    return _digits("digits-mlp-adam", module, optimizer, (steps, batch_size, seed))


def digits_cnn(steps: int = 200, batch_size: int = 32, seed: int = 0) -> Recipe:
    """Two convolutions, max and average pooling; Adam."""
    module = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    return _digits("digits-cnn", module, Adam(lr=1e-2), (steps, batch_size, seed), image=True)


BUILTIN: dict[str, Callable[..., Recipe]] = {
    "digits-mlp": digits_mlp,
    "digits-mlp-adam": digits_mlp_adam,
    "digits-cnn": digits_cnn,
    "logistic": models.logistic,
    "vgg11": models.vgg11,
    "resnet-tiny": models.resnet_tiny,
    "resnet50": models.resnet50,
    "gpt2-tiny": models.gpt2_tiny,
    "gpt2-tiny-bf16": models.gpt2_tiny_bf16,
    "gpt2-small": models.gpt2_small,
    "llama-100m": models.llama_100m,
    "distilbert-tiny": models.distilbert_tiny,
    "distilbert": models.distilbert,
    "llama-tiny": models.llama_tiny,
    "llama-lora-tiny": models.llama_lora_tiny,
    "llama-lora-tiny-bf16": models.llama_lora_tiny_bf16,
}


def load_recipe(spec: str, **overrides: Any) -> Recipe | RecipeJob:
    """Return a recipe by built-in name (`digits-mlp`) or `path/to/file.py:function`. The file is run: trust it first.

    `overrides` are passed to the function, for example `steps=100`; those that are None are left out.
    """
    if spec in BUILTIN:
        function: Callable[..., Recipe] = BUILTIN[spec]
    elif ":" in spec:
        function = _from_file(*spec.rsplit(":", 1))
    else:
        raise CaptureError(
            f"no recipe {spec!r}{did_you_mean(spec, BUILTIN)}; give path/to/file.py:function or one of "
            f"{', '.join(sorted(BUILTIN))}"
        )
    try:
        recipe = function(**{name: value for name, value in overrides.items() if value is not None})
    except TypeError as error:
        raise CaptureError(f"recipe {spec}: {error}") from error
    if not isinstance(recipe, Recipe | RecipeJob):
        raise CaptureError(f"recipe {spec} gives {type(recipe).__name__}; it must give a Recipe")
    return recipe


def _from_file(file: str, name: str) -> Callable[..., Recipe]:
    path = Path(file)
    if not path.is_file():
        raise CaptureError(f"recipe file {file} does not exist")
    spec = importlib.util.spec_from_file_location(f"assay_recipe_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise CaptureError(f"recipe file {file} is not a Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # NOTE: dataclasses and pickling in the file look it up there
    spec.loader.exec_module(loaded)
    function = getattr(loaded, name, None)
    if not callable(function):
        raise CaptureError(f"recipe file {file} has no function {name}")
    return function  # type: ignore[no-any-return]
