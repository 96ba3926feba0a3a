"""Executes operators on torch tensors: CPU tensors share memory with numpy arrays, CUDA tensors go to repops.cuda.

This module is imported only where torch has been imported already; numpy arrays do not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from .backends import backend
from .fuse import fusion
from .fuse.expression import Expression, argument_names, evaluate, record
from .host import cpu
from .opset import Attrs, DtypeError, OpError, Spec, lookup
from .tensors import Array, ArrayError
from .torch_arrays import DTYPE_OF, TORCH_DTYPE, from_numpy, to_numpy


class GradientError(OpError):
    """A tensor requires a gradient, and this function computes none."""


def spec_of(tensor: torch.Tensor, where: str) -> Spec:
    """Return the (dtype, shape) of a tensor on any device. Raise OpError; `where` begins the message."""
    if not isinstance(tensor, torch.Tensor):
        raise ArrayError(f"{where} is not a torch tensor", type=type(tensor).__name__)
    code = DTYPE_OF.get(tensor.dtype)
    if code is None:
        raise DtypeError(
            f"{where} has a dtype that is not of the operator set; convert it with to()",
            got=str(tensor.dtype),
            allowed=[dtype.name for dtype in TORCH_DTYPE],
        )
    if tensor.layout is not torch.strided or tensor.is_neg():
        raise ArrayError(f"{where} is not a plain dense tensor", layout=str(tensor.layout))
    if not tensor.is_contiguous():
        raise ArrayError(
            f"{where} is not contiguous; contiguous() makes it so",
            shape=tuple(tensor.shape),
            strides=tensor.stride(),
        )
    return code, tuple(tensor.shape)


def device_of(where: str, arguments: Sequence[tuple[str, torch.Tensor]]) -> torch.device:
    """Return the device that all tensors are on. Raise ArrayError if there are several."""
    first, one = arguments[0]
    for name, tensor in arguments[1:]:
        if tensor.device != one.device:
            raise ArrayError(
                f"{where}: {name} is not on the device of {first}",
                got=str(tensor.device),
                first=str(one.device),
            )
    return one.device


def as_array(tensor: torch.Tensor, where: str) -> Array:
    """Return a CPU tensor as a numpy array that shares its memory. Raise OpError."""
    spec_of(tensor, where)
    if not tensor.is_cpu:
        raise ArrayError(f"{where} is on a device without an executor", device=str(tensor.device))
    return to_numpy(tensor)


def on_gpu(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether any of the tensors is on a GPU. The executor refuses a mixture."""
    return any(isinstance(tensor, torch.Tensor) and tensor.is_cuda for tensor in tensors)


def _cuda() -> Callable[..., list[torch.Tensor]]:
    """Return the executor of GPU tensors, which also takes outputs. Raise CudaUnavailable."""
    execute: Callable[..., list[Any]] = backend("cuda").execute
    return execute


def run(
    name: str, inputs: Sequence[torch.Tensor], attrs: Attrs, out: Sequence[torch.Tensor] | None = None
) -> list[torch.Tensor]:
    """Apply one operator where its tensors are. Nothing is recorded for autograd."""
    row = lookup(name)
    row.check_arity(len(inputs))
    if on_gpu(inputs if out is None else (*inputs, *out)):
        return list(_cuda()(name, inputs, attrs, out))
    arrays = [as_array(tensor, f"{name}: {row.argument(i)}") for i, tensor in enumerate(inputs)]
    if out is None:
        return [from_numpy(array) for array in cpu.execute(name, arrays, attrs)]
    places = [as_array(tensor, f"{name}: out[{o}]") for o, tensor in enumerate(out)]
    cpu.execute(name, arrays, attrs, out=places)
    return list(out)


@cache
def _expression(
    function: Callable[..., Any], specs: tuple[Spec, ...], options: tuple[tuple[str, Any], ...]
) -> Expression:
    return record(function, specs, **dict(options))


def apply(
    function: Callable[..., Any],
    *inputs: torch.Tensor,
    out: Sequence[torch.Tensor] | None = None,
    **options: Any,
) -> list[torch.Tensor]:
    """Apply a composite where its tensors are; the CPU fuses it if possible. `out` is as in `fusion.apply`."""
    name, names = function.__name__, argument_names(function, len(inputs))
    where = [f"{name}: {argument}" for argument in names]
    if on_gpu(inputs):
        specs = tuple(map(spec_of, inputs, where))
        device = device_of(name, list(zip(names, inputs, strict=True)))
        with torch.cuda.device(device):  # where constants are created
            expression = _expression(function, specs, tuple(options.items()))
            results = evaluate(expression, _cuda(), inputs)
        if out is None:
            return results
        # NOTE: a result may be an input, or a view of one, and an output may be where that input is.
        written = {place.untyped_storage().data_ptr() for place in out}
        results = [x.clone() if x.untyped_storage().data_ptr() in written else x for x in results]
        for place, result in zip(out, results, strict=True):
            place.detach().copy_(result)
        return list(out)
    arrays = list(map(as_array, inputs, where))
    if out is None:
        return [from_numpy(array) for array in fusion.apply(function, *arrays, **options)]
    places = [as_array(tensor, f"{name}: out[{o}]") for o, tensor in enumerate(out)]
    fusion.apply(function, *arrays, out=places, **options)
    return list(out)


def execute(
    name: str, inputs: Sequence[torch.Tensor], attrs: Attrs, out: Sequence[torch.Tensor] | None = None
) -> list[torch.Tensor]:
    """Apply one operator to a user's arguments: like `run`, but refuse mixed kinds, subclasses and lost gradients."""
    row = lookup(name)
    row.check_arity(len(inputs))
    arguments = [(row.argument(i), tensor) for i, tensor in enumerate(inputs)]
    arguments += [(f"out[{o}]", tensor) for o, tensor in enumerate(out or ())]
    for argument, tensor in arguments:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise ArrayError(
                f"{name}: {argument} is not a plain torch tensor, as another argument is",
                type=type(tensor).__name__,
            )
        if tensor.requires_grad and torch.is_grad_enabled():
            raise GradientError(
                f"{name}: {argument} requires a gradient; use repops.torch.{name}, detach() or torch.no_grad()"
            )
    device_of(name, arguments)
    return run(name, inputs, attrs, out)


def options_of(attrs: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes with torch's dtypes replaced by codes of the operator set."""
    return {
        name: DTYPE_OF.get(value, value) if isinstance(value, torch.dtype) else value
        for name, value in attrs.items()
    }
