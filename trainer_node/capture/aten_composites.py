"""Lowering rules that are composites of repops: activations, softmax, dropout, norms, and their gradients.

One definition serves both: the rule calls the composite with the builder as its `Ops`, so the program holds exactly the
operators that an executor may fuse (docs/opset.md, section 10).
"""
# ruff: noqa: ARG001  (a rule has the signature of its ATen operator)

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from repops import composites
from repops.opset import BOOL, F32

from .builder import Ref
from .errors import Unsupported
from .lowering import Context, lowers

# ------------------------------------------------------------------------------------------------- activations


@lowers("aten.relu.default")
def relu(c: Context, x: Ref) -> Ref:
    return composites.relu(c.o, c.tensor(x, F32))


@lowers("aten.threshold_backward.default")
def threshold_backward(c: Context, grad: Ref, x: Ref, threshold: float) -> Ref:
    if threshold == 0:
        return composites.relu_grad(c.o, grad, x)
    return c.b.op("where", c.b.op("gt", x, c.b.full(threshold)), grad, c.b.full(0.0))


@lowers("aten.sigmoid.default")
def sigmoid(c: Context, x: Ref) -> Ref:
    return composites.sigmoid(c.o, c.tensor(x, F32))


@lowers("aten.sigmoid_backward.default")
def sigmoid_backward(c: Context, grad: Ref, y: Ref) -> Ref:
    return composites.sigmoid_grad(c.o, grad, y)


@lowers("aten.tanh_backward.default")
def tanh_backward(c: Context, grad: Ref, y: Ref) -> Ref:
    return composites.tanh_grad(c.o, grad, y)


@lowers("aten.silu.default")
def silu(c: Context, x: Ref) -> Ref:
    return composites.silu(c.o, x)


@lowers("aten.silu_backward.default")
def silu_backward(c: Context, grad: Ref, x: Ref) -> Ref:
    return composites.silu_grad(c.o, grad, x)


@lowers("aten.gelu.default")
def gelu(c: Context, x: Ref, *, approximate: str = "none") -> Ref:
    return composites.gelu_tanh(c.o, x) if approximate == "tanh" else composites.gelu(c.o, x)


@lowers("aten.gelu_backward.default")
def gelu_backward(c: Context, grad: Ref, x: Ref, *, approximate: str = "none") -> Ref:
    rule = composites.gelu_tanh_grad if approximate == "tanh" else composites.gelu_grad
    return rule(c.o, grad, x)


# ----------------------------------------------------------------------------------------------------- softmax


def _by_rows(c: Context, dim: int, function: Callable[..., Ref], *tensors: Ref) -> Ref:
    """Composites work on the last dimension: another one is brought there, and back."""
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
    """A row of -inf only, which attention has where everything is masked, gives zeros."""
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
            return composites.cross_entropy_grad(c.o, rows, logits, column, classes)
    return _by_rows(c, dim, composites.log_softmax_grad, grad, y)


@lowers("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "prims.where.default")
def where(c: Context, condition: Ref, a: Ref | float, b: Ref | float) -> Ref:
    left, right = c.tensor(a, c.out.dtype), c.tensor(b, c.out.dtype)
    y = c.b.op("where", condition, left, right)
    if y.dtype == F32 and y.rank and c.b.scalar_value(right) == -math.inf and _keeps_one(c, condition):
        c.notes["keeps one", y] = True
    return y


def _keeps_one(c: Context, mask: Ref) -> bool:
    """Whether a mask that is known now leaves something in every row."""
    value = c.known.value(mask)
    return value is not None and bool(value.any(-1).all())


# ----------------------------------------------------------------------------------------------------- dropout


@lowers("aten.native_dropout.default")
def dropout(c: Context, x: Ref, p: float, train: bool | None = True) -> tuple[Ref, Ref]:
    """The mask is kept for the gradient."""
    if c.backward:
        # SAFETY: a layer that runs again for its gradient would draw another mask.
        raise Unsupported(
            "dropout in the backward pass (activation checkpointing)", "switch checkpointing off"
        )
    if not train or p == 0:
        return x, c.like(1, c.outputs[1] or c.out)
    if p == 1:
        return c.b.op("mul", x, c.b.full(0.0)), c.b.full(0, BOOL, x.shape)
    noise = c.noise.uniform(x.shape)
    return composites.dropout(c.o, x, noise, p=p), c.b.op("ge", noise, c.b.full(p))


@lowers("aten.native_dropout_backward.default")
def dropout_backward(c: Context, grad: Ref, mask: Ref, scale: float) -> Ref:
    """As the composite, whose condition is the mask."""
    return c.o.where(mask, c.o.mul(grad, c.o.scalar(scale)), c.o.scalar(0.0))


# ------------------------------------------------------------------------------------------------ rows' norms


def _rows(c: Context, x: Ref, normalised: Sequence[int]) -> Ref:
    """With the normalised dimensions as one, the last."""
    lead = x.shape[: x.rank - len(normalised)]
    return c.b.op("reshape", x, shape=(*lead, math.prod(normalised)))


def _affine(c: Context, parameter: Ref | None, default: float, normalised: Sequence[int]) -> Ref:
    if parameter is None:
        return c.b.full(default)
    return c.b.op("reshape", parameter, shape=(math.prod(normalised),))


def _row_sum(c: Context, x: Ref, normalised: Sequence[int]) -> Ref:
    total = c.b.op("sum", x, dims=tuple(range(x.rank - 1)), keepdim=0)
    return c.b.op("reshape", total, shape=tuple(normalised))


def _statistic(c: Context, value: Ref, place: int) -> Ref:
    type_ = c.outputs[place]
    assert type_ is not None
    return c.b.op("reshape", value, shape=type_.shape)


@lowers("aten.native_layer_norm.default")
def layer_norm(
    c: Context, x: Ref, normalised: Sequence[int], weight: Ref | None, bias: Ref | None, eps: float
) -> tuple[Ref, Ref, Ref]:
    w, b = _affine(c, weight, 1, normalised), _affine(c, bias, 0, normalised)
    y, mean, scale = composites.layer_norm(c.o, _rows(c, x, normalised), w, b, eps=eps)
    return c.b.op("reshape", y, shape=x.shape), _statistic(c, mean, 1), _statistic(c, scale, 2)


@lowers("aten.native_layer_norm_backward.default")
def layer_norm_backward(
    c: Context,
    grad: Ref,
    x: Ref,
    normalised: Sequence[int],
    mean: Ref,
    scale: Ref,
    weight: Ref | None,
    bias: Ref | None,
    wanted: Sequence[bool],
) -> tuple[Ref | None, ...]:
    g, rows = _rows(c, grad, normalised), _rows(c, x, normalised)
    kept = (*rows.shape[:-1], 1)
    mean, scale = (c.b.op("reshape", s, shape=kept) for s in (mean, scale))
    of_x, product = composites.layer_norm_grad(c.o, g, rows, _affine(c, weight, 1, normalised), mean, scale)
    return (
        c.b.op("reshape", of_x, shape=x.shape) if wanted[0] else None,
        _row_sum(c, product, normalised) if wanted[1] and weight else None,
        _row_sum(c, g, normalised) if wanted[2] and bias else None,
    )


@lowers("aten._fused_rms_norm.default")
def rms_norm(
    c: Context, x: Ref, normalised: Sequence[int], weight: Ref | None, eps: float | None
) -> tuple[Ref, Ref]:
    if eps is None:
        raise Unsupported("rms_norm with eps=None, which is a dtype's epsilon", "give eps a number")
    rows = _rows(c, x, normalised)
    y, scale = composites.rms_norm(c.o, rows, _affine(c, weight, 1, normalised), eps=eps)
    return c.b.op("reshape", y, shape=x.shape), _statistic(c, scale, 1)


@lowers("aten._fused_rms_norm_backward.default")
def rms_norm_backward(
    c: Context,
    grad: Ref,
    x: Ref,
    normalised: Sequence[int],
    scale: Ref,
    weight: Ref | None,
    wanted: Sequence[bool],
) -> tuple[Ref | None, ...]:
    rows = _rows(c, x, normalised)
    scale = c.b.op("reshape", scale, shape=(*rows.shape[:-1], 1))
    of_x, product = composites.rms_norm_grad(
        c.o, _rows(c, grad, normalised), rows, _affine(c, weight, 1, normalised), scale
    )
    return (
        c.b.op("reshape", of_x, shape=x.shape) if wanted[0] else None,
        _row_sum(c, product, normalised) if wanted[1] and weight else None,
    )


# -------------------------------------------------------------------------------------------------- group norm


def _grouped(c: Context, x: Ref, groups: int) -> Ref:
    """[N, C, ...] as [N * groups, the rest]: each group of channels is a row."""
    rows = x.shape[0] * groups
    return c.b.op("reshape", x, shape=(rows, x.count // rows))


@lowers("aten.native_group_norm.default")
def group_norm(
    c: Context,
    x: Ref,
    weight: Ref | None,
    bias: Ref | None,
    images: int,
    channels: int,
    size: int,
    groups: int,
    eps: float,
) -> tuple[Ref, Ref, Ref]:
    """A layer norm of each group, then weight and bias of each channel."""
    rows = _grouped(c, x, groups)
    y, mean, scale = composites.layer_norm(c.o, rows, c.o.scalar(1.0), c.o.scalar(0.0), eps=eps)
    y = _planes(c, c.b.op("reshape", y, shape=x.shape))
    y = c.o.add(c.o.mul(y, _channels(c, weight, 1)), _channels(c, bias, 0))
    return c.b.op("reshape", y, shape=x.shape), _statistic(c, mean, 1), _statistic(c, scale, 2)


@lowers("aten.native_group_norm_backward.default")
def group_norm_backward(
    c: Context,
    grad: Ref,
    x: Ref,
    mean: Ref,
    scale: Ref,
    weight: Ref | None,
    images: int,
    channels: int,
    size: int,
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Ref | None, ...]:
    rows, g = _grouped(c, x, groups), _planes(c, grad)
    mean, scale = (c.b.op("reshape", s, shape=(rows.shape[0], 1)) for s in (mean, scale))
    inner = _grouped(c, c.o.mul(g, _channels(c, weight, 1)), groups)
    of_x, _ = composites.layer_norm_grad(c.o, inner, rows, c.o.scalar(1.0), mean, scale)
    normal = c.b.op("reshape", c.o.mul(c.o.sub(rows, mean), scale), shape=g.shape)
    return (
        c.b.op("reshape", of_x, shape=x.shape) if wanted[0] else None,
        c.b.op("sum", c.o.mul(g, normal), dims=(0, 2), keepdim=0) if wanted[1] and weight else None,
        c.b.op("sum", g, dims=(0, 2), keepdim=0) if wanted[2] else None,
    )


# -------------------------------------------------------------------------------------------------- batch norm


def _planes(c: Context, x: Ref) -> Ref:
    """[N, C, L]: everything after the channels as one dimension."""
    return c.b.op("reshape", x, shape=(*x.shape[:2], math.prod(x.shape[2:])))


def _channels(c: Context, parameter: Ref | None, default: float) -> Ref:
    if parameter is None:
        return c.b.full(default)
    return c.b.op("reshape", parameter, shape=(parameter.count, 1))


def _flat(c: Context, statistic: Ref) -> Ref:
    return c.b.op("reshape", statistic, shape=(statistic.count,))


@lowers("aten._native_batch_norm_legit_functional.default")
def batch_norm(
    c: Context,
    x: Ref,
    weight: Ref | None,
    bias: Ref | None,
    running_mean: Ref,
    running_var: Ref,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Ref, ...]:
    if not training:
        raise Unsupported("batch norm's running form without training", "call the module's train() or eval()")
    y, mean, variance, scale = _training_norm(c, x, weight, bias, eps)
    n = x.count // x.shape[1]
    if n > 1:
        variance = c.o.mul(variance, c.o.scalar(n / (n - 1)))  # the sample's, as PyTorch keeps it
    kept = (running_mean, mean), (running_var, variance)
    after = (composites.running_average(c.o, old, _flat(c, new), momentum=momentum) for old, new in kept)
    return c.b.op("reshape", y, shape=x.shape), _flat(c, mean), _flat(c, scale), *after


@lowers("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    c: Context, x: Ref, weight: Ref | None, bias: Ref | None, training: bool, momentum: float, eps: float
) -> tuple[Ref, ...]:
    y, mean, _, scale = _training_norm(c, x, weight, bias, eps)
    return c.b.op("reshape", y, shape=x.shape), _flat(c, mean), _flat(c, scale)


def _training_norm(
    c: Context, x: Ref, weight: Ref | None, bias: Ref | None, eps: float
) -> tuple[Ref, Ref, Ref, Ref]:
    result: tuple[Ref, Ref, Ref, Ref] = composites.batch_norm(
        c.o, _planes(c, x), _channels(c, weight, 1), _channels(c, bias, 0), eps=eps
    )
    return result


@lowers("aten._native_batch_norm_legit_no_training.default")
def batch_norm_evaluated(
    c: Context,
    x: Ref,
    weight: Ref | None,
    bias: Ref | None,
    running_mean: Ref,
    running_var: Ref,
    momentum: float,
    eps: float,
) -> tuple[Ref, ...]:
    mean, scale = _channels(c, running_mean, 0), _evaluation_scale(c, running_var, eps)
    w, b = _channels(c, weight, 1), _channels(c, bias, 0)
    y = composites.affine_norm(c.o, _planes(c, x), w, b, mean, scale)
    empty = c.b.full(0.0, F32, (0,))
    return c.b.op("reshape", y, shape=x.shape), empty, empty


def _evaluation_scale(c: Context, running_var: Ref, eps: float) -> Ref:
    return c.o.rsqrt(c.o.add(_channels(c, running_var, 1), c.o.scalar(eps)))


@lowers("aten.native_batch_norm_backward.default")
def batch_norm_backward(
    c: Context,
    grad: Ref,
    x: Ref,
    weight: Ref | None,
    running_mean: Ref | None,
    running_var: Ref | None,
    mean: Ref | None,
    scale: Ref | None,
    training: bool,
    eps: float,
    wanted: Sequence[bool],
) -> tuple[Ref | None, ...]:
    planes, w = _planes(c, x), _channels(c, weight, 1)
    if training:
        assert mean is not None
        assert scale is not None
        statistics = (c.b.op("reshape", s, shape=(1, s.count, 1)) for s in (mean, scale))
        rule: Any = composites.batch_norm_grad
    else:
        assert running_mean is not None
        assert running_var is not None
        statistics = iter((_channels(c, running_mean, 0), _evaluation_scale(c, running_var, eps)))
        rule = composites.affine_norm_grad
    of_x, of_weight, of_bias = rule(c.o, _planes(c, grad), planes, w, *statistics)
    return (
        c.b.op("reshape", of_x, shape=x.shape) if wanted[0] else None,
        _flat(c, of_weight) if wanted[1] and weight else None,
        _flat(c, of_bias) if wanted[2] else None,
    )
