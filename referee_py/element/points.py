"""Operators whose elements take one step: elementwise, layout, `take`, and tensors without inputs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from repops import reference
from repops.opset import I64, Dtype
from repops.reference.random import WORD as WORD32
from repops.reference.random import block
from repops.tensors import DTYPE_CODE, NUMPY_DTYPE, Array

from . import scalar
from .case import Case, Read
from .positions import broadcast, digits, position

Point = Callable[[Case, Read], int]


def elementwise(case: Case, read: Read) -> int:
    """Apply the readable reference to one element of each operand."""
    operands = [
        array_of(read(place, broadcast(case.element, case.shape, operand.shape)), operand.dtype)
        for place, operand in enumerate(case.inputs)
    ]
    return _bits(reference.execute(case.name, operands, case.attrs)[0])


def take(case: Case, read: Read) -> int:
    table = case.inputs[0]
    width = math.prod(table.shape[1:])
    place, column = divmod(case.element, width)
    row = scalar.signed(read(1, place))
    return read(0, row * width + column) if 0 <= row < table.shape[0] else 0


def reshape(case: Case, read: Read) -> int:
    return read(0, case.element)


def permute(case: Case, read: Read) -> int:
    index, found = digits(case.element, case.shape), [0] * len(case.shape)
    for digit, d in zip(index, case.attrs["dims"], strict=True):
        found[d] = digit
    return read(0, position(found, case.inputs[0].shape))


def expand(case: Case, read: Read) -> int:
    return read(0, broadcast(case.element, case.shape, case.inputs[0].shape))


def slice_(case: Case, read: Read) -> int:
    index, dim = digits(case.element, case.shape), case.attrs["dim"]
    index[dim] = case.attrs["start"] + case.attrs["step"] * index[dim]
    return read(0, position(index, case.inputs[0].shape))


def cat(case: Case, read: Read) -> int:
    index, dim = digits(case.element, case.shape), case.attrs["dim"]
    for place, operand in enumerate(case.inputs):
        if index[dim] < operand.shape[dim]:
            return read(place, position(index, operand.shape))
        index[dim] -= operand.shape[dim]
    raise AssertionError("the output's size is the sum of the inputs'")


def full(case: Case, read: Read) -> int:  # noqa: ARG001
    return scalar.canonical(int(case.attrs["bits"]), case.dtype)


def arange(case: Case, read: Read) -> int:  # noqa: ARG001
    return case.element


def philox(case: Case, read: Read) -> int:
    seed, step, site = read(0, 0), read(1, 0), int(case.attrs["site"])
    number, place = divmod(case.element, 4)
    counter = number & WORD32, (number >> 32) + (site << 8), step & WORD32, step >> 32
    word = block(counter, (seed & WORD32, seed >> 32))[place]
    return word if case.attrs["dtype"] == I64 else scalar.to_bits((word >> 8) * 2.0**-24)


POINTS: dict[str, Point] = {
    "take": take,
    "reshape": reshape,
    "permute": permute,
    "expand": expand,
    "slice": slice_,
    "cat": cat,
    "full": full,
    "arange": arange,
    "philox": philox,
}
"""Rules of operators with a single step; all others with a single step are elementwise."""


def array_of(bits: int, dtype: Dtype) -> Array:
    """Return a single element as an array of shape ()."""
    size = np.dtype(NUMPY_DTYPE[dtype]).itemsize
    return np.frombuffer(bits.to_bytes(size, "little"), dtype=NUMPY_DTYPE[dtype]).reshape(())


def _bits(array: Array) -> int:
    return scalar.canonical(int.from_bytes(array.tobytes(), "little"), DTYPE_CODE[array.dtype])
