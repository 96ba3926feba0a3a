"""Operators on views: operands inside other arrays, with strides of their own. The bits are those of copies.

The compiled executor (referee_py.compiled), which plans memory ahead, binds these calls to addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..opset import BF16, MAX_RANK, Dtype, DtypeError, Shape, ShapeError
from ..sums import SumMode
from .cpu import Bound
from .library import LIBRARY

MAX_OUTER = 4

LIBRARY.repops_copy.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]


class Matrices(NamedTuple):
    """Strides of a batch of matrices in elements: one for each loop of the batch, one of a row, one of a column. And
    their dtype, f32 or bf16."""

    batch: Shape
    row: int
    column: int
    dtype: Dtype


def product(
    batch: Shape,
    m: int,
    k: int,
    n: int,
    operands: Sequence[Matrices],
    addresses: Sequence[int],
    sums: SumMode = SumMode.REPOPS_F32,
) -> Bound:
    """Bind C[b, m, n] = sum over k of A[b, m, k] B[b, k, n], with the bits of `mm`. `operands` are A, B and C.
    In repops-f32 an operand of bf16 is widened, and a result of bf16 is the f32 rounded again; with one of them the
    columns of C are adjacent.

    Raise ShapeError for more than 5 batch loops, and DtypeError for several dtypes in a mode other than repops-f32.
    SAFETY: the caller guarantees valid addresses and strides.
    """
    if len(batch) > MAX_OUTER + 1:
        raise ShapeError("product: too many loops in the batch", batch=batch, limit=MAX_OUTER + 1)
    missing = MAX_OUTER + 1 - len(batch)
    *outer, inner = (1,) * missing + batch
    strides = [(0,) * missing + each.batch for each in operands]
    words = [*outer, *(s for own in strides for s in own[:-1]), inner, m, k, n]
    for each, own in zip(operands, strides, strict=True):
        words += [own[-1], each.row, each.column]
    dtypes = [each.dtype for each in operands]
    if sums is not SumMode.REPOPS_F32 and len(set(dtypes)) > 1:
        raise DtypeError(f"product: several dtypes in the mode {sums}", dtypes=dtypes)
    words += [dtype == BF16 for dtype in dtypes]
    function = LIBRARY.repops_product
    if sums is SumMode.EXACT:
        function = LIBRARY.repops_exact_product
    elif sums is SumMode.TC16 and dtypes[0] == BF16:
        function = LIBRARY.repops_tc16_product
    function.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    return _bound(function, words, addresses)


def copy(shape: Shape, strides: Shape, item_size: int, addresses: Sequence[int]) -> Bound:
    """Bind a copy of a view's elements, in row-major order, to contiguous memory. Raise ShapeError beyond rank 8."""
    if len(shape) > MAX_RANK:
        raise ShapeError("copy: too many dimensions", shape=shape, limit=MAX_RANK)
    return _bound(LIBRARY.repops_copy, [item_size, len(shape), *shape, *strides], addresses)


def _bound(function: object, words: Sequence[int], addresses: Sequence[int]) -> Bound:
    held = np.array(words, dtype=np.int64)
    data = np.array(addresses, dtype=np.uintp).tobytes()
    return Bound(function, held.ctypes.data, data, held)  # type: ignore[arg-type]
