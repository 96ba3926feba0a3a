"""One step of eager PyTorch at the values and the batch of a definition, which leaves the module as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch
from repops.torch_arrays import from_numpy, to_numpy
from torch._subclasses.fake_tensor import FakeTensor
from torch.func import functional_call

from referee_py.commit.tensor import Array

from .agreement import Values
from .definition import StepDefinition
from .errors import LeftOver
from .modules import module_outputs, tensors_kept
from .python_state import PythonState
from .trace import Objective


def eager_f64(first: StepDefinition) -> Values:
    """Return loss, gradients and written buffers of eager PyTorch in FP64, by the names of the metrics."""
    module = first.module
    given = batch_of(first)
    wide = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in given.items()}
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    tensors = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        value = (first.initial or {}).get(name)
        held = tensor.detach() if value is None else from_numpy(value() if callable(value) else value)
        held = held.double() if held.is_floating_point() else held.clone()
        tensors[name] = held.requires_grad_() if name in trained else held
    with _put_back(module):
        result = objective_of(first)(lambda *args, **kw: functional_call(module, tensors, args, kw), wide)
        loss = result[0] if isinstance(result, tuple) else result
        loss.backward()
    gradients = {name: tensors[name].grad for name in sorted(trained)}
    values = {"loss": to_numpy(loss.detach())}
    values |= {f"gradient.{name}": to_numpy(g) for name, g in gradients.items() if g is not None}
    return values | {f"buffer.{name}": to_numpy(tensors[name].detach()) for name, _ in module.named_buffers()}


def objective_of(first: StepDefinition) -> Objective:
    names = [*first.data, *(first.tables or {})]
    loss_of = first.loss
    return loss_of if isinstance(loss_of, Objective) else Objective.of(loss_of, first.inputs, names)


def batch_of(first: StepDefinition) -> dict[str, torch.Tensor]:
    """Return the first batch, and the rows of the first step in tables."""
    batch = {
        name: from_numpy(np.ascontiguousarray(array[first.order[0]])) for name, array in first.data.items()
    }
    return batch | {name: torch.tensor(table[0, 0]) for name, table in (first.tables or {}).items()}


def eager(first: StepDefinition) -> dict[str, Array]:
    """Return loss, gradients and module outputs of eager PyTorch, by the names of the metrics."""
    module, objective, batch = first.module, objective_of(first), batch_of(first)
    with _put_back(module), module_outputs(module if first.outputs else None) as found:
        with torch.no_grad():
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                if (value := (first.initial or {}).get(name)) is not None:
                    tensor.copy_(from_numpy(value() if callable(value) else value))
        before = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
        with torch.autocast("cpu", first.autocast, enabled=first.autocast is not None):
            result = objective(module, batch)
        loss = result[0] if isinstance(result, tuple) else result
        loss.backward()
        written = {f"buffer.{n}": b for n, b in module.named_buffers() if not _equal(b, before[n])}
        values = {name: tensor.clone() for name, tensor in {"loss": loss, **found, **written}.items()}
        # NOTE: gradients are handed over, not copied: they are as large as the module.
        values |= {f"gradient.{n}": p.grad for n, p in module.named_parameters() if p.grad is not None}
        for name, tensor in values.items():
            if isinstance(tensor, FakeTensor):
                raise LeftOver(
                    f"{name} of eager PyTorch is computed with a tensor that the trace has left in Python",
                    "keep what is computed once in a buffer, or empty the cache that holds it",
                    "module or loss",
                )
        return {name: to_numpy(tensor.detach().float().contiguous()) for name, tensor in values.items()}


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a == b) | ((a != a) & (b != b))).all())


@contextlib.contextmanager
def _put_back(module: torch.nn.Module) -> Iterator[None]:
    """Take the gradients away, and put values, gradients and attributes back at the end.

    NOTE: the module itself is run, not a copy: a copy has no hooks of its parameters, and some modules have none.
    """
    tensors = [*module.parameters(), *module.buffers()]
    values, gradients = [tensor.detach().clone() for tensor in tensors], [tensor.grad for tensor in tensors]
    before = PythonState(module)
    for tensor in tensors:
        tensor.grad = None
    try:
        with tensors_kept(module):
            yield
    finally:
        with torch.no_grad():
            for tensor, value, gradient in zip(tensors, values, gradients, strict=True):
                tensor.copy_(value)
                tensor.grad = gradient
        before.restore()
