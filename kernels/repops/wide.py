"""Binary32 operands made binary64, with the sums that error bounds need (csrc/wide.c).

NOTE: these are no operators: their sums have no order of their own, and their last bits differ between machines.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import cpu
from .library import LIBRARY
from .memory import ALIGNMENT, address_of
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


class Workspace:
    """Memory for one computation after another: what `begin` was called for is over when it is called again.

    NOTE: new memory is given by the system page by page, which takes longer than filling it.
    """

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)
        self._used = 0

    def begin(self) -> None:
        """Arrays given before are overwritten from now on."""
        if self._used > self._block.size:
            self._block = np.empty(self._used, np.uint8)
        self._used = 0

    def array(self, shape: Sequence[int]) -> F64:
        """f64, of any content."""
        nbytes = math.prod(shape) * 8
        first, self._used = self._used, self._used + -(-nbytes // ALIGNMENT) * ALIGNMENT
        if self._used > self._block.size:
            return np.empty(shape)
        return self._block[first : first + nbytes].view(np.float64).reshape(shape)


def widen(x: F32, space: Workspace) -> Wide:
    """An f32 array [..., M, N] in f64. Squares are exact; each norm is off by N (or M) roundings at most.

    Rows are contiguous, but matrices and their rows may lie anywhere. Raises ShapeError otherwise.
    """
    if x.ndim < 2 or x.dtype != np.float32 or (x.strides[-1] != 4 and x.shape[-1] > 1 and x.size):
        raise ShapeError("widen: x is no float32 array of rank 2 or more with contiguous rows", shape=x.shape)
    *batch, m, n = x.shape
    wide = Wide(*map(space.array, (x.shape, (*batch, m), (*batch, n))))
    if not x.size:
        wide.rows[...] = wide.columns[...] = 0
        return wide
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
