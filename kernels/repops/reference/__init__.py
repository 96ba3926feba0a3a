"""The readable reference (docs/opset.md): each operator in numpy and plain Python, deliberately slow.

arithmetic   fma, the total order
elementary   exp, log, log1p, tanh, erf, sin, cos, pow
pointwise    elementwise operators
reduce       sum, amax, argmax
contract     mm, bmm, convolutions
index        pooling, gather, scatter, layout, constants
random       philox
exact        sums and contractions in the mode exact
tensor_core  contractions of bf16 in the mode tc16
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..host.environment import Standard
from ..opset import Attrs
from ..tensors import NUMPY_DTYPE, Array, check
from . import contract, elementary, exact, index, pointwise, random, reduce, tensor_core

IMPLEMENTATION: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "maximum": pointwise.maximum,
    "minimum": pointwise.minimum,
    "sqrt": np.sqrt,
    "exp": elementary.exp,
    "log": elementary.log,
    "rsqrt": pointwise.rsqrt,
    "erf": elementary.erf,
    "tanh": elementary.tanh,
    "sin": elementary.sin,
    "cos": elementary.cos,
    "log1p": elementary.log1p,
    "pow": elementary.pow_,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "where": pointwise.where,
    "cast": pointwise.cast,
    "cast_stochastic": pointwise.cast_stochastic,
    "sum": reduce.reduce_sum,
    "amax": reduce.amax,
    "argmax": reduce.argmax,
    "mm": contract.contraction(contract.mm, lambda _: contract.contract),
    "bmm": contract.contraction(contract.bmm, lambda _: contract.contract),
    "conv2d": contract.contraction(contract.conv2d, lambda _: contract.contract),
    "conv2d_input_grad": contract.contraction(contract.conv2d_input_grad, lambda _: contract.contract),
    "conv2d_weight_grad": contract.contraction(contract.conv2d_weight_grad, lambda _: contract.contract),
    "max_pool2d": index.max_pool2d,
    "take": index.take,
    "scatter_add": index.scatter_add,
    "reshape": index.reshape,
    "permute": index.permute,
    "expand": index.expand,
    "slice": index.slice_,
    "cat": index.cat,
    "full": index.full,
    "arange": index.arange,
    "philox": random.philox,
}


EXACT = {**IMPLEMENTATION, **exact.IMPLEMENTATION}
TC16 = {**IMPLEMENTATION, **tensor_core.IMPLEMENTATION}


def execute(name: str, inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """Apply one operator in the mode repops-f32. Outputs are C-contiguous; those of views may share memory with the
    input. Raise OpError."""
    return _execute(IMPLEMENTATION, name, inputs, attrs)


def execute_exact(name: str, inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """As `execute`, in the mode exact."""
    return _execute(EXACT, name, inputs, attrs)


def execute_tc16(name: str, inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """As `execute`, in the mode tc16."""
    return _execute(TC16, name, inputs, attrs)


def _execute(
    table: dict[str, Callable[..., Any]], name: str, inputs: Sequence[Array], attrs: Attrs
) -> list[Array]:
    call = check(name, inputs, attrs)
    with Standard(), np.errstate(all="ignore"):
        result = table[name](*inputs, **call.attrs)
    outputs = result if isinstance(result, tuple) else (result,)
    return [
        np.ascontiguousarray(output, dtype=NUMPY_DTYPE[dtype]).reshape(shape)
        for output, (dtype, shape) in zip(outputs, call.outputs, strict=True)
    ]
