"""Composites as `torch.library` operators `repops::<name>`: schema, execution, fake tensors and gradients.

Everything but the gradients is derived from the function in `fuse.composites`: values become tensors, keyword options
become options. The CPU runs a composite as one kernel if possible, a GPU its operators one by one; the bits are equal.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

import torch

from .. import torch_executor
from ..fuse import composites
from ..fuse.expression import argument_names, record
from .autograd import Context, Gradients, gradient, reduce_to
from .operators import check_devices, define, empty, implement, overload, single, static_spec

Tensor = torch.Tensor
Composite = Callable[..., Any]

_UPDATES = (composites.sgd, composites.momentum_sgd, composites.adam)
"""Composites of `optim`, which writes their results in place; they are not operators."""


def _register(function: Composite) -> None:
    name = function.__name__
    hints = typing.get_type_hints(function)
    parameters = inspect.signature(function).parameters.values()
    options = [f"{hints[p.name].__name__} {p.name}" for p in parameters if p.kind is p.KEYWORD_ONLY]
    names = argument_names(function, len(parameters) - 1 - len(options))
    results = len(typing.get_args(hints["return"])) or 1
    define(name, ", ".join(f"Tensor {argument}" for argument in names), options, results)

    def run(*tensors: Tensor, **given: Any) -> Any:
        return single(torch_executor.apply(function, *tensors, **given))

    def fake(*tensors: Tensor, **given: Any) -> Any:
        device = check_devices(name, names, tensors)
        specs = tuple(
            static_spec(x, f"{name}: {argument}") for x, argument in zip(tensors, names, strict=True)
        )
        expression = record(function, specs, **given)
        return single([empty(expression.spec(number), device) for number in expression.outputs])

    implement(name, run, fake)


for _name, _function in inspect.getmembers(composites, inspect.isfunction):
    if not _name.startswith("_") and _function not in _UPDATES:
        _register(_function)


def call(name: str, *tensors: Tensor, **options: Any) -> Tensor:
    """Apply a composite with one result to tensors on one device."""
    result: Tensor = overload(name)(*tensors, **options)
    return result


def call_all(name: str, *tensors: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """Apply a composite with several results to tensors on one device."""
    results: tuple[Tensor, ...] = overload(name)(*tensors, **options)
    return results


# ---------------------------------------------------------------------------------------------- gradients


def _from_input(name: str) -> None:
    @gradient(name, inputs=(0,))
    def rule(c: Context, grad: Tensor) -> Gradients:
        return (call(f"{name}_grad", grad, *c.inputs),)


def _from_result(name: str) -> None:
    @gradient(name, outputs=(0,))
    def rule(c: Context, grad: Tensor) -> Gradients:
        return (call(f"{name}_grad", grad, *c.outputs),)


for _name in ("relu", "silu", "gelu", "gelu_tanh"):
    _from_input(_name)
for _name in ("sigmoid", "softmax", "log_softmax"):
    _from_result(_name)


@gradient("cross_entropy", inputs=(0, 1, 2))
def _cross_entropy(c: Context, grad: Tensor) -> Gradients:
    return call("cross_entropy_grad", grad, *c.inputs), None, None


@gradient("squared_error", inputs=(0, 1))
def _squared_error(c: Context, grad: Tensor) -> Gradients:
    of_x = call("squared_error_grad", grad, *c.inputs)
    return (
        reduce_to(c.o, of_x, c.shapes[0]) if c.needs[0] else None,
        reduce_to(c.o, c.o.neg(of_x), c.shapes[1]) if c.needs[1] else None,
    )


@gradient("layer_norm", inputs=(0, 1), outputs=(1, 2), constants=(1, 2))
def _layer_norm(c: Context, grad: Tensor, *_of_statistics: Any) -> Gradients:
    of_x, of_weight = call_all("layer_norm_grad", grad, *c.inputs, *c.outputs)
    return (
        of_x,
        reduce_to(c.o, of_weight, c.shapes[1]) if c.needs[1] else None,
        reduce_to(c.o, grad, c.shapes[2]) if c.needs[2] else None,
    )


@gradient("rms_norm", inputs=(0, 1), outputs=(1,), constants=(1,))
def _rms_norm(c: Context, grad: Tensor, *_of_statistics: Any) -> Gradients:
    of_x, of_weight = call_all("rms_norm_grad", grad, *c.inputs, *c.outputs)
    return of_x, reduce_to(c.o, of_weight, c.shapes[1]) if c.needs[1] else None


@gradient("batch_norm", inputs=(0, 1), outputs=(1, 3), constants=(1, 2, 3))
def _batch_norm(c: Context, grad: Tensor, *_of_statistics: Any) -> Gradients:
    of_x, of_weight, of_bias = call_all("batch_norm_grad", grad, *c.inputs, *c.outputs)
    return of_x, of_weight.reshape(c.shapes[1]), of_bias.reshape(c.shapes[2])


@gradient("affine_norm", inputs=(0, 1, 3, 4))
def _affine_norm(c: Context, grad: Tensor) -> Gradients:
    of_x, of_weight, of_bias = call_all("affine_norm_grad", grad, *c.inputs)
    return of_x, of_weight.reshape(c.shapes[1]), of_bias.reshape(c.shapes[2]), None, None


@gradient("attention_weights", outputs=(0,))
def _attention_weights(c: Context, grad: Tensor) -> Gradients:
    return (call("attention_weights_grad", grad, *c.outputs, **c.attrs),)


@gradient("attention_weights_masked", outputs=(0,))
def _attention_weights_masked(c: Context, grad: Tensor) -> Gradients:
    return call("attention_weights_grad", grad, *c.outputs, **c.attrs), None


@gradient("attention_weights_biased", outputs=(0,))
def _attention_weights_biased(c: Context, grad: Tensor) -> Gradients:
    of_bias = reduce_to(c.o, call("softmax_grad", grad, *c.outputs), c.shapes[1]) if c.needs[1] else None
    return call("attention_weights_grad", grad, *c.outputs, **c.attrs), of_bias


@gradient("dropout", inputs=(1,))
def _dropout(c: Context, grad: Tensor) -> Gradients:
    return call("dropout", grad, *c.inputs, **c.attrs), None
