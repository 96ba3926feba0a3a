"""Lowering rules: products, convolution, pooling.

Letters: N images, C channels, (H, W) input, (Y, X) output.
"""

# ruff: noqa: ARG001  (a rule has the signature of its ATen operator)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from repops.opset import F32, I64

from ..builder import Ref
from ..errors import Unsupported
from .rules import Context, lowers

# --------------------------------------------------------------------------------------------------- products


def _factors(a: Ref, b: Ref) -> None:
    if a.dtype != b.dtype:
        found = " and ".join(ref.dtype.name.lower() for ref in (a, b))
        raise Unsupported(f"a product of {found}", "give the module inputs of its own dtype, or use autocast")


@lowers("aten.mm.default")
def mm(c: Context, a: Ref, b: Ref) -> Ref:
    _factors(a, b)
    return c.b.op("mm", a, b)


@lowers("aten.bmm.default")
def bmm(c: Context, a: Ref, b: Ref) -> Ref:
    _factors(a, b)
    return c.b.op("bmm", a, b)


@lowers("aten.addmm.default")
def addmm(c: Context, bias: Ref, a: Ref, b: Ref, *, beta: float = 1, alpha: float = 1) -> Ref:
    _factors(a, b)
    product = c.b.op("mm", c.tensor(a, F32), c.tensor(b, F32))
    if alpha != 1:
        product = c.b.op("mul", product, c.b.full(alpha))
    return _biased(c, product, bias if beta == 1 else c.b.op("mul", c.tensor(bias, F32), c.b.full(beta)))


def _biased(c: Context, product: Ref, bias: Ref) -> Ref:
    """Add a bias to a product in f32, and round to the output's dtype.

    NOTE: as in PyTorch's kernels, a bf16 result is rounded once, after the bias: a bias of less than half a unit of the
    product's last place would be lost in every element, and training is biased by that.
    """
    return c.tensor(c.b.op("add", product, c.tensor(bias, F32)), c.out.dtype)


# ------------------------------------------------------------------------------------------------ convolution


def _convolved(
    x: Ref, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> dict[str, Any]:
    """Return the attributes of a convolution over [N, C, H, W]; over [N, C, L], H is 1."""
    if x.rank not in (3, 4):
        remedy = "use nn.Conv2d on [N, C, H, W] or nn.Conv1d on [N, C, L]"
        if x.rank == 5:
            remedy = "use nn.Conv3d on [N, C, D, H, W]; in place of a transposed one, nn.Upsample and then nn.Conv3d"
        raise Unsupported(f"a convolution of rank {x.rank}", remedy)
    if x.rank == 3:
        stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
    return {**_window(stride, padding, dilation), "groups": groups}


def _image(c: Context, x: Ref) -> Ref:
    return x if x.rank == 4 else c.b.op("reshape", x, shape=(*x.shape[:2], 1, x.shape[2]))


def _window(
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    return {"stride": _pair(stride), "padding": _pair(padding), "dilation": _pair(dilation)}


def _pair(value: Sequence[int]) -> tuple[int, ...]:
    return tuple(value) * 2 if len(value) == 1 else tuple(value)


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
    """Lower a convolution. A transposed one is the input gradient of the plain one."""
    _factors(x, w)
    if bias is not None:
        x, w = c.tensor(x, F32), c.tensor(w, F32)
    window = _convolved(x, stride, padding, dilation, groups)
    image, kernel = _image(c, x), _image(c, w)
    if transposed:
        size = (1, 1, *c.out.shape)[-2:] if x.rank == 4 else (1, c.out.shape[-1])
        y = c.b.op("conv2d_input_grad", image, kernel, **window, input_hw=size)
    else:
        y = c.b.op("conv2d", image, kernel, **window)
    y = c.b.op("reshape", y, shape=c.out.shape)
    if bias is None:
        return y
    return _biased(c, y, c.b.op("reshape", bias, shape=(bias.count, *(1,) * (x.rank - 2))))


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
    """Compose the gradients of two convolutions and a sum."""
    window = _convolved(x, stride, padding, dilation, groups)
    g, image, kernel = (_image(c, value) for value in (grad, x, w))
    of_x, of_w, of_bias = wanted
    if transposed:
        dx = c.b.op("conv2d", g, kernel, **window) if of_x else None
        outer, inner = image, g
    else:
        size = image.shape[2:]
        dx = c.b.op("conv2d_input_grad", g, kernel, **window, input_hw=size) if of_x else None
        outer, inner = g, image
    kernel_hw = kernel.shape[2:]
    dw = c.b.op("conv2d_weight_grad", outer, inner, **window, kernel_hw=kernel_hw) if of_w else None
    db = c.b.op("sum", c.tensor(grad, F32), dims=(0, *range(2, grad.rank)), keepdim=0) if of_bias else None
    return (
        c.b.op("reshape", dx, shape=x.shape) if dx else None,
        c.b.op("reshape", dw, shape=w.shape) if dw else None,
        c.tensor(db, grad.dtype) if db else None,
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
    # SAFETY: a window of padding alone would have index -1, and the backward pass would add to a neighbouring plane.
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
    """Add each gradient at its window's maximum, plane * H * W + index, in all planes at once."""
    planes, size = x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]
    first = c.b.op("mul", c.b.op("arange", n=planes), c.b.full(size, I64))
    place = c.b.op("add", index, c.b.op("reshape", first, shape=(*x.shape[:2], 1, 1)))
    flat = c.b.op("scatter_add", c.b.full(0.0, F32, (x.count,)), place, grad)
    return c.b.op("reshape", flat, shape=x.shape)
