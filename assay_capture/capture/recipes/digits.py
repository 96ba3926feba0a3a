"""Recipes of scikit-learn's handwritten digits: 1,797 images of 8 x 8."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn

from referee_py.commit.tensor import Array

from ..errors import CaptureError
from ..optimizers import SGD, Adam, Optimizer
from ..recipe import Recipe


def digits(image: bool) -> Mapping[str, Array]:
    """Return pixels in [0, 1], exact in f32 (they are sixteenths), and classes 0..9."""
    with gzip.open(_file(), "rt", encoding="ascii") as text:
        rows = np.loadtxt(text, delimiter=",")
    shape = (-1, 1, 8, 8) if image else (-1, 64)
    return {"x": (rows[:, :-1] / 16).astype(np.float32).reshape(shape), "y": rows[:, -1].astype(np.int64)}


def _file() -> Path:
    """Return scikit-learn's file of the digits, in which a row has the pixels and the class.

    NOTE: the package itself is not imported: with SciPy and pandas that takes seconds of processor, for one file.
    """
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise CaptureError("the digits recipes need scikit-learn; install the extra [demo]")
    return Path(package.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"


def _digits(
    name: str, module: nn.Module, optimizer: Optimizer, size: tuple[int, int, int], image: bool = False
) -> Recipe:
    """Return the recipe of a model that classifies the digits; `size` is (steps, batch size, seed)."""
    return Recipe(name, module, nn.functional.cross_entropy, optimizer, digits(image), *size)


def digits_mlp(steps: int = 200, batch_size: int = 64, seed: int = 0) -> Recipe:
    """Layers 64-128-10, SGD with momentum."""
    module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return _digits("digits-mlp", module, SGD(lr=0.1, momentum=0.9), (steps, batch_size, seed))


def digits_mlp_bf16(steps: int = 200, batch_size: int = 64, seed: int = 0) -> Recipe:
    """`digits_mlp` without biases, as inside torch.autocast(dtype=torch.bfloat16): weights are f32, products bf16."""
    module = nn.Sequential(nn.Linear(64, 128, bias=False), nn.ReLU(), nn.Linear(128, 10, bias=False))
    recipe = _digits("digits-mlp-bf16", module, SGD(lr=0.1, momentum=0.9), (steps, batch_size, seed))
    return replace(recipe, autocast=torch.bfloat16)


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
