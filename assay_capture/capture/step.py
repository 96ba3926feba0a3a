"""A whole training step as a program: pick the batch, forward, loss, backward, optimizer.

t ──> order[t-1] ──> batch ──┐
parameters, buffers (slots) ─┴─> forward ─> loss ─> gradients ─> optimizer ─> slots after the step
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from repops.opset import BF16, F32
from repops.tensors import NUMPY_DTYPE
from repops.torch_arrays import from_numpy, to_numpy

from referee_py.commit.tensor import Array
from referee_py.program import TensorType, validate

from .builder import Builder, Ref
from .definition import Initial, StepDefinition, by_fields
from .draft import Built, Draft, Source
from .errors import CaptureError
from .lowering import RULES, Noise, dtype_of, lower, source_of
from .modules import plain_module
from .optimizers import Parameter, clip, clip_values, step_index
from .optimizers.torch_optim import as_optimizer
from .part_sum import PartSum
from .process import process_kept
from .replacements import experts
from .trace import Objective, Traced, trace


@by_fields(StepDefinition)
def capture(step: StepDefinition) -> Built:
    """Return the program that trains the module for `len(order)` steps, with its tensors.

    Takes the fields of `StepDefinition`. Does not change the module. Raises CaptureError, or Unsupported, which names
    module path, ATen operator and remedy.
    """
    return draft_of(step).build()


@by_fields(StepDefinition)
def sketch(step: StepDefinition) -> Draft:
    """Capture without reading any tensor of the module, which may be on the meta device or made of fake tensors.

    Takes what `capture` takes, and raises the same.
    """
    return draft_of(step)


def draft_of(step: StepDefinition) -> Draft:
    """Return the program of a step, before its tensors are read. Raises as `capture`."""
    with process_kept():
        return _draft_of(step)


def _draft_of(step: StepDefinition) -> Draft:
    draft = lowered(step, traced_of(step))
    validate(draft.skeleton)
    return draft


def traced_of(step: StepDefinition) -> Traced:
    """Return the graph of a step, of which programs are made (`lowered`). Raises as `capture`."""
    order, count, tables = step.order, step.parts, step.tables or {}
    if not 0 <= step.seed < 1 << 64:
        raise CaptureError(f"seed {step.seed}; it must be at least 0 and below 2^64")
    if step.micro_batches > 1 and step.accumulate > 1:
        raise CaptureError(
            f"micro_batches is {step.micro_batches} and accumulate {step.accumulate}: both split the batch; set "
            f"micro_batches={step.micro_batches * step.accumulate} alone"
        )
    module, data, loss = plain_module(step.module), exactly(step.data), step.loss
    objective = loss if isinstance(loss, Objective) else Objective.of(loss, step.inputs, [*data, *tables])
    for name, parameter in module.named_parameters():
        _check_dtype(name, parameter)
    rows = _check_data(data, order, count)
    example = {name: ((rows, *array.shape[1:]), from_numpy(array[:1]).dtype) for name, array in data.items()}
    example |= _check_tables(tables, data, len(order), count)
    with experts.capacity(step.expert_capacity):
        return trace(module, objective, example, list(RULES), step.autocast, step.outputs)


def lowered(step: StepDefinition, traced: Traced, dropout: bool = True) -> Draft:
    """Return the program of a traced step, not validated. Without `dropout` its masks keep everything."""
    order, count, tables, data = step.order, step.parts, step.tables or {}, exactly(step.data)
    b = Builder()
    parts = _Parts(
        b, traced, _Initial(step.initial or {}, traced), Noise(b, step.seed, dropout), step.accumulate == 1
    )
    numbers = _numbers(b, tables, count)
    batches = _batches(b, data, order, count)
    for k, batch in enumerate(batches):
        for name, value in zip(data, batch, strict=True):
            b.mark(f"part.{k}.data.{name}", value)
    parts.run([[*batch, *row] for batch, row in zip(batches, numbers, strict=True)])
    b.label = "metric"
    for name, value in parts.metrics.items():
        b.metric(name, value)
    if step.gradients:
        for name, gradient in parts.gradients.items():
            b.metric(f"gradient.{name}", gradient)
        for name in parts.rewritten:
            b.metric(f"written.{name}", parts.value(name))
    found = list(parts.gradients.values())
    clipped = found if step.clip_norm is None else clip(b, found, step.clip_norm)
    clipped = clipped if step.clip_value is None else clip_values(b, clipped, step.clip_value)
    for name in parts.rewritten:
        b.mark(f"written.{name}", parts.value(name))
        b.update(parts.slots[name], parts.value(name))
    as_optimizer(step.optimizer, step.scheduler, len(order)).build(
        b,
        [
            Parameter(name, traced.parameters[name], parts.slots[name], gradient, parts.value(name))
            for name, gradient in zip(parts.gradients, clipped, strict=True)
        ],
        len(order),
    )
    return b.finish()


class _Parts:
    """Forward, loss and gradients of one step, batch part by batch part. ``balanced``: sums over them are trees."""

    def __init__(self, b: Builder, traced: Traced, initial: _Initial, noise: Noise, balanced: bool) -> None:
        self._b, self._traced, self._noise, self._balanced = b, traced, noise, balanced
        self.slots = {n: b.slot(f"param.{n}", initial.master(n, t)) for n, t in traced.parameters.items()}
        changed = traced.written
        rest = [("frozen", n, t) for n, t in traced.frozen.items()]
        rest += [("buffer", n, t) for n, t in traced.buffers.items()]
        self._rest = {
            n: (b.slot if n in changed else b.constant)(f"{kind}.{n}", initial(n, t)) for kind, n, t in rest
        }
        self._written = {n: self._rest[n] for _, n, _ in rest if n in changed}
        b.label = "parameters"
        self._weights = {n: self._narrow(n, slot) for n, slot in self.slots.items()}
        self.rewritten = [name for name in self.slots if name in changed]
        self.gradients: dict[str, Ref] = {}
        """Gradients of the parameters that the loss depends on. As in PyTorch, others get no update and no decay."""
        self.metrics: dict[str, Ref] = {}

    def run(self, batches: Sequence[Sequence[Ref]]) -> None:
        gradients, metrics = dict[str, PartSum](), dict[str, PartSum]()
        for k, batch in enumerate(batches):
            inputs = [*self._weights.values(), *self._rest.values(), *batch]
            loss, *rest = lower(self._traced.graph, inputs, self._b, self._noise)
            n, after = len(self.slots), rest[len(self.slots) : len(self.slots) + len(inputs) - len(batch)]
            self._add(gradients, self.slots, rest[:n], f"part.{k}.gradient.")
            self._weights = dict(zip(self._weights, after[:n], strict=True))
            self._rest = dict(zip(self._rest, after[n:], strict=True))
            self._add(metrics, ["loss", *self._traced.metric_names], [loss, *rest[n + len(after) :]])
        for name, slot in self._written.items():
            self._b.update(slot, self._rest[name])
        self.gradients = self._averages(gradients, len(batches))
        self.metrics = self._averages(metrics, len(batches))

    def _narrow(self, name: str, slot: Ref) -> Ref:
        """Return a parameter in the module's dtype. NOTE: one of bfloat16 has a master copy in f32."""
        return self._b.op("cast", slot, dtype=dtype_of(self._traced.parameters[name].dtype))

    def value(self, name: str) -> Ref:
        """Return the f32 value that the optimizer starts from: the slot, or what the forward pass wrote to it."""
        if name not in self.rewritten:
            return self.slots[name]
        return self._b.op("cast", self._weights[name], dtype=F32)

    def _add(
        self, sums: dict[str, PartSum], names: Iterable[str], values: Sequence[Ref | None], mark: str = ""
    ) -> None:
        self._b.label = "sum over the batch's parts"
        for name, value in zip(names, values, strict=True):
            if value is not None:
                if value.dtype == BF16:
                    value = self._b.op("cast", value, dtype=F32)
                if mark:
                    self._b.mark(f"{mark}{name}", value)
                sums.setdefault(name, PartSum(self._b, self._balanced)).add(value)

    def _averages(self, sums: Mapping[str, PartSum], parts: int) -> dict[str, Ref]:
        self._b.label = "average over the batch's parts"
        totals = {name: added.total() for name, added in sums.items()}
        if parts == 1:
            return totals
        for name, value in totals.items():
            if value.dtype != F32:
                raise CaptureError(f"metric {name} is {value.type}; to be averaged it must be f32")
        share = self._b.full(1 / parts)
        return {name: self._b.op("mul", value, share) for name, value in totals.items()}


# -------------------------------------------------------------------------------------------------------- tensors


def _batches(b: Builder, data: Mapping[str, Array], order: Array, parts: int) -> list[list[Ref]]:
    b.label = "batch"
    chosen = b.op("take", b.constant("data.order", order), step_index(b))
    constants = [b.constant(f"data.{name}", array) for name, array in data.items()]
    size = order.shape[1] // parts
    slices = [
        b.op("slice", chosen, dim=0, start=k * size, stop=(k + 1) * size, step=1) if parts > 1 else chosen
        for k in range(parts)
    ]
    return [[b.op("take", constant, rows) for constant in constants] for rows in slices]


def _numbers(b: Builder, tables: Mapping[str, Array], parts: int) -> list[list[Ref]]:
    """Return this step's entry of every table, for each part of the batch."""
    rows = [b.op("take", b.constant(f"table.{name}", table), step_index(b)) for name, table in tables.items()]
    return [
        [b.op("reshape", b.op("slice", row, dim=0, start=k, stop=k + 1, step=1), shape=()) for row in rows]
        for k in range(parts)
    ]


_EXACT = {
    "b": np.int64,
    "h": np.int64,
    "i": np.int64,
    "B": np.int64,
    "H": np.int64,
    "I": np.int64,
    "e": np.float32,
}
"""By the characters of numpy's types: smaller ones, each value of which is one of the larger."""


def arrays_of(data: Mapping[str, Any]) -> dict[str, Array]:
    """Return tensors and lists as arrays. Numbers in lists are f32, as torch.tensor takes them.

    Raises CaptureError for what is not an array.
    """
    if not isinstance(data, Mapping):
        raise CaptureError(f"data is {type(data).__name__}; it must be a mapping of names to arrays")
    return {name: _array(name, value) for name, value in data.items()}


def exactly(data: Mapping[str, Any]) -> dict[str, Array]:
    """Return arrays (`arrays_of`), smaller integers as i64 and float16 as f32, which changes no value."""
    return {
        name: array.astype(_EXACT[array.dtype.char]) if array.dtype.char in _EXACT else array
        for name, array in arrays_of(data).items()
    }


def _array(name: str, value: Any) -> Array:
    if isinstance(value, torch.Tensor):
        array = to_numpy(value.detach().cpu().resolve_neg().contiguous())
    elif isinstance(value, list | tuple):
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise CaptureError(f"data {name}: {error}; give every example the same shape") from error
        array = array.astype(np.float32) if array.dtype == np.float64 else array
    else:
        array = value
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufV":
        kind = getattr(array, "dtype", type(array).__name__)
        raise CaptureError(f"data {name} is {kind}; it must be an array of numbers, or a tensor")
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False)).reshape(array.shape)


def _check_tables(
    tables: Mapping[str, Array], data: Mapping[str, Array], steps: int, parts: int
) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Return shape and dtype of an entry of each table. Raises CaptureError."""
    for name, table in tables.items():
        if name in data:
            raise CaptureError(f"{name} is an array of the data and a table; rename one of them")
        if table.dtype != np.float32 or table.shape != (steps, parts) or not np.isfinite(table).all():
            raise CaptureError(
                f"table {name} is {table.dtype} {list(table.shape)}; it must be finite f32 [{steps}, {parts}]: "
                "a number for each step and part of its batch"
            )
    return dict.fromkeys(tables, ((), torch.float32))


def _check_data(data: Mapping[str, Array], order: Array, parts: int) -> int:
    """Return the number of examples in one part of a batch. Raises CaptureError.

    NOTE: `take` of a row that does not exist gives zeros, so the order is checked here.
    """
    sizes = {name: len(array) if array.ndim else None for name, array in data.items()}
    if not data or len(set(sizes.values())) != 1 or None in sizes.values():
        raise CaptureError(f"data needs arrays with as many examples each, not {sizes}")
    for name, array in data.items():
        _check_dtype(f"data {name}", from_numpy(array[:1]))
        if array.dtype == np.float32 and not np.isfinite(array).all():
            raise CaptureError(f"data {name} holds values that are not finite; clean it first")
    size = next(iter(sizes.values()))
    if order.ndim != 2 or order.dtype != np.int64 or not order.size:
        raise CaptureError(f"order must be i64 [steps, batch], not {order.dtype} {list(order.shape)}")
    if order.min() < 0 or order.max() >= size:
        raise CaptureError(f"order names examples {order.min()}..{order.max()}; the data has {size}")
    if parts < 1 or order.shape[1] % parts:
        raise CaptureError(f"a batch of {order.shape[1]} cannot be taken in {parts} equal parts")
    return int(order.shape[1] // parts)


def _check_dtype(name: str, tensor: torch.Tensor) -> None:
    """Raise CaptureError, with the tensor's name, for a dtype that is not in the operator set."""
    try:
        dtype_of(tensor.dtype)
    except CaptureError as error:
        raise CaptureError(f"{name}: {error}") from error


def _source(name: str, tensor: torch.Tensor) -> Source:
    """Return how to read a tensor of the module. Raises CaptureError, with its name, for an unknown dtype."""
    try:
        return source_of(tensor)
    except CaptureError as error:
        raise CaptureError(f"{name}: {error}") from error


@dataclass(frozen=True)
class _Initial:
    """The initial value of each tensor of the module."""

    given: Initial
    traced: Traced

    def __post_init__(self) -> None:
        known = {**self.traced.parameters, **self.traced.frozen, **self.traced.buffers}
        if unknown := sorted(set(self.given) - set(known)):
            raise CaptureError(f"initial values for {', '.join(unknown)}, which the module does not have")

    def master(self, name: str, tensor: torch.Tensor) -> Source:
        """Return the initial value of a trained parameter, in f32 also if the module has it in bfloat16."""
        _check_dtype(name, tensor)
        own = source_of(tensor)
        if own.type.dtype == BF16:
            read = own.read
            type_ = TensorType(F32, own.type.shape)
            own = Source(type_, None if read is None else lambda: read().astype(np.float32))
        return self._chosen(name, own)

    def __call__(self, name: str, tensor: torch.Tensor) -> Source:
        return self._chosen(name, _source(name, tensor))

    def _chosen(self, name: str, own: Source) -> Source:
        value = self.given.get(name)
        if value is None:
            return own
        if callable(value):
            read = value
            narrow = own.type.dtype == BF16
            return Source(own.type, (lambda: read().astype(NUMPY_DTYPE[BF16])) if narrow else read)
        if TensorType.of(value) != own.type:
            raise CaptureError(
                f"initial value of {name} is {TensorType.of(value)}, the module has {own.type}"
            )
        return Source.of(value)
