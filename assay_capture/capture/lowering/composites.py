"""Lowering rules that are composites of repops: activations, softmax, dropout, and their gradients.

A rule calls the composite with the builder as its `Ops`, so that one definition serves both: the program holds exactly
the operators that an executor may fuse (docs/opset.md, section 10).
"""

# ruff: noqa: ARG001  (a rule has the signature of its ATen operator)

from __future__ import annotations

import math
from collections.abc import Callable

from repops.fuse import composites
from repops.opset import BOOL, F32

from ..builder import Ref
from ..errors import Unsupported
from .rules import Context, lowers

# ------------------------------------------------------------------------------------------------- activations


def _register(aten: str, composite: Callable[..., Ref]) -> None:
    """Register a composite as it stands, of the call's tensors as f32."""

    def rule(c: Context, *tensors: Ref) -> Ref:
        return composite(c.o, *(c.tensor(x, F32) for x in tensors))

    lowers(f"aten.{aten}.default")(rule)


for _name in ("relu", "sigmoid", "silu"):
    _register(_name, getattr(composites, _name))
for _name in ("sigmoid", "tanh", "silu"):
    _register(f"{_name}_backward", getattr(composites, f"{_name}_grad"))


@lowers("aten.threshold_backward.default")
def threshold_backward(c: Context, grad: Ref, x: Ref, threshold: float) -> Ref:
    if threshold == 0:
        return composites.relu_grad(c.o, grad, x)
    return c.b.op("where", c.b.op("le", x, c.b.full(threshold)), c.b.full(0.0), grad)


@lowers("aten.gelu.default")
def gelu(c: Context, x: Ref, *, approximate: str = "none") -> Ref:
    return composites.gelu_tanh(c.o, x) if approximate == "tanh" else composites.gelu(c.o, x)


@lowers("aten.gelu_backward.default")
def gelu_backward(c: Context, grad: Ref, x: Ref, *, approximate: str = "none") -> Ref:
    rule = composites.gelu_tanh_grad if approximate == "tanh" else composites.gelu_grad
    return rule(c.o, grad, x)


# ----------------------------------------------------------------------------------------------------- softmax


def _by_rows(c: Context, dim: int, function: Callable[..., Ref], *tensors: Ref) -> Ref:
    """Apply a composite, which works on the last dimension, along `dim`: permute there and back."""
    rank = tensors[0].rank
    if rank == 0:
        rows = [c.b.op("reshape", x, shape=(1,)) for x in tensors]
        return c.b.op("reshape", function(c.o, *rows), shape=())
    dims = [d for d in range(rank) if d != dim % rank] + [dim % rank]
    back = tuple(dims.index(d) for d in range(rank))
    rows = [c.b.op("permute", x, dims=tuple(dims)) for x in tensors]
    return c.b.op("permute", function(c.o, *rows), dims=back)


@lowers("aten._softmax.default")
def softmax(c: Context, x: Ref, dim: int, half_to_float: bool) -> Ref:
    return _by_rows(c, dim, composites.softmax, x)


@lowers("aten._safe_softmax.default")
def safe_softmax(c: Context, x: Ref, dim: int, dtype: object = None) -> Ref:
    """Lower a softmax that gives zeros for a row of -inf only (attention where everything is masked)."""
    y = _by_rows(c, dim, composites.softmax, x)
    if c.notes.get(("keeps one", x)):
        return y
    largest = c.b.op("amax", x, dims=(dim % x.rank,), keepdim=1)
    return c.b.op("where", c.b.op("eq", largest, c.b.full(-math.inf)), c.b.full(0.0), y)


@lowers("aten._softmax_backward_data.default")
def softmax_backward(c: Context, grad: Ref, y: Ref, dim: int, dtype: object) -> Ref:
    return _by_rows(c, dim, composites.softmax_grad, grad, y)


@lowers("aten._log_softmax.default")
def log_softmax(c: Context, x: Ref, dim: int, half_to_float: bool) -> Ref:
    y = _by_rows(c, dim, composites.log_softmax, x)
    if x.rank == 2 and dim % 2 == 1:
        c.notes["log_softmax", y] = x
    return y


@lowers("aten._log_softmax_backward_data.default")
def log_softmax_backward(c: Context, grad: Ref, y: Ref, dim: int, dtype: object) -> Ref:
    if loss := c.notes.get(("nll gradient", grad)):
        rows, logits, column, classes = loss
        if c.notes.get(("log_softmax", y)) == logits:
            found: Ref = composites.cross_entropy_grad(c.o, rows, logits, column, classes)
            return found
    return _by_rows(c, dim, composites.log_softmax_grad, grad, y)


@lowers("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "prims.where.default")
def where(c: Context, condition: Ref, a: Ref | float, b: Ref | float) -> Ref:
    left, right = c.tensor(a, c.out.dtype), c.tensor(b, c.out.dtype)
    y = c.b.op("where", condition, left, right)
    if y.dtype == F32 and y.rank and c.b.scalar_value(right) == -math.inf and _keeps_one(c, condition):
        c.notes["keeps one", y] = True
    return y


def _keeps_one(c: Context, mask: Ref) -> bool:
    """Return whether the mask is known now and keeps something in every row."""
    value = c.known.value(mask)
    return value is not None and bool(value.any(-1).all())


# ----------------------------------------------------------------------------------------------------- dropout


@lowers("aten.native_dropout.default")
def dropout(c: Context, x: Ref, p: float, train: bool | None = True) -> tuple[Ref, Ref]:
    """Lower dropout; the mask is an output, for the gradient."""
    if c.backward:
        # SAFETY: a layer that runs again for its gradient would draw another mask.
        raise Unsupported(
            "dropout in the backward pass (activation checkpointing)", "switch checkpointing off"
        )
    if not train or p == 0 or not c.noise.dropout:
        return x, c.like(1, c.outputs[1] or c.out)
    if p == 1:
        return c.b.op("mul", x, c.b.full(0.0)), c.b.full(0, BOOL, x.shape)
    noise = c.noise.uniform(x.shape)
    return composites.dropout(c.o, x, noise, p=p), c.b.op("ge", noise, c.b.full(p))


@lowers("aten.native_dropout_backward.default")
def dropout_backward(c: Context, grad: Ref, mask: Ref, scale: float) -> Ref:
    """Apply the mask to the gradient, as the composite does to the input."""
    if not c.noise.dropout:
        return grad
    return c.o.where(mask, c.o.mul(grad, c.o.scalar(scale)), c.o.scalar(0.0))
