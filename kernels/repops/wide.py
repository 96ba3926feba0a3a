"""Binary32 operands made binary64, with the sums that error bounds need (csrc/wide.c).

NOTE: these are no operators: their sums have no order of their own, and their last bits differ between machines.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import cpu
from .library import LIBRARY
from .memory import address_of
from .opset import ShapeError

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

for _function in (LIBRARY.repops_widen, LIBRARY.repops_wide_sum):
    _function.restype = None
LIBRARY.repops_widen.argtypes = [*[ctypes.c_int64] * 4, *[ctypes.c_void_p] * 5, ctypes.c_int, ctypes.c_int]
LIBRARY.repops_wide_sum.argtypes = [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 3, ctypes.c_int, ctypes.c_int]


class Wide(NamedTuple):
    """`values` [..., M, N] f64; the Euclidean norms of rows [..., M] and of columns [..., N]."""

    values: F64
    rows: F64
    columns: F64


def widen(x: F32) -> Wide:
    """An f32 array [..., M, N] in f64. Squares are exact; each norm is off by N (or M) roundings at most.

    Rows are contiguous, but matrices and their rows may lie anywhere. Raises ShapeError otherwise.
    """
    if x.ndim < 2 or x.dtype != np.float32 or (x.strides[-1] != 4 and x.shape[-1] > 1):
        raise ShapeError("widen: x is no float32 array of rank 2 or more with contiguous rows", shape=x.shape)
    *batch, m, n = x.shape
    wide = Wide(np.empty(x.shape), np.empty((*batch, m)), np.empty((*batch, n)))
    first = np.zeros(batch, np.int64)
    for axis, size in enumerate(batch):
        ones = (1,) * (len(batch) - axis - 1)
        first = first + (np.arange(size) * (x.strides[axis] // 4)).reshape(-1, *ones)
    LIBRARY.repops_widen(
        *(first.size, m, n, x.strides[-2] // 4, first.ctypes.data, address_of(x), *map(address_of, wide)),
        *(cpu.get_num_threads(), cpu.get_isa()),
    )
    return wide


def wide_sum(x: F32) -> tuple[F64, F64]:
    """Sums over the middle dimension of a contiguous f32 array [A, N, B], of elements and of their magnitudes."""
    if x.ndim != 3 or x.dtype != np.float32 or not x.flags.c_contiguous:
        raise ShapeError("wide_sum: x is not a contiguous float32 array of rank 3", shape=x.shape)
    outer, n, inner = x.shape
    found = np.empty((outer, inner)), np.empty((outer, inner))
    LIBRARY.repops_wide_sum(
        *(outer, n, inner, address_of(x), *map(address_of, found)), cpu.get_num_threads(), cpu.get_isa()
    )
    return found
