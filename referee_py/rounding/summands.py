"""Summands: terms of chosen elements of a sum or contraction, in pieces (index rules: docs/opset.md, sections 5 to 7).

link    a place k of the element's chain; a link without a term (a tap in the padding) gives a zero
count   the number of terms, n of the radius
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from repops.opset import window_positions

from ..errors import InvalidInput
from .primitives import F64
from .taps import I64, Attrs, input_axis, output_axis

PIECE = 1 << 17  # terms that are held at once: 1 MiB, and a few arrays of this size


@dataclass(frozen=True, slots=True)
class Summands:
    """The terms of `positions`, in order. `take(chosen, start, stop)` returns the exact products of links start to
    stop, float64 [chosen, stop - start], for indices `chosen` into the positions. `links` bounds the links that exist.
    """

    links: I64
    counts: I64
    take: Callable[[I64, int, int], F64]

    def groups(self) -> Iterator[I64]:
        """Yield all indices into the positions, in groups of elements of similar length. A group of several elements
        has at most PIECE terms."""
        order = np.argsort(self.links, kind="stable")
        while order.size:
            rows = min(max(PIECE // max(int(self.links[order[0]]), 1), 1), order.size)
            while rows > 1 and rows * int(self.links[order[rows - 1]]) > PIECE:
                rows //= 2
            yield order[:rows]
            order = order[rows:]

    def pieces(self, chosen: I64) -> Iterator[F64]:
        """Yield the terms of a group in ranges of links, so that no piece is larger than PIECE."""
        links, step = int(self.links[chosen].max()), PIECE // chosen.size
        for start in range(0, links, step):
            yield self.take(chosen, start, min(start + step, links))


def summands_of(name: str, inputs: Sequence[Any], attrs: Attrs, positions: I64) -> Summands:
    """Return the terms at `positions`, row-major in the output. Raises InvalidInput unless it is a sum of products."""
    match name, inputs:
        case "sum", (x,):
            return _sum(x, attrs, positions)
        case "mm" | "bmm", (a, b):
            return _product(a, b, positions)
        case "conv2d", (x, w):
            return _conv2d(x, w, attrs, positions)
        case "conv2d_input_grad", (dy, w):
            return _conv2d_input_grad(dy, w, attrs, positions)
        case "conv2d_weight_grad", (dy, x):
            return _conv2d_weight_grad(dy, x, attrs, positions)
        case "scatter_add", (base, idx, src):
            return _scatter_add(base, idx, src, positions)
    raise InvalidInput(f"{name} of {len(inputs)} inputs is not a sum of products")


def _digits(numbers: I64, shape: Sequence[int]) -> list[I64]:
    """Return row-major indices of positions in a shape, which may be ()."""
    digits = []
    for size in reversed(shape):
        numbers, digit = np.divmod(numbers, max(size, 1))
        digits.append(digit)
    return digits[::-1]


def _uniform(positions: I64, links: int, counts: I64 | int, take: Callable[[I64, int, int], F64]) -> Summands:
    return Summands(
        np.full(positions.size, links, dtype=np.int64),
        np.broadcast_to(np.int64(counts), positions.shape),
        take,
    )


def _sum(x: Any, attrs: Attrs, positions: I64) -> Summands:
    strides = [math.prod(x.shape[d + 1 :]) for d in range(x.ndim)]
    reduced = list(attrs["dims"])
    kept = [d for d in range(x.ndim) if d not in reduced]
    flat = x.reshape(-1)

    def offsets(numbers: I64, dims: list[int]) -> I64:
        digits = _digits(numbers, [x.shape[d] for d in dims])
        return sum(
            (digit * strides[d] for digit, d in zip(digits, dims, strict=True)), np.zeros_like(numbers)
        )

    bases, terms = offsets(positions, kept), math.prod(x.shape[d] for d in reduced)

    def take(chosen: I64, start: int, stop: int) -> F64:
        inner = offsets(np.arange(start, stop), reduced)
        return _f64(flat[bases[chosen, None] + inner])

    return _uniform(positions, terms, terms, take)


def _product(a: Any, b: Any, positions: I64) -> Summands:
    batches = math.prod(a.shape[:-2])
    left, right = a.reshape(batches, *a.shape[-2:]), b.reshape(batches, *b.shape[-2:])
    batch, row, column = _digits(positions, (left.shape[0], left.shape[1], right.shape[2]))

    def take(chosen: I64, start: int, stop: int) -> F64:
        one = left[batch[chosen], row[chosen], start:stop]
        other = right[batch[chosen], start:stop, column[chosen]]
        products: F64 = _f64(one) * other
        return products

    return _uniform(positions, left.shape[2], left.shape[2], take)


def _conv2d(x: Any, w: Any, attrs: Attrs, positions: I64) -> Summands:
    groups, (images, _, *size), (filters, channels, *kernel) = int(attrs["groups"]), x.shape, w.shape
    out = window_positions(size, kernel, attrs)
    n, f, *at = _digits(positions, (images, filters, *out))
    axes = [input_axis(attrs, i, out[i], kernel[i], size[i]) for i in (0, 1)]
    first = f // max(filters // groups, 1) * channels

    def take(chosen: I64, start: int, stop: int) -> F64:
        c, r, s = _digits(np.arange(start, stop), (channels, *kernel))
        y, z = (digit[chosen, None] for digit in at)
        (rows, has_row), (columns, has_column) = axes
        read = x[n[chosen, None], first[chosen, None] + c, rows[y, r], columns[z, s]]
        weight = w[f[chosen, None], c, r, s]
        return _existing(has_row[y, r] & has_column[z, s], read, weight)

    exist = [axes[i][1].sum(axis=1)[at[i]] for i in (0, 1)]
    links = channels * math.prod(kernel) if x.size else 0
    return _uniform(positions, links, channels * exist[0] * exist[1], take)


def _conv2d_input_grad(dy: Any, w: Any, attrs: Attrs, positions: I64) -> Summands:
    groups, (images, filters, *out), (_, channels, *kernel) = int(attrs["groups"]), dy.shape, w.shape
    size, each = attrs["input_hw"], filters // groups
    n, channel, *at = _digits(positions, (images, groups * channels, *size))
    axes = [output_axis(attrs, i, size[i], kernel[i], out[i]) for i in (0, 1)]
    group, c = np.divmod(channel, max(channels, 1))

    def take(chosen: I64, start: int, stop: int) -> F64:
        f, r, s = _digits(np.arange(start, stop), (each, *kernel))
        f = group[chosen, None] * each + f
        h, v = (digit[chosen, None] for digit in at)
        (rows, has_row), (columns, has_column) = axes
        read = dy[n[chosen, None], f, rows[h, r], columns[v, s]]
        weight = w[f, c[chosen, None], r, s]
        return _existing(has_row[h, r] & has_column[v, s], read, weight)

    exist = [axes[i][1].sum(axis=1)[at[i]] for i in (0, 1)]
    return _uniform(positions, each * math.prod(kernel), each * exist[0] * exist[1], take)


def _conv2d_weight_grad(dy: Any, x: Any, attrs: Attrs, positions: I64) -> Summands:
    groups, (images, filters, *out), kernel = int(attrs["groups"]), dy.shape, attrs["kernel_hw"]
    channels = x.shape[1] // groups
    f, c, *at = _digits(positions, (filters, channels, *kernel))
    axes = [input_axis(attrs, i, out[i], kernel[i], x.shape[2 + i]) for i in (0, 1)]
    channel = f // max(filters // groups, 1) * channels + c

    def take(chosen: I64, start: int, stop: int) -> F64:
        n, y, z = _digits(np.arange(start, stop), (images, *out))
        r, s = (digit[chosen, None] for digit in at)
        (rows, has_row), (columns, has_column) = axes
        read = x[n, channel[chosen, None], rows[y, r], columns[z, s]]
        return _existing(has_row[y, r] & has_column[z, s], dy[n, f[chosen, None], y, z], read)

    exist = [axes[i][1].sum(axis=0)[at[i]] for i in (0, 1)]
    links = images * math.prod(out) if x.size else 0
    return _uniform(positions, links, images * exist[0] * exist[1], take)


def _scatter_add(base: Any, idx: I64, src: Any, positions: I64) -> Summands:
    """Slot 0 is the base; the others are the rows of src that idx adds to it, in order."""
    width = math.prod(base.shape[1:])
    flat, sources, destination = idx.reshape(-1), src.reshape(idx.size, width), base.reshape(-1)
    row, column = np.divmod(positions, max(width, 1))
    order = np.argsort(flat, kind="stable")
    first = np.searchsorted(flat, row, "left", sorter=order)
    met = np.searchsorted(flat, row, "right", sorter=order) - first

    def take(chosen: I64, start: int, stop: int) -> F64:
        link = np.arange(start, stop)
        exists = (link >= 1) & (link <= met[chosen, None])
        place = np.where(exists, first[chosen, None] + link - 1, 0)
        terms = np.zeros(exists.shape)
        if idx.size:
            terms = np.where(exists, sources[order[place], column[chosen, None]].astype(np.float64), 0.0)
        if start == 0:
            terms[:, 0] = destination[positions[chosen]]
        return terms

    return Summands(met + 1, met + 1, take)


def _existing(exists: Any, a: Any, b: Any) -> F64:
    """Return the exact products, and zeros for absent taps."""
    return np.where(exists, _f64(a) * b, 0.0)


def _f64(x: Any) -> F64:
    wide: F64 = x.astype(np.float64)
    return wide
