"""The numpy arrays that the executors accept, and the check of a call against the operator table.

All executors on the host use these checks, so they refuse the same calls with the same errors. Answers are cached: a
training step repeats the same few hundred (operator, shapes, attributes).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from .opset import BF16, BOOL, F32, I64, AttrError, Attrs, Dtype, DtypeError, Op, OpError, Spec, lookup

Array = np.ndarray[Any, Any]

NUMPY_DTYPE: dict[Dtype, np.dtype[Any]] = {
    F32: np.dtype("=f4"),
    I64: np.dtype("=i8"),
    BOOL: np.dtype("?"),
    BF16: np.dtype(ml_dtypes.bfloat16),
}
DTYPE_CODE: dict[np.dtype[Any], Dtype] = {dtype: code for code, dtype in NUMPY_DTYPE.items()}

CANONICAL_NAN = 0x7FC00000
CANONICAL_BF16_NAN = 0x7FC0
PLAIN = 0x101  # the bits of `flags.num` for C-contiguous and aligned


class ArrayError(OpError):
    """An input or output is not a plain, aligned, C-contiguous array of the executor's kind."""


class AliasError(OpError):
    """An output overlaps an input that is still needed, or another output."""


class Call(NamedTuple):
    """A checked call: its row of the table, its attributes in schema order, its inputs and outputs."""

    op: Op
    attrs: dict[str, Any]
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]


def spec_of(array: Array, where: str = "input") -> Spec:
    """Return the (dtype, shape) of an array. Raise OpError if it is not a tensor; `where` begins the message.

    NOTE: a bool tensor's bytes are 0 or 1. This is a property of data, which the reader of foreign bytes checks.
    """
    if type(array) is not np.ndarray:
        raise ArrayError(f"{where} is not a numpy array", type=type(array).__name__)
    code = DTYPE_CODE.get(array.dtype)
    if code is None:
        raise DtypeError(
            f"{where} has a dtype that is not of the operator set; convert it with astype",
            got=str(array.dtype),
            allowed=[dtype.name for dtype in DTYPE_CODE],
        )
    if array.flags.num & PLAIN != PLAIN:
        raise ArrayError(
            f"{where} is not C-contiguous and aligned; numpy.ascontiguousarray or copy() makes it so",
            shape=array.shape,
            strides=array.strides,
        )
    return code, array.shape


def specs_of(name: str, inputs: Sequence[Array]) -> tuple[Spec, ...]:
    """Return the specs of an operator's inputs. Raise an OpError that names the argument."""
    row = lookup(name)
    row.check_arity(len(inputs))
    return tuple([spec_of(array, f"{name}: {row.argument(i)}") for i, array in enumerate(inputs)])


@lru_cache(maxsize=16384)
def call_of(name: str, inputs: tuple[Spec, ...], attrs: tuple[tuple[str, Any], ...]) -> Call:
    """Check dtypes, shapes and attributes against the table. Raise OpError."""
    op = lookup(name)
    given = dict(attrs)
    outputs = tuple(op.infer(inputs, given))
    return Call(op, op.normalize(given), inputs, outputs)


def freeze(attrs: Attrs, op: str = "operator") -> tuple[tuple[str, Any], ...]:
    """Return attributes as a hashable key. Raise AttrError for a value that no attribute can have.

    NOTE: this check precedes every cache, where True, 1.0 and numpy's 1 would compare equal to the int 1.
    """
    key = []
    for name, value in attrs.items():
        kind = type(value)
        if kind is tuple or kind is list:
            if not _INTS.issuperset(map(type, value)):
                raise AttrError(f"{op}: {name} must be a list of ints", value=value)
            value = tuple(value)
        elif kind not in _INTS:
            raise AttrError(
                f"{op}: {name} must be an int, a list of ints or a dtype code",
                value=value,
                type=kind.__name__,
            )
        key.append((name, value))
    return tuple(key)


_INTS = frozenset((int, Dtype))


def check(name: str, inputs: Sequence[Array], attrs: Attrs) -> Call:
    """Return the checked call. Raise OpError."""
    return call_of(name, specs_of(name, inputs), freeze(attrs, name))


_FLOATS: dict[np.dtype[Any], tuple[Any, Any, Any]] = {
    NUMPY_DTYPE[F32]: (np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint32(CANONICAL_NAN)),
    NUMPY_DTYPE[BF16]: (np.uint16(0x7FFF), np.uint16(0x7F80), np.uint16(CANONICAL_BF16_NAN)),
}
"""All bits but the sign, those of infinity, and those of the committed NaN."""


def canonical(array: Array) -> Array:
    """Return the array as it is committed, with every NaN as 0x7FC00000, in bf16 as 0x7FC0; without NaN, the array
    itself."""
    if array.dtype not in _FLOATS:
        return array
    size, infinity, committed = _FLOATS[array.dtype]
    bits = array.view(committed.dtype)
    nan = bits & size > infinity
    return np.where(nan, committed, bits).view(array.dtype) if nan.any() else array
