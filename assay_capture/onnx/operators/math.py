"""Rules: arithmetic, comparisons, selection, reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...capture.errors import CaptureError
from ...capture.untrusted import whole_quotient
from ..tensors import torch_dtype
from ..values import Call, Given, Known, untraced
from .registry import operator

Tensor = torch.Tensor


def _unary(name: str, function: Callable[[Tensor], Tensor]) -> None:
    operator(name, folds=True)(lambda c, x: function(c.tensor(x)))


def _binary(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    operator(name, folds=True, broadcasts=True)(lambda c, a, b: function(c.tensor(a), c.tensor(b)))


_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "IsNaN": torch.isnan,
    "Log": torch.log,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal,
    "Round": torch.round,  # ONNX and PyTorch: halves to even
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}
for _name, _function in _UNARY.items():
    _unary(_name, _function)

_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Xor": torch.logical_xor,
    "Equal": torch.eq,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
}
for _name, _pair in _BINARY.items():
    _binary(_name, _pair)


@operator("Div", folds=True, broadcasts=True)
def div(c: Call, a: Given, b: Given) -> Tensor:
    """Divide; integers round towards zero."""
    x, y = c.tensor(a), c.tensor(b)
    if x.is_floating_point():
        return torch.div(x, y)
    with untraced():
        plain = isinstance(b, Known) and not bool((b.tensor == -1).any())
    return torch.div(x, y, rounding_mode="trunc") if plain else whole_quotient(x, y)


@operator("Mod", folds=True, broadcasts=True)
def mod(c: Call, a: Given, b: Given) -> Tensor:
    function = torch.fmod if c.get("fmod", 0) else torch.remainder
    return function(c.tensor(a), c.tensor(b))


@operator("Pow", folds=True, broadcasts=True)
def pow_(c: Call, a: Given, b: Given) -> Tensor:
    """Pass a known exponent as a number: PyTorch has exact rules for 2, 3 and 0.5."""
    if isinstance(b, Known) and b.tensor.numel() == 1 and not (isinstance(a, Known) and b.tensor.ndim):
        return torch.pow(c.tensor(a), c.number(b, "exponent"))
    return torch.pow(c.tensor(a), c.tensor(b))


@operator("Max", "Min", "Sum", "Mean", folds=True, broadcasts=True)
def variadic(c: Call, *inputs: Given) -> Tensor:
    first, *rest = (c.tensor(value) for value in inputs)
    function = {"Max": torch.maximum, "Min": torch.minimum}.get(c.node.op, torch.add)
    for value in rest:
        first = function(first, value)
    return first / len(inputs) if c.node.op == "Mean" else first


@operator("Clip", folds=True)
def clip(c: Call, x: Given, low: Given = None, high: Given = None) -> Tensor:
    limits = [None if limit is None else c.number(limit, "limit") for limit in (low, high)]
    value = c.tensor(x)
    return value if limits == [None, None] else torch.clamp(value, *limits)


@operator("IsInf", folds=True)
def is_inf(c: Call, x: Given) -> Tensor:
    value, inf = c.tensor(x), float("inf")
    above, below = c.get("detect_positive", 1), c.get("detect_negative", 1)
    if above and below:
        return torch.abs(value) == inf
    return value == (inf if above else -inf) if above or below else torch.zeros_like(value, dtype=torch.bool)


@operator("Where", folds=True, broadcasts=True)
def where(c: Call, condition: Given, a: Given, b: Given) -> Tensor:
    return torch.where(c.tensor(condition), c.tensor(a), c.tensor(b))


@operator("Cast", folds=True)
def cast(c: Call, x: Given) -> Tensor:
    return c.tensor(x).to(torch_dtype(c.get("to", 0), c.node.where))


@operator("CastLike", folds=True)
def cast_like(c: Call, x: Given, like: Given) -> Tensor:
    return c.tensor(x).to(c.tensor(like).dtype)


# ----------------------------------------------------------------------------------------------------- reductions


def _over(c: Call, x: Tensor, axes: Given) -> list[int] | None:
    """Return the dimensions to reduce; None if nothing is reduced."""
    dims = c.axes(axes)
    if dims:
        for dim in dims:
            if not -x.ndim <= dim < x.ndim:
                raise CaptureError(f"{c.node.where}: axis {dim} of {x.ndim}; export the model again")
        return [dim % x.ndim for dim in dims]
    return None if c.get("noop_with_empty_axes", 0) else list(range(x.ndim))


def _reduction(name: str, function: Callable[[Tensor, list[int], bool], Tensor]) -> None:
    def rule(c: Call, x: Given, axes: Given = None) -> Tensor:
        value = c.tensor(x)
        dims = _over(c, value, axes)
        return value if dims is None else function(value, dims, bool(c.get("keepdims", 1)))

    operator(name, folds=True)(rule)


def _product(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    for dim in sorted(dims, reverse=True):
        x = torch.prod(x, dim, keepdim=keep)
    return x


_reduction("ReduceSum", lambda x, dims, keep: torch.sum(x, dims, keepdim=keep) if dims else x)
_reduction("ReduceMean", lambda x, dims, keep: torch.mean(x, dims, keepdim=keep))
_reduction("ReduceMax", lambda x, dims, keep: torch.amax(x, dims, keepdim=keep))
_reduction("ReduceMin", lambda x, dims, keep: torch.amin(x, dims, keepdim=keep))
_reduction("ReduceProd", _product)
_reduction("ReduceL1", lambda x, dims, keep: torch.sum(torch.abs(x), dims, keepdim=keep))
_reduction("ReduceL2", lambda x, dims, keep: torch.sqrt(torch.sum(x * x, dims, keepdim=keep)))
_reduction("ReduceSumSquare", lambda x, dims, keep: torch.sum(x * x, dims, keepdim=keep))
_reduction("ReduceLogSum", lambda x, dims, keep: torch.log(torch.sum(x, dims, keepdim=keep)))
_reduction("ReduceLogSumExp", lambda x, dims, keep: torch.logsumexp(x, dims, keepdim=keep))


@operator("ArgMax", "ArgMin", folds=True)
def argmax(c: Call, x: Given) -> Tensor:
    """Return the place of the largest or smallest element: the first of equal ones, or the last."""
    value, axis = c.tensor(x), c.get("axis", 0)
    keep = bool(c.get("keepdims", 1))
    function: Callable[..., Tensor] = torch.argmax if c.node.op == "ArgMax" else torch.argmin
    if c.get("select_last_index", 0):
        last: Tensor = value.shape[axis] - 1 - function(torch.flip(value, (axis,)), axis, keepdim=keep)
        return last
    return function(value, axis, keepdim=keep)


@operator("TopK")
def top_k(c: Call, x: Given, count: Given) -> Any:
    """Return the largest or smallest elements along an axis and their places, in order; the first of equal ones."""
    value, axis = c.tensor(x), c.get("axis", -1)
    values, places = torch.sort(value, dim=axis, descending=bool(c.get("largest", 1)), stable=True)
    size = int(c.number(count, "K"))
    return values.narrow(axis, 0, size), places.narrow(axis, 0, size)


@operator("CumSum", folds=True)
def cumsum(c: Call, x: Given, axis: Given) -> Tensor:
    value, dim = c.tensor(x), int(c.number(axis, "axis"))
    reverse = c.get("reverse", 0)
    value = torch.flip(value, (dim,)) if reverse else value
    total = torch.cumsum(value, dim)
    if c.get("exclusive", 0):
        first = torch.zeros_like(value.narrow(dim, 0, 1))
        total = torch.cat([first, total.narrow(dim, 0, value.shape[dim] - 1)], dim)
    return torch.flip(total, (dim,)) if reverse else total


@operator("Einsum")
def einsum(c: Call, *inputs: Given) -> Any:
    return torch.einsum(c.get("equation", ""), *(c.tensor(value) for value in inputs))
