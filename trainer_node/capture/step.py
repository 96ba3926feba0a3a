"""A whole training step as a program: pick the batch, forward, loss, backward, optimizer.

t ──> order[t-1] ──> batch ──┐
parameters, buffers (slots) ─┴─> forward ─> loss ─> gradients ─> optimizer ─> slots after the step
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from referee_py.commit.tensor import Array
from referee_py.program import validate

from . import aten_nn, aten_pointwise, aten_shape  # noqa: F401  (they register their rules)
from .builder import Builder, Built, Ref
from .errors import CaptureError
from .lowering import RULES, dtype_of, lower
from .optimizers import Optimizer, Parameter, step_index
from .trace import Loss, Traced, trace


def capture(
    module: torch.nn.Module,
    loss: Loss,
    optimizer: Optimizer,
    data: Mapping[str, Array],
    order: Array,
    initial: Mapping[str, Array] | None = None,
) -> Built:
    """The program that trains `module` for `len(order)` steps.

    `data` are arrays of the same length; the first is given to the module, the others to `loss(output, ...)`.
    `order[t-1]` lists the examples of step t. `initial` replaces parameters by name; the others start as they are.

    Raises CaptureError, or Unsupported naming module path, ATen operator and remedy. The module is not changed.
    """
    _check_data(data, order)
    example = [torch.from_numpy(np.ascontiguousarray(array[order[0]])) for array in data.values()]
    traced = trace(module, loss, example, list(RULES))
    b = Builder()
    batch = _batch(b, data, order)
    parameters = {name: _initial(name, tensor, initial) for name, tensor in traced.parameters.items()}
    slots = {name: b.slot(f"param.{name}", array) for name, array in parameters.items()}
    frozen = [b.constant(f"frozen.{name}", _initial(name, t, initial)) for name, t in traced.frozen.items()]
    buffers = {name: _Buffer(b, name, t) for name, t in _mutated(traced).items()}
    buffer_refs = [
        buffers[name].ref if name in buffers else b.constant(f"buffer.{name}", _array(name, tensor))
        for name, tensor in traced.buffers.items()
    ]
    loss_value, *rest = lower(traced.graph, [*slots.values(), *frozen, *buffer_refs, *batch], b)
    gradients, rest = rest[: len(slots)], rest[len(slots) :]
    optimizer.build(
        b,
        [
            Parameter(name, slots[name], parameters[name], gradient)
            for name, gradient in zip(slots, gradients, strict=True)
            if gradient is not None  # as PyTorch's optimizers: no gradient, no update, no weight decay
        ],
        len(order),
    )
    for name, value in zip(traced.buffers, rest, strict=False):
        if name in buffers:
            b.update(buffers[name].ref, value)
    b.label = "metric"
    b.metric("loss", loss_value)
    for name, value in zip(traced.metric_names, rest[len(traced.buffers) :], strict=True):
        b.metric(name, value)
    built = b.finish()
    validate(built.program)
    return built


class _Buffer:
    """A buffer that the step writes to: part of the state."""

    def __init__(self, b: Builder, name: str, tensor: torch.Tensor) -> None:
        self.ref = b.slot(f"buffer.{name}", _array(name, tensor))


def _mutated(traced: Traced) -> dict[str, torch.Tensor]:
    """The buffers whose value after the step is not what went in."""
    nodes = list(traced.graph.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    first = len(traced.parameters) + len(traced.frozen)
    after = nodes[-1].args[0][1 + len(traced.parameters) :]
    return {
        name: tensor
        for k, (name, tensor) in enumerate(traced.buffers.items())
        if _origin(after[k]) is not inputs[first + k]
    }


def _origin(node: torch.fx.Node) -> torch.fx.Node:
    """Through copies, to the node that made the value."""
    while str(node.target) in ("aten.clone.default", "aten.detach.default", "aten.alias.default"):
        node = node.args[0]  # type: ignore[assignment]
    return node


def _batch(b: Builder, data: Mapping[str, Array], order: Array) -> list[Ref]:
    b.label = "batch"
    chosen = b.op("take", b.constant("data.order", order), step_index(b))
    return [b.op("take", b.constant(f"data.{name}", array), chosen) for name, array in data.items()]


def _check_data(data: Mapping[str, Array], order: Array) -> None:
    """Raises CaptureError. NOTE: `take` of a row that does not exist gives zeros, so it is checked here."""
    sizes = {name: len(array) if array.ndim else None for name, array in data.items()}
    if len(data) < 2 or len(set(sizes.values())) != 1 or None in sizes.values():
        raise CaptureError(f"data needs inputs and targets with as many examples each, not {sizes}")
    for name, array in data.items():
        dtype_of(torch.from_numpy(array[:1]).dtype)
        if array.dtype == np.float32 and not np.isfinite(array).all():
            raise CaptureError(f"data {name} holds values that are not finite; clean it first")
    size = next(iter(sizes.values()))
    if order.ndim != 2 or order.dtype != np.int64 or not order.size:
        raise CaptureError(f"order must be i64 [steps, batch], not {order.dtype} {list(order.shape)}")
    if order.min() < 0 or order.max() >= size:
        raise CaptureError(f"order names examples {order.min()}..{order.max()}; the data has {size}")


def _initial(name: str, tensor: torch.Tensor, initial: Mapping[str, Array] | None) -> Array:
    own = _array(name, tensor)
    given = (initial or {}).get(name, own)
    if given.shape != own.shape or given.dtype != own.dtype:
        raise CaptureError(
            f"initial value of {name} is {given.dtype} {list(given.shape)}, "
            f"the module has {own.dtype} {list(own.shape)}"
        )
    return given


def _array(name: str, tensor: torch.Tensor) -> Array:
    try:
        dtype_of(tensor.dtype)
    except CaptureError as error:
        raise CaptureError(f"{name}: {error}") from error
    return np.array(tensor.detach().cpu().numpy(), order="C")
