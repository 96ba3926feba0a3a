"""Gradients of every differentiable operator, made of repops operators and therefore reproducible bit for bit.

Derivatives that are a matter of choice are PyTorch's: `maximum` and `minimum` give half to each of two equal operands,
`amax` shares equally among all largest elements, `max_pool2d` gives everything to the element that it chose. No
gradient: comparisons, `logical_*`, `argmax`, `full`, `arange`, `philox`, indices, tensors other than f32.
"""

# ruff: noqa: A001  (rules are called like their operators)

from __future__ import annotations

import math
from typing import Any

import torch

from ..opset import Shape
from .autograd import Context, Gradients, gradient, in_f32, reduce_to, sum_to, zeros
from .operators import TensorOps

Tensor = torch.Tensor


# ----------------------------------------------------------------------------------------- two operands


@gradient("add")
def add(c: Context, grad: Tensor) -> Gradients:
    return sum_to(c, grad, 0), sum_to(c, grad, 1)


@gradient("sub")
def sub(c: Context, grad: Tensor) -> Gradients:
    return sum_to(c, grad, 0), sum_to(c, c.o.neg(grad), 1) if c.needs[1] else None


@gradient("mul", inputs=(0, 1))
def mul(c: Context, grad: Tensor) -> Gradients:
    a, b = c.inputs
    return (
        sum_to(c, c.o.mul(grad, b), 0) if c.needs[0] else None,
        sum_to(c, c.o.mul(grad, a), 1) if c.needs[1] else None,
    )


@gradient("div", inputs=(1,), outputs=(0,))
def div(c: Context, grad: Tensor) -> Gradients:
    """Return grad / b and -(grad / b) y, with the quotient y."""
    (b,), (y,) = c.inputs, c.outputs
    of_a = c.o.div(grad, b)
    return sum_to(c, of_a, 0), sum_to(c, c.o.neg(c.o.mul(of_a, y)), 1) if c.needs[1] else None


def _choice(c: Context, grad: Tensor, first_wins: Tensor) -> Gradients:
    """Give the gradient to the chosen operand, or half to each if they are equal."""
    a, b = c.inputs
    o, zero = c.o, c.o.scalar(0.0)
    shared = o.where(o.eq(a, b), o.mul(grad, o.scalar(0.5)), grad)
    equal = o.eq(a, b)
    return (
        sum_to(c, o.where(o.logical_or(first_wins, equal), shared, zero), 0),
        sum_to(c, o.where(o.logical_or(o.logical_not(first_wins), equal), shared, zero), 1),
    )


@gradient("maximum", inputs=(0, 1))
def maximum(c: Context, grad: Tensor) -> Gradients:
    return _choice(c, grad, c.o.gt(*c.inputs))


@gradient("minimum", inputs=(0, 1))
def minimum(c: Context, grad: Tensor) -> Gradients:
    return _choice(c, grad, c.o.lt(*c.inputs))


@gradient("pow", inputs=(0, 1), outputs=(0,))
def pow(c: Context, grad: Tensor) -> Gradients:
    """Return grad b a^(b-1), 0 for b = 0; and grad y log a, 0 for a = 0 and b >= 0."""
    (a, b), (y,), o = c.inputs, c.outputs, c.o
    zero, one = o.scalar(0.0), o.scalar(1.0)
    of_a = of_b = None
    if c.needs[0]:
        slope = o.mul(b, o.pow(a, o.sub(b, one)))
        of_a = sum_to(c, o.where(o.eq(b, zero), zero, o.mul(grad, slope)), 0)
    if c.needs[1]:
        flat = o.logical_and(o.eq(a, zero), o.ge(b, zero))
        of_b = sum_to(c, o.where(flat, zero, o.mul(grad, o.mul(y, o.log(a)))), 1)
    return of_a, of_b


@gradient("where", inputs=(0,))
def where(c: Context, grad: Tensor) -> Gradients:
    (condition,), zero = c.inputs, zeros(c.o, (), grad.dtype)
    return (
        None,
        sum_to(c, c.o.where(condition, grad, zero), 1),
        sum_to(c, c.o.where(condition, zero, grad), 2),
    )


# ------------------------------------------------------------------------------------------- one operand


@gradient("neg")
def neg(c: Context, grad: Tensor) -> Gradients:
    return (c.o.neg(grad),)


@gradient("cast")
def cast(c: Context, grad: Tensor) -> Gradients:
    """Return the gradient; only casts from float to float have one."""
    return (c.o.cast(grad, dtype=c.dtypes[0]),)


@gradient("cast_stochastic")
def cast_stochastic(c: Context, grad: Tensor) -> Gradients:
    """Return the gradient of the value that was rounded, as for `cast`."""
    return c.o.cast(grad, dtype=torch.float32), None


@gradient("sqrt", outputs=(0,))
def sqrt(c: Context, grad: Tensor) -> Gradients:
    (y,) = c.outputs
    return (c.o.div(grad, c.o.mul(c.o.scalar(2.0), y)),)


@gradient("rsqrt", outputs=(0,))
def rsqrt(c: Context, grad: Tensor) -> Gradients:
    (y,) = c.outputs
    return (c.o.mul(c.o.mul(grad, c.o.scalar(-0.5)), c.o.mul(y, c.o.mul(y, y))),)


@gradient("exp", outputs=(0,))
def exp(c: Context, grad: Tensor) -> Gradients:
    return (c.o.mul(grad, c.outputs[0]),)


@gradient("log", inputs=(0,))
def log(c: Context, grad: Tensor) -> Gradients:
    return (c.o.div(grad, c.inputs[0]),)


@gradient("log1p", inputs=(0,))
def log1p(c: Context, grad: Tensor) -> Gradients:
    return (c.o.div(grad, c.o.add(c.inputs[0], c.o.scalar(1.0))),)


@gradient("erf", inputs=(0,))
def erf(c: Context, grad: Tensor) -> Gradients:
    """Return grad 2/sqrt(pi) exp(-x x)."""
    (x,), o = c.inputs, c.o
    return (o.mul(grad, o.mul(o.scalar(2 / math.sqrt(math.pi)), o.exp(o.neg(o.mul(x, x))))),)


@gradient("tanh", outputs=(0,))
def tanh(c: Context, grad: Tensor) -> Gradients:
    (y,), o = c.outputs, c.o
    return (o.mul(grad, o.sub(o.scalar(1.0), o.mul(y, y))),)


@gradient("sin", inputs=(0,))
def sin(c: Context, grad: Tensor) -> Gradients:
    return (c.o.mul(grad, c.o.cos(c.inputs[0])),)


@gradient("cos", inputs=(0,))
def cos(c: Context, grad: Tensor) -> Gradients:
    return (c.o.mul(grad, c.o.neg(c.o.sin(c.inputs[0]))),)


# -------------------------------------------------------------------------------------------- reductions


def _spread(c: Context, reduced: Tensor) -> Tensor:
    """Expand a value for each result of a reduction to the shape of the elements."""
    (shape,), dims = c.shapes, c.attrs["dims"]
    kept = [1 if d in dims else size for d, size in enumerate(shape)]
    return c.o.expand(c.o.reshape(reduced, shape=kept), shape=list(shape))


@gradient("sum")
def sum(c: Context, grad: Tensor) -> Gradients:
    return (_spread(c, grad),)


@gradient("amax", inputs=(0,), outputs=(0,))
def amax(c: Context, grad: Tensor) -> Gradients:
    """Share the gradient equally among the largest elements."""
    (x,), (y,), o = c.inputs, c.outputs, c.o
    largest = o.cast(o.eq(x, _spread(c, y)), dtype=torch.float32)
    count = o.sum(largest, **c.attrs)
    return (o.mul(_spread(c, o.div(grad, count)), largest),)


# ------------------------------------------------------------------------------------------ contractions


def _transposed(o: TensorOps, x: Tensor) -> Tensor:
    dims = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    return o.permute(x, dims=dims)


def _product_rule(c: Context, grad: Tensor, product: Any) -> Gradients:
    a, b = c.inputs
    return (
        product(grad, _transposed(c.o, b)) if c.needs[0] else None,
        product(_transposed(c.o, a), grad) if c.needs[1] else None,
    )


@gradient("mm", inputs=(0, 1))
def mm(c: Context, grad: Tensor) -> Gradients:
    return _product_rule(c, grad, c.o.mm)


@gradient("bmm", inputs=(0, 1))
def bmm(c: Context, grad: Tensor) -> Gradients:
    return _product_rule(c, grad, c.o.bmm)


def _window(c: Context) -> dict[str, Any]:
    return {name: c.attrs[name] for name in ("stride", "padding", "dilation", "groups")}


# The three convolutions are bilinear: y = conv(x, w), dx = input_grad(dy, w), dw = weight_grad(dy, x). The gradient
# of each in one of its operands is another of the three.


@gradient("conv2d", inputs=(0, 1))
def conv2d(c: Context, grad: Tensor) -> Gradients:
    (x, w), window = c.inputs, _window(c)
    return (
        c.o.conv2d_input_grad(grad, w, **window, input_hw=x.shape[2:]) if c.needs[0] else None,
        c.o.conv2d_weight_grad(grad, x, **window, kernel_hw=w.shape[2:]) if c.needs[1] else None,
    )


@gradient("conv2d_input_grad", inputs=(0, 1))
def conv2d_input_grad(c: Context, grad: Tensor) -> Gradients:
    (dy, w), window = c.inputs, _window(c)
    return (
        c.o.conv2d(grad, w, **window) if c.needs[0] else None,
        c.o.conv2d_weight_grad(dy, grad, **window, kernel_hw=w.shape[2:]) if c.needs[1] else None,
    )


@gradient("conv2d_weight_grad", inputs=(0, 1))
def conv2d_weight_grad(c: Context, grad: Tensor) -> Gradients:
    (dy, x), window = c.inputs, _window(c)
    return (
        c.o.conv2d(x, grad, **window) if c.needs[0] else None,
        c.o.conv2d_input_grad(dy, grad, **window, input_hw=x.shape[2:]) if c.needs[1] else None,
    )


@gradient("max_pool2d", outputs=(1,))
def max_pool2d(c: Context, grad: Tensor, _grad_of_indices: Any) -> Gradients:
    """Add each window's gradient at plane * H * W + index, in all planes at once; drop it for index -1."""
    (indices,), (shape,), o = c.outputs, c.shapes, c.o
    planes, size = shape[0] * shape[1], shape[2] * shape[3]
    nowhere = o.full(shape=(), dtype=torch.int64, bits=-1)
    plane = o.mul(o.arange(planes), o.full(shape=(), dtype=torch.int64, bits=size))
    place = o.add(indices, o.reshape(plane, shape=[*shape[:2], 1, 1]))
    place = o.where(o.eq(indices, nowhere), nowhere, place)
    return (o.reshape(o.scatter_add(zeros(o, (planes * size,)), place, grad), shape=list(shape)),)


# ------------------------------------------------------------------------------------------ rows by index


@gradient("take", inputs=(1,))
def take(c: Context, grad: Tensor) -> Gradients:
    zero = zeros(c.o, c.shapes[0])
    return in_f32(c.o, grad, lambda wide: c.o.scatter_add(zero, c.inputs[0], wide)), None


@gradient("scatter_add", inputs=(1,))
def scatter_add(c: Context, grad: Tensor) -> Gradients:
    return grad, None, c.o.take(grad, c.inputs[0])


# ------------------------------------------------------------------------------------------------- layout


@gradient("reshape")
def reshape(c: Context, grad: Tensor) -> Gradients:
    return (c.o.reshape(grad, shape=list(c.shapes[0])),)


@gradient("permute")
def permute(c: Context, grad: Tensor) -> Gradients:
    dims = c.attrs["dims"]
    return (c.o.permute(grad, dims=[dims.index(d) for d in range(len(dims))]),)


@gradient("expand")
def expand(c: Context, grad: Tensor) -> Gradients:
    return (reduce_to(c.o, grad, c.shapes[0]),)


def _resized(shape: Shape, dim: int, size: int) -> list[int]:
    return [*shape[:dim], size, *shape[dim + 1 :]]


@gradient("slice")
def slice(c: Context, grad: Tensor) -> Gradients:
    """Insert zeros between the elements, if there is a step, then before and after them."""
    (shape,), o = c.shapes, c.o
    dim, start, stop, step = (c.attrs[name] for name in ("dim", "start", "stop", "step"))
    if step > 1:
        count = grad.shape[dim]
        apart = o.reshape(grad, shape=[*grad.shape[: dim + 1], 1, *grad.shape[dim + 1 :]])
        gap = zeros(o, [*grad.shape[: dim + 1], step - 1, *grad.shape[dim + 1 :]], grad.dtype)
        flat = o.reshape(o.cat(apart, gap, dim=dim + 1), shape=_resized(shape, dim, count * step))
        grad = o.slice(flat, dim=dim, start=0, stop=min(stop - start, count * step), step=1)
        stop = start + grad.shape[dim]
    ends = start, shape[dim] - stop
    before, after = (zeros(o, _resized(shape, dim, size), grad.dtype) for size in ends)
    return (o.cat(before, grad, after, dim=dim),)


@gradient("cat")
def cat(c: Context, grad: Tensor) -> Gradients:
    results: list[Any] = []
    start, dim = 0, c.attrs["dim"]
    for shape, needed in zip(c.shapes, c.needs, strict=True):
        stop = start + shape[dim]
        results.append(c.o.slice(grad, dim=dim, start=start, stop=stop, step=1) if needed else None)
        start = stop
    return results
