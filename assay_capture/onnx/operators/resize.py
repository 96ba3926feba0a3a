"""Rules: padding and resizing, one axis after the other.

Both are linear, and where each element comes from is known before tracing. A padded or nearest axis is a choice of
places, an interpolated one a product with a matrix of weights [out, in]. The weights are those of ONNX's reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...capture.errors import CaptureError
from ..values import Call, Given, Known, check_size, untraced
from .registry import operator

Tensor = torch.Tensor
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

_PAD_MODES = ("reflect", "edge", "wrap")
_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
MAX_WEIGHTS = 1 << 26
"""Largest matrix of interpolation weights, in elements."""


def _places(x: Tensor, dim: int, places: Sequence[int]) -> Tensor:
    """Return the elements of x at these places of a dimension, of which it may name one twice or not at all."""
    if list(places) == list(range(x.shape[dim])):
        return x
    with untraced():
        index = torch.tensor(places, dtype=torch.int64)
    return torch.index_select(x, dim, index)


# -------------------------------------------------------------------------------------------------------- padding


@operator("Pad", folds=True)
def pad(c: Call, x: Given, pads: Given, fill: Given = None, axes: Given = None) -> Tensor:
    """Pad before and after each axis; a negative width cuts. Cutting comes first, as in onnxruntime."""
    value, sizes = c.tensor(x), c.list(pads, "pads")
    dims = c.list(axes, "axes") if axes is not None else list(range(value.ndim))
    if len(sizes) != 2 * len(dims):
        raise CaptureError(f"{c.node.where}: {len(sizes)} pads for {len(dims)} axes; export the model again")
    around = {dim % value.ndim: (sizes[k], sizes[k + len(dims)]) for k, dim in enumerate(dims)}
    shape = [size + sum(around.get(dim, (0, 0))) for dim, size in enumerate(value.shape)]
    check_size(shape, c.node.where)
    manner = c.get("mode", "constant")
    if manner == "constant":
        flat = [width for dim in reversed(range(value.ndim)) for width in around.get(dim, (0, 0))]
        number = 0 if fill is None else c.number(fill, "value")
        return torch.nn.functional.pad(value, flat, value=number)
    if manner not in _PAD_MODES:
        raise c.unsupported(
            f"padding of mode {manner[:40]}", f"export it with mode constant, {', '.join(_PAD_MODES)}"
        )
    for dim, (before, after) in sorted(around.items()):
        size = value.shape[dim]
        kept = np.arange(max(0, -before), size - max(0, -after))
        if not len(kept) and shape[dim]:
            raise CaptureError(
                f"{c.node.where}: padding of mode {manner} of nothing; pads {sizes} cut all away"
            )
        widths = (max(0, before), max(0, after))
        value = _places(value, dim, np.pad(kept, widths, mode=manner).tolist())
    return value


# ------------------------------------------------------------------------------------------------------- resizing


@operator("Resize", folds=True)
def resize(c: Call, x: Given, roi: Given = None, scales: Given = None, sizes: Given = None) -> Tensor:
    """Resize axes by `scales` or to `sizes`. The region of interest counts in tf_crop_and_resize alone."""
    value = c.tensor(x)
    given_axes = c.ints("axes", tuple(range(value.ndim))) or ()
    axes = [axis % value.ndim for axis in given_axes]
    factors, out = _extents(c, [value.shape[axis] for axis in axes], scales, sizes)
    check_size([out[axes.index(d)] if d in axes else n for d, n in enumerate(value.shape)], c.node.where)
    coordinates = c.get("coordinate_transformation_mode", "half_pixel")
    if coordinates not in _COORDINATES:
        raise c.unsupported(f"Resize with {coordinates[:40]}", f"use one of {', '.join(_COORDINATES)}")
    crop = coordinates == "tf_crop_and_resize"
    region = _numbers(c, roi, "roi") if crop else [0.0] * len(axes) + [1.0] * len(axes)
    outside: list[Any] = [np.zeros(0, bool)] * value.ndim
    for k, axis in enumerate(axes):
        size, ends = value.shape[axis], (region[k], region[k + len(axes)])
        if factors[k] == 1 and out[k] == size and not crop:
            continue
        at, outside[axis] = _origins(coordinates, size, out[k], factors[k], ends)
        value = _along(c, value, axis, at, factors[k])
    fill = c.get("extrapolation_value", 0.0)
    for axis, places in enumerate(outside):
        if places.any():
            with untraced():
                chosen = torch.from_numpy(places).reshape([-1 if d == axis else 1 for d in range(value.ndim)])
            value = torch.where(chosen, fill, value)
    return value


@operator("Upsample", folds=True)
def upsample(c: Call, x: Given, scales: Given) -> Tensor:
    """Resize by scales in the way of opset 9: coordinates are divided, and nearest is the place below."""
    value = c.tensor(x)
    factors = _numbers(c, scales, "scales")
    shape = [math.floor(size * factor) for size, factor in zip(value.shape, factors, strict=True)]
    check_size(shape, c.node.where)
    for axis, factor in enumerate(factors):
        if factor != 1:
            at, _ = _origins("asymmetric", value.shape[axis], shape[axis], factor, (0.0, 1.0))
            value = _along(c, value, axis, at, factor, rounding="floor")
    return value


def _numbers(c: Call, given: Given, what: str) -> list[float]:
    with untraced():
        known = c.known(given, what)
        if known.ndim > 1 or known.numel() > 64 or not bool(torch.isfinite(known).all()):
            raise CaptureError(f"{c.node.where}: its {what} is not a short list of numbers; export it again")
        return [float(item) for item in known.reshape(-1).tolist()]


def _extents(c: Call, shape: Sequence[int], scales: Given, sizes: Given) -> tuple[list[float], list[int]]:
    """Return the scale and the new size of each axis that is resized."""
    if isinstance(scales, Known) and not scales.tensor.numel():
        scales = None
    if (scales is None) == (sizes is None):
        raise CaptureError(f"{c.node.where} needs scales or sizes, and not both; export the model again")
    if scales is not None:
        factors = _numbers(c, scales, "scales")
        if len(factors) != len(shape) or min(factors, default=1) <= 0:
            raise CaptureError(f"{c.node.where}: scales {factors[:8]} of {len(shape)} axes; export it again")
        return factors, [math.floor(factor * size) for factor, size in zip(factors, shape, strict=True)]
    wanted = c.list(sizes, "sizes")
    if len(wanted) != len(shape) or min(shape, default=1) < 1:
        raise CaptureError(f"{c.node.where}: sizes {wanted[:8]} of {len(shape)} axes; export the model again")
    factors = [new / old for new, old in zip(wanted, shape, strict=True)]
    policy = c.get("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return factors, wanted
    if policy not in ("not_larger", "not_smaller"):
        raise c.unsupported(
            f"Resize with keep_aspect_ratio_policy {policy[:40]}", "use stretch, not_larger or not_smaller"
        )
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [factor] * len(shape), [math.floor(factor * size + 0.5) for size in shape]


def _origins(
    coordinates: str, size: int, out: int, scale: float, ends: tuple[float, float]
) -> tuple[Floats, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]:
    """Return where each place of the result lies in an axis of the input, and which places lie outside of it."""
    y = np.arange(out, dtype=np.float64)
    width = scale * size
    inside = np.zeros(out, bool)
    match coordinates:
        case "align_corners":
            return (y * 0 if width == 1 else y * (size - 1) / (width - 1)), inside
        case "asymmetric":
            return y / scale, inside
        case "tf_crop_and_resize":
            start, span = ends[0] * (size - 1), (ends[1] - ends[0]) * (size - 1)
            at = start + (np.full(out, span / 2) if width == 1 else y * span / (width - 1))
            return at, (at < 0) | (at > size - 1)
        case "pytorch_half_pixel" if width == 1:
            return np.full(out, -0.5), inside
    at = (y + 0.5) / scale - 0.5
    return (at + size / 2 * (1 - out / width) if coordinates == "half_pixel_symmetric" else at), inside


def _along(c: Call, x: Tensor, dim: int, at: Floats, scale: float, rounding: str = "") -> Tensor:
    """Return x at these coordinates of one dimension."""
    mode, size = c.get("mode", "nearest"), x.shape[dim]
    if mode == "nearest":
        rounded = _nearest(c, at, rounding or c.get("nearest_mode", "round_prefer_floor"))
        return _places(x, dim, np.clip(rounded, 0, size - 1).astype(np.int64).tolist())
    if mode not in ("linear", "cubic"):
        raise c.unsupported(f"Resize of mode {mode[:40]}", "use nearest, linear or cubic")
    if len(at) * size > MAX_WEIGHTS:
        raise c.unsupported(f"Resize of an axis from {size} to {len(at)}", "use smaller images, or nearest")
    matrix = np.zeros((len(at), size))
    for row, place in enumerate(at):
        first, weights = _taps(c, mode, float(place), scale)
        places = np.arange(first, first + len(weights))
        if c.get("exclude_outside", 0):
            weights = np.where((places >= 0) & (places < size), weights, 0)
            weights = weights / weights.sum()
        np.add.at(matrix[row], np.clip(places, 0, size - 1), weights)
    with untraced():
        product = torch.from_numpy(matrix.astype(np.float32)).t()
    return torch.matmul(x.transpose(dim, -1), product).transpose(dim, -1)


def _nearest(c: Call, at: Floats, rounding: str) -> Floats:
    match rounding:
        case "floor":
            return np.floor(at)
        case "ceil":
            return np.ceil(at)
        case "round_prefer_floor":
            return np.ceil(at - 0.5)
        case "round_prefer_ceil":
            return np.floor(at + 0.5)
    raise c.unsupported(f"nearest_mode {rounding[:40]}", "use floor, ceil or round_prefer_floor")


def _taps(c: Call, mode: str, at: float, scale: float) -> tuple[int, Floats]:
    """Return the first place that counts at a coordinate, and the weights of it and those after it.

    With antialias, an axis that shrinks is read through a window that grows as much.
    """
    narrow = min(scale, 1.0) if c.get("antialias", 0) else 1.0
    reach = 1 if mode == "linear" else 2
    half = -math.floor(-reach / narrow)
    first = math.ceil(at) - half
    distance = np.abs(np.arange(first, first + 2 * half) - at) * narrow
    if mode == "linear":
        weights = np.clip(1 - distance, 0, None)
    else:
        a = c.get("cubic_coeff_a", -0.75)
        near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
    return first, weights / weights.sum() if narrow < 1 else weights
