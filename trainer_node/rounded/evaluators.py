"""Evaluators of rounded-f64 on the processor, by name. Other distributions may offer more (`EVALUATORS_GROUP`).

torch        products by torch's own library, convolutions and sums by repops' kernels
unfolded     convolutions, too, by torch's library, as products with unfolded images
numpy        numpy's library, its functions, and the readable convolutions
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata

import numpy as np
import torch
from repops.f64.rounding import round_all
from repops.f64.sums import to_f64

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.program.modes import Bounds
from referee_py.rounding.backend import Evaluator
from referee_py.rounding.evaluate import Evaluation, evaluate

from ..settings.settings import EVALUATORS_GROUP
from . import images
from .evaluator import Attrs, TorchEvaluator, bounded

Tensor = torch.Tensor


class Unfolded(TorchEvaluator):
    """Convolutions as products with unfolded images. Implements `images.Library`."""

    name = "unfolded"
    max_unfolded = images.MAX_UNFOLDED

    def to_f64(self, x: Tensor) -> images.F64Matrix:
        return images.F64Matrix(*map(torch.from_numpy, to_f64(x.contiguous().numpy(), self._space)))

    def _image(self, name: str, a: Array, b: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        found = images.OPERATORS[name](self, torch.from_numpy(a), torch.from_numpy(b), attrs)
        return bounded(found.x.numpy(), found.terms, found.left.numpy(), found.right.numpy(), bounds)


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


EVALUATORS: dict[str, Callable[[], Evaluator]] = {
    "torch": TorchEvaluator,
    "unfolded": Unfolded,
    "numpy": NumpyEvaluator,
}


def evaluator_of(name: str) -> Evaluator:
    """Return an evaluator by its name. Raises InvalidInput for an unknown name."""
    if name in EVALUATORS:
        return EVALUATORS[name]()
    more = metadata.entry_points(group=EVALUATORS_GROUP)
    if name in more.names:
        found: Evaluator = more[name].load()()
        return found
    raise InvalidInput(f"evaluator {name!r}; use one of {', '.join(sorted({*EVALUATORS, *more.names}))}")
