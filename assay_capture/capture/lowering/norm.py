"""Lowering rules: norms of rows (layer, RMS), of groups and of channels (batch), and their gradients, by composites."""

# ruff: noqa: ARG001  (a rule has the signature of its ATen operator)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from repops.fuse import composites
from repops.opset import F32

from ..builder import Ref
from ..errors import Unsupported
from .rules import Context, lowers

# ------------------------------------------------------------------------------------------------ rows' norms


def _rows(c: Context, x: Ref, normalised: Sequence[int]) -> Ref:
    """Merge the normalised dimensions into one, the last."""
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
    """Return [N, C, ...] as [N * groups, the rest]: each group of channels is a row."""
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
    """Lower to a layer norm of each group, then weight and bias of each channel."""
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
    """Return [N, C, L]: the dimensions after the channels merged into one."""
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
        variance = c.o.mul(variance, c.o.scalar(n / (n - 1)))  # the sample variance, which PyTorch keeps
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
        statistics = [c.b.op("reshape", s, shape=(1, s.count, 1)) for s in (mean, scale)]
        rule: Any = composites.batch_norm_grad
    else:
        assert running_mean is not None
        assert running_var is not None
        statistics = [_channels(c, running_mean, 0), _evaluation_scale(c, running_var, eps)]
        rule = composites.affine_norm_grad
    of_x, of_weight, of_bias = rule(c.o, _planes(c, grad), planes, w, *statistics)
    return (
        c.b.op("reshape", of_x, shape=x.shape) if wanted[0] else None,
        _flat(c, of_weight) if wanted[1] and weight else None,
        _flat(c, of_bias) if wanted[2] else None,
    )
