"""A function alone: what its program gives for a tensor, beside eager PyTorch in FP32 and FP64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from assay_capture.capture import SGD, CaptureError, Recipe, build, capture

from . import eager

Array = np.ndarray[Any, Any]
Function = Callable[[torch.Tensor], torch.Tensor]
DATA = {"x": np.zeros((1, 1), np.float32)}
ORDER = np.zeros((1, 1), np.int64)


class Alone(nn.Module):
    """A function of a parameter; every element of its result has a weight of its own in the loss."""

    def __init__(self, function: Function, start: Any) -> None:
        super().__init__()
        self.w, self.function = nn.Parameter(torch.as_tensor(start, dtype=torch.float32).clone()), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        return self.function(self.w)


def weighted(y: torch.Tensor, *_: Any) -> torch.Tensor:
    return (y * torch.linspace(0.5, 1.5, max(y.numel(), 1), dtype=y.dtype).reshape(y.shape)).sum()


def by_program(function: Function, start: Any) -> Mapping[str, Array]:
    """Return "value" and "gradient" of the function's program."""
    built = capture(Alone(function, start), weighted, SGD(0.0), DATA, ORDER, gradients=True, outputs=True)
    found = eager.first_metrics(built)
    return {"value": found["output.Alone.0"], "gradient": found["gradient.w"]}


class Several(nn.Module):
    """Functions side by side, each of a parameter of its own."""

    def __init__(self, functions: Sequence[Function], start: Any) -> None:
        super().__init__()
        self.each = nn.ModuleList(Alone(function, start) for function in functions)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(one(x) for one in self.each)


def by_one_program(functions: Sequence[Function], start: Any) -> list[Mapping[str, Array]]:
    """Return "value" and "gradient" of each function, of one program: twenty take as long as six alone. Return nothing
    where the program is refused."""
    try:
        built = capture(
            Several(functions, start),
            lambda results, *_: sum(map(weighted, results)),
            SGD(0.0),
            DATA,
            ORDER,
            gradients=True,
            outputs=True,
        )
    except CaptureError:
        return []
    found = eager.first_metrics(built)
    return [
        {"value": found[f"output.each.{n}.0"], "gradient": found[f"gradient.each.{n}.w"]}
        for n in range(len(functions))
    ]


def by_torch(function: Function, start: Any, dtype: torch.dtype = torch.float32) -> Mapping[str, Array]:
    module = Alone(function, start).to(dtype)
    y = module(torch.zeros(1, 1))
    weighted(y).backward()
    assert module.w.grad is not None
    return {"value": y.detach().numpy(force=True), "gradient": module.w.grad.numpy(force=True)}


def unlike(found: Array, wanted: Array, precise: Array | None = None, cancelled: float = 0.0) -> Array:
    """Return where a program gives neither PyTorch's number in FP32 nor that in FP64, up to rounding; NaN and infinity
    by place. Where PyTorch itself loses digits, so may the program, four times as many; `cancelled` is what a sum of
    terms near 1 may lose."""
    with np.errstate(all="ignore"):
        same = _same(found, wanted, cancelled)
        if precise is not None:
            lost = np.nan_to_num(np.abs(wanted - precise), nan=0.0, posinf=0.0)
            same |= _same(found, precise.astype(np.float32), 4 * lost)
            same |= _same(found, wanted, 4 * lost)
    result: Array = ~same
    return result


def _same(a: Array, b: Array, more: Any) -> Array:
    near = np.abs(a - b) <= 4e-6 * np.abs(b) + 1e-37 + more
    found: Array = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.isfinite(a) & np.isfinite(b) & near)
    return found


def guarded(function: Function, start: Any) -> str:
    """Return what the guard says of the function's program."""
    recipe = Recipe(
        "alone", Alone(function, start), weighted, SGD(0.0), DATA, 1, 1, order=ORDER, initial="module"
    )
    return str(build(recipe).labels["checked"])
