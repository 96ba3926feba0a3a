"""Functions with the signatures of torch.nn.functional, whose forward and backward passes are reproducible.

Tensors are f32 (indices and targets i64, masks bool) on the CPU or a GPU. These functions make layouts contiguous,
which changes no bit; every other misfit is an OpError. The formulas and their order of operations are in docs/opset.md,
section 10 "Composites". Random numbers depend on (seed, step, site), not on a generator's state.

NOTE: PyTorch's own views (reshape, transpose, contiguous) move elements and are safe to mix in. Its arithmetic is not.
"""

# ruff: noqa: A002  (arguments are called as in torch)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..opset import AttrError, ShapeError
from .composites import call, call_all
from .operators import TensorOps

Tensor = torch.Tensor
Pair = int | Sequence[int]


def _ops(x: Tensor) -> TensorOps:
    return TensorOps(x.device)


def _pair(name: str, value: Pair) -> list[int]:
    pair = [value, value] if isinstance(value, int) else list(value)
    if len(pair) != 2:
        raise AttrError(f"{name} must be one int or two", value=value)
    return pair


def _reduce(losses: Tensor, reduction: str, count: Tensor | None = None) -> Tensor:
    """Reduce losses; a mean divides by `count`, f32 (), which defaults to the number of losses. Raise AttrError."""
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise AttrError("reduction must be 'none', 'mean' or 'sum'", value=reduction)
    o = _ops(losses)
    total = o.sum(losses, dims=list(range(losses.ndim)), keepdim=0)
    if reduction == "sum":
        return total
    return o.div(total, o.scalar(float(losses.numel())) if count is None else count)


# --------------------------------------------------------------------------------------------- products


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input [..., K] times weight [N, K], transposed, plus bias [N]: [..., N]. Raise ShapeError."""
    if not input.ndim or weight.ndim != 2 or input.shape[-1] != weight.shape[1]:
        raise ShapeError(
            "linear: weight does not fit input", input=tuple(input.shape), weight=tuple(weight.shape)
        )
    o = _ops(input)
    rows = input.reshape(-1, input.shape[-1]).contiguous()
    y = o.mm(rows, o.permute(weight.contiguous(), dims=[1, 0]))
    y = y if bias is None else o.add(y, bias.contiguous())
    return y.reshape(*input.shape[:-1], weight.shape[0])


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve input [N, G*C, H, W] with weight [G*F, C, R, S] and add bias [G*F]: [N, G*F, Y, X]."""
    window = {
        "stride": _pair("conv2d: stride", stride),
        "padding": _pair("conv2d: padding", padding),
        "dilation": _pair("conv2d: dilation", dilation),
    }
    o = _ops(input)
    y = o.conv2d(input.contiguous(), weight.contiguous(), **window, groups=groups)
    return y if bias is None else o.add(y, bias.reshape(-1, 1, 1).contiguous())


def embedding(input: Tensor, weight: Tensor) -> Tensor:
    """Return rows of weight [V, ...] by input, i64 of any shape. An index out of range gives zeros and no gradient."""
    return _ops(weight).take(weight.contiguous(), input.contiguous())


# ------------------------------------------------------------------------------------------- activations


def relu(input: Tensor) -> Tensor:
    return call("relu", input.contiguous())


def sigmoid(input: Tensor) -> Tensor:
    return call("sigmoid", input.contiguous())


def tanh(input: Tensor) -> Tensor:
    return _ops(input).tanh(input.contiguous())


def silu(input: Tensor) -> Tensor:
    return call("silu", input.contiguous())


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Return gelu by erf, or by GPT-2's formula with tanh if `approximate` is "tanh". Raise AttrError for another."""
    if approximate not in ("none", "tanh"):
        raise AttrError("gelu: approximate must be 'none' or 'tanh'", value=approximate)
    return call("gelu" if approximate == "none" else "gelu_tanh", input.contiguous())


def _over_last(name: str, x: Tensor, dim: int) -> Tensor:
    if not -x.ndim <= dim < x.ndim:
        raise AttrError(f"{name}: dim out of range", dim=dim, rank=x.ndim)
    return call(name, x.movedim(dim, -1).contiguous()).movedim(-1, dim)


def softmax(input: Tensor, dim: int = -1) -> Tensor:
    return _over_last("softmax", input, dim)


def log_softmax(input: Tensor, dim: int = -1) -> Tensor:
    return _over_last("log_softmax", input, dim)


# ------------------------------------------------------------------------------------------------ losses


def cross_entropy(input: Tensor, target: Tensor, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Return the loss of logits [N, C] or [N, C, ...] for targets i64 [N] or [N, ...]; targets outside [0, C) are
    ignored.
    """
    if input.ndim < 2 or target.shape != (input.shape[0], *input.shape[2:]):
        raise ShapeError(
            "cross_entropy: target does not fit input", input=tuple(input.shape), target=tuple(target.shape)
        )
    o, classes = _ops(input), input.shape[1]
    logits = input.movedim(1, -1).reshape(-1, classes).contiguous()
    flat = target.reshape(-1, 1).contiguous()
    if 0 <= ignore_index < classes:
        ignored, nowhere = (o.full(shape=(), dtype=torch.int64, bits=value) for value in (ignore_index, -1))
        flat = o.where(o.eq(flat, ignored), nowhere, flat)
    losses = call("cross_entropy", logits, flat, o.arange(classes)).reshape(target.shape)
    if reduction != "mean":
        return _reduce(losses, reduction)
    first, last = (o.full(shape=(), dtype=torch.int64, bits=value) for value in (0, classes))
    counted = o.cast(o.logical_and(o.ge(flat, first), o.lt(flat, last)), dtype=torch.int64)
    return _reduce(losses, reduction, o.cast(o.sum(counted, dims=[0, 1], keepdim=0), dtype=torch.float32))


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    return _reduce(call("squared_error", input.contiguous(), target.contiguous()), reduction)


# ----------------------------------------------------------------------------------------- normalisation


def _or_full(x: Tensor, given: Tensor | None, value: float, shape: Sequence[int]) -> Tensor:
    if given is not None:
        return given.reshape(shape).contiguous()
    o = _ops(x)
    return o.expand(o.scalar(value), shape=list(shape))


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise over the last dimensions, which are `normalized_shape`, the shape of weight and bias too."""
    rows = _rows("layer_norm", input, normalized_shape)
    n = rows.shape[-1:]
    y, _, _ = call_all(
        "layer_norm", rows, _or_full(input, weight, 1.0, n), _or_full(input, bias, 0.0, n), eps=eps
    )
    return y.reshape(input.shape)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float = 1e-6
) -> Tensor:
    """Normalise over the last dimensions, which are `normalized_shape`, the shape of weight too."""
    rows = _rows("rms_norm", input, normalized_shape)
    y, _ = call_all("rms_norm", rows, _or_full(input, weight, 1.0, rows.shape[-1:]), eps=eps)
    return y.reshape(input.shape)


def _rows(name: str, x: Tensor, normalized_shape: Sequence[int]) -> Tensor:
    shape = tuple(normalized_shape)
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise ShapeError(
            f"{name}: input does not end with normalized_shape", input=tuple(x.shape), normalized_shape=shape
        )
    return x.reshape(*x.shape[: -len(shape)], math.prod(shape)).contiguous()


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise input [N, C, ...] over each of `num_groups` groups of channels; weight and bias are [C].

    This is layer_norm of [N, G, C/G * ...] with weight and bias repeated for every place. Raise ShapeError.
    """
    channels = input.shape[1] if input.ndim > 1 else 0
    if num_groups < 1 or not channels or channels % num_groups:
        raise ShapeError(
            "group_norm: num_groups must divide the channels", input=tuple(input.shape), num_groups=num_groups
        )
    places = math.prod(input.shape[2:])
    shape = [num_groups, channels // num_groups * places]

    def repeated(given: Tensor | None, value: float) -> Tensor:
        each = _or_full(input, given, value, [channels, 1])
        return _ops(input).expand(each, shape=[channels, places]).reshape(shape)

    x = input.reshape(input.shape[0], *shape).contiguous()
    y, _, _ = call_all("layer_norm", x, repeated(weight, 1.0), repeated(bias, 0.0), eps=eps)
    return y.reshape(input.shape)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise input [N, C, ...]; other tensors are [C]. Training updates given running statistics in place."""
    if input.ndim < 2:
        raise ShapeError("batch_norm: input needs a dimension of channels", input=tuple(input.shape))
    n, channels = input.shape[:2]
    x = input.reshape(n, channels, -1).contiguous()
    w, b = (_or_full(input, given, value, [channels, 1]) for given, value in ((weight, 1.0), (bias, 0.0)))
    if training:
        y, mean, variance, _ = call_all("batch_norm", x, w, b, eps=eps)
        _update(running_mean, mean, 1.0, momentum)
        count = x.shape[0] * x.shape[2]
        _update(running_var, variance, count / max(count - 1, 1), momentum)
        return y.reshape(input.shape)
    if running_mean is None or running_var is None:
        raise AttrError("batch_norm: evaluation needs running_mean and running_var")
    o = _ops(input)
    scale = o.rsqrt(o.add(running_var.reshape(-1, 1).contiguous(), o.scalar(eps)))
    return call("affine_norm", x, w, b, running_mean.reshape(-1, 1).contiguous(), scale).reshape(input.shape)


def _update(running: Tensor | None, batch: Tensor, factor: float, momentum: float) -> None:
    """Update a running statistic in place; `factor` turns a population variance into a sample variance."""
    if running is None:
        return
    with torch.no_grad():
        o = _ops(running)
        new = (
            o.mul(batch.detach().reshape(running.shape), o.scalar(factor))
            if factor != 1.0
            else batch.reshape(running.shape)
        )
        running.copy_(call("running_average", running.contiguous(), new.contiguous(), momentum=momentum))


# ---------------------------------------------------------------------------------------- random numbers


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, *, seed: int, step: int, site: int
) -> Tensor:
    """Return zero with probability p, else input / (1 - p). Equal (seed, step, site) drop the same elements.

    Give each place of a network a `site` of its own (below 2^24) and each training step its number. Raise AttrError.
    """
    if not 0 <= p < 1:
        raise AttrError("dropout: p must be in [0, 1)", value=p)
    if not training or p == 0:
        return input
    o = _ops(input)
    key = [o.full(shape=(), dtype=torch.int64, bits=value) for value in (seed, step)]
    noise = o.philox(*key, shape=list(input.shape), dtype=torch.float32, site=site)
    return call("dropout", input.contiguous(), noise, p=p)


# --------------------------------------------------------------------------------------------- attention


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Return softmax(query key^T scale) value; query [..., L, E], key [..., S, E], value [..., S, V]: [..., L, V].

    `attn_mask` broadcasts to [..., L, S]: bool, true where attention is allowed, or f32, added to the scores.
    `is_causal` lets query i see keys 0 to i. A query that sees no key gives NaN. Raise ShapeError or AttrError.
    """
    *batch, length, width = query.shape
    keys = key.shape[-2]
    if list(key.shape) != [*batch, keys, width] or list(value.shape[:-1]) != [*batch, keys]:
        raise ShapeError(
            "scaled_dot_product_attention: shapes do not fit",
            query=tuple(query.shape),
            key=tuple(key.shape),
            value=tuple(value.shape),
        )
    if is_causal and attn_mask is not None:
        raise AttrError("scaled_dot_product_attention: attn_mask and is_causal exclude one another")
    o, count = _ops(query), math.prod(batch)
    q, v = query.reshape(count, length, width).contiguous(), value.reshape(count, keys, -1).contiguous()
    transposed = key.reshape(count, keys, width).transpose(1, 2).contiguous()
    scores = o.bmm(q, transposed).reshape(*batch, length, keys)
    factor = 1 / math.sqrt(width) if scale is None else scale
    if is_causal:
        attn_mask = o.ge(o.arange(length).reshape(-1, 1), o.arange(keys))
    if attn_mask is None:
        weights = call("attention_weights", scores, scale=factor)
    else:
        kind = "masked" if attn_mask.dtype == torch.bool else "biased"
        weights = call(f"attention_weights_{kind}", scores, attn_mask.contiguous(), scale=factor)
        if weights.shape != scores.shape:
            raise ShapeError(
                "scaled_dot_product_attention: attn_mask does not broadcast to the scores",
                attn_mask=tuple(attn_mask.shape),
                scores=tuple(scores.shape),
            )
    return o.bmm(weights.reshape(count, length, keys), v).reshape(*batch, length, value.shape[-1])


# ----------------------------------------------------------------------------------------------- pooling


def max_pool2d(
    input: Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, dilation: Pair = 1
) -> Tensor:
    """Pool input [N, C, H, W]. The gradient goes to the first maximum of each window."""
    window = _pooling("max_pool2d", kernel_size, stride, padding)
    dilation = _pair("max_pool2d: dilation", dilation)
    values, _ = _ops(input).max_pool2d(input.contiguous(), **window, dilation=dilation)
    return values


def avg_pool2d(input: Tensor, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> Tensor:
    """Pool input [N, C, H, W], with padding as zeros, by convolving each channel with 1 / (R S)."""
    if input.ndim != 4:
        raise ShapeError("avg_pool2d: input needs rank 4", input=tuple(input.shape))
    window = _pooling("avg_pool2d", kernel_size, stride, padding)
    kernel: Any = window.pop("kernel")
    o, channels = _ops(input), input.shape[1]
    weight = o.expand(o.scalar(1 / math.prod(kernel)), shape=[channels, 1, *kernel])
    return o.conv2d(input.contiguous(), weight, **window, dilation=[1, 1], groups=channels)


def _pooling(name: str, kernel_size: Pair, stride: Pair | None, padding: Pair) -> dict[str, list[int]]:
    return {
        "kernel": _pair(f"{name}: kernel_size", kernel_size),
        "stride": _pair(f"{name}: stride", kernel_size if stride is None else stride),
        "padding": _pair(f"{name}: padding", padding),
    }
