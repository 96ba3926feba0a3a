"""Row-major positions, and the input elements that taps of a window meet (docs/opset.md, sections 3, 6 and 8)."""

from __future__ import annotations

import math
from collections.abc import Sequence

Shape = Sequence[int]


def digits(position: int, shape: Shape) -> list[int]:
    """Return the index of a row-major position."""
    found = []
    for size in reversed(shape):
        position, digit = divmod(position, size)
        found.append(digit)
    return found[::-1]


def position(index: Sequence[int], shape: Shape) -> int:
    """Return the row-major position of an index."""
    found = 0
    for digit, size in zip(index, shape, strict=True):
        found = found * size + digit
    return found


def broadcast(element: int, shape: Shape, operand: Shape) -> int:
    """Return the position in an operand that is broadcast to a shape of at least its rank."""
    index = digits(element, shape)[len(shape) - len(operand) :]
    return position([0 if size == 1 else i for i, size in zip(index, operand, strict=True)], operand)


def reduced(element: int, k: int, shape: Shape, dims: Sequence[int]) -> int:
    """Return the position of the k-th element, row-major, of those that dims reduce to an output element."""
    kept = [d for d in range(len(shape)) if d not in dims]
    outer = digits(element, [shape[d] for d in kept])
    inner = digits(k, [shape[d] for d in dims])
    index = [0] * len(shape)
    for d, digit in zip((*kept, *dims), (*outer, *inner), strict=True):
        index[d] = digit
    return position(index, shape)


def count(shape: Shape, dims: Sequence[int]) -> int:
    """Return the number of elements that dims reduce to one."""
    return math.prod(shape[d] for d in dims)


def met(at: int, tap: int, stride: int, padding: int, dilation: int, size: int) -> int | None:
    """Return the input position that a tap of an output position meets, or None if it is outside the image."""
    found = at * stride - padding + tap * dilation
    return found if 0 <= found < size else None


def inside(at: int, taps: int, stride: int, padding: int, dilation: int, size: int) -> range:
    """Return the input positions that the taps of an output position meet inside the image, ascending."""
    before = at * stride - padding
    first = max(-(before // dilation), 0)
    past = min((size - 1 - before) // dilation + 1, taps)
    return range(before + first * dilation, before + past * dilation, dilation) if first < past else range(0)


def met_by(at: int, tap: int, stride: int, padding: int, dilation: int, size: int) -> int | None:
    """Return the output position, of `size`, whose tap meets input position `at`, or None."""
    found, rest = divmod(at + padding - tap * dilation, stride)
    return found if not rest and 0 <= found < size else None
