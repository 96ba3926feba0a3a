"""Exports of repops, and every operator of the table as a function of tensors and attributes.

Written by scripts/make_stubs.py; the module's documentation is in __init__.py.
"""

# ruff: noqa: A001  (operators are called as in the table)

from typing import Any, TypeAlias, TypeVar, overload

import numpy.typing as npt
import torch

from . import opset, reference
from .backends import Backend, backend
from .opset import OPSET_VERSION, OpError
from .sums import SumMode
from .tensors import canonical

__all__ = [
    "OPSET_VERSION",
    "Backend",
    "OpError",
    "SumMode",
    "backend",
    "canonical",
    "get_num_threads",
    "opset",
    "reference",
    "set_num_threads",
]

_Array: TypeAlias = npt.NDArray[Any]
_Tensor = TypeVar("_Tensor", _Array, torch.Tensor)
_Out: TypeAlias = _Tensor | list[_Tensor] | tuple[_Tensor, ...]
_Ints: TypeAlias = tuple[int, ...] | list[int]
_Dtype: TypeAlias = opset.Dtype | int

def set_num_threads(count: int) -> None:
    """Set the number of threads that a C kernel may use; results do not depend on it. Raise ValueError below 1."""

def get_num_threads() -> int:
    """Return the number of threads that a C kernel may use."""

def add(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 1, add(a b): see docs/opset.md."""

def sub(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 2, sub(a b): see docs/opset.md."""

def mul(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 3, mul(a b): see docs/opset.md."""

def div(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 4, div(a b): see docs/opset.md."""

def neg(a: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 5, neg(a): see docs/opset.md."""

def maximum(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 6, maximum(a b): see docs/opset.md."""

def minimum(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 7, minimum(a b): see docs/opset.md."""

def sqrt(a: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 8, sqrt(a): see docs/opset.md."""

def exp(a: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 9, exp(a): see docs/opset.md."""

def log(a: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 10, log(a): see docs/opset.md."""

def rsqrt(a: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 11, rsqrt(a): see docs/opset.md."""

def erf(a: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 12, erf(a): see docs/opset.md."""

def tanh(a: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 13, tanh(a): see docs/opset.md."""

def sin(a: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 14, sin(a): see docs/opset.md."""

def cos(a: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 15, cos(a): see docs/opset.md."""

def log1p(a: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 16, log1p(a): see docs/opset.md."""

def pow(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 17, pow(a b): see docs/opset.md."""

def eq(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 20, eq(a b): see docs/opset.md."""

def ne(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 21, ne(a b): see docs/opset.md."""

def lt(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 22, lt(a b): see docs/opset.md."""

def le(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 23, le(a b): see docs/opset.md."""

def gt(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 24, gt(a b): see docs/opset.md."""

def ge(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 25, ge(a b): see docs/opset.md."""

def logical_and(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 26, logical_and(a b): see docs/opset.md."""

def logical_or(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 27, logical_or(a b): see docs/opset.md."""

def logical_not(a: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 28, logical_not(a): see docs/opset.md."""

def where(c: _Tensor, a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 29, where(c a b): see docs/opset.md."""

def cast(a: _Tensor, /, *, dtype: _Dtype, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 30, cast(a): see docs/opset.md."""

def cast_stochastic(a: _Tensor, r: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 31, cast_stochastic(a r): see docs/opset.md."""

def sum(x: _Tensor, /, *, dims: _Ints, keepdim: int, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 40, sum(x): see docs/opset.md."""

def amax(x: _Tensor, /, *, dims: _Ints, keepdim: int, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 41, amax(x): see docs/opset.md."""

def argmax(x: _Tensor, /, *, dim: int, keepdim: int, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 42, argmax(x): see docs/opset.md."""

def mm(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 50, mm(a b): see docs/opset.md."""

def bmm(a: _Tensor, b: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 51, bmm(a b): see docs/opset.md."""

def conv2d(
    x: _Tensor,
    w: _Tensor,
    /,
    *,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    groups: int,
    out: _Out[_Tensor] | None = None,
) -> _Tensor:
    """Operator 52, conv2d(x w): see docs/opset.md."""

def conv2d_input_grad(
    dy: _Tensor,
    w: _Tensor,
    /,
    *,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    groups: int,
    input_hw: _Ints,
    out: _Out[_Tensor] | None = None,
) -> _Tensor:
    """Operator 53, conv2d_input_grad(dy w): see docs/opset.md."""

def conv2d_weight_grad(
    dy: _Tensor,
    x: _Tensor,
    /,
    *,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    groups: int,
    kernel_hw: _Ints,
    out: _Out[_Tensor] | None = None,
) -> _Tensor:
    """Operator 54, conv2d_weight_grad(dy x): see docs/opset.md."""

def max_pool2d(
    x: _Tensor,
    /,
    *,
    kernel: _Ints,
    stride: _Ints,
    padding: _Ints,
    dilation: _Ints,
    out: _Out[_Tensor] | None = None,
) -> list[_Tensor]:
    """Operator 55, max_pool2d(x): see docs/opset.md."""

def take(x: _Tensor, idx: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 60, take(x idx): see docs/opset.md."""

def scatter_add(base: _Tensor, idx: _Tensor, src: _Tensor, /, *, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 61, scatter_add(base idx src): see docs/opset.md."""

def reshape(x: _Tensor, /, *, shape: _Ints, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 70, reshape(x): see docs/opset.md."""

def permute(x: _Tensor, /, *, dims: _Ints, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 71, permute(x): see docs/opset.md."""

def expand(x: _Tensor, /, *, shape: _Ints, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 72, expand(x): see docs/opset.md."""

def slice(
    x: _Tensor, /, *, dim: int, start: int, stop: int, step: int, out: _Out[_Tensor] | None = None
) -> _Tensor:
    """Operator 73, slice(x): see docs/opset.md."""

def cat(x: _Tensor, /, *more: _Tensor, dim: int, out: _Out[_Tensor] | None = None) -> _Tensor:
    """Operator 74, cat(x*): see docs/opset.md."""

@overload
def full(*, shape: _Ints, dtype: _Dtype, bits: int, out: None = None) -> _Array:
    """Operator 80, full(): see docs/opset.md."""

@overload
def full(*, shape: _Ints, dtype: _Dtype, bits: int, out: _Out[_Tensor]) -> _Tensor: ...
@overload
def arange(*, n: int, out: None = None) -> _Array:
    """Operator 81, arange(): see docs/opset.md."""

@overload
def arange(*, n: int, out: _Out[_Tensor]) -> _Tensor: ...
def philox(
    seed: _Tensor,
    step: _Tensor,
    /,
    *,
    shape: _Ints,
    dtype: _Dtype,
    site: int,
    out: _Out[_Tensor] | None = None,
) -> _Tensor:
    """Operator 82, philox(seed step): see docs/opset.md."""
