"""Builds a program node by node: simplifies each, merges equal ones, and brings the result into canonical form.

    a = builder.constant("data.x", x)
    w = builder.slot("param.weight", initial_weight)
    builder.update(w, builder.op("sub", w, ...))
    built = builder.finish()

Only the order of the calls decides the result: no hash order, no names, no device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from repops.opset import BF16, F32, I64, Dtype, lookup

from referee_py.commit.tensor import Array
from referee_py.program import Kind, Operand, Skeleton, SlotSource, Structure, TensorType
from referee_py.program.canonical import canonical_skeleton
from referee_py.program.simplify import Graph

from .draft import Draft, Labels, Source
from .errors import CaptureError


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the step: its source and its type."""

    kind: Kind
    index: int
    output: int
    type: TensorType

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> Dtype:
        return self.type.dtype

    @property
    def operand(self) -> Operand:
        return Operand(self.kind, self.index, self.output)

    @property
    def count(self) -> int:
        return self.type.count

    @property
    def rank(self) -> int:
        return len(self.type.shape)


@dataclass(frozen=True)
class DraftNode:
    """One operator, before it is decided whether it is needed. `fixed`: it depends on no slot, constant or step."""

    name: str
    inputs: tuple[Ref, ...]
    attrs: dict[str, Any]
    outputs: tuple[TensorType, ...]
    fixed: bool


class Builder:
    """A program under construction. `label` names the origin of the nodes made from now on."""

    def __init__(self) -> None:
        self.label = ""
        self._constants: list[tuple[str, Source]] = []
        self._slots: list[tuple[str, Source]] = []
        self._types: tuple[list[TensorType], list[TensorType]] = [], []  # of constants, of slots
        # NOTE: a captured program must not depend on the mode of its run, so known numbers are folded in f32.
        self._graph = Graph(*self._types, ahead=True)
        self._labels: list[str] = []  # of the graph's nodes
        self._fixed: list[bool] = []
        self._tables: dict[Any, Ref] = {}
        self._updates: dict[int, Ref] = {}
        self._metrics: dict[str, Ref] = {}
        self._marks: dict[str, Ref] = {}

    # ---------------------------------------------------------------------------------------------- sources

    def constant(self, name: str, source: Source | Array) -> Ref:
        return self._add(Kind.CONSTANT, self._constants, name, source)

    def table(self, name: str, table: Array) -> Ref:
        """Add a constant, or return the one that holds the same numbers already."""
        key = (table.dtype.str, table.shape, table.tobytes())
        if key not in self._tables:
            number = f".{len(self._tables)}" if self._tables else ""
            self._tables[key] = self.constant(f"{name}{number}", table)
        return self._tables[key]

    def slot(self, name: str, initial: Source | Array) -> Ref:
        """Add a tensor of the state and return its value before the step. Without `update` it stays unchanged."""
        return self._add(Kind.SLOT, self._slots, name, initial)

    def _add(self, kind: Kind, tensors: list[tuple[str, Source]], name: str, given: Source | Array) -> Ref:
        source = given if isinstance(given, Source) else Source.of(given)
        tensors.append((name, source))
        self._types[kind == Kind.SLOT].append(source.type)
        return Ref(kind, len(tensors) - 1, 0, source.type)

    def step(self) -> Ref:
        return Ref(Kind.STEP, 0, 0, TensorType(I64, ()))

    def full(self, value: float, dtype: Dtype = F32, shape: Sequence[int] = ()) -> Ref:
        """Return a tensor of one value, rounded to the dtype; for bf16 to f32 first, as in PyTorch."""
        if dtype == F32:
            with np.errstate(over="ignore"):
                bits = int(np.float32(value).view(np.uint32))
        elif dtype == BF16:
            return self.op("cast", self.full(value, F32, shape), dtype=BF16)
        else:
            bits = int(value) % (1 << 64)
        return self.op("full", shape=tuple(shape), dtype=dtype, bits=bits)

    # ---------------------------------------------------------------------------------------------- operators

    @functools.cached_property
    def compose(self) -> Compose:
        """The builder for composites: `composites.gelu(b.compose, x)` appends its operators."""
        return Compose(self)

    def op(self, name: str, *inputs: Ref, **attrs: Any) -> Ref:
        """Return the only output of an operator, or a simpler value with its bits (referee_py.program.simplify)."""
        return self._ref(self._graph.op(name, *(ref.operand for ref in inputs), **attrs))

    def ops(self, name: str, *inputs: Ref, **attrs: Any) -> list[Ref]:
        """Return all outputs of an operator, unsimplified; an existing node that computes the same is reused."""
        types = lookup(name).infer([(i.dtype, i.shape) for i in inputs], attrs)
        outputs = [TensorType(dtype, shape) for dtype, shape in types]
        made = Structure.make(name, [ref.operand for ref in inputs], outputs, **attrs)
        number = self._graph.node(made)
        return [self._ref(Operand(Kind.NODE, number, k)) for k in range(len(outputs))]

    def _ref(self, operand: Operand) -> Ref:
        for node in self._graph.nodes[len(self._labels) :]:
            self._labels.append(self.label)
            self._fixed.append(all(i.kind == Kind.NODE and self._fixed[i.index] for i in node.inputs))
        return Ref(operand.kind, operand.index, operand.output, self._graph.type_of(operand))

    def scalar_value(self, ref: Ref) -> np.float32 | None:
        """Return the value of a rank-0 f32 `full`, else None."""
        node = self.made_by(ref, "full")
        if node is None or ref.rank or ref.dtype != F32:
            return None
        return np.uint32(node.attrs["bits"]).view(np.float32)

    def is_full(self, ref: Ref, bits: int) -> bool:
        """Return whether the value is a `full` with these bits."""
        node = self.made_by(ref, "full")
        return node is not None and node.attrs["bits"] == bits

    def is_zero(self, ref: Ref) -> bool:
        return self.is_full(ref, 0)

    def source(self, constant: Ref) -> Source:
        return self._constants[constant.index][1]

    def made_by(self, ref: Ref, *names: str) -> DraftNode | None:
        """Return the node that a value comes from if it is one of these operators, else None."""
        node = self.node(ref)
        return node if node and node.name in names else None

    def node(self, ref: Ref) -> DraftNode | None:
        """Return the node that a value comes from; None for a slot, a constant or the step."""
        if ref.kind != Kind.NODE:
            return None
        node = self._graph.nodes[ref.index]
        return DraftNode(
            node.name, tuple(map(self._ref, node.inputs)), node.attrs, node.outputs, self._fixed[ref.index]
        )

    # ---------------------------------------------------------------------------------------------- results

    def update(self, slot: Ref, value: Ref) -> None:
        """Set the slot's value after the step."""
        if slot.kind != Kind.SLOT or slot.type != value.type:
            raise CaptureError(
                f"slot {self._slots[slot.index][0]} is {slot.type}; it cannot become {value.type}"
            )
        self._updates[slot.index] = value

    def updated(self, slot: Ref) -> Ref:
        """Return the slot's value after the step, as it is set so far."""
        return self._updates.get(slot.index, slot)

    def initial(self, slot: Ref) -> Source:
        """Return the source of the slot's value before the first step."""
        return self._slots[slot.index][1]

    def metric(self, name: str, value: Ref) -> None:
        self._metrics[name] = self._as_node(value)

    def mark(self, name: str, value: Ref) -> None:
        """Note where a value is, for whoever computes a part of the program. It is not kept for that."""
        self._marks[name] = value

    def _as_node(self, ref: Ref) -> Ref:
        """Return the value as a node's output: a slot or constant gets a copy node."""
        if ref.kind == Kind.NODE:
            return ref
        return self.ops("reshape", ref, shape=ref.shape)[0]

    def finish(self) -> Draft:
        """Return the program of the nodes that a slot or a metric needs, in canonical form."""
        self.label = "unchanged slot"
        after = [
            self._as_node(self._updates.get(j, Ref(Kind.SLOT, j, 0, source.type)))
            for j, (_, source) in enumerate(self._slots)
        ]
        metrics = [SlotSource(ref.index, ref.output) for ref in self._metrics.values()]
        slots = tuple(SlotSource(ref.index, ref.output) for ref in after)
        constants, initial = map(tuple, self._types)
        skeleton = Skeleton(tuple(self._graph.nodes), slots, constants, initial)
        found = canonical_skeleton(skeleton, metrics, ahead=True)
        used = [self._constants[k] for k in found.constants]
        labels = Labels(
            nodes=["" if k < 0 else self._labels[k] for k in found.nodes],
            slots=[name for name, _ in self._slots],
            constants=[name for name, _ in used],
            metrics=dict(zip(self._metrics, found.keep, strict=True)),
        )
        new = {old: k for k, old in enumerate(found.nodes)}
        marks = {
            name: Operand(Kind.NODE, new[ref.index], ref.output)
            for name, ref in self._marks.items()
            if ref.kind == Kind.NODE and ref.index in new
        }
        return Draft(found.skeleton, [s for _, s in used], [s for _, s in self._slots], labels, marks)


class Compose:
    """A builder as the `Ops` of repops.fuse.expression: a composite appends exactly its operators.

    So an executor that knows the composite's expression finds it in the program. Operators that occur twice in a
    composite, or in two composites, are still one node.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def scalar(self, value: float) -> Ref:
        return self._builder.full(value)

    def __getattr__(self, name: str) -> Callable[..., Ref]:
        lookup(name)
        return lambda *inputs, **attrs: self._builder.ops(name, *inputs, **attrs)[0]
