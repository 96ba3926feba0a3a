"""Recipes by name: `load_recipe`, and the table of built-in ones."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer_node.suggest import did_you_mean

from ..errors import CaptureError
from ..recipe import Recipe, RecipeJob
from . import digits, models

BUILTIN: dict[str, Callable[..., Recipe]] = {
    "digits-mlp": digits.digits_mlp,
    "digits-mlp-adam": digits.digits_mlp_adam,
    "digits-mlp-bf16": digits.digits_mlp_bf16,
    "digits-cnn": digits.digits_cnn,
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
