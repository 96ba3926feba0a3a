"""Pooling with options that the operators lack, and convolutions of volumes.

A pooled axis is a table: the places of each window, and which of them exist. Elements are taken by these tables, so
every kind of window has one form. A convolution of volumes is one of planes with the channels of several layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from .registry import replaces

aten = torch.ops.aten
Tensor = torch.Tensor


@dataclass(frozen=True)
class Axis:
    """Windows along one dimension: `starts` may be negative (padding), `sizes` are how many places each has."""

    length: int
    starts: list[int]
    ends: list[int]
    step: int = 1

    def table(self) -> tuple[Tensor, Tensor]:
        """Return places and whether they exist, both [windows, longest window]."""
        longest = max(
            -(-(end - start) // self.step) for start, end in zip(self.starts, self.ends, strict=True)
        )
        rows = [[s + k * self.step for k in range(longest)] for s in self.starts]
        exists = [
            [p < end and 0 <= p < self.length for p in row] for row, end in zip(rows, self.ends, strict=True)
        ]
        inside = [[min(max(p, 0), self.length - 1) for p in row] for row in rows]
        return torch.tensor(inside), torch.tensor(exists)


def _axis(length: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> Axis:
    reach = dilation * (kernel - 1) + 1
    spare = length + 2 * padding - reach
    count = (-(-spare // stride) if ceil else spare // stride) + 1
    if ceil and (count - 1) * stride >= length + padding:
        count -= 1  # as in PyTorch, the last window starts inside
    starts = [i * stride - padding for i in range(count)]
    return Axis(length, starts, [s + reach for s in starts], dilation)


def _adaptive(length: int, count: int) -> Axis:
    starts = [i * length // count for i in range(count)]
    return Axis(length, starts, [-(-(i + 1) * length // count) for i in range(count)])


def _taken(x: Tensor, axes: Sequence[Axis]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the elements of windows [..., windows of each axis, elements], which exist, and their places."""
    first, n = x.ndim - len(axes), len(axes)
    place: Tensor | None = None
    exists: Tensor | None = None
    for d, axis in enumerate(axes):
        places, found = axis.table()
        x = x.index_select(first + 2 * d, places.reshape(-1))
        x = x.unflatten(first + 2 * d, tuple(places.shape))
        shape = [1] * (2 * n)
        shape[2 * d : 2 * d + 2] = places.shape
        places, found = places.reshape(shape), found.reshape(shape)
        place = places if place is None else place * axis.length + places
        exists = found if exists is None else exists & found
    assert place is not None
    assert exists is not None
    inner = [first + 2 * d for d in range(n)] + [first + 2 * d + 1 for d in range(n)]
    x = x.permute(*range(first), *inner).flatten(first + n)
    own = [d - first for d in inner]
    return x, exists.permute(own).flatten(n), place.permute(own).flatten(n)


def _largest(x: Tensor, axes: Sequence[Axis]) -> tuple[Tensor, Tensor]:
    """Return the first maximum of each window and its place in the plane."""
    elements, exists, places = _taken(x, axes)
    values, which = torch.where(exists, elements, -math.inf).max(-1)
    return values, places.expand(elements.shape).gather(-1, which.unsqueeze(-1)).squeeze(-1)


def _average(x: Tensor, axes: Sequence[Axis], divisors: Tensor) -> Tensor:
    elements, exists, _ = _taken(x, axes)
    return torch.where(exists, elements, 0.0).sum(-1) / divisors


def _each(value: Sequence[int], n: int) -> list[int]:
    return list(value) * n if len(value) == 1 else list(value)


def _axes(
    x: Tensor,
    n: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil: bool,
) -> list[Axis]:
    kernels, strides, pads, reach = (_each(v, n) for v in (kernel, stride or kernel, padding, dilation))
    return [_axis(x.shape[d - n], kernels[d], strides[d], pads[d], reach[d], ceil) for d in range(n)]


# ----------------------------------------------------------------------------------------------------- largest


class _Plain(torch.autograd.Function):
    """PyTorch's own operator and its gradient, kept whole: the operator set has it."""

    @staticmethod
    def forward(context: Any, x: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
        with torch._C._AutoDispatchBelowAutograd():  # else this function would be called again
            values, index = aten.max_pool2d_with_indices(x, *options)
        context.save_for_backward(x, index)
        context.options = options
        context.mark_non_differentiable(index)
        return values, index

    @staticmethod
    def backward(context: Any, grad: Tensor, _: Any) -> Any:
        x, index = context.saved_tensors
        return aten.max_pool2d_with_indices_backward(grad, x, *context.options, index), *[None] * 5


@replaces(aten.max_pool2d_with_indices.default)
def max_pool2d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil: bool = False,
) -> tuple[Tensor, Tensor]:
    options = [_each(v, 2) for v in (kernel, stride or kernel, padding, dilation)]
    if x.ndim == 4 and not ceil and not (any(options[2]) and set(options[3]) != {1}):
        found: tuple[Tensor, Tensor] = _Plain.apply(x, *options, False)  # type: ignore[no-untyped-call]
        return found
    return _largest(x, _axes(x, 2, kernel, stride, padding, dilation, ceil))


@replaces(aten.max_pool3d_with_indices.default)
def max_pool3d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil: bool = False,
) -> tuple[Tensor, Tensor]:
    return _largest(x, _axes(x, 3, kernel, stride, padding, dilation, ceil))


@replaces(aten.adaptive_max_pool2d.default)
def adaptive_max_pool2d(x: Tensor, size: Sequence[int]) -> tuple[Tensor, Tensor]:
    return _largest(x, [_adaptive(n, m) for n, m in zip(x.shape[-2:], size, strict=True)])


@replaces(aten.adaptive_max_pool3d.default)
def adaptive_max_pool3d(x: Tensor, size: Sequence[int]) -> tuple[Tensor, Tensor]:
    return _largest(x, [_adaptive(n, m) for n, m in zip(x.shape[-3:], size, strict=True)])


# ----------------------------------------------------------------------------------------------------- average


def _averaged(
    x: Tensor,
    n: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Tensor:
    axes = _axes(x, n, kernel, stride, padding, (1,), ceil)
    pads = _each(padding, n)
    counts = torch.ones(())
    for axis, pad in zip(axes, pads, strict=True):
        low, high = (-pad, axis.length + pad) if count_include_pad else (0, axis.length)
        ends = zip(axis.starts, axis.ends, strict=True)
        counts = counts.unsqueeze(-1) * torch.tensor([float(min(b, high) - max(a, low)) for a, b in ends])
    return _average(x, axes, torch.full((), float(divisor)) if divisor else counts)


@replaces(aten.avg_pool2d.default)
def avg_pool2d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Tensor:
    """Return means of windows: of equal ones by a convolution of each channel with a constant kernel."""
    if ceil or x.ndim != 4 or (any(padding) and not count_include_pad):
        return _averaged(x, 2, kernel, stride, padding, ceil, count_include_pad, divisor)
    sides = _each(kernel, 2)
    weight = torch.full((x.shape[1], 1, *sides), 1 / (divisor or math.prod(sides)), dtype=x.dtype)
    return functional.conv2d(x, weight, None, tuple(stride or sides), tuple(padding), 1, x.shape[1])


@replaces(aten.avg_pool3d.default)
def avg_pool3d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Tensor:
    return _averaged(x, 3, kernel, stride, padding, ceil, count_include_pad, divisor)


def _adaptive_average(x: Tensor, size: Sequence[int]) -> Tensor:
    axes = [_adaptive(n, m) for n, m in zip(x.shape[-len(size) :], size, strict=True)]
    counts = torch.ones(())
    for axis in axes:
        ends = zip(axis.starts, axis.ends, strict=True)
        counts = counts.unsqueeze(-1) * torch.tensor([float(b - a) for a, b in ends])
    return _average(x, axes, counts)


@replaces(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(x: Tensor, size: Sequence[int]) -> Tensor:
    if x.ndim == 4 and not (x.shape[2] % size[0] or x.shape[3] % size[1]):
        return avg_pool2d(x, [x.shape[2] // size[0], x.shape[3] // size[1]])
    return _adaptive_average(x, size)


@replaces(aten._adaptive_avg_pool3d.default)
def adaptive_avg_pool3d(x: Tensor, size: Sequence[int]) -> Tensor:
    return _adaptive_average(x, size)


# ----------------------------------------------------------------------------------------------------- volumes


@replaces(aten.conv3d.default)
def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Tensor:
    """Convolve planes, each with the channels of all layers that the kernel covers."""
    if x.ndim == 4:
        return conv3d(x.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
    steps, pads, reach = (_each(v, 3) for v in (stride, padding, dilation))
    x = functional.pad(x, (0, 0, 0, 0, pads[0], pads[0]))
    layers = (x.shape[2] - reach[0] * (weight.shape[2] - 1) - 1) // steps[0] + 1
    taken = [
        x.narrow(2, k * reach[0], (layers - 1) * steps[0] + 1)[:, :, :: steps[0]]
        for k in range(weight.shape[2])
    ]
    stacked = torch.stack(taken, 2).movedim(3, 1).flatten(2, 3).flatten(0, 1)
    y = functional.conv2d(
        stacked, weight.flatten(1, 2), bias, tuple(steps[1:]), tuple(pads[1:]), tuple(reach[1:]), groups
    )
    result: Tensor = y.unflatten(0, (x.shape[0], layers)).movedim(1, 2)
    return result


@replaces(aten.conv3d.padding)
def conv3d_padding(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: str = "valid",
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Tensor:
    """With "same" the result has the size of x; the odd one of an odd number of zeros comes last, as in PyTorch."""
    if padding == "same":
        reach = [d * (k - 1) for d, k in zip(_each(dilation, 3), weight.shape[2:], strict=True)]
        x = functional.pad(x, [n for r in reversed(reach) for n in (r // 2, r - r // 2)])
    return conv3d(x, weight, bias, stride, (0,), dilation, groups)


@replaces(aten.conv_transpose3d.input)
def conv_transpose3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    output_padding: Sequence[int] = (0,),
    groups: int = 1,
    dilation: Sequence[int] = (1,),
) -> Tensor:
    """Convolve x, with zeros between its elements, by the reversed kernel. weight [C, O / groups, ...]"""
    if x.ndim == 4:
        given = conv_transpose3d(
            x.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation
        )
        return given.squeeze(0)
    steps, pads, more, reach = (_each(v, 3) for v in (stride, padding, output_padding, dilation))
    ends: list[int] = []
    for k in range(3):
        dim = 2 + k
        spread = torch.stack([x, *[torch.zeros_like(x)] * (steps[k] - 1)], dim + 1).flatten(dim, dim + 1)
        x = spread.narrow(dim, 0, spread.shape[dim] - (steps[k] - 1))
        edge = reach[k] * (weight.shape[dim] - 1) - pads[k]
        ends = [edge, edge + more[k], *ends]
    turned = weight.flip(2, 3, 4).unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    return conv3d(functional.pad(x, ends), turned, bias, dilation=reach, groups=groups)
