"""Operators that move elements (pooling, gather, scatter, layout) or create tensors from attributes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..opset import BF16, BOOL, F32, Dtype, Shape, window_positions
from ..tensors import NUMPY_DTYPE, Array
from .arithmetic import MINUS_INF, order_key


def max_pool2d(
    x: Array, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> tuple[Array, Array]:
    """Return values and indices h*W + w. A window without any element gives (-inf, -1)."""
    height, width = x.shape[2:]
    window = {"stride": stride, "padding": padding, "dilation": dilation}
    out_h, out_w = window_positions((height, width), kernel, window)
    values = np.full((*x.shape[:2], out_h, out_w), MINUS_INF)
    indices = np.full(values.shape, -1, dtype=np.int64)
    key = order_key(x)
    for y in range(out_h):
        for z in range(out_w):
            best = np.full(x.shape[:2], np.iinfo(np.int64).min)
            for r in range(kernel[0]):
                for s in range(kernel[1]):
                    h, w = (
                        y * stride[0] - padding[0] + r * dilation[0],
                        z * stride[1] - padding[1] + s * dilation[1],
                    )
                    if 0 <= h < height and 0 <= w < width:
                        wins = key[:, :, h, w] > best
                        best = np.where(wins, key[:, :, h, w], best)
                        values[:, :, y, z] = np.where(wins, x[:, :, h, w], values[:, :, y, z])
                        indices[:, :, y, z] = np.where(wins, h * width + w, indices[:, :, y, z])
    return values, indices


def take(x: Array, idx: Array) -> Array:
    """Return rows of x; a row that does not exist is zeros."""
    out = np.zeros((idx.size, *x.shape[1:]), dtype=x.dtype)
    for place, row in enumerate(idx.ravel().tolist()):
        if 0 <= row < x.shape[0]:
            out[place] = x[row]
    return out.reshape(idx.shape + x.shape[1:])


def scatter_add(base: Array, idx: Array, src: Array) -> Array:
    """Return a copy of base with source rows added in ascending order; rows that do not exist are skipped."""
    out = base.copy()
    rows = src.reshape(idx.size, *base.shape[1:])
    for place, row in enumerate(idx.ravel().tolist()):
        if 0 <= row < base.shape[0]:
            out[row] = out[row] + rows[place]
    return out


def reshape(x: Array, shape: Shape) -> Array:
    return x.reshape(shape)


def permute(x: Array, dims: Sequence[int]) -> Array:
    return x.transpose(dims)


def expand(x: Array, shape: Shape) -> Array:
    return np.broadcast_to(x, shape)


def slice_(x: Array, dim: int, start: int, stop: int, step: int) -> Array:
    return x[(slice(None),) * dim + (slice(start, stop, step),)]


def cat(*parts: Array, dim: int) -> Array:
    return np.concatenate(parts, axis=dim)


def full(shape: Shape, dtype: Dtype, bits: int) -> Array:
    code = {F32: "<u4", BOOL: "<u1", BF16: "<u2"}.get(dtype, "<u8")
    return np.full(shape, bits, dtype=code).view(NUMPY_DTYPE[dtype])


def arange(n: int) -> Array:
    return np.arange(n, dtype=np.int64)
