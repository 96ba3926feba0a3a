"""A model file as a module, and as a recipe: loss and optimizer by name, data from a data set.

By its suffix a file is read by `onnx` (.onnx) or by `exported` (.pt2, from torch.export.save). None is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.nn import functional as f

from referee_py.commit.tensor import Array

from .capture.errors import CaptureError
from .capture.optimizers import SGD, Adam, Optimizer
from .capture.recipe import Recipe

if TYPE_CHECKING:
    from .exported import ExportedModule
    from .onnx import OnnxModule

Tensor = torch.Tensor


def load(
    path: Path,
    *,
    output: str | None = None,
    freeze: Sequence[str] = (),
    train: Sequence[str] = (),
    given: Mapping[str, float] | None = None,
) -> OnnxModule | ExportedModule:
    """Return the module of a file. Raises the errors of its reader, and ConfigError without the library it needs."""
    if path.suffix == ".pt2":
        from . import exported

        if given:
            raise CaptureError(f"the inputs of {path.name} are tensors; none is given once and for all")
        return exported.load(path, output=output, freeze=freeze, train=train)
    from . import onnx

    return onnx.load(path, output=output, freeze=freeze, train=train, given=given)


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Score `[..., C]` against classes `[...]`: examples, or examples and places."""
    return f.cross_entropy(output.reshape(-1, output.shape[-1]), target.reshape(-1))


def binary(output: Tensor, target: Tensor) -> Tensor:
    """Score one number per example against targets 0 and 1 of any dtype."""
    return f.binary_cross_entropy_with_logits(output.reshape(-1), target.reshape(-1).float())


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": cross_entropy,
    "binary": binary,
    "mse": f.mse_loss,
}
NEXT_TOKEN = "next-token"  # noqa: S105  (no secret)
"""Rows of T + 1 tokens: the model gets the first T, and is scored on the last T."""

OPTIMIZERS = ("sgd", "adam", "adamw")


class NextToken(torch.nn.Module):
    """A language model on rows `[N, T+1]` of tokens, with its own loss: each place is scored on the next token."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **batch: Tensor) -> dict[str, Tensor]:
        (tokens,) = batch.values()
        return {"loss": cross_entropy(self.model(tokens[:, :-1]), tokens[:, 1:])}


MAX_NUMBER = 1e30
"""Largest rate: far from what overflows in f32."""


def optimizer_of(name: str, rate: float, momentum: float = 0.0, weight_decay: float = 0.0) -> Optimizer:
    """Return an optimizer by name. Raises CaptureError."""
    given = {"learning rate": rate, "momentum": momentum, "weight decay": weight_decay}
    for what, value in given.items():
        if not 0 <= value <= MAX_NUMBER:  # NOTE: not a number is refused, too
            raise CaptureError(f"the {what} is {value}; it must be from 0 to {MAX_NUMBER:.0e}")
    match name:
        case "sgd":
            return SGD(rate, momentum=momentum, weight_decay=weight_decay)
        case "adam" | "adamw":
            if momentum:
                raise CaptureError(f"{name} takes no momentum; leave it out, or use sgd")
            return Adam(rate, weight_decay=weight_decay, decoupled=name == "adamw")
    raise CaptureError(f"no optimizer {name!r}; choose from {', '.join(OPTIMIZERS)}")


def recipe(
    path: Path,
    data: Mapping[str, Array],
    *,
    loss: str,
    optimizer: Optimizer,
    steps: int,
    batch_size: int,
    seed: int = 0,
    inputs: Sequence[str] | None = None,
    output: str | None = None,
    freeze: Sequence[str] = (),
    train: Sequence[str] = (),
    given: Mapping[str, float] | None = None,
) -> Recipe:
    """Return a recipe that trains the model of a file, from the weights in it.

    The model gets the arrays named in `inputs` (by default the first of `data`), the loss its output and the rest.
    Raises CaptureError, Unsupported.
    """
    module: torch.nn.Module = load(path, output=output, freeze=freeze, train=train, given=given)
    objective = None  # the module's own loss
    if loss == NEXT_TOKEN:
        if len(data) != 1:
            raise CaptureError(f"{NEXT_TOKEN} takes one array of tokens; the data set has {', '.join(data)}")
        if inputs is not None:
            raise CaptureError(f"{NEXT_TOKEN} gives the model its one array; leave out the inputs")
        module = NextToken(module)
    elif loss in LOSSES:
        objective = LOSSES[loss]
    else:
        raise CaptureError(f"no loss {loss!r}; choose from {', '.join((*LOSSES, NEXT_TOKEN))}")
    return Recipe(
        name=path.stem,
        module=module.train(),
        loss=objective,
        optimizer=optimizer,
        data=data,
        steps=steps,
        batch_size=batch_size,
        seed=seed,
        initial="module",
        inputs=None if inputs is None else tuple(inputs),
    )
