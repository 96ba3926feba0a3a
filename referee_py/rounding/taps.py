"""Elements that meet in a convolution, along one axis: index and existence of every tap (docs/opset.md, section 6).

Letters: N images, C input channels and F filters of one group, G groups, (H, W) input, (Y, X) output, (R, S) kernel.
"""

# ruff: noqa: N806 - dimensions are capital letters here

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from repops.opset import window_positions

from .primitives import F64, Bool

I64 = npt.NDArray[np.int64]
Attrs = Mapping[str, Any]
Axis = tuple[
    I64, Bool
]  # [positions, kernel]: the element that a tap reads (0 for an absent tap), and whether the tap exists


def input_axis(attrs: Attrs, axis: int, out: int, kernel: int, size: int) -> Axis:
    """Return, for an output position and a tap, the input position: y stride - padding + r dilation."""
    stride, padding, dilation = (int(attrs[name][axis]) for name in ("stride", "padding", "dilation"))
    index = np.arange(out)[:, None] * stride - padding + np.arange(kernel)[None, :] * dilation
    exists = (index >= 0) & (index < size)
    return np.where(exists, index, 0), exists


def output_axis(attrs: Attrs, axis: int, size: int, kernel: int, out: int) -> Axis:
    """Return, for an input position and a tap, the output position: (h + padding - r dilation) / stride, if any."""
    stride, padding, dilation = (int(attrs[name][axis]) for name in ("stride", "padding", "dilation"))
    scaled = np.arange(size)[:, None] + padding - np.arange(kernel)[None, :] * dilation
    exists = (scaled >= 0) & (scaled % stride == 0) & (scaled // stride < out)
    return np.where(exists, scaled // stride, 0), exists


def gather(images: F64, rows: Axis, columns: Axis, r: int, s: int) -> F64:
    """Return the elements that tap (r, s) reads: [..., H, W] -> [..., positions, positions], 0 for absent taps."""
    (iy, vy), (ix, vx) = rows, columns
    if 0 in images.shape[-2:]:
        return np.zeros((*images.shape[:-2], iy.shape[0], ix.shape[0]))
    found = images[..., iy[:, r, None], ix[None, :, s]]
    return np.where(vy[:, r, None] & vx[None, :, s], found, 0.0)


def conv2d(x: F64, w: F64, attrs: Attrs) -> F64:
    """Return the convolution in binary64, summed tap by tap."""
    G = int(attrs["groups"])
    (N, _, H, W), (F, C, R, S) = x.shape, w.shape
    Y, X = window_positions((H, W), (R, S), attrs)
    rows, columns = input_axis(attrs, 0, Y, R, H), input_axis(attrs, 1, X, S, W)
    xg, wg = x.reshape(N, G, C, H, W), w.reshape(G, F // G, C, R, S)
    total = np.zeros((N, G, F // G, Y, X))
    for r, s in np.ndindex(R, S):
        total += np.einsum("ngcyx,gfc->ngfyx", gather(xg, rows, columns, r, s), wg[..., r, s], optimize=True)
    return total.reshape(N, F, Y, X)


def conv2d_input_grad(dy: F64, w: F64, attrs: Attrs) -> F64:
    """Return the gradient with respect to the input, [N, G C, H, W]."""
    G, (H, W) = int(attrs["groups"]), attrs["input_hw"]
    (N, F, Y, X), (_, C, R, S) = dy.shape, w.shape
    rows, columns = output_axis(attrs, 0, H, R, Y), output_axis(attrs, 1, W, S, X)
    dg, wg = dy.reshape(N, G, F // G, Y, X), w.reshape(G, F // G, C, R, S)
    total = np.zeros((N, G, C, H, W))
    for r, s in np.ndindex(R, S):
        total += np.einsum("ngfhw,gfc->ngchw", gather(dg, rows, columns, r, s), wg[..., r, s], optimize=True)
    return total.reshape(N, G * C, H, W)


def conv2d_weight_grad(dy: F64, x: F64, attrs: Attrs) -> F64:
    """Return the gradient with respect to the kernel, [G F, C, R, S]."""
    G, (R, S) = int(attrs["groups"]), attrs["kernel_hw"]
    (N, F, Y, X), (_, channels, H, W) = dy.shape, x.shape
    C = channels // G
    rows, columns = input_axis(attrs, 0, Y, R, H), input_axis(attrs, 1, X, S, W)
    dg, xg = dy.reshape(N, G, F // G, Y, X), x.reshape(N, G, C, H, W)
    total = np.zeros((G, F // G, C, R, S))
    for r, s in np.ndindex(R, S):
        total[..., r, s] = np.einsum("ngfyx,ngcyx->gfc", dg, gather(xg, rows, columns, r, s), optimize=True)
    return total.reshape(F, C, R, S)
