"""What numpy arrays the executors accept, and the check of one call against the operator table.

Both executors come through `check`, so they refuse the same calls with the same errors. Answers are cached: a
training step applies the same few hundred (operator, shapes, attributes) again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .opset import BOOL, F32, I64, Attrs, Dtype, DtypeError, Op, OpError, Spec, lookup

Array = np.ndarray[Any, Any]

NUMPY_DTYPE: dict[Dtype, np.dtype[Any]] = {F32: np.dtype("=f4"), I64: np.dtype("=i8"), BOOL: np.dtype("?")}
DTYPE_CODE: dict[np.dtype[Any], Dtype] = {dtype: code for code, dtype in NUMPY_DTYPE.items()}

CANONICAL_NAN = 0x7FC00000


class ArrayError(OpError):
    """Not a plain, aligned, C-contiguous numpy array."""


class AliasError(OpError):
    """An output overlaps an input that is still needed, or another output."""


class Call(NamedTuple):
    """A checked call: its row, its attributes in schema order, its inputs and outputs."""

    op: Op
    attrs: dict[str, Any]
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]


def spec_of(array: Array) -> Spec:
    """The (dtype, shape) of an array, or an OpError if it is not a tensor.

    NOTE: a bool tensor's bytes are 0 or 1. That is a property of data: the reader of foreign bytes checks it.
    """
    if type(array) is not np.ndarray:
        raise ArrayError("input is not a numpy array", type=type(array).__name__)
    flags = array.flags
    if not flags.c_contiguous or not flags.aligned:
        raise ArrayError("input is not C-contiguous and aligned", shape=array.shape, strides=array.strides)
    code = DTYPE_CODE.get(array.dtype)
    if code is None:
        raise DtypeError("input dtype is not one of the operator set", got=str(array.dtype))
    return code, array.shape


@lru_cache(maxsize=16384)
def call_of(name: str, inputs: tuple[Spec, ...], attrs: tuple[tuple[str, Any], ...]) -> Call:
    """Check dtypes, shapes and attributes against the table."""
    op = lookup(name)
    given = dict(attrs)
    outputs = tuple(op.infer(inputs, given))
    return Call(op, op.normalize(given), inputs, outputs)


def freeze(attrs: Attrs) -> tuple[tuple[str, Any], ...]:
    """Attributes as a hashable key."""
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in attrs.items())


def check(name: str, inputs: Sequence[Array], attrs: Attrs) -> Call:
    """The checked call, or an OpError."""
    return call_of(name, tuple([spec_of(array) for array in inputs]), freeze(attrs))


def canonical(array: Array) -> Array:
    """The array as it is committed: every NaN is 0x7FC00000. The array itself, if it has no NaN."""
    if array.dtype != NUMPY_DTYPE[F32]:
        return array
    nan = np.isnan(array)
    if not nan.any():
        return array
    bits = np.where(nan, np.uint32(CANONICAL_NAN), array.view(np.uint32))
    return bits.view(np.float32)
