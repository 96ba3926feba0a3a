"""Operators in binary64 through torch on the CPU: fast libraries, with the radii of the readable evaluation.

Operands are made binary64 together with the norms that radii are made of (repops.wide), so a radius costs next to
nothing. The results are those of `referee_py.rounding.evaluate` up to the order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import repops.rounding
import torch
from repops.rounding import round_all
from repops.wide import Wide, Workspace, wide_sum, widen
from torch.nn import functional

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.rounding.backend import Evaluator
from referee_py.rounding.bounds import elementary_radius, factor
from referee_py.rounding.evaluate import ELEMENTARY, Evaluation, Radius
from referee_py.rounding.evaluate import evaluate as readable
from referee_py.rounding.mode import Bounds
from referee_py.rounding.primitives import F64

Attrs = Mapping[str, Any]

SMALL_PLANE = 64
"""Positions of an output plane from which each image is a product of its own."""

__all__ = ["Attrs", "Evaluator", "TorchEvaluator"]


class TorchEvaluator:
    """Computes with the threads that torch is set to. An evaluation is good until the next one is asked for."""

    name = "torch"
    device = None

    def __init__(self) -> None:
        self._space = Workspace()

    def evaluate(self, name: str, inputs: Sequence[Array], attrs: Attrs, bounds: Bounds) -> Evaluation:
        """One evaluation of an operator that has a log. Raises InvalidInput for any other."""
        if not all(v.size for v in inputs):
            return readable(name, inputs, attrs, bounds)
        self._space.begin()
        evaluation = self._evaluate(name, inputs, attrs, bounds)
        # NOTE: torch multiplies absent taps as zeros, and zero times an infinite weight is NaN. By docs/opset.md,
        # section 2, they meet nothing.
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
            case "conv2d", (x, w):
                return self._conv2d(x, w, attrs, bounds)
            case "conv2d_input_grad", (dy, w):
                return self._input_grad(dy, w, attrs, bounds)
            case "conv2d_weight_grad", (dy, x):
                return self._weight_grad(dy, x, attrs, bounds)
            case "scatter_add", (base, idx, src):
                return self._scatter_add(base, idx, src, bounds)
        raise InvalidInput(f"{name} of {len(inputs)} inputs has no log; evaluate it as it is")

    def single(self, name: str, inputs: Sequence[Array], bits: int) -> Array:
        """One IEEE-754 operation in binary64, rounded."""
        if name == "cast":
            return round_all(inputs[0].astype(np.float64), bits)
        return repops.rounding.single(name, inputs, bits)

    # ------------------------------------------------------------------------------------------------ products

    def product(self, a: Array, b: Array, bounds: Bounds) -> Evaluation:
        """[..., M, K] times [..., K, N], f32 matrices with contiguous rows or columns."""
        self._space.begin()
        return self._product(a, b, bounds)

    def multiply(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The same in f64: what other libraries do otherwise."""
        shape = (*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
        return torch.matmul(a, b, out=torch.from_numpy(self._space.array(shape)))

    def _product(self, a: Array, b: Array, bounds: Bounds) -> Evaluation:
        left, right = self._wide(a), self._wide(b)
        x = self.multiply(torch.from_numpy(left.values), torch.from_numpy(right.values))
        rows = factor(a.shape[-1], bounds) * left.rows
        return _evaluation(x, rows[..., :, None], right.columns[..., None, :])

    def _wide(self, x: Array) -> Wide:
        if x.strides[-1] == x.itemsize or x.shape[-1] == 1:
            return widen(x, self._space)
        turned = widen(x.swapaxes(-1, -2), self._space)
        return Wide(turned.values.swapaxes(-1, -2), turned.columns, turned.rows)

    def _wide_tensor(self, x: torch.Tensor) -> Wide:
        return widen(x.contiguous().numpy(), self._space)

    # ------------------------------------------------------------------------------------------------ images

    def _conv2d(self, x: Array, w: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        groups, taps = int(attrs["groups"]), math.prod(w.shape[1:])
        columns = unfold(torch.from_numpy(x), w.shape[2:], attrs)
        weights = torch.from_numpy(w).reshape(groups, -1, taps)
        return self._images(weights, columns, output_plane(x.shape, w.shape, attrs), bounds)

    def _input_grad(self, dy: Array, w: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        """The convolution of dy, zeros between its elements, with the filters turned around."""
        groups, (filters, channels, *kernel) = int(attrs["groups"]), w.shape
        gradient = torch.from_numpy(spread(dy, attrs, kernel))
        turned = {**attrs, "stride": (1, 1), "padding": (0, 0)}
        columns = unfold(gradient, kernel, turned)
        weights = torch.from_numpy(w).reshape(groups, filters // groups, channels, *kernel).flip(3, 4)
        weights = weights.transpose(1, 2).reshape(groups, channels, -1)
        return self._images(weights, columns, tuple(attrs["input_hw"]), bounds)

    def _images(
        self, weights: torch.Tensor, columns: torch.Tensor, plane: tuple[int, ...], bounds: Bounds
    ) -> Evaluation:
        """weights [G, F, K] times columns [N, G, K, P]: [N, G F, *plane]."""
        (groups, filters, taps), images, places = weights.shape, columns.shape[0], columns.shape[-1]
        left = self._wide_tensor(weights)
        if places >= SMALL_PLANE:
            right = self._wide_tensor(columns)
            x = self.multiply(torch.from_numpy(left.values), torch.from_numpy(right.values))
            norms = right.columns[:, :, None, :]
        else:
            # NOTE: small planes side by side, or each product would be too small for the library.
            right = self._wide_tensor(columns.permute(1, 2, 0, 3).reshape(groups, taps, images * places))
            x = self.multiply(torch.from_numpy(left.values), torch.from_numpy(right.values))
            x = x.reshape(groups, filters, images, places).permute(2, 0, 1, 3)
            norms = right.columns.reshape(groups, 1, images, places).transpose(2, 0, 1, 3)
        rows = factor(taps, bounds) * left.rows
        values = x.reshape(images, groups * filters, *plane)
        if groups == 1:
            return _evaluation(values, rows.reshape(filters, 1, 1), norms.reshape(images, 1, *plane))
        norms = np.broadcast_to(norms, (images, groups, filters, places)).reshape(values.shape)
        return _evaluation(values, rows.reshape(groups * filters, 1, 1), norms)

    def _weight_grad(self, dy: Array, x: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        groups, filters, kernel = int(attrs["groups"]), dy.shape[1], tuple(attrs["kernel_hw"])
        columns = unfold(torch.from_numpy(x), kernel, attrs)
        images, _, taps, places = columns.shape
        gradient = torch.from_numpy(dy).reshape(images, groups, filters // groups, places)
        left = self._wide_tensor(gradient.permute(1, 2, 0, 3).reshape(groups, -1, images * places))
        right = self._wide_tensor(columns.permute(1, 2, 0, 3).reshape(groups, taps, images * places))
        product = self.multiply(torch.from_numpy(left.values), torch.from_numpy(right.values).transpose(1, 2))
        shape = filters, x.shape[1] // groups, *kernel
        rows = (factor(images * places, bounds) * left.rows).reshape(filters, 1, 1, 1)
        norms = np.repeat(right.rows, 1 if groups == 1 else filters // groups, axis=0)
        return _evaluation(product.reshape(shape), rows, norms.reshape(-1, *shape[1:]))

    # ------------------------------------------------------------------------------------------------ sums

    def _sum(self, x: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        dims, shape = tuple(attrs["dims"]), x.shape
        total, magnitude = _total(x, dims)
        kept = tuple(1 if d in dims else n for d, n in enumerate(shape) if attrs["keepdim"] or d not in dims)
        terms = math.prod(shape[d] for d in dims)
        return _evaluation(total.reshape(kept), factor(terms, bounds), magnitude.reshape(kept))

    def _scatter_add(self, base: Array, idx: Array, src: Array, bounds: Bounds) -> Evaluation:
        """Only the rows that something is added to; the others are the base's."""
        flat = idx.reshape(-1)
        met = np.flatnonzero((flat >= 0) & (flat < base.shape[0]))
        rows, place = np.unique(flat[met], return_inverse=True)
        found = torch.from_numpy(src).reshape(flat.size, *base.shape[1:])[torch.from_numpy(met)].double()
        start, where = torch.from_numpy(base[rows]).double(), torch.from_numpy(place)
        total, magnitude = start.index_add(0, where, found), start.abs().index_add_(0, where, found.abs())
        terms = 1 + np.bincount(place, minlength=rows.size).reshape(-1, *[1] * (base.ndim - 1))
        evaluation = _evaluation(total, factor(terms, bounds), magnitude.numpy())
        return replace(evaluation, rows=rows, rest=base)

    # ------------------------------------------------------------------------------------------------ functions

    def _function(self, name: str, inputs: Sequence[Array]) -> Evaluation:
        y = getattr(torch, name)(*(torch.from_numpy(v).double() for v in inputs)).numpy()
        return Evaluation(y, Radius((_known(elementary_radius(y)),)))


def _total(x: Array, dims: tuple[int, ...]) -> tuple[F64, F64]:
    """Sums over some dimensions, those of the last ones first, of elements and of their magnitudes."""
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
    total, magnitude = (part.reshape(kept) for part in wide_sum(x.reshape(shape)))
    return (total.sum(axis=rest), magnitude.sum(axis=rest)) if rest else (total, magnitude)


def unfold(x: torch.Tensor, kernel: Sequence[int], attrs: Attrs) -> torch.Tensor:
    """What each tap reads, [N, G, C R S, Y X]: 0 outside the image."""
    images, channels, groups = x.shape[0], x.shape[1], int(attrs["groups"])
    if tuple(kernel) == (1, 1) and not any(attrs["padding"]):
        found = x[:, :, :: attrs["stride"][0], :: attrs["stride"][1]].flatten(2)
    else:
        window = {name: list(attrs[name]) for name in ("stride", "padding", "dilation")}
        found = functional.unfold(x, list(kernel), **window)
    return found.reshape(images, groups, channels // groups * math.prod(kernel), -1).contiguous()


def output_plane(x: Sequence[int], w: Sequence[int], attrs: Attrs) -> tuple[int, ...]:
    """(Y, X) of the forward convolution."""
    window = zip(x[2:], w[2:], attrs["stride"], attrs["padding"], attrs["dilation"], strict=True)
    return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in window)


def spread(dy: Array, attrs: Attrs, kernel: Sequence[int]) -> Array:
    """dy with zeros between its elements and around them, so that windows without stride meet what they have to."""
    first, size = [], []
    for d in (0, 1):
        reach = int(attrs["dilation"][d]) * (kernel[d] - 1)
        first.append(reach - int(attrs["padding"][d]))
        size.append(int(attrs["input_hw"][d]) + reach)
    wide = np.zeros((*dy.shape[:2], *size), np.float32)
    places, taken = [], []
    for d in (0, 1):
        at = first[d] + int(attrs["stride"][d]) * np.arange(dy.shape[2 + d])
        inside = (at >= 0) & (
            at < size[d]
        )  # NOTE: with more padding than the kernel reaches, the rest meets nothing
        places.append(at[inside])
        taken.append(np.flatnonzero(inside))
    wide[:, :, places[0][:, None], places[1]] = dy[:, :, taken[0][:, None], taken[1]]
    return wide


def _evaluation(x: torch.Tensor | F64, *factors: F64) -> Evaluation:
    values = x.numpy() if isinstance(x, torch.Tensor) else x
    return Evaluation(np.asarray(values), Radius(tuple(map(_known, factors))))


def _known(factors: F64) -> F64:
    """SAFETY: a NaN says nothing of the elements that do not meet the operand that caused it, as infinity does."""
    return np.where(np.isnan(factors), np.inf, factors)
