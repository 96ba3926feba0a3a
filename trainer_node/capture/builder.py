"""Builds a program node by node: common subexpressions merged, no-ops and dead nodes left out, order deterministic.

    a = builder.constant("data.x", x)
    w = builder.slot("param.weight", initial_weight)
    builder.update(w, builder.op("sub", w, ...))
    built = builder.finish()

Everything here is decided by the order of the calls alone: no hash order, no names, no device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from repops.opset import F32, I64, Dtype, lookup

from referee_py.commit.tensor import Array
from referee_py.program import Kind, Operand, Program, SlotSource, Structure, TensorDescriptor, TensorType
from referee_py.program.attributes import encode_attributes

from .errors import CaptureError


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
    def rank(self) -> int:
        return len(self.type.shape)


@dataclass(frozen=True)
class Labels:
    """Names for people, beside the program and never part of it. `metrics` says where each metric stands."""

    nodes: list[str]
    slots: list[str]
    constants: list[str]
    metrics: dict[str, SlotSource]


@dataclass(frozen=True)
class Built:
    """A program with its tensors and labels."""

    program: Program
    constants: list[Array]
    initial: list[Array]
    labels: Labels


@dataclass
class _Node:
    name: str
    inputs: tuple[Ref, ...]
    attrs: dict[str, Any]
    outputs: tuple[TensorType, ...]
    label: str


@dataclass
class Builder:
    """`label` names the origin of the nodes that are made from now on."""

    label: str = ""
    _nodes: list[_Node] = field(default_factory=list)
    _known: dict[Any, list[Ref]] = field(default_factory=dict)
    _constants: list[tuple[str, Array]] = field(default_factory=list)
    _slots: list[tuple[str, Array]] = field(default_factory=list)
    _updates: dict[int, Ref] = field(default_factory=dict)
    _metrics: dict[str, Ref] = field(default_factory=dict)

    # ---------------------------------------------------------------------------------------------- sources

    def constant(self, name: str, array: Array) -> Ref:
        self._constants.append((name, _owned(array)))
        return Ref(Kind.CONSTANT, len(self._constants) - 1, 0, TensorType.of(array))

    def slot(self, name: str, initial: Array) -> Ref:
        """A tensor of the state, before the step. It stays as it is unless `update` is called."""
        self._slots.append((name, _owned(initial)))
        return Ref(Kind.SLOT, len(self._slots) - 1, 0, TensorType.of(initial))

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

    def op(self, name: str, *inputs: Ref, **attrs: Any) -> Ref:
        """The only output of an operator."""
        return self._simpler(name, inputs, attrs) or self.ops(name, *inputs, **attrs)[0]

    def ops(self, name: str, *inputs: Ref, **attrs: Any) -> list[Ref]:
        """All outputs of an operator; the node that computes the same already, if there is one."""
        row = lookup(name)
        key = (name, inputs, encode_attributes(row, attrs))
        if key not in self._known:
            outputs = tuple(
                TensorType(d, s) for d, s in row.infer([(i.dtype, i.shape) for i in inputs], attrs)
            )
            self._known[key] = self._append(_Node(name, inputs, dict(attrs), outputs, self.label))
        return self._known[key]

    def _append(self, node: _Node) -> list[Ref]:
        self._nodes.append(node)
        index = len(self._nodes) - 1
        return [Ref(Kind.NODE, index, k, type_) for k, type_ in enumerate(node.outputs)]

    def _simpler(self, name: str, inputs: Sequence[Ref], attrs: dict[str, Any]) -> Ref | None:
        """The same value without a new node, or with a cheaper one."""
        if name in ("reshape", "expand") and tuple(attrs["shape"]) == inputs[0].shape:
            return inputs[0]
        if name == "cast" and attrs["dtype"] == inputs[0].dtype:
            return inputs[0]
        if name == "permute" and list(attrs["dims"]) == list(range(inputs[0].rank)):
            return inputs[0]
        if name in ("reshape", "permute") and (inner := self._made_by(inputs[0], name)):
            if name == "reshape":
                return self.op("reshape", inner.inputs[0], shape=attrs["shape"])
            dims = tuple(inner.attrs["dims"][d] for d in attrs["dims"])
            return self.op("permute", inner.inputs[0], dims=dims)
        if name == "reshape" and (total := self._made_by(inputs[0], "sum")):
            bare = self.op("sum", total.inputs[0], dims=total.attrs["dims"], keepdim=0)
            return bare if bare.shape == tuple(attrs["shape"]) else None
        return self._folded(name, inputs)

    def _folded(self, name: str, inputs: Sequence[Ref]) -> Ref | None:
        """Arithmetic on scalars that are known now; multiplication and division by one."""
        if name not in _FOLDS or any(ref.dtype != F32 for ref in inputs):
            return None
        values = [self.scalar_value(ref) for ref in inputs]
        if all(value is not None for value in values):
            with np.errstate(all="ignore"):
                return self.full(float(_FOLDS[name](*values)))
        if name in ("mul", "div") and values[1] == 1:
            return inputs[0]
        if name == "mul" and values[0] == 1:
            return inputs[1]
        return None

    def scalar_value(self, ref: Ref) -> np.float32 | None:
        """The value of a rank-0 `full` of f32, if it is one."""
        node = self._made_by(ref, "full")
        if node is None or ref.rank or ref.dtype != F32:
            return None
        return np.uint32(node.attrs["bits"]).view(np.float32)

    def chosen_from(self, ref: Ref) -> Array | None:
        """The constant whose rows this value is, if it is a batch of one."""
        node = self._made_by(ref, "take")
        if node is None or node.inputs[0].kind != Kind.CONSTANT:
            return None
        return self._constants[node.inputs[0].index][1]

    def _made_by(self, ref: Ref, name: str) -> _Node | None:
        if ref.kind != Kind.NODE or self._nodes[ref.index].name != name:
            return None
        return self._nodes[ref.index]

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

    def finish(self) -> Built:
        """The program of the nodes that a slot or a metric needs; constants that no node reads are left out."""
        self.label = "unchanged slot"
        after = [
            self._as_node(self._updates.get(j, Ref(Kind.SLOT, j, 0, TensorType.of(array))))
            for j, (_, array) in enumerate(self._slots)
        ]
        live = self._live([*after, *self._metrics.values()])
        place = {node: k for k, node in enumerate(live)}
        used = sorted({i.index for node in live for i in self._nodes[node].inputs if i.kind == Kind.CONSTANT})
        constant_place = {old: k for k, old in enumerate(used)}
        moved = {Kind.NODE: place, Kind.CONSTANT: constant_place}

        def operand(ref: Ref) -> Operand:
            return Operand(
                ref.kind, moved[ref.kind][ref.index] if ref.kind in moved else ref.index, ref.output
            )

        nodes = [self._nodes[node] for node in live]
        constants = [self._constants[k] for k in used]
        program = Program(
            nodes=tuple(
                Structure.make(n.name, [operand(i) for i in n.inputs], n.outputs, **n.attrs) for n in nodes
            ),
            slots=tuple(SlotSource(place[ref.index], ref.output) for ref in after),
            constants=tuple(TensorDescriptor.of(array) for _, array in constants),
            initial=tuple(TensorDescriptor.of(array) for _, array in self._slots),
        )
        labels = Labels(
            nodes=[n.label for n in nodes],
            slots=[name for name, _ in self._slots],
            constants=[name for name, _ in constants],
            metrics={name: SlotSource(place[ref.index], ref.output) for name, ref in self._metrics.items()},
        )
        return Built(program, [array for _, array in constants], [array for _, array in self._slots], labels)

    def _live(self, roots: Sequence[Ref]) -> list[int]:
        needed = {ref.index for ref in roots}
        for node in range(len(self._nodes) - 1, -1, -1):
            if node in needed:
                needed.update(i.index for i in self._nodes[node].inputs if i.kind == Kind.NODE)
        return sorted(needed)


_FOLDS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
}


def _owned(array: Array) -> Array:
    """A contiguous copy, so that a later write to the caller's array cannot change the program."""
    return np.array(array, order="C", copy=True)


def count(shape: Sequence[int]) -> int:
    return math.prod(shape)
