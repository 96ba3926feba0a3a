"""The memory of arrays: its address, its allocation, and which of it may be written."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from ..opset import ArityError, DtypeError, ShapeError
from ..tensors import PLAIN, AliasError, Array, ArrayError

ALIGNMENT = 64  # bytes: a cache line, and the widest vector
LARGE = 16384  # bytes from which alignment pays: a memory-bound kernel takes up to 1.3 times without it
PLAIN_WRITABLE = PLAIN | 0x400

# INVARIANT: numpy's C interface fixes that the fields of an array follow the head of the Python object, the data
# pointer first, the flags after six words; every extension compiled against numpy reads them there.
# `array.ctypes.data` gives the pointer at ten times the cost.
HEAD = object.__basicsize__
_FLAGS = HEAD + 48
_word_at = ctypes.c_size_t.from_address
_int_at = ctypes.c_int.from_address


def _read_address(array: Array) -> int:
    return _word_at(id(array) + HEAD).value


def _ask_address(array: Array) -> int:
    return int(array.ctypes.data)


def _fields_are_as_expected() -> bool:
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    whole = np.zeros((8, 8), np.int64)
    return all(
        _read_address(part) == _ask_address(part) and _int_at(id(part) + _FLAGS).value == part.flags.num
        for part in (whole, whole[3:], whole[:0], whole[:, 1:], whole.T)
    )


FIELDS_ARE_KNOWN = _fields_are_as_expected()
address_of = _read_address if FIELDS_ARE_KNOWN else _ask_address


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int) -> Array:
    """Return a new, uninitialised array, aligned to a cache line if it is large."""
    if nbytes < LARGE:
        return np.empty(shape, dtype)
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    return np.ndarray(shape, dtype, raw, -address_of(raw) % ALIGNMENT)


def check_out(
    where: str, out: Sequence[Array], expected: Sequence[tuple[tuple[int, ...], np.dtype[Any], int]]
) -> None:
    """Raise OpError for arrays that cannot take outputs of these (shape, dtype, bytes). `where` begins the message."""
    if len(out) != len(expected):
        raise ArityError(
            f"{where}: out takes one array for each output", expected=len(expected), got=len(out)
        )
    for place, (array, (shape, dtype, _)) in enumerate(zip(out, expected, strict=True)):
        name = f"{where}: out[{place}]"
        if type(array) is not np.ndarray:
            raise ArrayError(f"{name} is not a numpy array", type=type(array).__name__)
        if array.dtype != dtype:
            raise DtypeError(
                f"{name} has another dtype than the output", got=str(array.dtype), expected=str(dtype)
            )
        if array.shape != shape:
            raise ShapeError(f"{name} has another shape than the output", got=array.shape, expected=shape)
        if array.flags.num & PLAIN_WRITABLE != PLAIN_WRITABLE:
            raise ArrayError(
                f"{name} must be C-contiguous, aligned and writable",
                strides=array.strides,
                writable=array.flags.writeable,
            )


def overlaps(a: Array, b: Array) -> bool:
    """Return whether two contiguous arrays share a byte."""
    start, other = address_of(a), address_of(b)
    return start < other + b.nbytes and other < start + a.nbytes and a.nbytes > 0 and b.nbytes > 0


def check_overlap(
    where: str,
    inputs: Sequence[tuple[str, Array]],
    out: Sequence[Array],
    shareable: Container[tuple[int, int]] = (),
) -> None:
    """Raise AliasError if an output overlaps a named input or another output.

    If (i, o) is in `shareable`, output o may be exactly input i.
    """
    for o, array in enumerate(out):
        for i, (name, other) in enumerate(inputs):
            same = (i, o) in shareable and address_of(array) == address_of(other)
            if not same and overlaps(array, other):
                raise AliasError(f"{where}: out[{o}] overlaps {name}; give it memory of its own")
        for i in range(o):
            if overlaps(array, out[i]):
                raise AliasError(f"{where}: out[{o}] overlaps out[{i}]; give it memory of its own")
