"""A program's first step in binary64: its operators as they are meant, without the rounding of binary32.

For the guard alone. Where rounding moves a value across a kink (ReLU, a sort, max pooling), two right steps in binary32
differ by tenths. In binary64 they agree to nine digits, unless one of them is another function. Results are not
reproducible, and no commitment depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from repops.opset import BF16, BOOL, F32, I64
from repops.tensors import NUMPY_DTYPE
from repops.torch_arrays import from_numpy
from torch.nn import functional
from torch.nn import grad as grad_of

from referee_py.commit.tensor import Array
from referee_py.program import Kind, Structure

from .draft import Loaded
from .evaluate import evaluate

Tensor = torch.Tensor
_TO_INTEGER = tuple(int(np.float32(value).view(np.uint32)) for value in (2.0**23, 1.5 * 2.0**23))
"""Bits of the numbers that round to an integer when they are added in binary32 (lowering/rounding.py)."""


class NotPrecise(Exception):
    """An operator without a meaning in binary64: one that draws, whose bits are its meaning."""


def metrics_f64(loaded: Loaded) -> Mapping[str, Array]:
    """Return the metrics of the first step and the buffers after it, floats as f64.

    Raises NotPrecise if the program draws numbers.
    """
    nodes = loaded.skeleton.nodes

    def read(array: Array) -> Tensor:
        return _wide(from_numpy(np.asarray(array, order="C")))

    def execute(node: Structure, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        result = _computed(node, nodes, list(inputs))
        return result if isinstance(result, tuple) else (result,)

    with torch.no_grad():
        return {name: value.numpy() for name, value in evaluate(loaded, read, execute, torch.tensor(1))}


def _wide(tensor: Tensor) -> Tensor:
    wide: Tensor = tensor.double() if tensor.is_floating_point() else tensor
    return wide


def _computed(node: Structure, nodes: Sequence[Structure], inputs: list[Tensor]) -> Any:
    if (
        node.name in ("add", "sub")
        and node.outputs[0].dtype == F32
        and (place := _rounds(node, nodes)) is not None
    ):
        inputs[1 - place] = inputs[1 - place].round()
    if node.name not in _RULES:
        raise NotPrecise(node.name)
    return _RULES[node.name](*inputs, **node.attrs)


def _rounds(node: Structure, nodes: Sequence[Structure]) -> int | None:
    """Return which operand of a sum is a number that rounds the other."""
    for place, operand in enumerate(node.inputs):
        made = nodes[operand.index] if operand.kind == Kind.NODE else None
        if made is not None and made.name == "full" and made.attrs["bits"] in _TO_INTEGER:
            return place
    return None


def _cast(x: Tensor, dtype: Any) -> Tensor:
    if dtype == BOOL:
        return x != 0
    if dtype == BF16:  # which is a rounding that somebody meant
        return x.bfloat16().double()
    if dtype != I64:
        return x.double()
    return (
        x.long()
        if not x.is_floating_point()
        else torch.nan_to_num(x.trunc(), 0.0, 2.0**62, -(2.0**62)).long()
    )


def _sum(x: Tensor, dims: Sequence[int], keepdim: int) -> Tensor:
    return x.sum(tuple(dims), keepdim=bool(keepdim)) if dims else x.clone()


def _amax(x: Tensor, dims: Sequence[int], keepdim: int) -> Tensor:
    return x.amax(tuple(dims), keepdim=bool(keepdim)) if dims else x.clone()


def _take(x: Tensor, index: Tensor) -> Tensor:
    exists = (index >= 0) & (index < x.shape[0])
    if not x.shape[0]:
        return x.new_zeros(*index.shape, *x.shape[1:])
    found = x[torch.where(exists, index, 0)]
    return torch.where(exists.reshape(*index.shape, *(1,) * (x.ndim - 1)), found, torch.zeros_like(found))


def _scatter_add(base: Tensor, index: Tensor, source: Tensor) -> Tensor:
    flat = index.reshape(-1)
    exists = (flat >= 0) & (flat < base.shape[0])
    return base.index_add(0, flat[exists], source.reshape(flat.shape[0], *base.shape[1:])[exists])


def _max_pool2d(x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any) -> tuple[Tensor, Tensor]:
    """Return the first maximum of each window and its place h W + w; -1 for a window without an element."""
    height, width = x.shape[2:]
    places = torch.arange(height * width).reshape(1, 1, height, width).expand_as(x)
    around = (padding[1], padding[1], padding[0], padding[0])
    padded = functional.pad(x, around, value=-torch.inf), functional.pad(places, around, value=-1)
    reach = [dilation[d] * (kernel[d] - 1) + 1 for d in (0, 1)]
    rows, columns = ((padded[0].shape[2 + d] - reach[d]) // stride[d] + 1 for d in (0, 1))
    taken = [
        [
            part[
                :,
                :,
                r * dilation[0] : r * dilation[0] + (rows - 1) * stride[0] + 1 : stride[0],
                s * dilation[1] : s * dilation[1] + (columns - 1) * stride[1] + 1 : stride[1],
            ]
            for r in range(kernel[0])
            for s in range(kernel[1])
        ]
        for part in padded
    ]
    values, which = torch.stack(taken[0]).max(0)
    return values, torch.stack(taken[1]).gather(0, which.unsqueeze(0)).squeeze(0)


def _conv(x: Tensor, weight: Tensor, **options: Any) -> Tensor:
    return functional.conv2d(x, weight, None, **options)


def _conv_input(grad: Tensor, weight: Tensor, input_hw: Any, **options: Any) -> Tensor:
    shape = (grad.shape[0], weight.shape[1] * options["groups"], *input_hw)
    found: Tensor = grad_of.conv2d_input(shape, weight, grad, **options)
    return found


def _conv_weight(grad: Tensor, x: Tensor, kernel_hw: Any, **options: Any) -> Tensor:
    shape = (grad.shape[1], x.shape[1] // options["groups"], *kernel_hw)
    found: Tensor = grad_of.conv2d_weight(x, shape, grad, **options)
    return found


def _full(shape: Sequence[int], dtype: Any, bits: int) -> Tensor:
    code = {4: "<u4", 1: "<u1", 2: "<u2"}.get(np.dtype(NUMPY_DTYPE[dtype]).itemsize, "<u8")
    return _wide(from_numpy(np.full(tuple(shape), bits, dtype=code).view(NUMPY_DTYPE[dtype])))


_RULES: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(torch, name)
        for name in ("add", "sub", "mul", "neg", "maximum", "minimum", "sqrt", "exp")
    },
    **{name: getattr(torch, name) for name in ("log", "rsqrt", "erf", "tanh", "sin", "cos", "log1p", "pow")},
    **{name: getattr(torch, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "where", "bmm", "mm")},
    **{name: getattr(torch, name) for name in ("logical_and", "logical_or", "logical_not")},
    "div": torch.true_divide,
    "cast": _cast,
    "cast_stochastic": lambda x, *_: x,
    "sum": _sum,
    "amax": _amax,
    "argmax": lambda x, dim, keepdim: x.argmax(dim, keepdim=bool(keepdim)),
    "conv2d": _conv,
    "conv2d_input_grad": _conv_input,
    "conv2d_weight_grad": _conv_weight,
    "max_pool2d": _max_pool2d,
    "take": _take,
    "scatter_add": _scatter_add,
    "reshape": lambda x, shape: x.reshape(shape),
    "permute": lambda x, dims: x.permute(dims),
    "expand": lambda x, shape: x.expand(shape),
    "slice": lambda x, dim, start, stop, step: x.narrow(dim, start, stop - start)[
        (slice(None),) * dim + (slice(None, None, step),)
    ],
    "cat": lambda *parts, dim: torch.cat(parts, dim),
    "full": _full,
    "arange": lambda n: torch.arange(n),
}
