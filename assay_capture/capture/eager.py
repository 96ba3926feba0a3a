"""One step of eager PyTorch at the values and the batch of a definition, which leaves the module as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from repops.torch_arrays import from_numpy, to_numpy
from torch._subclasses.fake_tensor import FakeTensor
from torch.func import functional_call

from referee_py.commit.tensor import Array

from .agreement import GRADIENT, Values
from .definition import StepDefinition
from .errors import LeftOver
from .modules import module_outputs, tensors_kept
from .python_state import PythonState
from .trace import Objective


def eager_called(first: StepDefinition, wide: bool = True, only: Collection[str] | None = None) -> Values:
    """Return loss, gradients and all tensors that may be written of eager PyTorch, by the names of the metrics.

    The module is called with copies of its tensors, in FP64 if `wide`. With `only`, these gradients alone are computed.
    """

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double() if wide and tensor.is_floating_point() else tensor.clone()

    module, autocast = first.module, None if wide else first.autocast
    given = {name: copied(tensor) for name, tensor in batch_of(first).items()}
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    tensors = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        value = (first.initial or {}).get(name)
        held = tensor.detach() if value is None else from_numpy(value() if callable(value) else value)
        held = copied(held.to(tensor.dtype) if held.is_floating_point() else held)
        kept = name in trained and (only is None or f"{GRADIENT}{name}" in only)
        tensors[name] = held.requires_grad_() if kept else held
    with _put_back(first):
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            result = objective_of(first)(
                lambda *args, **kw: functional_call(module, tensors, args, kw), given
            )
        loss = result[0] if isinstance(result, tuple) else result
        loss.backward()
    gradients = {name: tensors[name].grad for name in sorted(trained)}
    labels = _labels(module) if only is None else {}
    values = {"loss": to_numpy(loss.detach())}
    values |= {f"{GRADIENT}{name}": to_numpy(g) for name, g in gradients.items() if g is not None}
    values |= {label: to_numpy(tensors[name].detach()) for name, label in labels.items()}
    return {name: value if wide else value.astype(np.float32) for name, value in values.items()}


def _labels(module: torch.nn.Module) -> dict[str, str]:
    """Return the names of values after the forward pass, by those of the module's tensors."""
    kinds = {n: "written" if p.requires_grad else "frozen" for n, p in module.named_parameters()}
    kinds |= {n: "buffer" for n, _ in module.named_buffers()}
    return {name: f"{kind}.{name}" for name, kind in kinds.items()}


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


def eager(first: StepDefinition, scale: float = 1.0) -> dict[str, Array]:
    """Return loss, gradients and module outputs of eager PyTorch, by the names of the metrics; and the module's tensors
    that have another value after the forward pass. Gradients are those of `scale` times the loss."""
    module, objective, batch = first.module, objective_of(first), batch_of(first)
    with _put_back(first), module_outputs(module if first.outputs else None) as found:
        with torch.no_grad():
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                if (value := given_value(first, name)) is not None:
                    tensor.copy_(value)
        before = _Before.of(first)
        with torch.autocast("cpu", first.autocast, enabled=first.autocast is not None):
            result = objective(module, batch)
        loss = result[0] if isinstance(result, tuple) else result
        loss.backward(torch.full_like(loss, scale))
        written = before.written()
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


def given_value(first: StepDefinition, name: str) -> torch.Tensor | None:
    """Return the value that a definition gives to a tensor of the module."""
    value = (first.initial or {}).get(name)
    return None if value is None else from_numpy(value() if callable(value) else value)


@dataclass(frozen=True)
class _Before:
    """Tensors of a module before a step. NOTE: values that the definition gives are as large as the module, and not
    copied."""

    first: StepDefinition
    copies: dict[str, torch.Tensor]

    @classmethod
    def of(cls, first: StepDefinition) -> _Before:
        module, given = first.module, first.initial or {}
        tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        return cls(first, {n: t.detach().clone() for n, t in tensors.items() if given.get(n) is None})

    def written(self) -> dict[str, torch.Tensor]:
        """Return the tensors that have other values now."""
        module = self.first.module
        now = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        found = {}
        for name, label in _labels(module).items():
            tensor = now[name].detach()
            if not _equal(tensor, self._value(name, tensor)):
                found[label] = tensor
        return found

    def _value(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        value = self.copies.get(name)
        if value is None:
            value = given_value(self.first, name)
        assert value is not None
        return value.to(tensor.dtype)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


@contextlib.contextmanager
def _put_back(first: StepDefinition) -> Iterator[None]:
    """Take the gradients away, and put values, gradients and attributes back at the end.

    NOTE: the module itself is run, not a copy: a copy has no hooks of its parameters, and some modules have none.
    """
    module = first.module
    tensors = [*module.parameters(), *module.buffers()]
    values, gradients = [tensor.detach().clone() for tensor in tensors], [tensor.grad for tensor in tensors]
    before = PythonState(module, objective_of(first).beside)
    for tensor in tensors:
        tensor.grad = None
    # NOTE: weights are written to in place, and inside of an outer autocast PyTorch keeps their casts.
    torch.clear_autocast_cache()
    try:
        with tensors_kept(module):
            yield
    finally:
        torch.clear_autocast_cache()
        with torch.no_grad():
            for tensor, value, gradient in zip(tensors, values, gradients, strict=True):
                tensor.copy_(value)
                tensor.grad = gradient
        before.restore()
