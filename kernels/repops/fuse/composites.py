"""Composites: functions that networks need besides operators, as fixed expressions (docs/opset.md, section 10).

A composite takes an `Ops` and f32 values that broadcast, and IS its sequence of operators: an executor is right if it
gives the bits of these operators applied one by one. Constants are rounded to binary32. A `_grad` composite takes the
gradient of the result first. Rows are the last dimension.
"""

from __future__ import annotations

import math
from typing import Protocol, TypeVar

from .expression import Ops


class Shaped(Protocol):
    """A value of an expression: an array, a tensor or a symbol."""

    @property
    def shape(self) -> tuple[int, ...]: ...


Value = TypeVar("Value", bound=Shaped)


def _row_sum(o: Ops[Value], x: Value) -> Value:
    return o.sum(x, dims=(len(x.shape) - 1,), keepdim=1)


def _row_mean(o: Ops[Value], x: Value) -> Value:
    return o.div(_row_sum(o, x), o.scalar(float(x.shape[-1])))


def _row_max(o: Ops[Value], x: Value) -> Value:
    return o.amax(x, dims=(len(x.shape) - 1,), keepdim=1)


# ------------------------------------------------------------------------------------------------- activations


def relu(o: Ops[Value], x: Value) -> Value:
    return o.maximum(x, o.scalar(0.0))


def relu_grad(o: Ops[Value], grad: Value, x: Value) -> Value:
    return o.where(o.gt(x, o.scalar(0.0)), grad, o.scalar(0.0))


def sigmoid(o: Ops[Value], x: Value) -> Value:
    return o.div(o.scalar(1.0), o.add(o.scalar(1.0), o.exp(o.neg(x))))


def sigmoid_grad(o: Ops[Value], grad: Value, y: Value) -> Value:
    """Gradient from the result y, not the operand."""
    return o.mul(grad, o.mul(y, o.sub(o.scalar(1.0), y)))


def tanh_grad(o: Ops[Value], grad: Value, y: Value) -> Value:
    """Gradient from the result y, not the operand."""
    return o.mul(grad, o.sub(o.scalar(1.0), o.mul(y, y)))


def silu(o: Ops[Value], x: Value) -> Value:
    return o.mul(x, sigmoid(o, x))


def silu_grad(o: Ops[Value], grad: Value, x: Value) -> Value:
    one, s = o.scalar(1.0), sigmoid(o, x)
    return o.mul(grad, o.mul(s, o.add(one, o.mul(x, o.sub(one, s)))))


def _normal_cdf(o: Ops[Value], x: Value) -> Value:
    return o.mul(o.scalar(0.5), o.add(o.scalar(1.0), o.erf(o.mul(x, o.scalar(math.sqrt(0.5))))))


def gelu(o: Ops[Value], x: Value) -> Value:
    return o.mul(x, _normal_cdf(o, x))


def gelu_grad(o: Ops[Value], grad: Value, x: Value) -> Value:
    density = o.mul(o.exp(o.mul(o.mul(x, x), o.scalar(-0.5))), o.scalar(1 / math.sqrt(2 * math.pi)))
    return o.mul(grad, o.add(_normal_cdf(o, x), o.mul(x, density)))


_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715


def _gelu_inner(o: Ops[Value], x: Value) -> Value:
    cube = o.mul(o.mul(x, x), x)
    return o.mul(o.scalar(_TANH_SCALE), o.add(x, o.mul(o.scalar(_TANH_CUBE), cube)))


def gelu_tanh(o: Ops[Value], x: Value) -> Value:
    """Return gelu approximated with tanh (Hendrycks and Gimpel, 2016), as in GPT-2."""
    return o.mul(o.mul(o.scalar(0.5), x), o.add(o.scalar(1.0), o.tanh(_gelu_inner(o, x))))


def gelu_tanh_grad(o: Ops[Value], grad: Value, x: Value) -> Value:
    one, half = o.scalar(1.0), o.scalar(0.5)
    t = o.tanh(_gelu_inner(o, x))
    slope = o.mul(o.scalar(_TANH_SCALE), o.add(one, o.mul(o.scalar(3 * _TANH_CUBE), o.mul(x, x))))
    left = o.mul(half, o.add(one, t))
    right = o.mul(o.mul(o.mul(half, x), o.sub(one, o.mul(t, t))), slope)
    return o.mul(grad, o.add(left, right))


# ------------------------------------------------------------------------------------------ softmax and losses


def softmax(o: Ops[Value], x: Value) -> Value:
    e = o.exp(o.sub(x, _row_max(o, x)))
    return o.mul(e, o.div(o.scalar(1.0), _row_sum(o, e)))  # one division per row


def softmax_grad(o: Ops[Value], grad: Value, y: Value) -> Value:
    """Gradient from the result y, not the operand."""
    return o.mul(o.sub(grad, _row_sum(o, o.mul(grad, y))), y)


def log_softmax(o: Ops[Value], x: Value) -> Value:
    shifted = o.sub(x, _row_max(o, x))
    return o.sub(shifted, o.log(_row_sum(o, o.exp(shifted))))


def log_softmax_grad(o: Ops[Value], grad: Value, y: Value) -> Value:
    """Gradient from the result y, not the operand."""
    return o.sub(grad, o.mul(o.exp(y), _row_sum(o, grad)))


def cross_entropy(o: Ops[Value], x: Value, target: Value, classes: Value) -> Value:
    """Return losses f32 [N, 1] of logits x f32 [N, C] for targets i64 [N, 1]; `classes` is arange(C).

    A target outside [0, C) is not a class and has loss 0 (torch's ignore_index).
    """
    chosen = o.eq(classes, target)
    return o.neg(_row_sum(o, o.where(chosen, log_softmax(o, x), o.scalar(0.0))))


def cross_entropy_grad(o: Ops[Value], grad: Value, x: Value, target: Value, classes: Value) -> Value:
    """Return the gradient of x, f32 [N, C], given that of the losses, f32 [N, 1]; 0 where the target is not a class."""
    zero = o.scalar(0.0)
    chosen = o.where(o.eq(classes, target), o.scalar(1.0), zero)
    counted = _row_max(o, chosen)  # 1 if the target is a class
    return o.mul(grad, o.sub(o.mul(softmax(o, x), counted), chosen))


def squared_error(o: Ops[Value], x: Value, target: Value) -> Value:
    difference = o.sub(x, target)
    return o.mul(difference, difference)


def squared_error_grad(o: Ops[Value], grad: Value, x: Value, target: Value) -> Value:
    """Return the gradient of x; the gradient of the target is its negative."""
    return o.mul(grad, o.mul(o.scalar(2.0), o.sub(x, target)))


# ----------------------------------------------------------------------------------------------- normalisation


def layer_norm(
    o: Ops[Value], x: Value, weight: Value, bias: Value, *, eps: float
) -> tuple[Value, Value, Value]:
    """Return the result, and the mean and reciprocal standard deviation of each row, [..., 1], for the gradient."""
    mean = _row_mean(o, x)
    centred = o.sub(x, mean)
    variance = _row_mean(o, o.mul(centred, centred))
    scale = o.rsqrt(o.add(variance, o.scalar(eps)))
    return o.add(o.mul(o.mul(centred, scale), weight), bias), mean, scale


def layer_norm_grad(
    o: Ops[Value], grad: Value, x: Value, weight: Value, mean: Value, scale: Value
) -> tuple[Value, Value]:
    """Return the gradient of x, and grad times the normalised x, whose sum over the rows is the weight's gradient."""
    normal = o.mul(o.sub(x, mean), scale)
    inner = o.mul(grad, weight)
    along = o.mul(normal, _row_mean(o, o.mul(inner, normal)))
    return o.mul(o.sub(o.sub(inner, _row_mean(o, inner)), along), scale), o.mul(grad, normal)


def rms_norm(o: Ops[Value], x: Value, weight: Value, *, eps: float) -> tuple[Value, Value]:
    """Return the result, and the reciprocal root mean square of each row, [..., 1], for the gradient."""
    scale = o.rsqrt(o.add(_row_mean(o, o.mul(x, x)), o.scalar(eps)))
    return o.mul(o.mul(x, scale), weight), scale


def rms_norm_grad(o: Ops[Value], grad: Value, x: Value, weight: Value, scale: Value) -> tuple[Value, Value]:
    """Return the gradient of x, and grad times the normalised x, whose sum over the rows is the weight's gradient."""
    normal = o.mul(x, scale)
    inner = o.mul(grad, weight)
    along = o.mul(normal, _row_mean(o, o.mul(inner, normal)))
    return o.mul(o.sub(inner, along), scale), o.mul(grad, normal)


def batch_norm(
    o: Ops[Value], x: Value, weight: Value, bias: Value, *, eps: float
) -> tuple[Value, Value, Value, Value]:
    """Training: x [N, C, L], weight and bias [C, 1]. Return the result, then mean, population variance and reciprocal
    standard deviation of each channel, [1, C, 1]."""
    mean = _channel_mean(o, x)
    centred = o.sub(x, mean)
    variance = _channel_mean(o, o.mul(centred, centred))
    scale = o.rsqrt(o.add(variance, o.scalar(eps)))
    return o.add(o.mul(o.mul(centred, scale), weight), bias), mean, variance, scale


def batch_norm_grad(
    o: Ops[Value], grad: Value, x: Value, weight: Value, mean: Value, scale: Value
) -> tuple[Value, Value, Value]:
    """Return the gradients of x, of weight and of bias; the last two are [1, C, 1]."""
    normal = o.mul(o.sub(x, mean), scale)
    of_weight, of_bias = _channel_sum(o, o.mul(grad, normal)), _channel_sum(o, grad)
    count = o.scalar(float(x.shape[0] * x.shape[2]))
    inner = o.sub(o.sub(grad, o.div(of_bias, count)), o.mul(normal, o.div(of_weight, count)))
    return o.mul(inner, o.mul(weight, scale)), of_weight, of_bias


def affine_norm(o: Ops[Value], x: Value, weight: Value, bias: Value, mean: Value, scale: Value) -> Value:
    """Evaluation: normalise x [N, C, L] by a given mean and reciprocal deviation, [C, 1] like weight and bias."""
    return o.add(o.mul(o.mul(o.sub(x, mean), scale), weight), bias)


def affine_norm_grad(
    o: Ops[Value], grad: Value, x: Value, weight: Value, mean: Value, scale: Value
) -> tuple[Value, Value, Value]:
    """Return the gradients of x, of weight and of bias, the last two [1, C, 1]. Mean and scale are constants."""
    normal = o.mul(o.sub(x, mean), scale)
    return o.mul(grad, o.mul(weight, scale)), _channel_sum(o, o.mul(grad, normal)), _channel_sum(o, grad)


def running_average(o: Ops[Value], old: Value, new: Value, *, momentum: float) -> Value:
    """Return the running statistic for evaluation, after a batch whose statistic is `new`."""
    return o.add(o.mul(old, o.scalar(1 - momentum)), o.mul(new, o.scalar(momentum)))


def _channel_sum(o: Ops[Value], x: Value) -> Value:
    return o.sum(x, dims=(0, 2), keepdim=1)


def _channel_mean(o: Ops[Value], x: Value) -> Value:
    return o.div(_channel_sum(o, x), o.scalar(float(x.shape[0] * x.shape[2])))


# --------------------------------------------------------------------------------------- attention, dropout


def attention_weights(o: Ops[Value], scores: Value, *, scale: float) -> Value:
    """Return the weights for scores, queries times keys. All three variants have `attention_weights_grad`."""
    return softmax(o, o.mul(scores, o.scalar(scale)))


def attention_weights_masked(o: Ops[Value], scores: Value, keep: Value, *, scale: float) -> Value:
    """Return the weights, zero where `keep` (bool) is 0. A row that keeps nothing is NaN."""
    return softmax(o, o.where(keep, o.mul(scores, o.scalar(scale)), o.scalar(-math.inf)))


def attention_weights_biased(o: Ops[Value], scores: Value, bias: Value, *, scale: float) -> Value:
    """Return the weights with `bias` added to the scaled scores."""
    return softmax(o, o.add(o.mul(scores, o.scalar(scale)), bias))


def attention_weights_grad(o: Ops[Value], grad: Value, y: Value, *, scale: float) -> Value:
    """Return the gradient of the scores, from the result y."""
    return o.mul(softmax_grad(o, grad, y), o.scalar(scale))


def dropout(o: Ops[Value], x: Value, noise: Value, *, p: float) -> Value:
    """Return 0 where the noise (uniform in [0, 1), from philox) is below p, else x / (1 - p). Its own gradient."""
    return o.where(o.ge(noise, o.scalar(p)), o.mul(x, o.scalar(1 / (1 - p))), o.scalar(0.0))


# -------------------------------------------------------------------------------------------------- optimizers


def sgd(o: Ops[Value], p: Value, grad: Value, rate: Value, *, decay: float) -> Value:
    """Return the parameters after a step; `rate` is f32 ()."""
    return o.sub(p, o.mul(rate, _decayed(o, p, grad, decay)))


def momentum_sgd(
    o: Ops[Value], p: Value, grad: Value, velocity: Value, rate: Value, *, momentum: float, decay: float
) -> tuple[Value, Value]:
    """Return parameters and velocity after a step. Velocity starts at zero."""
    after = o.add(o.mul(o.scalar(momentum), velocity), _decayed(o, p, grad, decay))
    return o.sub(p, o.mul(rate, after)), after


def _decayed(o: Ops[Value], p: Value, grad: Value, decay: float) -> Value:
    return o.add(grad, o.mul(o.scalar(decay), p)) if decay else grad


def adam(
    o: Ops[Value],
    p: Value,
    grad: Value,
    m: Value,
    v: Value,
    t: Value,
    rate: Value,
    *,
    betas: tuple[float, float],
    eps: float,
    decay: float,
    decoupled: bool,
) -> tuple[Value, Value, Value]:
    """Return parameters and both moments after step t (f32 (), from 1; Kingma and Ba, 2015). `decoupled`: AdamW."""
    one, b1, b2 = o.scalar(1.0), o.scalar(betas[0]), o.scalar(betas[1])
    if decoupled:
        p = o.mul(p, o.sub(one, o.mul(rate, o.scalar(decay)))) if decay else p
    else:
        grad = _decayed(o, p, grad, decay)
    m = o.add(o.mul(b1, m), o.mul(o.sub(one, b1), grad))
    v = o.add(o.mul(b2, v), o.mul(o.sub(one, b2), o.mul(grad, grad)))
    step = o.div(rate, o.sub(one, o.pow(b1, t)))
    unbias = o.rsqrt(o.sub(one, o.pow(b2, t)))
    return o.sub(p, o.div(o.mul(step, m), o.add(o.mul(o.sqrt(v), unbias), o.scalar(eps)))), m, v
