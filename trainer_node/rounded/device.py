"""rounded-f64 for torch tensors on a device: evaluated in binary64, rounded and searched on that device.

Only positions of the band, a few numbers for each, and the operands of nodes with an element to decide exactly leave
the device. `referee_py.rounding.follow` decides what is written and followed, as for arrays.

NOTE: torch adds the rows of `scatter_add` in no fixed order, so two evaluations here may differ, as those of two
machines do. The log makes the results equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch

from referee_py.commit.tensor import Array
from referee_py.device import Device
from referee_py.errors import InvalidInput
from referee_py.params import MAX_BITS
from referee_py.program.mode import Bounds
from referee_py.rounding.bounds import elementary_radius, factor
from referee_py.rounding.evaluate import ELEMENTARY
from referee_py.rounding.evaluate import evaluate as readable
from referee_py.rounding.primitives import F64, Bool
from referee_py.rounding.taps import I64

from . import images
from .probe import Probe
from .tensors import as_f32, directed, doubted, rnd, search

Tensor = torch.Tensor
Attrs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TensorEvaluation:
    """An `Evaluation` of tensors: x and the factors of the radius float64, `rest` float32. Implements `Elsewhere`."""

    x: Tensor
    factors: tuple[Tensor, ...]
    rows: I64 | None = None
    rest: Tensor | None = None

    @property
    def elements(self) -> int:
        """Number of elements of the whole output."""
        return self.x.numel() if self.rest is None else self.rest.numel()

    def search(self, bits: int, widen: float) -> OnDevice:
        """Round, and find the elements within `widen` radii of a midpoint."""
        return OnDevice(self, bits, widen)


class OnDevice:
    """A rounded evaluation on its device. Implements `Surface`."""

    def __init__(self, evaluation: TensorEvaluation, bits: int, widen: float) -> None:
        self.rows, self.elements = evaluation.rows, evaluation.elements
        self.width = math.prod(evaluation.x.shape[1:])
        self._evaluation, self._bits = evaluation, bits
        self._x = evaluation.x.reshape(-1)
        radius = reduce(torch.mul, evaluation.factors)
        radius = torch.where(radius.isnan(), 0.0, radius)  # inf * 0: see Radius
        self._radius = radius.expand(evaluation.x.shape).reshape(-1)
        self._values, self._narrow, wide = search(self._x, self._radius, bits, widen)
        self.narrow, self.wide = _array(self._narrow), _array(wide)

    def x(self, positions: I64) -> F64:
        return _array(self._x[self._there(positions)])

    def values(self, positions: I64) -> Array:
        return _array(self._values[self._there(positions)])

    def radius(self, positions: I64) -> F64:
        return _array(self._radius[self._there(positions)])

    def logged(self, tau: float) -> I64:
        chosen = directed(self._x, self._values, self._radius, self._bits, tau)
        chosen[self._narrow] = True
        return _array(chosen.nonzero().reshape(-1))

    def doubted(self, positions: I64, up: Bool, slack: float) -> Bool:
        at = self._there(positions)
        radius = self._radius[at] * slack
        return _array(doubted(self._x[at], self._values[at], radius, self._there(up), self._bits))

    def put(self, positions: I64, values: Array) -> None:
        self._values[self._there(positions)] = self._there(values)

    def whole(self) -> Tensor:
        values, rest = self._values.reshape(self._evaluation.x.shape), self._evaluation.rest
        if rest is None:
            return values
        found = as_f32(rnd(rest.double(), self._bits)) if self._bits < MAX_BITS else rest
        found = found + 0.0  # no -0
        assert self.rows is not None, "an evaluation with rest covers some rows of it"
        found[self._there(self.rows)] = values
        return found

    def _there(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self._x.device)


class TensorEvaluator:
    """Computes with torch on `where`, the torch device that holds the tensors of `device`."""

    name = "torch"
    max_unfolded = images.MAX_UNFOLDED

    def __init__(self, device: Device, where: str) -> None:
        self.device = device
        self._where = where
        self._probe = Probe(where)

    def check(self) -> None:
        self._probe.check()

    def evaluate(self, name: str, inputs: Sequence[Tensor], attrs: Attrs, bounds: Bounds) -> TensorEvaluation:
        """Evaluate once an operator that has a log. Raises InvalidInput for any other."""
        if not all(v.numel() for v in inputs):
            return self._readable(name, inputs, attrs, bounds)
        if name in ELEMENTARY:
            y = getattr(torch, name)(*(v.double() for v in inputs))
            radius: Any = elementary_radius(y)  # a tensor, as y is
            return _evaluation(y, radius)
        match name, inputs:
            case "sum", (x,):
                return self._sum(x, attrs, bounds)
            case "mm" | "bmm", (a, b):
                return self.product(a, b, bounds)
            case "conv2d" | "conv2d_input_grad" | "conv2d_weight_grad", (a, b):
                # NOTE: torch multiplies absent taps as zeros, and zero times an infinite weight is NaN. In
                # docs/opset.md, section 2, absent taps take no part.
                if not (bool(a.isfinite().all()) and bool(b.isfinite().all())):
                    return self._readable(name, inputs, attrs, bounds)
                x, terms, left, right = images.OPERATORS[name](self, a, b, attrs)
                return _evaluation(x, float(factor(terms, bounds)) * left, right)
            case "scatter_add", (base, idx, src):
                return self._scatter_add(base, idx, src, bounds)
        raise InvalidInput(f"{name} of {len(inputs)} inputs has no log; evaluate it as it is")

    def single(self, name: str, inputs: Sequence[Tensor], bits: int) -> Tensor:
        """Compute one IEEE-754 operation in binary64, rounded."""
        operands = [v.double() for v in inputs]
        found = operands[0] if name == "cast" else getattr(torch, name)(*operands)
        return as_f32(rnd(found, bits))

    def product(self, a: Tensor, b: Tensor, bounds: Bounds) -> TensorEvaluation:
        """Multiply [..., M, K] by [..., K, N], f32, with radii."""
        left, right = a.double(), b.double()
        rows = float(factor(a.shape[-1], bounds)) * _norm(left, -1)
        return _evaluation(self.multiply(left, right), rows[..., :, None], _norm(right, -2)[..., None, :])

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply the same shapes in f64."""
        return torch.matmul(a, b)

    def to_f64(self, x: Tensor) -> images.F64Matrix:
        """Convert to f64 with norms, for `images`."""
        wide = x.double()
        return images.F64Matrix(wide, _norm(wide, -1), _norm(wide, -2))

    def _sum(self, x: Tensor, attrs: Attrs, bounds: Bounds) -> TensorEvaluation:
        dims, keep = tuple(attrs["dims"]), bool(attrs["keepdim"])
        terms = float(factor(math.prod(x.shape[d] for d in dims), bounds))
        if not dims:  # NOTE: to torch no dimensions mean all of them
            return _evaluation(x.double(), terms * x.double().abs())
        magnitude = x.abs().sum(dims, keepdim=keep, dtype=torch.float64)
        return _evaluation(x.sum(dims, keepdim=keep, dtype=torch.float64), terms * magnitude)

    def _scatter_add(self, base: Tensor, idx: Tensor, src: Tensor, bounds: Bounds) -> TensorEvaluation:
        """Evaluate only the rows that receive a sum; the others are the base's."""
        flat = idx.reshape(-1)
        met = ((flat >= 0) & (flat < base.shape[0])).nonzero().reshape(-1)
        rows, place, counts = torch.unique(flat[met], return_inverse=True, return_counts=True)
        found = src.reshape(flat.numel(), *base.shape[1:])[met].double()
        start = base[rows].double()
        total, magnitude = start.index_add(0, place, found), start.abs().index_add_(0, place, found.abs())
        terms = self._f64(factor(1 + _array(counts), bounds)).reshape(-1, *[1] * (base.dim() - 1))
        return TensorEvaluation(total, (terms, _known(magnitude)), _array(rows), base)

    def _readable(
        self, name: str, inputs: Sequence[Tensor], attrs: Attrs, bounds: Bounds
    ) -> TensorEvaluation:
        """Evaluate with numpy, on the host."""
        found = readable(name, [self.device.read(v) for v in inputs], attrs, bounds)
        return TensorEvaluation(self._f64(found.x), tuple(map(self._f64, found.radius.factors)))

    def _f64(self, array: F64) -> Tensor:
        return torch.from_numpy(np.array(array, order="C")).to(self._where)


def _evaluation(x: Tensor, *factors: Tensor) -> TensorEvaluation:
    return TensorEvaluation(x, tuple(map(_known, factors)))


def _known(factors: Tensor) -> Tensor:
    """Replace NaN by infinity. SAFETY: a NaN would count as 0, even for elements that do not use its operand."""
    return torch.where(factors.isnan(), math.inf, factors)


def _norm(x: Tensor, dim: int) -> Tensor:
    """Return the Euclidean norm. NOTE: squares of binary32 values are exact in float64 and do not underflow."""
    norm: Tensor = torch.linalg.vector_norm(x, dim=dim)
    return norm


def _array(tensor: Tensor) -> Array:
    return tensor.cpu().numpy()
