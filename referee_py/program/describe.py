"""A program for people: nodes as lines, with values instead of bits and names instead of numbers.

12  mm       f32[64, 10]  %11, param.weight               head: aten.mm
13  full     f32[]        0.1                             optimizer
14  sum      f32[10]      %12 dims=[0] keepdim=0          head: aten.sum
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from repops.opset import Dtype

from .program import Program
from .simplify import scalar
from .skeleton import Skeleton
from .structure import Kind, Operand, Structure

Graph = Program | Skeleton

_SHOWN_BY_TYPE = {"shape", "dtype"}
_SIGILS = {Kind.NODE: "%", Kind.SLOT: "slot:", Kind.CONSTANT: "constant:"}


@dataclass(frozen=True)
class Names:
    """Names for people, each list as long as the list it names, or empty. They are hostile text."""

    nodes: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    metrics: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, labels: Mapping[str, Any], graph: Graph) -> Names:
        """Read names from the labels kept with a program. Lists that do not fit the program are left out."""

        def fitting(key: str, count: int) -> tuple[str, ...]:
            given = labels.get(key)
            return tuple(map(str, given)) if isinstance(given, list) and len(given) == count else ()

        given = labels.get("metrics")
        pairs = given.items() if isinstance(given, dict) else ()
        return cls(
            fitting("nodes", len(graph.nodes)),
            fitting("slots", len(graph.slots)),
            fitting("constants", len(graph.constants)),
            {str(name): (place[0], place[1]) for name, place in pairs if _is_place(place, graph)},
        )

    def operand(self, operand: Operand) -> str:
        if operand.kind == Kind.STEP:
            return "step"
        names = {Kind.SLOT: self.slots, Kind.CONSTANT: self.constants}.get(operand.kind, ())
        if names:
            return names[operand.index]
        output = f".{operand.output}" if operand.output else ""
        return f"{_SIGILS[operand.kind]}{operand.index}{output}"

    def label(self, node: int) -> str:
        return self.nodes[node] if self.nodes else ""


@dataclass(frozen=True, slots=True)
class Line:
    """One node, in columns."""

    node: int
    op: str
    outputs: str
    inputs: str
    label: str


def line(graph: Graph, node: int, names: Names) -> Line:
    structure = graph.nodes[node]
    inputs = ", ".join(names.operand(operand) for operand in structure.inputs)
    return Line(
        node,
        structure.name,
        ", ".join(map(str, structure.outputs)),
        " ".join(part for part in (inputs, attributes(structure)) if part),
        names.label(node),
    )


def lines(graph: Graph, names: Names, *, op: str | None = None, label: str | None = None) -> Iterator[Line]:
    """Yield the nodes in order; if given, only those of operator `op`, or with `label` in their label."""
    for node, structure in enumerate(graph.nodes):
        if op is not None and structure.name != op:
            continue
        if label is not None and label.lower() not in names.label(node).lower():
            continue
        yield line(graph, node, names)


def attributes(structure: Structure) -> str:
    """Return the attributes that the output types do not show; of a `full`, its value."""
    if structure.name == "full":
        return value_of(structure.attrs["bits"], structure.outputs[0].dtype)
    shown = {name: value for name, value in structure.attrs.items() if name not in _SHOWN_BY_TYPE}
    return " ".join(f"{name}={_plain(value)}" for name, value in shown.items())


def value_of(bits: int, dtype: Dtype) -> str:
    """Return the element with these bits: the shortest decimal that rounds to it."""
    if dtype.is_float:
        return str(scalar(bits, dtype)[()])
    if dtype == Dtype.BOOL:
        return str(bool(bits)).lower()
    return str(bits - (1 << 64) if bits >> 63 else bits)


def _plain(value: object) -> str:
    return f"[{','.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


def _is_place(place: object, graph: Graph) -> bool:
    if not isinstance(place, list) or len(place) != 2 or any(type(k) is not int for k in place):
        return False
    node, output = place
    return bool(0 <= node < len(graph.nodes) and 0 <= output < len(graph.nodes[node].outputs))
