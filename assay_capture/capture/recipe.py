"""A recipe: everything that defines a training job, before it is captured.

    def my_training(steps: int = 500) -> Recipe: ...      # in path/to/file.py

`load_recipe("path/to/file.py:my_training", steps=100)` calls it; `build` makes the program.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from referee_py.commit.tensor import Array
from referee_py.program import validate
from referee_py.program.describe_stats import commitment_steps
from referee_py.program.terms import Terms, check_strides, suggest_strides
from trainer_node.local.bundle import Bundle

from .definition import Initial, StepDefinition
from .draft import Built
from .errors import CaptureError
from .guard import NOT_COMPARED, Compared, check_first_step
from .modules import plain_module
from .optimizers import Optimizer
from .process import give_memory_back, process_kept
from .seeded import data_order, uniform
from .stages import LOWER, TENSORS, TRACE, Tell, silent
from .step import arrays_of, exactly, lowered, traced_of
from .trace import Loss

SHARE = 0.05
"""Largest share of a run's time that commitments at suggested strides may take."""


@dataclass(frozen=True)
class Recipe:
    """The definition of a training job.

    `initial` is "seeded" (drawn from `seed`, the same on every machine), "module" (the module's own values), or gives
    values by name, and the module the others. `seed`
    also seeds dropout. `order`, i64 [steps, batch], replays the example order of an existing run; if not given, every
    epoch is shuffled by `seed`. `processor` is the tokenizer or image processor of a `transformers` model, kept for
    those who export the result. The other fields are those of `StepDefinition`.
    """

    name: str
    module: torch.nn.Module
    loss: Loss | None
    optimizer: Optimizer | torch.optim.Optimizer
    data: Mapping[str, Array]
    steps: int
    batch_size: int
    seed: int = 0
    initial: str | Initial = "seeded"
    strides: tuple[int, ...] | None = None
    inputs: tuple[str, ...] | None = None
    micro_batches: int = 1
    accumulate: int = 1
    clip_norm: float | None = None
    clip_value: float | None = None
    expert_capacity: float | None = None
    autocast: torch.dtype | None = None
    scheduler: Any = None
    order: Array | None = None
    tables: Mapping[str, Array] | None = None
    processor: Any = None

    @classmethod
    def from_trainer(
        cls, trainer: Any, name: str | None = None, *, resume_from_checkpoint: Path | str | None = None
    ) -> Recipe:
        """Return the run that `trainer.train()` of `transformers` or TRL would do; docs/programs.md, section 11.

        With a folder `checkpoint-N` of that trainer it is what is left of the run: weights, optimizer, schedule and
        place in the data are those after step N.
        The trainer must not have trained yet, and stays as it is. Raises CaptureError, which names what has no
        counterpart, and the remedy.
        """
        from ..huggingface.trainer import recipe_of

        folder = None if resume_from_checkpoint is None else Path(resume_from_checkpoint)
        return recipe_of(trainer, name, folder)

    def step(self, order: Array, initial: Initial) -> StepDefinition:
        """Return the step to capture. `initial` replaces the module's values, by name."""
        own = {field.name for field in fields(self)}
        shared = {
            field.name: getattr(self, field.name) for field in fields(StepDefinition) if field.name in own
        }
        return StepDefinition(**{**shared, "order": order, "initial": initial})


@runtime_checkable
class RecipeJob(Protocol):
    """An alternative to a recipe: an object that builds a bundle by itself (assay_capture.inference)."""

    def build(self) -> Bundle: ...


def build(recipe: Recipe | RecipeJob, check: bool = True, tell: Tell = silent) -> Bundle:
    """Capture the recipe's training step. Raises CaptureError.

    With `check`, loss and gradients are compared with eager PyTorch's, which takes some four steps of each; what was
    compared is in the labels, as "checked", and the losses of both as "losses". `tell` is told each stage (`stages.py`)
    when it begins.
    """
    if not isinstance(recipe, Recipe):
        return recipe.build()
    _check_fields(recipe)
    given = arrays_of(recipe.data)
    recipe = replace(recipe, data=exactly(given))
    sizes = [len(array) for array in recipe.data.values() if array.ndim]
    if not sizes or not sizes[0]:
        raise CaptureError("the data set is empty")
    recipe = replace(recipe, module=plain_module(recipe.module))
    initial = _initial(recipe)
    step = recipe.step(_order(recipe, sizes[0]), initial)
    with process_kept():
        tell(TRACE)
        traced = traced_of(step)
        tell(LOWER)
        draft = lowered(step, traced)
        validate(draft.skeleton)
        tell(TENSORS)
        built = draft.build()
        checked = check_first_step(step, traced, built, tell, given) if check else Compared(NOT_COMPARED)
    from ..huggingface.describe import describe

    extras = describe(recipe.module, recipe.processor, built, initial)
    bundle = bundle_of(recipe.name, built, recipe.steps, recipe.strides)
    give_memory_back()
    told = {"checked": checked.words, "losses": {name: list(pair) for name, pair in checked.losses.items()}}
    return replace(bundle, labels={**bundle.labels, **told}, extras=extras)


def _initial(recipe: Recipe) -> Initial:
    if isinstance(recipe.initial, Mapping):
        return recipe.initial
    return seeded_parameters(recipe.module, recipe.seed) if recipe.initial == "seeded" else {}


def _check_fields(recipe: Recipe) -> None:
    """Raise CaptureError for fields that are not what they must be."""
    for field in ("steps", "batch_size", "micro_batches", "accumulate", "seed"):
        value, least = getattr(recipe, field), 0 if field == "seed" else 1
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise CaptureError(f"{field} is {value!r}; it must be a whole number")
        if not least <= value < 1 << 64:
            raise CaptureError(f"{field} is {value}; it must be at least {least} and below 2^64")
    for field in ("clip_norm", "clip_value"):
        value = getattr(recipe, field)
        if value is not None and not (_is_number(value) and value > 0):
            raise CaptureError(f"{field} is {value!r}; it must be above 0, or None for gradients as they are")
    if recipe.expert_capacity is not None and not (
        _is_number(recipe.expert_capacity) and recipe.expert_capacity > 0
    ):
        raise CaptureError(f"expert_capacity is {recipe.expert_capacity!r}; it must be above 0, or None")
    if recipe.initial not in ("seeded", "module") and not isinstance(recipe.initial, Mapping):
        raise CaptureError(f'initial is {recipe.initial!r}; it must be "seeded", "module" or values by name')
    if not isinstance(recipe.module, torch.nn.Module):
        raise CaptureError(f"module is {type(recipe.module).__name__}; it must be a torch.nn.Module")
    if recipe.loss is not None and not callable(recipe.loss):
        raise CaptureError(
            f"loss is {recipe.loss!r}; it must be a function, or None for the module's own loss"
        )
    if not isinstance(recipe.strides, list | tuple | None):
        raise CaptureError(f"strides is {recipe.strides!r}; it must be a tuple of whole numbers, or None")
    if not all(isinstance(stride, int) for stride in recipe.strides or ()):
        raise CaptureError(f"strides are {list(recipe.strides or ())}; they must be whole numbers")
    check_strides(recipe.strides or (1,))


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float | np.number) and not isinstance(value, bool) and not math.isnan(value)
    )


def _order(recipe: Recipe, size: int) -> Array:
    if recipe.order is None:
        return data_order(recipe.seed, size, recipe.batch_size, recipe.steps)
    order = exactly({"order": recipe.order})["order"]
    if order.shape != (recipe.steps, recipe.batch_size):
        raise CaptureError(
            f"order is {list(order.shape)} for {recipe.steps} steps of {recipe.batch_size} examples; "
            "it needs a row for each step, and an entry for each example of a batch"
        )
    return order


def bundle_of(name: str, built: Built, steps: int, strides: tuple[int, ...] | None) -> Bundle:
    """Return the bundle of a run of `steps` steps. Strides are suggested if not given: such that commitments take at
    most `SHARE` of the time, apart from that of the last step."""
    if strides is None:
        strides = suggest_strides(steps, math.ceil(commitment_steps(built.program) / SHARE))
    return Bundle(
        name,
        built.program,
        Terms.of(built.program, steps, strides),
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
    """Return initial values that do not depend on torch's generator. Each is made when it is read.

    Weights and biases of linear, convolution and recurrent layers are uniform as PyTorch's defaults (`_bound`);
    embeddings are uniform with variance 1. If a `transformers` configuration has `initializer_range`, matrices are
    uniform with that standard deviation, and biases keep their values. Parameters that begin as zeros (the second
    factor of LoRA) stay zero, and other parameters (norms) keep their values.
    """
    bounds: dict[str, float] = {}
    spread = getattr(getattr(module, "config", None), "initializer_range", None)
    for path, layer in module.named_modules():
        bound = _bound(layer)
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


def _bound(layer: torch.nn.Module) -> float:
    """Return the largest initial value of a layer's parameters, as PyTorch draws them; 0 if they are not drawn here."""
    if isinstance(layer, torch.nn.Linear | torch.nn.modules.conv._ConvNd):
        return 1 / math.sqrt(max(1, layer.weight[0].numel()))
    if isinstance(layer, torch.nn.Bilinear):
        return 1 / math.sqrt(layer.in1_features)
    if isinstance(layer, torch.nn.RNNBase | torch.nn.RNNCellBase):
        return 1 / math.sqrt(layer.hidden_size)
    if isinstance(layer, torch.nn.MultiheadAttention):
        return math.sqrt(6 / (4 * layer.embed_dim))
    return math.sqrt(3) if isinstance(layer, torch.nn.Embedding | torch.nn.EmbeddingBag) else 0.0
