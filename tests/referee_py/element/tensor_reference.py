"""Contractions of bf16 in tc16, whole blocks at a time: the definition as loops, beside the court's chains.

It shares nothing with `referee_py.element`: blocks are those of `tensor_block`, and terms come from windows over
images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
from repops.opset import Attrs
from repops.tensors import Array

from .tensor_block import NAN, block

BLOCK, CHUNK = 16, 512
Pair = tuple[int, int] | None
"""The factors at a place as bits of bf16, or None if there is no term."""


def contraction(places: Sequence[Pair]) -> int:
    """Return the sum of a contraction's places as bits of binary32."""
    total = np.float32(-0.0)
    for chunk in range(0, max(len(places), 1), CHUNK):
        c = 0
        for start in range(chunk, min(chunk + CHUNK, len(places)), BLOCK):
            terms = [pair for pair in places[start : start + BLOCK] if pair is not None]
            c = block([a for a, _ in terms], [b for _, b in terms], c)
        with np.errstate(invalid="ignore", over="ignore"):
            total = total + np.uint32(c).view(np.float32)
    return NAN if np.isnan(total) else int(total.view(np.uint32))


def execute(name: str, inputs: Sequence[Array], attrs: Attrs) -> Array:
    """Return the result of a contraction of bf16."""
    first, second = (np.asarray(array).view(np.uint16) for array in inputs)
    made = _MADE[name](first, second, attrs)
    wide = np.array([contraction(places) for places in made.flat], np.uint32).reshape(made.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        return wide.view(np.float32).astype(ml_dtypes.bfloat16)


def _listed(shape: tuple[int, ...], places: Any) -> np.ndarray:
    """Return an array whose elements are lists of places."""
    made = np.empty(shape, object)
    for index in np.ndindex(shape):
        made[index] = list(places(*index))
    return made


def _mm(a: Array, b: Array, attrs: Attrs) -> np.ndarray:
    return _listed((a.shape[0], b.shape[1]), lambda m, n: zip(a[m].tolist(), b[:, n].tolist(), strict=True))


def _bmm(a: Array, b: Array, attrs: Attrs) -> np.ndarray:
    each = [_mm(x, y, attrs) for x, y in zip(a, b, strict=True)]
    return np.stack(each) if each else np.empty((0, a.shape[1], b.shape[2]), object)


def _padded(channels: Sequence[Pair]) -> list[Pair]:
    return [*channels, *[None] * (-len(channels) % BLOCK)]


def _taps(y: int, x: int, kernel: Sequence[int], attrs: Attrs) -> Iterator[tuple[int, int, int, int]]:
    """Yield r, s and the place of the image that the tap meets, inside or not."""
    for r, s in product(*map(range, kernel)):
        h, w = (
            at * attrs["stride"][d] - attrs["padding"][d] + tap * attrs["dilation"][d]
            for d, (at, tap) in enumerate(((y, r), (x, s)))
        )
        yield r, s, h, w


def _inside(h: int, w: int, image: Array) -> bool:
    return 0 <= h < image.shape[2] and 0 <= w < image.shape[3]


def _output_hw(hw: Sequence[int], kernel: Sequence[int], attrs: Attrs) -> list[int]:
    return [
        (hw[d] + 2 * attrs["padding"][d] - attrs["dilation"][d] * (kernel[d] - 1) - 1) // attrs["stride"][d]
        + 1
        for d in (0, 1)
    ]


def _conv2d(image: Array, weight: Array, attrs: Attrs) -> np.ndarray:
    filters, channels = weight.shape[0] // attrs["groups"], weight.shape[1]

    def places(n: int, f: int, y: int, x: int) -> Iterator[Pair]:
        group = f // filters * channels
        for r, s, h, w in _taps(y, x, weight.shape[2:], attrs):
            yield from _padded(
                [
                    (int(image[n, group + c, h, w]), int(weight[f, c, r, s]))
                    if _inside(h, w, image)
                    else None
                    for c in range(channels)
                ]
            )

    size = _output_hw(image.shape[2:], weight.shape[2:], attrs)
    return _listed((image.shape[0], weight.shape[0], *size), places)


def _input_grad(gradient: Array, weight: Array, attrs: Attrs) -> np.ndarray:
    filters, channels = weight.shape[0] // attrs["groups"], weight.shape[1]
    met = {
        (h, w, r, s): (y, x)
        for y, x in np.ndindex(*gradient.shape[2:])
        for r, s, h, w in _taps(y, x, weight.shape[2:], attrs)
    }

    def places(n: int, channel: int, h: int, w: int) -> Iterator[Pair]:
        group, c = divmod(channel, channels)
        for r, s in np.ndindex(*weight.shape[2:]):
            at = met.get((h, w, r, s))
            yield from _padded(
                [
                    None if at is None else (int(gradient[(n, f, *at)]), int(weight[f, c, r, s]))
                    for f in range(group * filters, (group + 1) * filters)
                ]
            )

    return _listed((gradient.shape[0], channels * attrs["groups"], *map(int, attrs["input_hw"])), places)


def _weight_grad(gradient: Array, image: Array, attrs: Attrs) -> np.ndarray:
    groups = attrs["groups"]
    filters, channels = gradient.shape[1] // groups, image.shape[1] // groups

    def places(f: int, c: int, r: int, s: int) -> Iterator[Pair]:
        for n, y, x in np.ndindex(gradient.shape[0], *gradient.shape[2:]):
            h, w = (
                at * attrs["stride"][d] - attrs["padding"][d] + tap * attrs["dilation"][d]
                for d, (at, tap) in enumerate(((y, r), (x, s)))
            )
            inside = _inside(h, w, image)
            channel = f // filters * channels + c
            yield (int(gradient[n, f, y, x]), int(image[n, channel, h, w])) if inside else None

    return _listed((gradient.shape[1], channels, *map(int, attrs["kernel_hw"])), places)


_MADE = {
    "mm": _mm,
    "bmm": _bmm,
    "conv2d": _conv2d,
    "conv2d_input_grad": _input_grad,
    "conv2d_weight_grad": _weight_grad,
}
