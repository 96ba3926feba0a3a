"""Simulated hardware: evaluators that differ as devices do, in the order of their sums and in their libraries.

All of them are within the bounds that a job states, so all of them are honest. Without rounding logs no two of them
would reach the same weights.

    torch        products by torch's own library, convolutions and sums by repops' kernels
    unfolded     convolutions by torch's library too, as products with unfolded images; so do the next four
    blocked      contracted dimensions in up to twelve blocks, one after the other, like a tiled kernel
    interleaved  every sixteenth term in one sum, like a kernel that splits the terms among lanes
    permuted     contracted dimensions in a permuted order
    halves       contracted dimensions in two halves, the second one first
    direct       convolutions by torch's own convolution kernels
    numpy        numpy's library and functions, and the readable convolutions
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from repops.f64 import to_f64
from repops.rounding import round_all

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.program.mode import Bounds
from referee_py.rounding.backend import Evaluator
from referee_py.rounding.evaluate import Evaluation, evaluate

from . import images
from .evaluator import Attrs, TorchEvaluator, bounded

Tensor = torch.Tensor
Parts = Callable[[int], Sequence[Tensor]]
"""The indices of each part of a dimension of that size."""


class Unfolded(TorchEvaluator):
    """Convolutions as products with unfolded images. Implements `images.Library`."""

    name = "unfolded"
    max_unfolded = images.MAX_UNFOLDED

    def to_f64(self, x: Tensor) -> images.F64Matrix:
        return images.F64Matrix(*map(torch.from_numpy, to_f64(x.contiguous().numpy(), self._space)))

    def _image(self, name: str, a: Array, b: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        found = images.OPERATORS[name](self, torch.from_numpy(a), torch.from_numpy(b), attrs)
        return bounded(found.x.numpy(), found.terms, found.left.numpy(), found.right.numpy(), bounds)


class Split(Unfolded):
    """Contracts the parts of a dimension separately, and adds the results in their order."""

    def __init__(self, name: str, parts: Parts) -> None:
        super().__init__()
        self.name = name
        self._parts = parts

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        if not a.shape[-1]:
            return a @ b
        total, *others = (a[..., p] @ b[..., p, :] for p in self._parts(a.shape[-1]))
        for other in others:
            total = total + other
        return total


class Direct(Unfolded):
    """Convolutions by torch's own kernels, as for images that are too large to be unfolded."""

    name = "direct"
    max_unfolded = 0


class NumpyEvaluator:
    """The readable evaluation."""

    name = "numpy"
    device = None

    def check(self) -> None:
        """Do nothing. NOTE: the calling thread makes numbers wide; the library's threads get binary64, where no sum of
        products is subnormal."""

    def evaluate(self, name: str, inputs: Sequence[Array], attrs: Attrs, bounds: Bounds) -> Evaluation:
        return evaluate(name, inputs, attrs, bounds)

    def product(self, a: Array, b: Array, bounds: Bounds) -> Evaluation:
        return evaluate("mm", [a, b], {}, bounds)

    def single(self, name: str, inputs: Sequence[Array], bits: int) -> Array:
        wide = [v.astype(np.float64) for v in inputs]
        with np.errstate(all="ignore"):
            found = wide[0] if name == "cast" else getattr(np, _NUMPY.get(name, name))(*wide)
        return round_all(np.ascontiguousarray(found).reshape(np.shape(found)), bits)


_NUMPY = {"sub": "subtract", "mul": "multiply", "div": "divide"}


def _blocks(size: int) -> Sequence[Tensor]:
    return torch.arange(size).split(max(8, -(-size // 12)))


def _lanes(size: int) -> Sequence[Tensor]:
    return [torch.arange(first, size, 16) for first in range(min(size, 16))]


def _permutation(size: int) -> Sequence[Tensor]:
    return [torch.from_numpy(np.random.default_rng(size).permutation(size))]


def _halves(size: int) -> Sequence[Tensor]:
    return torch.arange(size).roll(-(size // 2)).split(max((size + 1) // 2, 1))


VARIATIONS: dict[str, Callable[[], Evaluator]] = {
    "torch": TorchEvaluator,
    "unfolded": Unfolded,
    "blocked": lambda: Split("blocked", _blocks),
    "interleaved": lambda: Split("interleaved", _lanes),
    "permuted": lambda: Split("permuted", _permutation),
    "halves": lambda: Split("halves", _halves),
    "direct": Direct,
    "numpy": NumpyEvaluator,
}


def evaluator_of(name: str) -> Evaluator:
    """Return an evaluator by its name. Raises InvalidInput for an unknown name."""
    if name not in VARIATIONS:
        raise InvalidInput(f"evaluator {name!r}; use one of {', '.join(sorted(VARIATIONS))}")
    return VARIATIONS[name]()
