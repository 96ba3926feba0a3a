"""Builds a program node by node: common subexpressions merged, no-ops and dead nodes left out, order deterministic.

    a = builder.constant("data.x", x)
    w = builder.slot("param.weight", initial_weight)
    builder.update(w, builder.op("sub", w, ...))
    built = builder.finish()

Everything here is decided by the order of the calls alone: no hash order, no names, no device.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from repops.opset import F32, I64, Dtype, lookup

from referee_py.commit.tensor import Array
from referee_py.program import Kind, Operand, Skeleton, SlotSource, Structure, TensorType
from referee_py.program.attributes import encode_attributes
from referee_py.program.canonical import canonical_skeleton

from .draft import Draft, Labels, Source
from .errors import CaptureError
from .simplify import simpler


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the step: where it comes from and what it is."""

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
    def count(self) -> int:
        return self.type.count

    @property
    def rank(self) -> int:
        return len(self.type.shape)


@dataclass
class Node:
    """One operator, before anybody has asked whether it is needed."""

    name: str
    inputs: tuple[Ref, ...]
    attrs: dict[str, Any]
    outputs: tuple[TensorType, ...]
    label: str
    fixed: bool  # it depends on no slot, constant or step


@dataclass
class Builder:
    """`label` names the origin of the nodes that are made from now on."""

    label: str = ""
    _nodes: list[Node] = field(default_factory=list)
    _known: dict[Any, list[Ref]] = field(default_factory=dict)
    _constants: list[tuple[str, Source]] = field(default_factory=list)
    _tables: dict[Any, Ref] = field(default_factory=dict)
    _slots: list[tuple[str, Source]] = field(default_factory=list)
    _updates: dict[int, Ref] = field(default_factory=dict)
    _metrics: dict[str, Ref] = field(default_factory=dict)

    # ---------------------------------------------------------------------------------------------- sources

    def constant(self, name: str, source: Source | Array) -> Ref:
        self._constants.append((name, source if isinstance(source, Source) else Source.of(source)))
        return Ref(Kind.CONSTANT, len(self._constants) - 1, 0, self._constants[-1][1].type)

    def table(self, name: str, table: Array) -> Ref:
        """A constant; the one that holds the same numbers already, if there is one."""
        key = (table.dtype.str, table.shape, table.tobytes())
        if key not in self._tables:
            number = f".{len(self._tables)}" if self._tables else ""
            self._tables[key] = self.constant(f"{name}{number}", table)
        return self._tables[key]

    def slot(self, name: str, initial: Source | Array) -> Ref:
        """A tensor of the state, before the step. It stays as it is unless `update` is called."""
        self._slots.append((name, initial if isinstance(initial, Source) else Source.of(initial)))
        return Ref(Kind.SLOT, len(self._slots) - 1, 0, self._slots[-1][1].type)

    def step(self) -> Ref:
        return Ref(Kind.STEP, 0, 0, TensorType(I64, ()))

    def full(self, value: float, dtype: Dtype = F32, shape: Sequence[int] = ()) -> Ref:
        """A tensor of one value, rounded once to the dtype."""
        if dtype == F32:
            with np.errstate(over="ignore"):
                bits = int(np.float32(value).view(np.uint32))
        else:
            bits = int(value) % (1 << 64)
        return self.op("full", shape=tuple(shape), dtype=dtype, bits=bits)

    # ---------------------------------------------------------------------------------------------- operators

    @functools.cached_property
    def compose(self) -> Compose:
        """For composites: `composites.gelu(b.compose, x)` appends its operators."""
        return Compose(self)

    def op(self, name: str, *inputs: Ref, **attrs: Any) -> Ref:
        """The only output of an operator."""
        return simpler(self, name, inputs, attrs) or self.ops(name, *inputs, **attrs)[0]

    def ops(self, name: str, *inputs: Ref, **attrs: Any) -> list[Ref]:
        """All outputs of an operator; the node that computes the same already, if there is one."""
        row = lookup(name)
        key = (name, inputs, encode_attributes(row, attrs))
        if key not in self._known:
            outputs = tuple(
                TensorType(d, s) for d, s in row.infer([(i.dtype, i.shape) for i in inputs], attrs)
            )
            fixed = all(i.kind == Kind.NODE and self._nodes[i.index].fixed for i in inputs)
            self._nodes.append(Node(name, inputs, dict(attrs), outputs, self.label, fixed))
            index = len(self._nodes) - 1
            self._known[key] = [Ref(Kind.NODE, index, k, type_) for k, type_ in enumerate(outputs)]
        return self._known[key]

    def scalar_value(self, ref: Ref) -> np.float32 | None:
        """The value of a rank-0 `full` of f32, if it is one."""
        node = self.made_by(ref, "full")
        if node is None or ref.rank or ref.dtype != F32:
            return None
        return np.uint32(node.attrs["bits"]).view(np.float32)

    def is_full(self, ref: Ref, bits: int) -> bool:
        """Whether it is one value everywhere, and which."""
        node = self.made_by(ref, "full")
        return node is not None and node.attrs["bits"] == bits

    def is_zero(self, ref: Ref) -> bool:
        return self.is_full(ref, 0)

    def source(self, constant: Ref) -> Source:
        return self._constants[constant.index][1]

    def made_by(self, ref: Ref, *names: str) -> Node | None:
        """The node that a value comes from, if it is one of these operators."""
        node = self.node(ref)
        return node if node and node.name in names else None

    def node(self, ref: Ref) -> Node | None:
        """The node that a value comes from; none if it is a slot, a constant or the step."""
        return self._nodes[ref.index] if ref.kind == Kind.NODE else None

    # ---------------------------------------------------------------------------------------------- results

    def update(self, slot: Ref, value: Ref) -> None:
        """The slot's value after the step."""
        if slot.kind != Kind.SLOT or slot.type != value.type:
            raise CaptureError(
                f"slot {self._slots[slot.index][0]} is {slot.type}; it cannot become {value.type}"
            )
        self._updates[slot.index] = value

    def metric(self, name: str, value: Ref) -> None:
        self._metrics[name] = self._as_node(value)

    def _as_node(self, ref: Ref) -> Ref:
        """A slot or a constant that is an output as it stands gets a copy node."""
        if ref.kind == Kind.NODE:
            return ref
        return self.ops("reshape", ref, shape=ref.shape)[0]

    def finish(self) -> Draft:
        """The program of the nodes that a slot or a metric needs, in canonical form."""
        self.label = "unchanged slot"
        after = [
            self._as_node(self._updates.get(j, Ref(Kind.SLOT, j, 0, source.type)))
            for j, (_, source) in enumerate(self._slots)
        ]
        self._drop_dimensions([*after, *self._metrics.values()])
        live = self._live([*after, *self._metrics.values()])
        place = {node: k for k, node in enumerate(live)}
        used = sorted({i.index for node in live for i in self._nodes[node].inputs if i.kind == Kind.CONSTANT})
        moved = {Kind.NODE: place, Kind.CONSTANT: {old: k for k, old in enumerate(used)}}

        def operand(ref: Ref) -> Operand:
            return Operand(
                ref.kind, moved[ref.kind][ref.index] if ref.kind in moved else ref.index, ref.output
            )

        nodes = [self._nodes[node] for node in live]
        constants = [self._constants[k] for k in used]
        skeleton = Skeleton(
            nodes=tuple(
                Structure.make(n.name, [operand(i) for i in n.inputs], n.outputs, **n.attrs) for n in nodes
            ),
            slots=tuple(SlotSource(place[ref.index], ref.output) for ref in after),
            constants=tuple(source.type for _, source in constants),
            initial=tuple(source.type for _, source in self._slots),
        )
        metrics = [SlotSource(place[ref.index], ref.output) for ref in self._metrics.values()]
        found = canonical_skeleton(skeleton, metrics)
        constants = [constants[k] for k in found.constants]
        labels = Labels(
            nodes=["" if k < 0 else nodes[k].label for k in found.nodes],
            slots=[name for name, _ in self._slots],
            constants=[name for name, _ in constants],
            metrics=dict(zip(self._metrics, found.keep, strict=True)),
        )
        return Draft(found.skeleton, [s for _, s in constants], [s for _, s in self._slots], labels)

    def _drop_dimensions(self, roots: Sequence[Ref]) -> None:
        """A sum that keeps its dimensions only for a reshape that drops them becomes one node."""
        live = self._live(roots)
        readers = Counter(i.index for k in live for i in self._nodes[k].inputs if i.kind == Kind.NODE)
        readers.update(ref.index for ref in roots)
        for k in live:
            node = self._nodes[k]
            total = self.made_by(node.inputs[0], "sum") if node.name == "reshape" else None
            if total is None or readers[node.inputs[0].index] > 1:
                continue
            kept = [d for d in range(total.inputs[0].rank) if d not in total.attrs["dims"]]
            if node.outputs[0].shape == tuple(total.inputs[0].shape[d] for d in kept):
                attrs = {"dims": total.attrs["dims"], "keepdim": 0}
                self._nodes[k] = Node("sum", total.inputs, attrs, node.outputs, total.label, False)

    def _live(self, roots: Sequence[Ref]) -> list[int]:
        needed = {ref.index for ref in roots}
        for node in range(len(self._nodes) - 1, -1, -1):
            if node in needed:
                needed.update(i.index for i in self._nodes[node].inputs if i.kind == Kind.NODE)
        return sorted(needed)


class Compose:
    """A builder as the `Ops` of repops.expression: a composite appends exactly its operators, none left out or folded.

    So an executor that knows the composite's expression finds it in the program; operators that are in it twice, or in
    two composites, are still one node.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def scalar(self, value: float) -> Ref:
        return self._builder.full(value)

    def __getattr__(self, name: str) -> Callable[..., Ref]:
        lookup(name)
        return lambda *inputs, **attrs: self._builder.ops(name, *inputs, **attrs)[0]
