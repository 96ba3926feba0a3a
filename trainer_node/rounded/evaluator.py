"""Operators in binary64 with torch and repops on the CPU: fast libraries, with the radii of the readable evaluation.

Operands are made binary64 together with the norms for the radii (repops.f64, repops.f64.conv), so a radius costs next
to nothing. The results are those of `referee_py.rounding.evaluate` up to the order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import repops.f64.rounding
import torch
from repops.f64.conv import conv
from repops.f64.rounding import round_all
from repops.f64.sums import F64Matrix, Workspace, f64_scatter, f64_sum, to_f64

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.program.modes import Bounds
from referee_py.rounding.bounds import elementary_radius, factor
from referee_py.rounding.evaluate import ELEMENTARY, Evaluation, Radius, known
from referee_py.rounding.evaluate import evaluate as readable
from referee_py.rounding.primitives import F64

from .probe import Probe

Attrs = Mapping[str, Any]


class TorchEvaluator:
    """Computes with torch's current number of threads. An evaluation is valid until the next call."""

    name = "torch"
    device = None

    def __init__(self) -> None:
        self._space = Workspace()
        self._probe = Probe()

    def check(self) -> None:
        self._probe.check()

    def evaluate(self, name: str, inputs: Sequence[Array], attrs: Attrs, bounds: Bounds) -> Evaluation:
        """Evaluate once an operator that has a log. Raises InvalidInput for any other."""
        if not all(v.size for v in inputs):
            return readable(name, inputs, attrs, bounds)
        self._space.begin()
        evaluation = self._evaluate(name, inputs, attrs, bounds)
        # NOTE: absent taps are multiplied as zeros, and zero times an infinite weight is NaN. In docs/opset.md,
        # section 2, absent taps take no part.
        finite = all(np.isfinite(norms).all() for norms in evaluation.radius.factors)
        return (
            evaluation if finite or not name.startswith("conv2d") else readable(name, inputs, attrs, bounds)
        )

    def _evaluate(self, name: str, inputs: Sequence[Array], attrs: Attrs, bounds: Bounds) -> Evaluation:
        if name in ELEMENTARY:
            return self._function(name, inputs)
        match name, inputs:
            case "sum", (x,):
                return self._sum(x, attrs, bounds)
            case "mm" | "bmm", (a, b):
                return self._product(a, b, bounds)
            case "conv2d" | "conv2d_input_grad" | "conv2d_weight_grad", (a, b):
                return self._image(name, a, b, attrs, bounds)
            case "scatter_add", (base, idx, src):
                return self._scatter_add(base, idx, src, bounds)
        raise InvalidInput(f"{name} of {len(inputs)} inputs has no log; evaluate it as it is")

    def single(self, name: str, inputs: Sequence[Array], bits: int) -> Array:
        """Compute one IEEE-754 operation in binary64, rounded."""
        if name == "cast":
            return round_all(inputs[0].astype(np.float64), bits)
        return repops.f64.rounding.single(name, inputs, bits)

    # ------------------------------------------------------------------------------------------------ products

    def product(self, a: Array, b: Array, bounds: Bounds) -> Evaluation:
        """Multiply [..., M, K] by [..., K, N], f32 matrices with contiguous rows or columns, with radii."""
        self._space.begin()
        return self._product(a, b, bounds)

    def multiply(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Multiply the same shapes in f64; variations override this with other libraries."""
        first, second = a.shape[:-2], b.shape[:-2]
        batch = first if first == second else torch.broadcast_shapes(first, second)
        shape = (*batch, a.shape[-2], b.shape[-1])
        return torch.matmul(a, b, out=torch.from_numpy(self._space.array(shape)))

    def _product(self, a: Array, b: Array, bounds: Bounds) -> Evaluation:
        left, right = self._wide(a), self._wide(b)
        x = self.multiply(torch.from_numpy(left.values), torch.from_numpy(right.values))
        rows = _factor(a.shape[-1], bounds) * left.rows
        return _evaluation(x, rows[..., :, None], right.columns[..., None, :])

    def _wide(self, x: Array) -> F64Matrix:
        if x.strides[-1] == x.itemsize or x.shape[-1] == 1:
            return to_f64(x, self._space)
        turned = to_f64(x.swapaxes(-1, -2), self._space)
        return F64Matrix(turned.values.swapaxes(-1, -2), turned.columns, turned.rows)

    def _image(self, name: str, a: Array, b: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        found = conv(name, a, b, attrs, self._space)
        return bounded(*found, bounds)

    # ------------------------------------------------------------------------------------------------ sums

    def _sum(self, x: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        dims, shape = tuple(attrs["dims"]), x.shape
        total, magnitude = _total(x, dims)
        kept = tuple(1 if d in dims else n for d, n in enumerate(shape) if attrs["keepdim"] or d not in dims)
        terms = math.prod(shape[d] for d in dims)
        return _evaluation(total.reshape(kept), np.asarray(_factor(terms, bounds)), magnitude.reshape(kept))

    def _scatter_add(self, base: Array, idx: Array, src: Array, bounds: Bounds) -> Evaluation:
        """Evaluate only the rows that receive a sum; the others are the base's."""
        found = f64_scatter(base, idx, src, self._space)
        # NOTE: most rows receive few terms, so there are few factors.
        factors = factor(np.arange(2 + found.added.max(initial=0)), bounds)
        terms = factors[1 + found.added].reshape(-1, *[1] * (base.ndim - 1))
        evaluation = _evaluation(found.sums, terms, found.magnitudes)
        return replace(evaluation, rows=found.rows, rest=base)

    # ------------------------------------------------------------------------------------------------ functions

    def _function(self, name: str, inputs: Sequence[Array]) -> Evaluation:
        y = getattr(torch, name)(*(torch.from_numpy(v).double() for v in inputs)).numpy()
        return Evaluation(y, Radius((known(elementary_radius(y)),)))


def bounded(x: F64, terms: int, left: F64, right: F64, bounds: Bounds) -> Evaluation:
    """Return an evaluation of sums of `terms` terms, whose magnitudes add up to at most `left` times `right`."""
    return _evaluation(x, _factor(terms, bounds) * left, right)


@cache
def _factor(terms: int, bounds: Bounds) -> float:
    return float(factor(terms, bounds))


def _total(x: Array, dims: tuple[int, ...]) -> tuple[F64, F64]:
    """Sum elements and their magnitudes over some dimensions, the last ones first."""
    if not dims or 0 in x.shape:
        wide = x.astype(np.float64)
        return wide.sum(axis=dims), np.abs(wide).sum(axis=dims)
    end = max(dims) + 1
    start = end
    while start - 1 in dims:
        start -= 1
    shape = math.prod(x.shape[:start]), math.prod(x.shape[start:end]), math.prod(x.shape[end:])
    rest = tuple(d for d in dims if d < start)
    kept = x.shape[:start] + x.shape[end:]
    total, magnitude = (part.reshape(kept) for part in f64_sum(x.reshape(shape)))
    return (total.sum(axis=rest), magnitude.sum(axis=rest)) if rest else (total, magnitude)


def _evaluation(x: torch.Tensor | F64, *factors: F64) -> Evaluation:
    values = x.numpy() if isinstance(x, torch.Tensor) else x
    return Evaluation(np.asarray(values), Radius(tuple(map(known, factors))))
