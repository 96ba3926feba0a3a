"""The guard: compares a first step of the program with one of eager PyTorch, on the first batch.

Tracing can drop an effect silently: a write behind PyTorch's back, a decomposition or a rule that is wrong. So
loss and gradients are compared before anybody pays for a run. Dropout is left out on both sides, since the two draw
different numbers; with other random numbers nothing can be compared.

    capture again, with gradients as metrics ──> one step ──┐
                                                            ├─ differ? ──> again, with modules' outputs as metrics:
    the module itself: forward, backward ───────────────────┘              the first module that differs
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import repops
import torch
from repops.torch_arrays import from_numpy, to_numpy
from torch._subclasses.fake_tensor import FakeTensor
from torch.func import functional_call
from torch.nn import functional

from referee_py.commit.tensor import Array
from referee_py.execute import Metrics, Run

from .definition import StepDefinition
from .draft import Built
from .errors import CaptureError
from .modules import module_outputs
from .optimizers import SGD
from .python_state import PythonState
from .step import draft_of
from .trace import Objective

TOLERANCE, TOLERANCE_BF16 = 1e-3, 0.25
"""Largest difference of an element, in units of the largest element of its gradient."""
AMPLIFIED = 8
"""Factor by which a program may be further from eager FP64 than eager FP32 is, where FP32 itself is far from it.

A unit of rounding moves an activation across a kink (ReLU, max pooling), and then elements of a gradient differ by
tenths: in the first step of ResNet-50 eager FP32 differs from FP64 by 0.12 of the largest element. There single
elements say nothing, and the norms of whole gradients are compared instead."""
AMPLIFIED_BF16 = 2
"""Likewise for autocast. In the first step of a ResNet-50 whose last images have one pixel, batch norms of sixteen
values make of bf16's rounding gradients further from FP64 than zero is, in eager PyTorch too. Hence the factor is
small, and says little: the module is compared in FP32 besides."""
_DROPOUTS = ("dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")
Values = Mapping[str, Array]


def check_first_step(step: StepDefinition) -> str:
    """Compare the first step, of the first part of its batch. Return what was compared, in words.

    Raises CaptureError if the two differ.
    """
    tensors = [*step.module.parameters(), *step.module.buffers()]
    if any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors):
        return "not compared with PyTorch: the module has no values"
    first = StepDefinition(
        *(step.module, step.loss, SGD(0.0), step.data),
        step.order[:1, : step.order.shape[1] // step.accumulate],
        step.initial,
        inputs=step.inputs,
        tables={name: table[:1, :1] for name, table in (step.tables or {}).items()},
        expert_capacity=step.expert_capacity,
        autocast=step.autocast,
        gradients=True,
    )
    with _without_dropout():
        built = draft_of(first).build()
        if any(node.name == "philox" for node in built.program.nodes):
            return "not compared with PyTorch: the module draws random numbers besides dropout"
        found, wanted = _first_metrics(built), _eager(first)
        apart = _differences(found, wanted, first)
        if apart and not _amplified(first, found, wanted):
            raise CaptureError(_where(first, apart))
    if apart and step.autocast is not None:
        in_f32 = check_first_step(replace(step, autocast=None))
        return (
            f"rounding to bf16 takes the first step as far from FP64 as PyTorch's; without autocast {in_f32}"
        )
    if apart:
        return (
            "loss and gradients of the first step are as close to PyTorch's in FP64 as PyTorch's own in FP32"
        )
    return "loss and gradients of the first step are those of PyTorch"


def _first_metrics(built: Built) -> Values:
    metrics = Metrics(built.labels.metrics)
    backend = repops.backend("cpu")
    run = Run(built.program, built.constants, built.initial, 1, (1,), backend, hook=metrics)
    run.advance(run.initial(), 1)
    return metrics.latest


def _amplified(first: StepDefinition, found: Values, wanted: Values) -> bool:
    """Return whether the differences are those that rounding makes in eager PyTorch, too."""
    if _is_narrow(first) and first.autocast is None:  # its parameters are bf16: there is no FP32 to compare
        return False
    try:
        precise = _eager_f64(first)
    except Exception:
        return False
    ours, theirs = _norms(found, precise), _norms(wanted, precise)
    times = AMPLIFIED if first.autocast is None else AMPLIFIED_BF16
    return max(ours.values()) <= times * max(theirs.values())


def _norms(values: Values, precise: Values) -> dict[str, float]:
    """Return the norm of each difference, in units of the norm of the value, at least a part of the largest."""
    norms = {name: float(np.linalg.norm(value.ravel())) for name, value in precise.items()}
    largest = max((norm for name, norm in norms.items() if name.startswith("gradient.")), default=0.0)
    distances = {}
    for name, value in precise.items():
        unit = max(norms[name], 1e-2 * largest if name.startswith("gradient.") else 1e-6, 1e-30)
        distance = float(np.linalg.norm((values[name] - value).ravel())) / unit if name in values else np.inf
        distances[name] = distance if np.isfinite(distance) else np.inf
    return distances


def _eager_f64(first: StepDefinition) -> Values:
    """Return loss and gradients of eager PyTorch in FP64, by the names of the metrics."""
    module = first.module
    given = _batch(first)
    wide = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in given.items()}
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    tensors = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        value = (first.initial or {}).get(name)
        held = tensor.detach() if value is None else from_numpy(value() if callable(value) else value)
        held = held.double() if held.is_floating_point() else held.clone()
        tensors[name] = held.requires_grad_() if name in trained else held
    with _put_back(module):
        result = _objective(first)(lambda *args, **kw: functional_call(module, tensors, args, kw), wide)
        loss = result[0] if isinstance(result, tuple) else result
        loss.backward()
    gradients = {name: tensors[name].grad for name in sorted(trained)}
    values = {"loss": to_numpy(loss.detach())}
    return values | {f"gradient.{name}": to_numpy(g) for name, g in gradients.items() if g is not None}


def _objective(first: StepDefinition) -> Objective:
    names = [*first.data, *(first.tables or {})]
    loss_of = first.loss
    return loss_of if isinstance(loss_of, Objective) else Objective.of(loss_of, first.inputs, names)


def _batch(first: StepDefinition) -> dict[str, torch.Tensor]:
    """Return the first batch, and the rows of the first step in tables."""
    batch = {
        name: from_numpy(np.ascontiguousarray(array[first.order[0]])) for name, array in first.data.items()
    }
    return batch | {name: torch.tensor(table[0, 0]) for name, table in (first.tables or {}).items()}


def _eager(first: StepDefinition) -> Values:
    """Return loss, gradients and module outputs of eager PyTorch, by the names of the metrics."""
    module, objective, batch = first.module, _objective(first), _batch(first)
    with (
        _put_back(module),
        module_outputs(module if first.outputs else None) as found,
    ):
        with torch.no_grad():
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                if (value := (first.initial or {}).get(name)) is not None:
                    tensor.copy_(from_numpy(value() if callable(value) else value))
        with torch.autocast("cpu", first.autocast, enabled=first.autocast is not None):
            result = objective(module, batch)
        loss = result[0] if isinstance(result, tuple) else result
        loss.backward()
        values = {"loss": loss.detach(), **found}
        values |= {f"gradient.{n}": p.grad for n, p in module.named_parameters() if p.grad is not None}
        return {name: to_numpy(tensor.detach().float().clone()) for name, tensor in values.items()}


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
        yield
    finally:
        with torch.no_grad():
            for tensor, value, gradient in zip(tensors, values, gradients, strict=True):
                tensor.copy_(value)
                tensor.grad = gradient
        before.restore()


def _differences(found: Values, wanted: Values, first: StepDefinition) -> dict[str, float]:
    """Return the metrics that differ by more than rounding does, with their differences."""
    limit = TOLERANCE_BF16 if _is_narrow(first) else TOLERANCE
    largest = max(
        (_size(value) for name, value in wanted.items() if name.startswith("gradient.")), default=0.0
    )
    apart = {}
    for name, value in wanted.items():
        if name not in found:
            apart[name] = np.inf
            continue
        # NOTE: some gradients are differences of much larger terms, so the unit is at least a part of the largest.
        unit = max(_size(value), 1e-2 * largest if name.startswith("gradient.") else 1e-6, 1e-30)
        with np.errstate(invalid="ignore"):
            distance = np.abs(found[name].astype(np.float32) - value)
        distance = np.where(_same(found[name].astype(np.float32), value), 0, distance)
        worst = float(np.nan_to_num(distance, nan=np.inf, posinf=np.inf).max(initial=0.0)) / unit
        if worst > limit:
            apart[name] = worst
    return apart


def _is_narrow(first: StepDefinition) -> bool:
    """Return whether the module computes in bf16, where eager PyTorch's own rounding is the larger part."""
    return first.autocast is not None or any(p.dtype == torch.bfloat16 for p in first.module.parameters())


def _same(a: Array, b: Array) -> Array:
    """Return where both are the same infinity or both NaN."""
    same: Array = (a == b) | (np.isnan(a) & np.isnan(b))
    return same


def _size(value: Array) -> float:
    finite = value[np.isfinite(value)]
    return float(np.abs(finite).max(initial=0.0))


def _where(first: StepDefinition, apart: Mapping[str, float]) -> str:
    """Say what differs, and the first module whose output does."""
    worst = max(apart, key=lambda name: apart[name])
    what = f"the program's first step is not PyTorch's: {worst} differs by {apart[worst]:.2g} of its size"
    first = replace(first, outputs=True)
    built = draft_of(first).build()
    found, wanted = _first_metrics(built), _eager(first)
    outputs = {name: value for name, value in wanted.items() if name.startswith("output.")}
    for name in _differences(found, outputs, first):
        place = built.labels.metrics.get(name)
        node = f", node {built.labels.nodes[place.node]}" if place is not None else ""
        path, _, call = name.removeprefix("output.").rpartition(".")
        return (
            f"{what}. The first module whose output differs is {path} (call {call}){node}; "
            "write this module with other functions, and report the difference"
        )
    module = worst.removeprefix("gradient.").rpartition(".")[0]
    return (
        f"{what}. All modules' outputs agree, so the loss or the gradient of module {module or 'itself'} does not; "
        "write it with other functions, and report the difference"
    )


@contextlib.contextmanager
def _without_dropout() -> Iterator[None]:
    """Make dropout the identity, for capture and for eager PyTorch."""
    attention = functional.scaled_dot_product_attention

    def identity(x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return x

    def plain(
        query: Any, key: Any, value: Any, mask: Any = None, _dropout: float = 0.0, *rest: Any, **more: Any
    ) -> Any:
        more.pop("dropout_p", None)
        return attention(query, key, value, more.pop("attn_mask", mask), 0.0, *rest, **more)

    replaced: dict[str, Callable[..., Any]] = {**dict.fromkeys(_DROPOUTS, identity)}
    replaced["scaled_dot_product_attention"] = plain
    before = {name: getattr(functional, name) for name in replaced}
    try:
        for name, function in replaced.items():
            setattr(functional, name, function)
        yield
    finally:
        for name, function in before.items():
            setattr(functional, name, function)
