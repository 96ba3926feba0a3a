"""Lowering rules: products, convolution, pooling, losses.

Letters: N images, C channels, (H, W) input, (Y, X) output.
"""
# ruff: noqa: ARG001  (a rule has the signature of its ATen operator)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repops.opset import F32, I64

from .builder import Ref, count
from .errors import Unsupported
from .lowering import Context, lowers

_MEAN, _SUM = 1, 2  # PyTorch's codes of a loss's reduction; 0 is none


# --------------------------------------------------------------------------------------------------- products


@lowers("aten.mm.default")
def mm(c: Context, a: Ref, b: Ref) -> Ref:
    return c.b.op("mm", a, b)


@lowers("aten.bmm.default")
def bmm(c: Context, a: Ref, b: Ref) -> Ref:
    return c.b.op("bmm", a, b)


@lowers("aten.addmm.default")
def addmm(c: Context, bias: Ref, a: Ref, b: Ref, *, beta: float = 1, alpha: float = 1) -> Ref:
    if (beta, alpha) != (1, 1):
        raise Unsupported(f"addmm with beta {beta} and alpha {alpha}", "scale the operands instead")
    return c.b.op("add", c.b.op("mm", a, b), bias)


# ------------------------------------------------------------------------------------------------ convolution


def _window(
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    return {"stride": _pair(stride), "padding": _pair(padding), "dilation": _pair(dilation)}


def _pair(value: Sequence[int]) -> tuple[int, ...]:
    return tuple(value) * 2 if len(value) == 1 else tuple(value)


def _check_convolution(x: Ref, transposed: bool) -> None:
    if transposed or x.rank != 4:
        raise Unsupported(
            f"a {'transposed ' if transposed else ''}convolution of rank {x.rank}",
            "use nn.Conv2d on [N, C, H, W]",
        )


@lowers("aten.convolution.default")
def convolution(
    c: Context,
    x: Ref,
    w: Ref,
    bias: Ref | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Ref:
    _check_convolution(x, transposed)
    y = c.b.op("conv2d", x, w, **_window(stride, padding, dilation), groups=groups)
    if bias is None:
        return y
    return c.b.op("add", y, c.b.op("reshape", bias, shape=(bias.shape[0], 1, 1)))


@lowers("aten.convolution_backward.default")
def convolution_backward(
    c: Context,
    grad: Ref,
    x: Ref,
    w: Ref,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Ref | None, Ref | None, Ref | None]:
    """Two convolutions and a sum."""
    _check_convolution(x, transposed)
    attrs = {**_window(stride, padding, dilation), "groups": groups}
    of_x, of_w, of_bias = wanted
    return (
        c.b.op("conv2d_input_grad", grad, w, **attrs, input_hw=x.shape[2:]) if of_x else None,
        c.b.op("conv2d_weight_grad", grad, x, **attrs, kernel_hw=w.shape[2:]) if of_w else None,
        c.b.op("sum", grad, dims=(0, 2, 3), keepdim=0) if of_bias else None,
    )


# ---------------------------------------------------------------------------------------------------- pooling


@lowers("aten.max_pool2d_with_indices.default")
def max_pool2d(
    c: Context,
    x: Ref,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Ref, ...]:
    window = _window(stride or kernel, padding, dilation)
    # SAFETY: a window that reads padding only would have index -1, and the backward pass would add to a neighbour.
    if ceil_mode or x.rank != 4 or (set(window["dilation"]) != {1} and any(window["padding"])):
        raise Unsupported(
            "max pooling with ceil_mode, without a batch dimension, or with dilation and padding",
            "use [N, C, H, W] and only one of dilation and padding",
        )
    return tuple(c.b.ops("max_pool2d", x, kernel=_pair(kernel), **window))


@lowers("aten.max_pool2d_with_indices_backward.default")
def max_pool2d_backward(
    c: Context,
    grad: Ref,
    x: Ref,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    index: Ref,
) -> Ref:
    """Each gradient is added where its window's maximum was: plane * H * W + index, in all planes at once."""
    planes, size = x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]
    first = c.b.op("mul", c.b.op("arange", n=planes), c.b.full(size, I64))
    place = c.b.op("add", index, c.b.op("reshape", first, shape=(*x.shape[:2], 1, 1)))
    flat = c.b.op("scatter_add", c.b.full(0.0, F32, (count(x.shape),)), place, grad)
    return c.b.op("reshape", flat, shape=x.shape)


def _averaging(
    c: Context,
    x: Ref,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> tuple[Ref, dict[str, object]]:
    """Average pooling is a convolution of each channel with the same number."""
    if ceil_mode or x.rank != 4 or (any(padding) and not count_include_pad):
        raise Unsupported(
            "average pooling with ceil_mode, count_include_pad=False, or without a batch dimension",
            "use [N, C, H, W] and the default options",
        )
    window = _window(stride or kernel, padding, (1,))
    weight = c.b.full(1 / (divisor or count(_pair(kernel))), F32, (x.shape[1], 1, *_pair(kernel)))
    return weight, {**window, "groups": x.shape[1]}


@lowers("aten.avg_pool2d.default")
def avg_pool2d(
    c: Context,
    x: Ref,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Ref:
    weight, attrs = _averaging(c, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
    return c.b.op("conv2d", x, weight, **attrs)


@lowers("aten.avg_pool2d_backward.default")
def avg_pool2d_backward(
    c: Context,
    grad: Ref,
    x: Ref,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Ref:
    weight, attrs = _averaging(c, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
    return c.b.op("conv2d_input_grad", grad, weight, **attrs, input_hw=x.shape[2:])


def _even(x: Ref, grid: Sequence[int]) -> dict[str, Any]:
    """Adaptive pooling whose windows are all the same: plain pooling with that window."""
    if x.rank != 4 or x.shape[2] % grid[0] or x.shape[3] % grid[1]:
        raise Unsupported(
            f"adaptive pooling of {list(x.shape)} to {list(grid)}", "use an output size that divides [H, W]"
        )
    kernel = (x.shape[2] // grid[0], x.shape[3] // grid[1])
    return {"kernel": kernel, "stride": kernel, "padding": (0, 0)}


@lowers("aten._adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(c: Context, x: Ref, grid: Sequence[int]) -> Ref:
    return avg_pool2d(c, x, **_even(x, grid))


@lowers("aten._adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool2d_backward(c: Context, grad: Ref, x: Ref) -> Ref:
    return avg_pool2d_backward(
        c, grad, x, **_even(x, grad.shape[2:]), ceil_mode=False, count_include_pad=True, divisor=None
    )


# ----------------------------------------------------------------------------------------------------- losses


@lowers("aten._softmax.default")
def softmax(c: Context, x: Ref, dim: int, half_to_float: bool) -> Ref:
    e = c.b.op("exp", _centred(c, x, dim))
    return c.b.op("div", e, _sum(c, e, dim))


@lowers("aten._softmax_backward_data.default")
def softmax_backward(c: Context, grad: Ref, y: Ref, dim: int, dtype: object) -> Ref:
    """y * (grad - sum(grad * y))."""
    weighted = c.b.op("mul", grad, y)
    return c.b.op("sub", weighted, c.b.op("mul", y, _sum(c, weighted, dim)))


@lowers("aten._log_softmax.default")
def log_softmax(c: Context, x: Ref, dim: int, half_to_float: bool) -> Ref:
    centred = _centred(c, x, dim)
    return c.b.op("sub", centred, c.b.op("log", _sum(c, c.b.op("exp", centred), dim)))


@lowers("aten._log_softmax_backward_data.default")
def log_softmax_backward(c: Context, grad: Ref, y: Ref, dim: int, dtype: object) -> Ref:
    """grad - exp(y) * sum(grad)."""
    return c.b.op("sub", grad, c.b.op("mul", c.b.op("exp", y), _sum(c, grad, dim)))


def _centred(c: Context, x: Ref, dim: int) -> Ref:
    return c.b.op("sub", x, c.b.op("amax", x, dims=(dim % x.rank,), keepdim=1))


def _sum(c: Context, x: Ref, dim: int) -> Ref:
    return c.b.op("sum", x, dims=(dim % x.rank,), keepdim=1)


def _one_hot(c: Context, logp: Ref, target: Ref, weight: Ref | None, reduction: int, ignore: int) -> Ref:
    """[N, C] bool: which class is each example's. A comparison instead of a gather.

    NOTE: a target that is no class would count as a loss of 0 where PyTorch raises, so the data set is checked here.
    """
    if weight is not None or reduction not in (_MEAN, _SUM) or logp.rank != 2 or 0 <= ignore < logp.shape[1]:
        raise Unsupported(
            "a cross-entropy with class weights, reduction='none', an ignored class or more than [N, C] scores",
            "reshape the scores to [N, C] and use the default options",
        )
    classes = c.b.chosen_from(target)
    if classes is not None and (classes.min() < 0 or classes.max() >= logp.shape[1]):
        raise Unsupported(
            f"targets from {classes.min()} to {classes.max()} for {logp.shape[1]} scores",
            "number the classes from 0 and give the model a score for each",
        )
    column = c.b.op("reshape", target, shape=(target.shape[0], 1))
    return c.b.op("eq", column, c.b.op("arange", n=logp.shape[1]))


@lowers("aten.nll_loss_forward.default")
def nll_loss(
    c: Context, logp: Ref, target: Ref, weight: Ref | None, reduction: int, ignore: int
) -> tuple[Ref, Ref]:
    chosen = c.b.op("where", _one_hot(c, logp, target, weight, reduction, ignore), logp, c.b.full(0.0))
    loss = c.b.op("neg", c.b.op("sum", chosen, dims=(0, 1), keepdim=0))
    n = c.b.full(logp.shape[0])
    return c.b.op("div", loss, n) if reduction == _MEAN else loss, n


@lowers("aten.nll_loss_backward.default")
def nll_loss_backward(
    c: Context,
    grad: Ref,
    logp: Ref,
    target: Ref,
    weight: Ref | None,
    reduction: int,
    ignore: int,
    total_weight: Ref,
) -> Ref:
    each = c.b.op("neg", grad)
    if reduction == _MEAN:
        each = c.b.op("div", each, c.b.full(logp.shape[0]))
    return c.b.op("where", _one_hot(c, logp, target, weight, reduction, ignore), each, c.b.full(0.0))


@lowers("aten.mse_loss.default")
def mse_loss(c: Context, x: Ref, target: Ref, reduction: int = _MEAN) -> Ref:
    error = c.b.op("sub", x, target)
    square = c.b.op("mul", error, error)
    if reduction not in (_MEAN, _SUM):
        return square
    total = c.b.op("sum", square, dims=tuple(range(square.rank)), keepdim=0)
    return c.b.op("div", total, c.b.full(count(square.shape))) if reduction == _MEAN else total


@lowers("aten.mse_loss_backward.default")
def mse_loss_backward(c: Context, grad: Ref, x: Ref, target: Ref, reduction: int) -> Ref:
    factor = 2 / count(x.shape) if reduction == _MEAN else 2.0
    scale = c.b.op("mul", grad, c.b.full(factor))
    return c.b.op("mul", c.b.op("sub", x, target), scale)
