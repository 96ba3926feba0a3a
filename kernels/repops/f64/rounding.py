"""Binary64 results rounded to a coarser grid, and which of them are near a rounding midpoint (csrc/f64/rounding.c).

grid(b) is the set of binary32 values whose last 32 - b mantissa bits are zero, b from 26 to 32, or 16: those of bf16.
The package above (referee_py.rounding) uses the answer for rounding logs (Srivastava et al., 2024).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..host import cpu
from ..host.library import LIBRARY
from ..host.memory import address_of
from ..opset import ShapeError

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

MIN_BITS, MAX_BITS, BF16_BITS = 26, 32, 16

_round = LIBRARY.repops_round
_round.restype = ctypes.c_int64
_round.argtypes = [
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_double, ctypes.c_double),
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int),
]


LIBRARY.repops_single.restype = None
LIBRARY.repops_single.argtypes = [
    *(ctypes.c_int, ctypes.c_int64, ctypes.c_int64),
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64) * 2,
    *(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int, ctypes.c_int),
]


class Rounded(NamedTuple):
    """`values` f32, with canonical NaNs and positive zeros; `narrow` and `wide` are ascending flat positions."""

    values: F32
    narrow: I64
    wide: I64


def _check(bits: int) -> None:
    if not (MIN_BITS <= bits <= MAX_BITS or bits == BF16_BITS):
        raise ValueError(f"{bits} bits; a grid has {MIN_BITS} to {MAX_BITS}, or {BF16_BITS}, those of bf16")


def round_to_grid(
    x: F64, rows: F64, columns: F64, bits: int, widen: float, out: F32 | None = None, isa: int | None = None
) -> Rounded:
    """Round x [..., R, C]; report elements at most `widen * rows * columns` from the nearest midpoint of grid(bits).

    `rows` broadcasts to [..., R] and `columns` to [..., C], both at least 0; their product is an element's radius. A
    reported element is narrow if its radius is below an eighth of the grid's spacing at x, else wide. An element with
    radius 0 is never reported. Raise ShapeError for shapes that do not fit, ValueError for other bits.
    """
    _check(bits)
    if x.ndim < 2 or x.dtype != np.float64 or not x.flags.c_contiguous:
        raise ShapeError("round: x is not a contiguous float64 array of rank 2 or more", shape=x.shape)
    *batch, r, c = x.shape
    outer = math.prod(batch)
    scalar = np.broadcast_to(rows, (*batch, r)).reshape(outer, r)
    vector = np.broadcast_to(columns, (*batch, c)).reshape(outer, c)
    if vector.strides[-1] not in (0, 8):
        vector = np.ascontiguousarray(vector)
    values = np.empty(x.shape, np.float32) if out is None else out
    if values.shape != x.shape or values.dtype != np.float32 or not values.flags.c_contiguous:
        raise ShapeError("round: out is not a contiguous float32 array of x's shape", shape=values.shape)
    strides = [stride // 8 for stride in (*scalar.strides, *vector.strides)]
    capacity = x.size // 64 + 1024
    while True:
        found = np.empty(min(capacity, x.size), np.int64)
        words = np.array([outer, r, c, *strides, bits, found.size], np.int64)
        count = _round(
            words.ctypes.data,
            *(address_of(x), scalar.ctypes.data, vector.ctypes.data, widen, 0.0, address_of(values)),
            *(found.ctypes.data, cpu.get_num_threads(), cpu.get_isa() if isa is None else isa),
        )
        if count <= found.size:
            break
        capacity = count
    positions = np.sort(found[:count])
    wide = (positions & 1).astype(np.bool_)
    return Rounded(values, positions[~wide] >> 1, positions[wide] >> 1)


def round_all(x: F64, bits: int) -> F32:
    """Round a contiguous f64 array to grid(bits); zeros keep their sign. Raise ShapeError, or ValueError for `bits`."""
    _check(bits)
    if x.dtype != np.float64 or not x.flags.c_contiguous:
        raise ShapeError("round: x is not a contiguous float64 array", shape=x.shape)
    values, words = np.empty(x.shape, np.float32), np.array([1, 1, x.size, 0, 0, 0, 0, bits, 0], np.int64)
    _round(
        *(words.ctypes.data, address_of(x), _ZERO.ctypes.data, _ZERO.ctypes.data, 0.0, -0.0),
        *(address_of(values), None, cpu.get_num_threads(), cpu.get_isa()),
    )
    return values


_SINGLE = ("add", "sub", "mul", "div", "sqrt")


def single(name: str, operands: Sequence[F32], bits: int, out: F32 | None = None) -> F32:
    """Return add, sub, mul, div or sqrt of contiguous f32 arrays that broadcast, in binary64, rounded to grid(bits).

    The result is written to `out` if given; `out` may be an operand, but must not overlap one otherwise.

    Raise ValueError for another operation or other bits, ShapeError for other arrays.
    """
    if name not in _SINGLE or len(operands) != (1 if name == "sqrt" else 2):
        raise ValueError(f"{name} of {len(operands)} operands; there are {', '.join(_SINGLE)}")
    _check(bits)
    if any(
        not isinstance(v, np.ndarray) or v.dtype != np.float32 or not v.flags.c_contiguous for v in operands
    ):
        raise ShapeError("single: an operand is not a contiguous float32 array", name=name)
    shape = np.broadcast_shapes(*(v.shape for v in operands))
    out = np.empty(shape, np.float32) if out is None else out
    if out.shape != shape or out.dtype != np.float32 or not out.flags.c_contiguous:
        raise ShapeError(
            "single: out is not a contiguous float32 array of the result's shape", shape=out.shape
        )
    if not out.size:
        return out
    views = [np.broadcast_to(v, shape) for v in (operands[0], operands[-1])]
    columns, rank = 1, len(shape)
    # The last dimensions form one row as long as both operands keep the stride with which they began there.
    while rank and all(_goes_on(v, rank - 1, columns) for v in views):
        rank -= 1
        columns *= shape[rank]
    firsts, steps = [], []
    for v in views:
        first = np.zeros(shape[:rank], np.int64)
        for axis in range(rank):
            places = np.arange(shape[axis]) * (v.strides[axis] // 4)
            first += places.reshape(-1, *(1,) * (rank - axis - 1))
        firsts.append(first)
        steps.append(int(any(v.strides[axis] for axis in range(rank, len(shape)) if shape[axis] > 1)))
    LIBRARY.repops_single(
        *(_SINGLE.index(name), out.size // columns, columns),
        *(address_of(operands[0]), firsts[0].ctypes.data, steps[0]),
        *(address_of(operands[-1]), firsts[1].ctypes.data, steps[1]),
        *(bits, address_of(out), cpu.get_num_threads(), cpu.get_isa()),
    )
    return out


def _goes_on(v: F32, axis: int, columns: int) -> bool:
    """Return whether a row of `columns` elements, those of the later dimensions, continues evenly into this axis."""
    if v.shape[axis] == 1:
        return True
    later = any(v.strides[d] for d in range(axis + 1, v.ndim) if v.shape[d] > 1)
    return v.strides[axis] == (4 * columns if later or columns == 1 else 0) or (
        columns == 1 and not v.strides[axis]
    )


_ZERO = np.zeros(1)
