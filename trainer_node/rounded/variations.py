"""Other hardware, simulated: evaluators that differ as devices do, in the order of their sums and in their libraries.

All of them are within the bounds that a job states, so all of them are honest; without rounding logs none of them
would find another's weights.

    torch      torch's own libraries, as they come
    blocked    contracted dimensions in blocks of 32, one after the other, as a kernel with small tiles does
    permuted   contracted dimensions in an order of their own, as a kernel that splits them among threads does
    halves     contracted dimensions in two halves, the second one first
    columns    convolutions as products with unfolded images, as a library without kernels for them does
    numpy      numpy's library, its functions, and the readable convolutions
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from repops.rounding import round_all
from torch.nn import functional

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.rounding.evaluate import Evaluation, evaluate
from referee_py.rounding.mode import Bounds

from .evaluator import Attrs, Evaluator, TorchEvaluator

Tensor = torch.Tensor
Parts = Callable[[int], Sequence[Tensor]]
"""The indices of each part of a dimension of that size."""


class Split(TorchEvaluator):
    """Contracts parts of the contracted dimension, and adds up what it finds in their order."""

    def __init__(self, name: str, parts: Parts) -> None:
        self.name = name
        self._parts = parts

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        return self._add(a.shape[-1], lambda p: a[..., p] @ b[..., p, :]) if a.shape[-1] else a @ b

    def convolve(self, x: Tensor, w: Tensor, attrs: Attrs) -> Tensor:
        if attrs["groups"] != 1:
            return super().convolve(x, w, attrs)
        return self._add(w.shape[1], lambda p: super(Split, self).convolve(x[:, p], w[:, p], attrs))

    def input_gradient(self, dy: Tensor, w: Tensor, attrs: Attrs) -> Tensor:
        if attrs["groups"] != 1:
            return super().input_gradient(dy, w, attrs)
        return self._add(w.shape[0], lambda p: super(Split, self).input_gradient(dy[:, p], w[p], attrs))

    def weight_gradient(self, dy: Tensor, x: Tensor, attrs: Attrs) -> Tensor:
        return self._add(x.shape[0], lambda p: super(Split, self).weight_gradient(dy[p], x[p], attrs))

    def _add(self, size: int, part: Callable[[Tensor], Tensor]) -> Tensor:
        total, *others = (part(indices) for indices in self._parts(size))
        for other in others:
            total = total + other
        return total


class Columns(TorchEvaluator):
    """Convolutions without groups as products with unfolded images."""

    name = "columns"

    def convolve(self, x: Tensor, w: Tensor, attrs: Attrs) -> Tensor:
        if attrs["groups"] != 1:
            return super().convolve(x, w, attrs)
        columns = functional.unfold(x, w.shape[2:], **_window(attrs))
        planes = w.reshape(w.shape[0], -1) @ columns
        return planes.reshape(x.shape[0], w.shape[0], *_plane(x, w, attrs))

    def input_gradient(self, dy: Tensor, w: Tensor, attrs: Attrs) -> Tensor:
        if attrs["groups"] != 1:
            return super().input_gradient(dy, w, attrs)
        columns = w.reshape(w.shape[0], -1).T @ dy.flatten(2)
        return functional.fold(columns, attrs["input_hw"], w.shape[2:], **_window(attrs))

    def weight_gradient(self, dy: Tensor, x: Tensor, attrs: Attrs) -> Tensor:
        if attrs["groups"] != 1:
            return super().weight_gradient(dy, x, attrs)
        kernel = tuple(attrs["kernel_hw"])
        columns = functional.unfold(x, kernel, **_window(attrs))
        found = torch.einsum("nfp,ncp->fc", dy.flatten(2), columns)
        return found.reshape(dy.shape[1], x.shape[1], *kernel)


class NumpyEvaluator:
    """The readable evaluation."""

    name = "numpy"

    def evaluate(self, name: str, inputs: Sequence[Array], attrs: Attrs, bounds: Bounds) -> Evaluation:
        return evaluate(name, inputs, attrs, bounds)

    def single(self, name: str, inputs: Sequence[Array], bits: int) -> Array:
        wide = [v.astype(np.float64) for v in inputs]
        with np.errstate(all="ignore"):
            found = wide[0] if name == "cast" else getattr(np, _NUMPY.get(name, name))(*wide)
        return round_all(np.ascontiguousarray(found).reshape(np.shape(found)), bits)


_NUMPY = {"sub": "subtract", "mul": "multiply", "div": "divide"}


def _window(attrs: Attrs) -> dict[str, list[int]]:
    return {name: list(attrs[name]) for name in ("stride", "padding", "dilation")}


def _plane(x: Tensor, w: Tensor, attrs: Attrs) -> list[int]:
    return [
        (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, padding, dilation in zip(
            *(x.shape[2:], w.shape[2:], attrs["stride"], attrs["padding"], attrs["dilation"]), strict=True
        )
    ]


def _blocks(size: int) -> Sequence[Tensor]:
    return torch.arange(size).split(32)


def _permutation(size: int) -> Sequence[Tensor]:
    return [torch.from_numpy(np.random.default_rng(size).permutation(size))]


def _halves(size: int) -> Sequence[Tensor]:
    return torch.arange(size).roll(-(size // 2)).split(max((size + 1) // 2, 1))


VARIATIONS: dict[str, Callable[[], Evaluator]] = {
    "torch": TorchEvaluator,
    "blocked": lambda: Split("blocked", _blocks),
    "permuted": lambda: Split("permuted", _permutation),
    "halves": lambda: Split("halves", _halves),
    "columns": Columns,
    "numpy": NumpyEvaluator,
}


def evaluator_of(name: str) -> Evaluator:
    """An evaluator by its name. Raises InvalidInput for a name that is not in the list."""
    if name not in VARIATIONS:
        raise InvalidInput(f"evaluator {name!r}; use one of {', '.join(sorted(VARIATIONS))}")
    return VARIATIONS[name]()
