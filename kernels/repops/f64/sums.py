"""Binary32 operands converted to binary64, with the sums that error bounds need (csrc/f64/f64.c).

NOTE: these functions are not operators. Their sums have no defined order, so their last bits differ between machines.
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
from ..host.memory import ALIGNMENT, address_of
from ..opset import ShapeError
from ..tensors import Array

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

for _function in (LIBRARY.repops_to_f64, LIBRARY.repops_f64_sum, LIBRARY.repops_f64_squares):
    _function.restype = None
LIBRARY.repops_to_f64.argtypes = [*[ctypes.c_int64] * 4, *[ctypes.c_void_p] * 5, ctypes.c_int, ctypes.c_int]
LIBRARY.repops_f64_sum.argtypes = [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 3, ctypes.c_int, ctypes.c_int]
LIBRARY.repops_f64_squares.argtypes = [
    *[ctypes.c_int64] * 3,
    *[ctypes.c_void_p] * 2,
    ctypes.c_int,
    ctypes.c_int,
]
LIBRARY.repops_f64_scatter.restype = ctypes.c_int64
LIBRARY.repops_f64_scatter.argtypes = [
    *[ctypes.c_int64] * 3,
    *[ctypes.c_void_p] * 9,
    ctypes.c_int,
    ctypes.c_int,
]


class F64Matrix(NamedTuple):
    """`values` [..., M, N] f64, with the Euclidean norms of rows [..., M] and of columns [..., N]."""

    values: F64
    rows: F64
    columns: F64


class Workspace:
    """Memory that successive computations reuse. Each `begin` ends the computation before it.

    NOTE: the system hands out new memory page by page, which takes longer than filling the memory.
    """

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)
        self._used = 0

    def begin(self) -> None:
        """Start a computation. Arrays given out before are overwritten from now on."""
        if self._used > self._block.size:
            self._block = np.empty(self._used, np.uint8)
        self._used = 0

    def array(self, shape: Sequence[int]) -> F64:
        """Return an uninitialised f64 array."""
        nbytes = math.prod(shape) * 8
        first, self._used = self._used, self._used + -(-nbytes // ALIGNMENT) * ALIGNMENT
        if self._used > self._block.size:
            return np.empty(shape)
        return self._block[first : first + nbytes].view(np.float64).reshape(shape)


def to_f64(x: F32, space: Workspace) -> F64Matrix:
    """Convert f32 [..., M, N] to f64. Squares are exact; a norm is off by at most N (rows) or M (columns) roundings.

    Raise ShapeError unless each row is contiguous; the strides of rows and of matrices are free.
    """
    if x.ndim < 2 or x.dtype != np.float32 or (x.strides[-1] != 4 and x.shape[-1] > 1 and x.size):
        raise ShapeError(
            "to_f64: x is not a float32 array of rank 2 or more with contiguous rows", shape=x.shape
        )
    *batch, m, n = x.shape
    wide = F64Matrix(*map(space.array, (x.shape, (*batch, m), (*batch, n))))
    if not x.size:
        wide.rows[...] = wide.columns[...] = 0
        return wide
    first = np.zeros(batch, np.int64)
    for axis, size in enumerate(batch):
        ones = (1,) * (len(batch) - axis - 1)
        first = first + (np.arange(size) * (x.strides[axis] // 4)).reshape(-1, *ones)
    LIBRARY.repops_to_f64(
        *(first.size, m, n, x.strides[-2] // 4, first.ctypes.data, address_of(x), *map(address_of, wide)),
        *(cpu.get_num_threads(), cpu.get_isa()),
    )
    return wide


def f64_sum(x: F32) -> tuple[F64, F64]:
    """Return the sums of a contiguous f32 array [A, N, B] and of its magnitudes over N: [A, B]. Raise ShapeError."""
    if x.ndim != 3 or x.dtype != np.float32 or not x.flags.c_contiguous:
        raise ShapeError("f64_sum: x is not a contiguous float32 array of rank 3", shape=x.shape)
    outer, n, inner = x.shape
    found = np.empty((outer, inner)), np.empty((outer, inner))
    LIBRARY.repops_f64_sum(
        *(outer, n, inner, address_of(x), *map(address_of, found)), cpu.get_num_threads(), cpu.get_isa()
    )
    return found


def f64_squares(x: F32, space: Workspace) -> F64:
    """Return the sums of the squares of a contiguous f32 array [A, N, B] over N: [A, B]. Raise ShapeError."""
    if x.ndim != 3 or x.dtype != np.float32 or not x.flags.c_contiguous:
        raise ShapeError("f64_squares: x is not a contiguous float32 array of rank 3", shape=x.shape)
    outer, n, inner = x.shape
    found = space.array((outer, inner))
    LIBRARY.repops_f64_squares(
        *(outer, n, inner, address_of(x), address_of(found)), cpu.get_num_threads(), cpu.get_isa()
    )
    return found


class Scattered(NamedTuple):
    """The rows of a base that received additions: `rows`, ascending; `added`, the number of additions to each; `sums`
    and `magnitudes` [rows, ...], the sums of the elements and of their magnitudes, base included.
    """

    rows: I64
    added: I64
    sums: F64
    magnitudes: F64


def f64_scatter(base: F32, index: I64, source: F32, space: Workspace) -> Scattered:
    """Add source [*index.shape, ...] to rows of base [R, ...]; indices out of range are skipped. Raise ShapeError."""
    for name, array, kind in (
        ("base", base, np.float32),
        ("index", index, np.int64),
        ("source", source, np.float32),
    ):
        if array.dtype != kind or not array.flags.c_contiguous:
            raise ShapeError(
                f"f64_scatter: {name} is not a contiguous {kind.__name__} array", shape=array.shape
            )
    if base.ndim < 1:
        raise ShapeError("f64_scatter: base has no rows", shape=base.shape)
    if source.shape != (*index.shape, *base.shape[1:]):
        raise ShapeError("f64_scatter: source does not fit index and base", shape=source.shape)
    height, row = base.shape[0], base.shape[1:]
    room, words = min(index.size, height), -(-height // 64)
    met, before, rows, added = (space.array((n,)).view(np.int64) for n in (words, words, room, room))
    sums, magnitudes = (space.array((room, *row)) for _ in range(2))
    arrays: tuple[Array, ...] = (base, index, source, met, before, rows, added, sums, magnitudes)
    found = LIBRARY.repops_f64_scatter(
        *(height, math.prod(row), index.size),
        *map(address_of, arrays),
        *(cpu.get_num_threads(), cpu.get_isa()),
    )
    return Scattered(rows[:found], added[:found], sums[:found], magnitudes[:found])
