"""Views, the place of a value in the memory of another: reshape, permute, expand and slice without a copy.

Each dimension is a list of factors (size, stride), outermost first: a dimension of 48 that runs over 4 images and 12
heads is [(4, 98304), (12, 64)]. So every reshape that only regroups factors is a view, also of a permuted value.

A view has at most MAX_RANK factors once neighbours are merged, and so has a domain: no kernel has more loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from repops.fuse.phases import row_major
from repops.opset import MAX_RANK, Shape

Factor = tuple[int, int]
"""Size, and stride in elements."""


@dataclass(frozen=True, slots=True)
class View:
    """Elements of the contiguous value `base`, from `offset` on. A dimension of size 1 has no factors."""

    base: int
    offset: int
    dims: tuple[tuple[Factor, ...], ...]

    @classmethod
    def whole(cls, base: int, shape: Shape) -> View:
        strides = row_major(shape)
        factors = zip(shape, strides, strict=True)
        return cls(base, 0, tuple(((size, stride),) if size != 1 else () for size, stride in factors))

    @property
    def shape(self) -> Shape:
        return tuple(math.prod(size for size, _ in dim) for dim in self.dims)

    def factors(self) -> list[Factor]:
        """Return the factors of all dimensions, merged."""
        return merged_factors([factor for dim in self.dims for factor in dim])

    def is_contiguous(self) -> bool:
        """Return whether the elements lie one after the other, in order."""
        flat = self.factors()
        return len(flat) == 0 or (len(flat) == 1 and flat[0][1] == 1)

    def strides(self) -> Shape | None:
        """Return one stride for each dimension, 0 where the size is 1; None if a dimension has several."""
        merged = [merged_factors(dim) for dim in self.dims]
        if any(len(dim) > 1 for dim in merged):
            return None
        return tuple(dim[0][1] if dim else 0 for dim in merged)

    def reshape(self, shape: Shape) -> View | None:
        """Return the view in this shape, or None if a new dimension would begin in the middle of a factor."""
        grouped = regroup(self.factors(), shape)
        return None if grouped is None else View(self.base, self.offset, grouped)

    def permute(self, order: Sequence[int]) -> View:
        return View(self.base, self.offset, tuple(self.dims[d] for d in order))

    def expand(self, shape: Shape) -> View:
        own = ((),) * (len(shape) - len(self.dims)) + self.dims
        dims = [dim or (((size, 0),) if size != 1 else ()) for dim, size in zip(own, shape, strict=True)]
        return View(self.base, self.offset, tuple(dims))

    def slice(self, dim: int, start: int, size: int, step: int) -> View | None:
        """Return the slice as a view, or None if the dimension has several factors."""
        merged = merged_factors(self.dims[dim])
        if len(merged) > 1:
            return None
        stride = merged[0][1] if merged else 0
        sliced = ((size, stride * step),) if size != 1 else ()
        dims = (*self.dims[:dim], sliced, *self.dims[dim + 1 :])
        return View(self.base, self.offset + start * stride, dims)


def view_of(view: View, op: str, attrs: dict[str, Any], shape: Shape) -> View | None:
    """Return the operator's result as a view, or None if it is none, has too many factors, or has no elements."""
    if 0 in shape or 0 in view.shape:
        return None
    found = _applied(view, op, attrs, shape)
    return found if found is not None and len(found.factors()) <= MAX_RANK else None


def _applied(view: View, op: str, attrs: dict[str, Any], shape: Shape) -> View | None:
    match op:
        case "reshape":
            return view.reshape(shape)
        case "permute":
            return view.permute(attrs["dims"])
        case "expand":
            return view.expand(shape)
        case "slice":
            return view.slice(attrs["dim"], attrs["start"], shape[attrs["dim"]], attrs["step"])
    return None


def regroup(factors: Sequence[Factor], shape: Shape) -> tuple[tuple[Factor, ...], ...] | None:
    """Group the factors into dimensions of these sizes, split where needed; None if a split is not whole."""
    rest = list(reversed(factors))
    dims: list[tuple[Factor, ...]] = []
    for wanted in shape:
        dim: list[Factor] = []
        left = wanted
        while left > 1:
            size, stride = rest.pop()
            if left % size == 0:
                left //= size
                dim.append((size, stride))
            elif size % left == 0:
                inner = size // left
                dim.append((left, stride * inner))
                rest.append((inner, stride))
                left = 1
            else:
                return None
        dims.append(tuple(dim))
    return tuple(dims)


def merged_factors(factors: Sequence[Factor]) -> list[Factor]:
    """Merge neighbours that continue each other."""
    result: list[Factor] = []
    for size, stride in factors:
        if result and result[-1][1] == size * stride:
            result[-1] = result[-1][0] * size, stride
        else:
            result.append((size, stride))
    return result


def refined(a: Shape, b: Shape) -> Shape | None:
    """Return the coarsest shape of which both are groupings, without dimensions of size 1. None if there is none of a
    rank that kernels have."""
    left, right = [d for d in reversed(a) if d != 1], [d for d in reversed(b) if d != 1]
    out: list[int] = []
    while left and right:
        x, y = left.pop(), right.pop()
        small, large = min(x, y), max(x, y)
        if large % small:
            return None
        out.append(small)
        if large != small:
            (left if x > y else right).append(large // small)
    return None if left or right or len(out) > MAX_RANK else tuple(out)
