"""Operators in binary64 through torch on the CPU: fast libraries, with the radii of the readable evaluation.

Operands are made binary64 together with the norms that radii are made of (repops.wide), so a radius costs next to
nothing. The results are those of `referee_py.rounding.evaluate` up to the order of sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from repops.rounding import round_all
from repops.wide import wide_sum, widen
from torch.nn import functional

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.rounding.backend import Evaluator
from referee_py.rounding.bounds import elementary_radius, factor
from referee_py.rounding.evaluate import ELEMENTARY, Evaluation, Radius
from referee_py.rounding.mode import Bounds
from referee_py.rounding.primitives import F64

Attrs = Mapping[str, Any]

__all__ = ["Attrs", "Evaluator", "TorchEvaluator"]


class TorchEvaluator:
    """Computes with the threads that torch is set to."""

    name = "torch"

    def evaluate(self, name: str, inputs: Sequence[Array], attrs: Attrs, bounds: Bounds) -> Evaluation:
        """One evaluation of an operator that has a log. Raises InvalidInput for any other."""
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
        operands = [torch.from_numpy(v).double() for v in inputs]
        found = operands[0] if name == "cast" else getattr(torch, name)(*operands)
        return round_all(found.contiguous().numpy(), bits)

    # ------------------------------------------------------------------------------------------------ products

    def matmul(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """[..., M, K] times [..., K, N]."""
        return a @ b

    def _product(self, a: Array, b: Array, bounds: Bounds) -> Evaluation:
        left, right = widen(a), widen(b)
        x = self.matmul(torch.from_numpy(left.values), torch.from_numpy(right.values))
        rows = factor(a.shape[-1], bounds) * left.rows
        return _evaluation(x, rows[..., :, None], right.columns[..., None, :])

    # ------------------------------------------------------------------------------------------------ images

    def convolve(self, x: torch.Tensor, w: torch.Tensor, attrs: Attrs) -> torch.Tensor:
        """The forward convolution."""
        return functional.conv2d(x, w, None, **_window(attrs))

    def input_gradient(self, dy: torch.Tensor, w: torch.Tensor, attrs: Attrs) -> torch.Tensor:
        """Of a convolution, for its input."""
        size = (dy.shape[0], w.shape[1] * int(attrs["groups"]), *attrs["input_hw"])
        return _backward(dy, w, attrs, size, 0)

    def weight_gradient(self, dy: torch.Tensor, x: torch.Tensor, attrs: Attrs) -> torch.Tensor:
        """Of a convolution, for its weight."""
        size = (dy.shape[1], x.shape[1] // int(attrs["groups"]), *attrs["kernel_hw"])
        return _backward(dy, x, attrs, size, 1)

    def _conv2d(self, x: Array, w: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        groups, filters, taps = int(attrs["groups"]), w.shape[0], math.prod(w.shape[1:])
        images = torch.from_numpy(x).double()
        ones = torch.ones(groups, 1, *w.shape[2:], dtype=torch.float64)
        windows = functional.conv2d(_squares(images, groups), ones, None, **_window(attrs)).sqrt_()
        norms = widen(w.reshape(1, filters, taps)).rows.reshape(filters, 1, 1)
        result = self.convolve(images, torch.from_numpy(w).double(), attrs)
        return _evaluation(result, _spread(windows, filters).numpy(), factor(taps, bounds) * norms)

    def _input_grad(self, dy: Array, w: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        groups, (filters, channels, *kernel) = int(attrs["groups"]), w.shape
        gradient, weight = torch.from_numpy(dy).double(), torch.from_numpy(w).double()
        ones = torch.ones(groups, 1, *kernel, dtype=torch.float64)
        small = (dy.shape[0], groups, *attrs["input_hw"])
        windows = _backward(_squares(gradient, groups), ones, attrs, small, 0).sqrt_()
        of_channels = (weight * weight).reshape(groups, filters // groups, channels, -1).sum((1, 3)).sqrt_()
        norms = factor(filters // groups * math.prod(kernel), bounds) * of_channels.reshape(-1, 1, 1).numpy()
        result = self.input_gradient(gradient, weight, attrs)
        return _evaluation(result, _spread(windows, groups * channels).numpy(), norms)

    def _weight_grad(self, dy: Array, x: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        groups, filters, channels = int(attrs["groups"]), dy.shape[1], x.shape[1] // int(attrs["groups"])
        gradient, images = torch.from_numpy(dy).double(), torch.from_numpy(x).double()
        of_filters = torch.linalg.vector_norm(gradient, dim=(0, 2, 3)).reshape(-1, 1, 1, 1)
        of_channels = torch.linalg.vector_norm(images, dim=(0, 2, 3)).reshape(groups, channels)
        norms = of_channels.repeat_interleave(filters // groups, 0)[:, :, None, None]
        result = self.weight_gradient(gradient, images, attrs)
        scaled = factor(dy.shape[0] * math.prod(dy.shape[2:]), bounds) * of_filters.numpy()
        return _evaluation(result, scaled, norms.numpy())

    # ------------------------------------------------------------------------------------------------ sums

    def _sum(self, x: Array, attrs: Attrs, bounds: Bounds) -> Evaluation:
        dims, shape = tuple(attrs["dims"]), x.shape
        total, magnitude = _total(x, dims)
        kept = tuple(1 if d in dims else n for d, n in enumerate(shape) if attrs["keepdim"] or d not in dims)
        terms = math.prod(shape[d] for d in dims)
        return _evaluation(total.reshape(kept), factor(terms, bounds), magnitude.reshape(kept))

    def _scatter_add(self, base: Array, idx: Array, src: Array, bounds: Bounds) -> Evaluation:
        rows, flat = base.shape[0], torch.from_numpy(idx.reshape(-1))
        met = (flat >= 0) & (flat < rows)
        found = torch.from_numpy(src).double().reshape(flat.numel(), *base.shape[1:])[met]
        start, where = torch.from_numpy(base).double(), flat[met]
        total, magnitude = start.index_add(0, where, found), start.abs().index_add_(0, where, found.abs())
        terms = 1 + np.bincount(where.numpy(), minlength=rows).reshape(rows, *[1] * (base.ndim - 1))
        return _evaluation(total, factor(terms, bounds), magnitude.numpy())

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


def _window(attrs: Attrs) -> dict[str, Any]:
    lists = {name: list(attrs[name]) for name in ("stride", "padding", "dilation")}
    return {**lists, "groups": int(attrs["groups"])}


def _squares(x: torch.Tensor, groups: int) -> torch.Tensor:
    """Sums of squares over the channels of each group: [N, G, ...]."""
    return (x * x).reshape(x.shape[0], groups, -1, *x.shape[2:]).sum(2)


def _spread(windows: torch.Tensor, channels: int) -> torch.Tensor:
    groups = windows.shape[1]
    return windows if groups == 1 else windows.repeat_interleave(channels // groups, 1)


def _backward(
    dy: torch.Tensor, other: torch.Tensor, attrs: Attrs, size: tuple[int, ...], which: int
) -> torch.Tensor:
    """The gradient of a convolution's input (0, `other` its weight) or weight (1, `other` its input)."""
    unused = torch.empty(size, dtype=torch.float64)
    x, w = (unused, other) if which == 0 else (other, unused)
    window = _window(attrs)
    found = torch.ops.aten.convolution_backward(
        *(dy, x, w, None, window["stride"], window["padding"], window["dilation"], False, [0, 0]),
        *(window["groups"], [which == 0, which == 1, False]),
    )
    gradient: torch.Tensor = found[which]
    return gradient.contiguous()


def _evaluation(x: torch.Tensor | F64, *factors: F64) -> Evaluation:
    values = x.numpy() if isinstance(x, torch.Tensor) else x
    return Evaluation(np.asarray(values), Radius(tuple(map(_known, factors))))


def _known(factors: F64) -> F64:
    """SAFETY: a NaN says nothing of the elements that do not meet the operand that caused it, as infinity does."""
    return np.where(np.isnan(factors), np.inf, factors)
