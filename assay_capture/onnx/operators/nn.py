"""Rules: products, convolutions, pooling, norms, activations.

Letters: N images, C channels, D1... spatial dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as f

from ..values import TRAINING_FORM, Call, Given
from .registry import operator

Tensor = torch.Tensor


# ------------------------------------------------------------------------------------------------------- products


@operator("MatMul")
def matmul(c: Call, a: Given, b: Given) -> Tensor:
    return torch.matmul(c.tensor(a), c.tensor(b))


@operator("Gemm")
def gemm(c: Call, a: Given, b: Given, bias: Given = None) -> Tensor:
    """Compute alpha A' B' + beta C."""
    x, w = c.tensor(a), c.tensor(b)
    x = x.t() if c.get("transA", 0) else x
    alpha, beta = c.get("alpha", 1.0), c.get("beta", 1.0)
    if c.get("transB", 0) and alpha == beta == 1 and (bias is None or c.tensor(bias).ndim == 1):
        return f.linear(x, w, None if bias is None else c.tensor(bias))
    product = torch.mm(x, w.t() if c.get("transB", 0) else w)
    product = product if alpha == 1 else product * alpha
    if bias is None:
        return product
    return product + (c.tensor(bias) if beta == 1 else c.tensor(bias) * beta)


# ---------------------------------------------------------------------------------------- convolution and pooling


def _pads(
    c: Call, x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """Return the padding before and after each spatial dimension: all begins, then all ends."""
    mode = c.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return list(c.ints("pads", (0,) * (2 * len(kernel))) or ())
    if mode == "VALID":
        return [0] * (2 * len(kernel))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise c.unsupported(f"auto_pad {mode}", "give the padding explicitly")
    total = [
        max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
        for size, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    begins = [(t + 1) // 2 if mode == "SAME_LOWER" else t // 2 for t in total]
    return [*begins, *(t - b for t, b in zip(total, begins, strict=True))]


def _padded(x: Tensor, pads: Sequence[int], fill: float) -> tuple[Tensor, tuple[int, ...]]:
    """Return x and the padding left to the operator, if equal on both sides; else pad x here and leave none."""
    half = len(pads) // 2
    if list(pads[:half]) == list(pads[half:]):
        return x, tuple(pads[:half])
    around = [pads[side * half + d] for d in reversed(range(half)) for side in (0, 1)]
    return f.pad(x, around, value=fill), (0,) * half


@operator("Conv")
def conv(c: Call, x: Given, w: Given, bias: Given = None) -> Tensor:
    image, weight = c.tensor(x), c.tensor(w)
    kernel = weight.shape[2:]
    stride = c.ints("strides", (1,) * len(kernel)) or ()
    dilation = c.ints("dilations", (1,) * len(kernel)) or ()
    image, padding = _padded(image, _pads(c, image, kernel, stride, dilation), 0.0)
    function = {1: f.conv1d, 2: f.conv2d}.get(len(kernel))
    if function is None:
        raise c.unsupported(f"a convolution of {len(kernel)} spatial dimensions", "use one or two")
    shift = None if bias is None else c.tensor(bias)
    return function(image, weight, shift, stride, padding, dilation, c.get("group", 1))


@operator("ConvTranspose")
def conv_transpose(c: Call, x: Given, w: Given, bias: Given = None) -> Tensor:
    """Spread each place over a window. Padding is what is cut off the result."""
    image, weight = c.tensor(x), c.tensor(w)
    kernel = weight.shape[2:]
    if len(kernel) not in (1, 2):
        raise c.unsupported(f"a transposed convolution of {len(kernel)} spatial dimensions", "use one or two")
    stride, dilation, extra = (
        c.ints(name, (default,) * len(kernel)) or ()
        for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    full = [
        s * (size - 1) + (k - 1) * d + 1 + e
        for size, k, s, d, e in zip(image.shape[2:], kernel, stride, dilation, extra, strict=True)
    ]
    pads = _cut(c, image, full, stride)
    begins, ends = pads[: len(kernel)], pads[len(kernel) :]
    even = begins == ends
    function: Any = f.conv_transpose1d if len(kernel) == 1 else f.conv_transpose2d
    shift = None if bias is None else c.tensor(bias)
    padding = tuple(begins) if even else 0
    y: Tensor = function(image, weight, shift, stride, padding, extra, c.get("group", 1), dilation)
    for d, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        y = y if even else y.narrow(d + 2, begin, full[d] - begin - end)
    return y


def _cut(c: Call, x: Tensor, full: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Return how much of each spatial dimension is cut off: all begins, then all ends."""
    mode, wanted = c.get("auto_pad", "NOTSET"), c.ints("output_shape")
    if mode not in ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise c.unsupported(f"auto_pad {mode}", "give the padding explicitly")
    if wanted is None and mode.startswith("SAME"):
        wanted = tuple(size * s for size, s in zip(x.shape[2:], stride, strict=True))
    if wanted is None:
        pads = (
            [0] * (2 * len(full)) if mode == "VALID" else list(c.ints("pads", (0,) * (2 * len(full))) or ())
        )
    else:
        total = [size - out for size, out in zip(full, wanted[-len(full) :], strict=True)]
        begins = [t // 2 if mode == "SAME_UPPER" else t - t // 2 for t in total]
        pads = [*begins, *(t - b for t, b in zip(total, begins, strict=True))]
    if min(pads, default=0) < 0:
        raise c.unsupported(f"a transposed convolution with padding {pads}", "use padding of 0 or more")
    return pads


def _window(c: Call, rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return kernel, strides and dilations of a pool."""
    kernel = c.ints("kernel_shape") or ()
    if len(kernel) != rank - 2 or rank not in (3, 4):
        raise c.unsupported(f"pooling of rank {rank} with kernel {list(kernel)}", "use [N, C, H, W]")
    ones = (1,) * len(kernel)
    return kernel, c.ints("strides", ones) or ones, c.ints("dilations", ones) or ones


@operator("MaxPool")
def max_pool(c: Call, x: Given) -> Tensor:
    image = c.tensor(x)
    kernel, stride, dilation = _window(c, image.ndim)
    if len(c.node.outputs) > 1 and c.node.outputs[1]:
        raise c.unsupported("the indices of MaxPool", "use its values only")
    image, padding = _padded(image, _pads(c, image, kernel, stride, dilation), float("-inf"))
    function = f.max_pool2d if len(kernel) == 2 else f.max_pool1d
    return function(image, kernel, stride, padding, dilation, ceil_mode=bool(c.get("ceil_mode", 0)))


@operator("AveragePool")
def average_pool(c: Call, x: Given) -> Tensor:
    image = c.tensor(x)
    kernel, stride, dilation = _window(c, image.ndim)
    pads = _pads(c, image, kernel, stride, dilation)
    half = len(pads) // 2
    if set(dilation) != {1} or list(pads[:half]) != list(pads[half:]):
        raise c.unsupported("average pooling with dilation or uneven padding", "pad before it")
    options = {
        "ceil_mode": bool(c.get("ceil_mode", 0)),
        "count_include_pad": bool(c.get("count_include_pad", 0)) or not any(pads),
    }
    function: Any = f.avg_pool2d if len(kernel) == 2 else f.avg_pool1d
    return function(image, kernel, stride, tuple(pads[:half]), **options)  # type: ignore[no-any-return]


@operator("GlobalAveragePool")
def global_average_pool(c: Call, x: Given) -> Tensor:
    image = c.tensor(x)
    return torch.mean(image, list(range(2, image.ndim)), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(c: Call, x: Given) -> Tensor:
    image = c.tensor(x)
    return torch.amax(image, list(range(2, image.ndim)), keepdim=True)


# ---------------------------------------------------------------------------------------------------------- norms


@operator("BatchNormalization")
def batch_norm(c: Call, x: Given, w: Given, b: Given, mean: Given, variance: Given) -> Any:
    """Normalise. In training mode the batch's mean and variance are outputs 2 and 3; the module averages them.

    NOTE: ONNX averages the population variance. PyTorch's own layer averages the sample variance, n / (n - 1) of it.
    """
    if c.training and not c.get("training_mode", 0):
        raise c.unsupported(
            "batch norm in its evaluation form, in a job that trains",
            f"--freeze {c.node.inputs[3][:80]} and {c.node.inputs[4][:80]} (patterns do, too) to keep its statistics "
            f"as they are, or {TRAINING_FORM}",
        )
    image, eps = c.tensor(x), c.get("epsilon", 1e-5)
    scale, shift, old_mean, old_variance = (c.tensor(value) for value in (w, b, mean, variance))
    if not c.training:
        return f.batch_norm(image, old_mean, old_variance, scale, shift, False, 0.0, eps)
    y = f.batch_norm(image, None, None, scale, shift, True, 0.0, eps)
    if len(c.node.outputs) < 3:
        return y
    with torch.no_grad():
        dims = [d for d in range(image.ndim) if d != 1]
        return y, torch.mean(image, dims), torch.var(image, dims, correction=0)


@operator("LayerNormalization")
def layer_norm(c: Call, x: Given, w: Given, b: Given = None) -> Any:
    """Normalise. Mean and the inverse deviation are outputs 2 and 3."""
    value, axis, eps = c.tensor(x), c.get("axis", -1), c.get("epsilon", 1e-5)
    shape = value.shape[axis:]
    y = f.layer_norm(value, shape, c.tensor(w), None if b is None else c.tensor(b), eps)
    if not any(c.node.outputs[1:]):
        return y
    dims = list(range(axis % value.ndim, value.ndim))
    mean = value.mean(dims, keepdim=True)
    return y, mean, torch.rsqrt(((value - mean) ** 2).mean(dims, keepdim=True) + eps)


@operator("RMSNormalization")
def rms_norm(c: Call, x: Given, w: Given) -> Tensor:
    value = c.tensor(x)
    return f.rms_norm(value, value.shape[c.get("axis", -1) :], c.tensor(w), c.get("epsilon", 1e-5))


@operator("GroupNormalization")
def group_norm(c: Call, x: Given, w: Given, b: Given) -> Tensor:
    """Normalise groups, with a scale for each channel: opset 21 or later."""
    if c.opset < 21:
        raise c.unsupported("GroupNormalization before opset 21", "export with opset 21")
    return f.group_norm(c.tensor(x), c.get("num_groups", 1), c.tensor(w), c.tensor(b), c.get("epsilon", 1e-5))


@operator("InstanceNormalization")
def instance_norm(c: Call, x: Given, w: Given, b: Given) -> Tensor:
    return f.instance_norm(c.tensor(x), weight=c.tensor(w), bias=c.tensor(b), eps=c.get("epsilon", 1e-5))


@operator("LpNormalization")
def lp_norm(c: Call, x: Given) -> Tensor:
    """Divide by the sum of sizes (p = 1) or the root of the sum of squares (2); nothing divides by 0."""
    value, axis, p = c.tensor(x), c.get("axis", -1), c.get("p", 2)
    if p not in (1, 2):
        raise c.unsupported(f"LpNormalization with p {p}", "use 1 or 2")
    size = (
        torch.abs(value).sum(axis, keepdim=True)
        if p == 1
        else torch.sqrt((value * value).sum(axis, keepdim=True))
    )
    return value / torch.where(size == 0, 1.0, size)


@operator("MeanVarianceNormalization")
def mean_variance_norm(c: Call, x: Given) -> Tensor:
    value, axes = c.tensor(x), list(c.ints("axes", (0, 2, 3)) or ())
    centred = value - value.mean(axes, keepdim=True)
    return centred / (torch.sqrt((centred * centred).mean(axes, keepdim=True)) + 1e-9)


# ------------------------------------------------------------------------------------------------ losses in a graph


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def nll_loss(c: Call, x: Given, target: Given, weight: Given = None) -> Any:
    """Score log-probabilities, or scores, [N, C, D1...] against classes [N, D1...]."""
    value, classes = c.tensor(x), c.tensor(target)
    scale = None if weight is None else c.tensor(weight)
    ignored = {"ignore_index": c.get("ignore_index", 0)} if "ignore_index" in c.node.attributes else {}
    if c.node.op == "NegativeLogLikelihoodLoss":
        return f.nll_loss(value, classes, scale, reduction=c.get("reduction", "mean"), **ignored)
    logs = torch.log_softmax(value, 1)
    loss = f.nll_loss(logs, classes, scale, reduction=c.get("reduction", "mean"), **ignored)
    return (loss, logs) if len(c.node.outputs) > 1 else loss


# ---------------------------------------------------------------------------------------------------- activations


def _register(name: str, function: Callable[..., Tensor], *options: tuple[str, Any]) -> None:
    """Register a function of one tensor and of these attributes, given with their defaults."""

    def rule(c: Call, x: Given) -> Tensor:
        return function(c.tensor(x), *(c.get(*option) for option in options))

    operator(name)(rule)


_register("Relu", torch.relu)
_register("Sigmoid", torch.sigmoid)
_register("Softplus", f.softplus)
_register("LeakyRelu", f.leaky_relu, ("alpha", 0.01))
_register("Elu", f.elu, ("alpha", 1.0))
_register("Celu", f.celu, ("alpha", 1.0))
_register("Mish", f.mish)
_register("Softsign", lambda x: x / (1 + torch.abs(x)))
_register("ThresholdedRelu", lambda x, alpha: torch.where(x > alpha, x, 0.0), ("alpha", 1.0))
_register(
    "Selu",
    lambda x, alpha, gamma: gamma * torch.where(x > 0, x, alpha * (torch.exp(torch.clamp(x, max=0.0)) - 1)),
    ("alpha", 1.67326319217681884765625),
    ("gamma", 1.05070102214813232421875),
)
_register(
    "Shrink",
    lambda x, lambd, bias: torch.where(
        x < -lambd, x + bias, torch.where(x > lambd, x - bias, torch.zeros_like(x))
    ),
    ("lambd", 0.5),
    ("bias", 0.0),
)


@operator("Softmax", "LogSoftmax", "Hardmax")
def softmax(c: Call, x: Given) -> Tensor:
    """Over one axis. NOTE: before opset 13 over it and all after it, as one."""
    value = c.tensor(x)
    axis, shape = c.get("axis", -1 if c.opset >= 13 else 1), value.shape
    if c.opset < 13:
        value, axis = torch.flatten(value, axis % value.ndim), -1
    if c.node.op == "Hardmax":
        first = torch.argmax(value, axis, keepdim=True)
        places = torch.arange(value.shape[axis]).reshape(
            [-1 if d == axis % value.ndim else 1 for d in range(value.ndim)]
        )
        return (places == first).to(value.dtype).reshape(shape)
    return (torch.softmax if c.node.op == "Softmax" else torch.log_softmax)(value, axis).reshape(shape)


@operator("Gelu")
def gelu(c: Call, x: Given) -> Tensor:
    return f.gelu(c.tensor(x), approximate=c.get("approximate", "none"))


@operator("PRelu")
def prelu(c: Call, x: Given, slope: Given) -> Tensor:
    value = c.tensor(x)
    return torch.where(value >= 0, value, value * c.tensor(slope))


@operator("HardSigmoid")
def hard_sigmoid(c: Call, x: Given) -> Tensor:
    return torch.clamp(c.tensor(x) * c.get("alpha", 0.2) + c.get("beta", 0.5), 0.0, 1.0)


@operator("HardSwish")
def hard_swish(c: Call, x: Given) -> Tensor:
    value = c.tensor(x)
    return value * torch.clamp(value * (1 / 6) + 0.5, 0.0, 1.0)


@operator("Swish")
def swish(c: Call, x: Given) -> Tensor:
    value, alpha = c.tensor(x), c.get("alpha", 1.0)
    return value * torch.sigmoid(value if alpha == 1 else value * alpha)


@operator("Dropout")
def dropout(c: Call, x: Given, ratio: Given = None, training: Given = None) -> Tensor:
    """Drop elements in training mode. NOTE: exporters name the mask, too, which nothing reads; it is not given."""
    value = c.tensor(x)
    if c.opset < 12 and c.training and c.get("ratio", 0.5):
        raise c.unsupported(f"Dropout of opset {c.opset} in a job that trains", TRAINING_FORM)
    if training is None or not c.training or not c.number(training, "training_mode"):
        return value
    return f.dropout(value, 0.5 if ratio is None else float(c.number(ratio, "ratio")))
