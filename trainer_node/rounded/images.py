"""Convolutions as matrix products, on torch tensors on any device, and the norms that bound them.

Images are unfolded: each element is copied once for every tap that reads it. Where that takes too much memory, torch's
own convolutions are used, which are slower and unfold one image at a time.

Letters: N images, G groups, C input channels and F filters of one group, (R, S) kernel, (Y, X) output plane, P = Y X
places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from repops.opset import window_positions
from torch.nn import functional

from . import UNFOLDED_BYTES

Tensor = torch.Tensor
Attrs = Mapping[str, Any]

SMALL_PLANE = 64
"""Positions of an output plane from which each image is a separate product."""
MAX_UNFOLDED = UNFOLDED_BYTES // 24
"""Largest number of elements of unfolded images: they exist at most twice in binary32 and twice in binary64."""


class F64Matrix(NamedTuple):
    """`values` [..., M, N] f64; the Euclidean norms of rows [..., M] and of columns [..., N]."""

    values: Tensor
    rows: Tensor
    columns: Tensor


class Library(Protocol):
    """The library that computes the products."""

    max_unfolded: int
    """Elements of unfolded images that it may hold."""

    def to_f64(self, x: Tensor) -> F64Matrix:
        """Convert an f32 tensor [..., M, N] to f64."""
        ...

    def multiply(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply [..., M, K] by [..., K, N], f64."""
        ...


class Product(NamedTuple):
    """f64. The magnitudes of each element's `terms` add up to at most `left` times `right`, which broadcast to x."""

    x: Tensor
    terms: int
    left: Tensor
    right: Tensor


def conv2d(library: Library, x: Tensor, w: Tensor, attrs: Attrs) -> Product:
    """Convolve [N, G C, H, W] with [G F, C, R, S], f32."""
    groups, taps = int(attrs["groups"]), math.prod(w.shape[1:])
    plane = window_positions(x.shape[2:], w.shape[2:], attrs)
    if x.shape[0] * x.shape[1] * math.prod(w.shape[2:]) * math.prod(plane) > library.max_unfolded:
        windows = torch.conv2d(_squares(x, groups), _ones(w, groups), None, *_window(attrs), groups)
        with _without_transforms():
            found = torch.conv2d(x.double(), w.double(), None, *_window(attrs), groups)
        return _bounded(found, windows, w.reshape(groups, -1, taps))
    columns = _unfold(x, w.shape[2:], attrs)
    return _images(library, w.reshape(groups, -1, taps), columns, plane)


def conv2d_input_grad(library: Library, dy: Tensor, w: Tensor, attrs: Attrs) -> Product:
    """Convolve dy, with zeros between its elements, with the filters turned around."""
    groups, (filters, channels, *kernel) = int(attrs["groups"]), w.shape
    spread = math.prod(_spread_plane(attrs, kernel))
    if (
        dy.shape[0] * dy.shape[1] * max(math.prod(kernel) * math.prod(attrs["input_hw"]), spread)
        > library.max_unfolded
    ):
        size = (dy.shape[0], groups * channels, *attrs["input_hw"])
        windows = _backward(_squares(dy, groups), _ones(w, groups), attrs, (size[0], groups, *size[2:]), 0)
        weights = w.reshape(groups, filters // groups, channels, -1).transpose(1, 2)
        found = _backward(dy.double(), w.double(), attrs, size, 0)
        return _bounded(found, windows, weights.reshape(groups, channels, -1))
    turned = {**attrs, "stride": (1, 1), "padding": (0, 0)}
    columns = _unfold(_spread(dy, attrs, kernel), kernel, turned)
    weights = w.reshape(groups, filters // groups, channels, *kernel).flip(3, 4)
    weights = weights.transpose(1, 2).reshape(groups, channels, -1)
    return _images(library, weights, columns, tuple(attrs["input_hw"]))


def conv2d_weight_grad(library: Library, dy: Tensor, x: Tensor, attrs: Attrs) -> Product:
    """Multiply each filter's gradients by the inputs they meet, over images and places."""
    groups, filters, kernel = int(attrs["groups"]), dy.shape[1], tuple(attrs["kernel_hw"])
    if x.shape[0] * x.shape[1] * math.prod(kernel) * math.prod(dy.shape[2:]) > library.max_unfolded:
        size = (filters, x.shape[1] // groups, *kernel)
        found = _backward(dy.double(), x.double(), attrs, size, 1)
        of_filters, of_channels = (torch.linalg.vector_norm(t.double(), dim=(0, 2, 3)) for t in (dy, x))
        channels = of_channels.reshape(groups, -1).repeat_interleave(
            1 if groups == 1 else filters // groups, 0
        )
        terms = dy.shape[0] * math.prod(dy.shape[2:])
        return Product(found, terms, of_filters[:, None, None, None], channels[:, :, None, None])
    columns = _unfold(x, kernel, attrs)
    images, _, taps, places = columns.shape
    gradient = dy.reshape(images, groups, filters // groups, places)
    left = library.to_f64(gradient.permute(1, 2, 0, 3).reshape(groups, -1, images * places))
    right = library.to_f64(columns.permute(1, 2, 0, 3).reshape(groups, taps, images * places))
    product = library.multiply(left.values, right.values.transpose(1, 2))
    shape = filters, x.shape[1] // groups, *kernel
    norms = right.rows if groups == 1 else right.rows.repeat_interleave(filters // groups, dim=0)
    rows = left.rows.reshape(filters, 1, 1, 1)
    return Product(product.reshape(shape), images * places, rows, norms.reshape(-1, *shape[1:]))


Operator = Callable[[Library, Tensor, Tensor, Attrs], Product]
OPERATORS: dict[str, Operator] = {
    "conv2d": conv2d,
    "conv2d_input_grad": conv2d_input_grad,
    "conv2d_weight_grad": conv2d_weight_grad,
}


def _images(library: Library, weights: Tensor, columns: Tensor, plane: tuple[int, ...]) -> Product:
    """Multiply weights [G, F, K] by columns [N, G, K, P]: [N, G F, *plane]."""
    (groups, filters, taps), images, places = weights.shape, columns.shape[0], columns.shape[-1]
    left = library.to_f64(weights)
    if places >= SMALL_PLANE:
        right = library.to_f64(columns)
        x = library.multiply(left.values, right.values)
        norms = right.columns[:, :, None, :]
    else:
        # NOTE: small planes are put side by side; each product alone would be too small for the library.
        right = library.to_f64(columns.permute(1, 2, 0, 3).reshape(groups, taps, images * places))
        x = library.multiply(left.values, right.values)
        x = x.reshape(groups, filters, images, places).permute(2, 0, 1, 3)
        norms = right.columns.reshape(groups, 1, images, places).permute(2, 0, 1, 3)
    values = x.reshape(images, groups * filters, *plane)
    if groups == 1:
        return Product(values, taps, left.rows.reshape(filters, 1, 1), norms.reshape(images, 1, *plane))
    norms = norms.expand(images, groups, filters, places).reshape(values.shape)
    return Product(values, taps, left.rows.reshape(groups * filters, 1, 1), norms)


def _unfold(x: Tensor, kernel: Sequence[int], attrs: Attrs) -> Tensor:
    """Return what each tap reads, [N, G, C R S, P]: 0 outside the image."""
    images, channels, groups = x.shape[0], x.shape[1], int(attrs["groups"])
    if tuple(kernel) == (1, 1) and not any(attrs["padding"]):
        found = x[:, :, :: attrs["stride"][0], :: attrs["stride"][1]].flatten(2)
    else:
        window = {name: tuple(attrs[name]) for name in ("stride", "padding", "dilation")}
        found = functional.unfold(x, tuple(kernel), **window)
    return found.reshape(images, groups, channels // groups * math.prod(kernel), -1).contiguous()


def _spread_plane(attrs: Attrs, kernel: Sequence[int]) -> tuple[int, int]:
    """Return the input's plane plus the reach of the kernel. SAFETY: an untrusted dilation can make it huge."""
    height, width = (int(attrs["input_hw"][d]) + int(attrs["dilation"][d]) * (kernel[d] - 1) for d in (0, 1))
    return height, width


def _spread(dy: Tensor, attrs: Attrs, kernel: Sequence[int]) -> Tensor:
    """Put zeros between and around the elements of dy, so that windows without stride read the right elements."""
    size = _spread_plane(attrs, kernel)
    first = [int(attrs["dilation"][d]) * (kernel[d] - 1) - int(attrs["padding"][d]) for d in (0, 1)]
    wide = dy.new_zeros((*dy.shape[:2], *size))
    places, taken = [], []
    for d in (0, 1):
        stride = int(attrs["stride"][d])
        at = first[d] + stride * np.arange(dy.shape[2 + d])
        inside = np.flatnonzero((at >= 0) & (at < size[d]))
        # NOTE: with more padding than the kernel reaches, some elements are never read. Those that are form one run.
        begin, end = (int(inside[0]), int(inside[-1])) if inside.size else (0, -1)
        taken.append(slice(begin, end + 1))
        places.append(slice(first[d] + stride * begin, first[d] + stride * end + 1, stride))
    if all(part.stop > part.start for part in taken):
        wide[:, :, places[0], places[1]] = dy[:, :, taken[0], taken[1]]
    return wide


# ------------------------------------------------------------------------------------------------- large images


def _without_transforms() -> AbstractContextManager[None]:
    """Disable cuDNN. SAFETY: it may use Winograd or Fourier transforms, which no bound covers; torch multiplies."""
    found: AbstractContextManager[None] = torch.backends.cudnn.flags(enabled=False)
    return found


def _window(attrs: Attrs) -> tuple[list[int], list[int], list[int]]:
    stride, padding, dilation = (list(attrs[name]) for name in ("stride", "padding", "dilation"))
    return stride, padding, dilation


def _squares(x: Tensor, groups: int) -> Tensor:
    """Return sums of squares over the channels of each group: [N, G, ...], f64."""
    wide = x.double()
    return (wide * wide).reshape(x.shape[0], groups, -1, *x.shape[2:]).sum(2)


def _ones(w: Tensor, groups: int) -> Tensor:
    return w.new_ones((groups, 1, *w.shape[2:]), dtype=torch.float64)


def _backward(dy: Tensor, other: Tensor, attrs: Attrs, size: Sequence[int], which: int) -> Tensor:
    """Return the gradient of a convolution's input (0, `other` its weight) or weight (1, `other` its input)."""
    unused = other.new_empty(size)
    x, w = (unused, other) if which == 0 else (other, unused)
    groups, wanted = int(attrs["groups"]), [which == 0, which == 1, False]
    found = torch.ops.aten.convolution_backward(
        dy, x, w, None, *_window(attrs), False, [0, 0], groups, wanted
    )
    gradient: Tensor = found[which]
    return gradient.contiguous()


def _bounded(x: Tensor, windows: Tensor, weights: Tensor) -> Product:
    """Bound by the norms of windows, from one channel of sums of squares, and those of the weights [G, F, K]."""
    groups, filters, taps = weights.shape
    norms = torch.linalg.vector_norm(weights.double(), dim=-1).reshape(groups * filters, 1, 1)
    spread = windows.sqrt().repeat_interleave(1 if groups == 1 else filters, 1)
    return Product(x, taps, norms, spread)
