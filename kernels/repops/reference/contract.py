"""Matrix products, convolutions and their gradients: each gives its own taps to `total`, by default `contract`.

Letters: N images, C input channels (of one group), F filters (output channels), G groups, (H, W) input, (Y, X) output,
(R, S) kernel.
"""

# ruff: noqa: N806 - dimensions are capital letters here

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..opset import BF16, F32, Dtype, Shape, window_positions
from ..tensors import NUMPY_DTYPE, Array
from .arithmetic import MINUS_ZERO, fma
from .pointwise import from_bf16, to_bf16

CHUNK = 512
PLUS_ZERO = np.float32(0)

Tap = Callable[[int], tuple[Any, Any]]
"""Returns the operands (a_k, b_k) of term k, for every element."""
Total = Callable[[Shape, int, Tap], Array]
"""Sums a_k * b_k over k below a length, for every element of a shape."""


def contraction(operator: Callable[..., Array], total: Callable[[Dtype], Total]) -> Callable[..., Array]:
    """Return an operator on factors of f32 or bf16. `total(dtype)` gives f32 values that are already of that dtype, or
    must be rounded to it."""

    def apply(a: Array, b: Array, **attrs: Any) -> Array:
        if a.dtype != NUMPY_DTYPE[BF16]:
            return operator(a, b, total(F32), **attrs)
        return to_bf16(operator(from_bf16(a), from_bf16(b), total(BF16), **attrs))

    return apply


def contract(shape: Shape, length: int, tap: Tap) -> Array:
    """Sum a_k * b_k over k for every element of `shape` at once, in the order of repops-f32.

    A chunk is a chain of fma from -0. Chunk totals are added in ascending order. Without taps the sum is -0.
    """
    result: Array = np.full(shape, MINUS_ZERO)
    for start in range(0, length, CHUNK):
        acc = np.full(shape, MINUS_ZERO)
        for k in range(start, min(start + CHUNK, length)):
            acc = fma(*tap(k), acc)
        np.add(result, acc, out=result)  # NOTE: -0 + chunk_0 is chunk_0 exactly
    return result


def bmm(a: Array, b: Array, total: Total = contract) -> Array:
    (batch, rows, length), columns = a.shape, b.shape[2]
    return total((batch, rows, columns), length, lambda k: (a[:, :, k, None], b[:, k, None, :]))


def mm(a: Array, b: Array, total: Total = contract) -> Array:
    return bmm(a[None], b[None], total).reshape(a.shape[0], b.shape[1])


def _masked(valid: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Make absent taps (-0, +0): fma(-0, +0, acc) is acc + -0, which is acc bit for bit."""
    return np.where(valid, a, MINUS_ZERO), np.where(valid, b, PLUS_ZERO)


def _input_index(
    out: int, kernel: int, size: int, stride: int, padding: int, dilation: int
) -> tuple[Array, Array]:
    """Return, along one axis as [out, kernel], the input index that a tap of an output reads and whether it exists."""
    index = np.arange(out)[:, None] * stride - padding + np.arange(kernel)[None, :] * dilation
    valid = (index >= 0) & (index < size)
    return np.where(valid, index, 0), valid


def _axes(attrs: dict[str, Any], out: Shape, kernel: Shape, size: Shape) -> list[tuple[Array, Array]]:
    return [
        _input_index(*numbers)
        for numbers in zip(
            out, kernel, size, attrs["stride"], attrs["padding"], attrs["dilation"], strict=True
        )
    ]


def conv2d(x: Array, w: Array, total: Total = contract, **attrs: Any) -> Array:
    """Compute y[n,f,y,x]: taps (c, r, s) ascend, row-major."""
    groups = attrs["groups"]
    (N, _, H, W), (F, C, R, S) = x.shape, w.shape
    Y, X = window_positions((H, W), (R, S), attrs)
    (iy, vy), (ix, vx) = _axes(attrs, (Y, X), (R, S), (H, W))
    xg = x.reshape(N, groups, C, H, W)
    wg = w.reshape(groups, F // groups, C, R, S)

    def tap(k: int) -> tuple[Any, Any]:
        c, r, s = k // (R * S), k // S % R, k % S
        valid = vy[:, r, None] & vx[None, :, s]
        if 0 in (H, W):
            return MINUS_ZERO, PLUS_ZERO
        image = xg[:, :, c][:, :, iy[:, r, None], ix[None, :, s]]  # [N, G, Y, X]
        return _masked(valid, image[:, :, None], wg[:, :, c, r, s][None, :, :, None, None])

    return total((N, groups, F // groups, Y, X), C * R * S, tap).reshape(N, F, Y, X)


def conv2d_input_grad(grad: Array, w: Array, total: Total = contract, **attrs: Any) -> Array:
    """Compute dx[n,c,h,w]: taps (f in the group, r, s) ascend; a tap exists if some (y, x) reads (h, w) through it."""
    groups, (H, W) = attrs["groups"], attrs["input_hw"]
    (N, F, Y, X), (_, C, R, S) = grad.shape, w.shape

    def output_index(size: int, kernel: int, out: int, axis: int) -> tuple[Array, Array]:
        stride, padding, dilation = (attrs[name][axis] for name in ("stride", "padding", "dilation"))
        scaled = np.arange(size)[:, None] + padding - np.arange(kernel)[None, :] * dilation
        valid = (scaled >= 0) & (scaled % stride == 0) & (scaled // stride < out)
        return np.where(valid, scaled // stride, 0), valid

    (iy, vy), (ix, vx) = output_index(H, R, Y, 0), output_index(W, S, X, 1)
    gg = grad.reshape(N, groups, F // groups, Y, X)
    wg = w.reshape(groups, F // groups, C, R, S)

    def tap(k: int) -> tuple[Any, Any]:
        f, r, s = k // (R * S), k // S % R, k % S
        valid = vy[:, r, None] & vx[None, :, s]
        image = gg[:, :, f][:, :, iy[:, r, None], ix[None, :, s]]  # [N, G, H, W]
        return _masked(valid, image[:, :, None], wg[:, f, :, r, s][None, :, :, None, None])

    return total((N, groups, C, H, W), F // groups * R * S, tap).reshape(N, groups * C, H, W)


def conv2d_weight_grad(grad: Array, x: Array, total: Total = contract, **attrs: Any) -> Array:
    """Compute dw[f,c,r,s]: taps (n, y, x) ascend, row-major."""
    groups, (R, S) = attrs["groups"], attrs["kernel_hw"]
    (N, F, Y, X), (_, channels, H, W) = grad.shape, x.shape
    C = channels // groups
    (iy, vy), (ix, vx) = _axes(attrs, (Y, X), (R, S), (H, W))
    gg = grad.reshape(N, groups, F // groups, Y, X)
    xg = x.reshape(N, groups, C, H, W)

    def tap(k: int) -> tuple[Any, Any]:
        n, py, px = k // (Y * X), k // X % Y, k % X
        valid = vy[py, :, None] & vx[px, None, :]
        if 0 in (H, W):
            return MINUS_ZERO, PLUS_ZERO
        image = xg[n][:, :, iy[py, :, None], ix[px, None, :]]  # [G, C, R, S]
        return _masked(valid, image[:, None], gg[n, :, :, py, px][:, :, None, None, None])

    return total((groups, F // groups, C, R, S), N * Y * X, tap).reshape(F, C, R, S)
