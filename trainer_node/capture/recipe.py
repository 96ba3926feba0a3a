"""A recipe: everything that defines a training job, before it is captured.

    def my_training(steps: int = 500) -> Recipe: ...      # in path/to/file.py

`load_recipe("path/to/file.py:my_training", steps=100)` calls it; `build` makes the program.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from referee_py.commit.tensor import Array
from referee_py.program import Terms, suggest_strides

from ..bundle import Bundle
from .draft import Built
from .errors import CaptureError
from .optimizers import Optimizer
from .sampling import data_order, uniform
from .step import capture
from .trace import Loss


@dataclass(frozen=True)
class Recipe:
    """`initial` is "seeded" (own draws, the same everywhere) or "module" (as it is); the seed is also dropout's.

    `loss`, `data`, `inputs`, `accumulate` and `clip_norm` are as `capture` takes them.
    """

    name: str
    module: torch.nn.Module
    loss: Loss | None
    optimizer: Optimizer
    data: Mapping[str, Array]
    steps: int
    batch_size: int
    seed: int = 0
    initial: str = "seeded"
    strides: tuple[int, ...] | None = None
    inputs: tuple[str, ...] | None = None
    accumulate: int = 1
    clip_norm: float | None = None


@runtime_checkable
class RecipeJob(Protocol):
    """What a recipe may give instead: anything that builds a bundle by itself (trainer_node.inference)."""

    def build(self) -> Bundle: ...


def build(recipe: Recipe | RecipeJob) -> Bundle:
    """Capture the recipe's training step. Raises CaptureError."""
    if not isinstance(recipe, Recipe):
        return recipe.build()
    if recipe.steps < 1 or recipe.batch_size < 1 or not 0 <= recipe.seed < 1 << 64:
        raise CaptureError(
            f"{recipe.steps} steps, batch size {recipe.batch_size}, seed {recipe.seed}: "
            "steps and batch size must be at least 1, a seed must fit 64 bits"
        )
    if recipe.initial not in ("seeded", "module"):
        raise CaptureError(f'initial is {recipe.initial!r}; it must be "seeded" or "module"')
    sizes = [len(array) for array in recipe.data.values() if array.ndim]
    if not sizes or not sizes[0]:
        raise CaptureError("the data set is empty")
    built = capture(
        recipe.module,
        recipe.loss,
        recipe.optimizer,
        recipe.data,
        data_order(recipe.seed, sizes[0], recipe.batch_size, recipe.steps),
        seeded_parameters(recipe.module, recipe.seed) if recipe.initial == "seeded" else None,
        inputs=recipe.inputs,
        seed=recipe.seed,
        accumulate=recipe.accumulate,
        clip_norm=recipe.clip_norm,
    )
    return bundle_of(recipe.name, built, recipe.steps, recipe.strides)


def bundle_of(name: str, built: Built, steps: int, strides: tuple[int, ...] | None) -> Bundle:
    """The bundle of a run of so many steps. Strides are suggested if not given."""
    return Bundle(
        name,
        built.program,
        Terms.of(built.program, steps, strides or suggest_strides(steps)),
        tuple(built.constants),
        tuple(built.initial),
        {
            "nodes": built.labels.nodes,
            "slots": built.labels.slots,
            "constants": built.labels.constants,
            "metrics": {name: [m.node, m.output] for name, m in built.labels.metrics.items()},
        },
    )


def seeded_parameters(module: torch.nn.Module, seed: int) -> dict[str, Callable[[], Array]]:
    """Initial values that do not depend on torch's generator, each made when it is read.

    Weights and biases of linear and convolution layers are uniform in +-1/sqrt(fan in), as PyTorch's defaults;
    embeddings are uniform with variance 1. Matrices of a model of `transformers` that says so are uniform with standard
    deviation `config.initializer_range`. What begins as zeros (biases there, the second factor of LoRA) stays so, and
    other parameters (norms) keep the values they have.
    """
    bounds: dict[str, float] = {}
    spread = getattr(getattr(module, "config", None), "initializer_range", None)
    for path, layer in module.named_modules():
        if isinstance(layer, torch.nn.Linear | torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d):
            bound = 1 / math.sqrt(max(1, layer.weight[0].numel()))
        elif isinstance(layer, torch.nn.Embedding):
            bound = math.sqrt(3)
        else:
            bound = 0.0
        for name, parameter in layer.named_parameters(path, recurse=False):
            if spread is not None:
                bound = spread * math.sqrt(3) if parameter.ndim > 1 else 0.0
            if bound and (parameter.is_meta or parameter.any()):
                bounds[name] = bound
    return {  # NOTE: a tied weight has one name only
        name: functools.partial(uniform, seed, f"initial/{name}", tuple(parameter.shape), bounds[name])
        for name, parameter in module.named_parameters()
        if name in bounds
    }


def load_recipe(spec: str, **overrides: Any) -> Recipe | RecipeJob:
    """A recipe by built-in name (`digits-mlp`), or `path/to/file.py:function`. Runs that file: it must be trusted.

    `overrides` are given to the function, for example `steps=100`; those that are None are left out.
    """
    from .recipes import BUILTIN

    if spec in BUILTIN:
        function: Callable[..., Recipe] = BUILTIN[spec]
    elif ":" in spec:
        function = _from_file(*spec.rsplit(":", 1))
    else:
        raise CaptureError(
            f"no recipe {spec!r}; give path/to/file.py:function or one of {', '.join(sorted(BUILTIN))}"
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
    sys.modules[spec.name] = loaded  # NOTE: dataclasses and pickling inside the file look themselves up there
    spec.loader.exec_module(loaded)
    function = getattr(loaded, name, None)
    if not callable(function):
        raise CaptureError(f"recipe file {file} has no function {name}")
    return function  # type: ignore[no-any-return]
