"""The differences between two programs: hyperparameters, tensors, and the first node that differs.

A hyperparameter (a learning rate, a momentum, an epsilon) is a `full` of rank 0. Programs that differ only in
hyperparameters have the same nodes with other bits, so these are listed as scalars, not as a difference of structure.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .describe import Graph, Names, line, value_of
from .program import TensorDescriptor
from .structure import Structure, TensorType

Tensor = TensorDescriptor | TensorType


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference, with its text in the first and in the second program."""

    what: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class TensorDifference(Difference):
    """One of tensors. `places` are their numbers, None in the program that lacks it."""

    places: tuple[int | None, int | None]


@dataclass(frozen=True)
class Differences:
    """All differences. `structure` is the first node that differs; nodes after it are not compared."""

    counts: tuple[Difference, ...]
    scalars: tuple[Difference, ...]
    structure: Difference | None
    slots: tuple[Difference, ...]
    constants: tuple[TensorDifference, ...]
    initial: tuple[TensorDifference, ...]

    @property
    def same_structure(self) -> bool:
        """True if the programs are equal but for hyperparameters and tensors."""
        return self.structure is None and not self.slots and not self.counts


def differences(first: Graph, second: Graph, names: Names, other: Names) -> Differences:
    """Compare two validated programs."""
    counts = [
        Difference(f"number of {what}", str(len(a)), str(len(b)))
        for what, a, b in (
            ("nodes", first.nodes, second.nodes),
            ("slots", first.slots, second.slots),
            ("constants", first.constants, second.constants),
        )
        if len(a) != len(b)
    ]
    scalars, structure = _nodes(first, second, names, other)
    slots = [
        Difference(f"slot {_called(names.slots, k)}", f"%{a.node}.{a.output}", f"%{b.node}.{b.output}")
        for k, (a, b) in enumerate(zip(first.slots, second.slots, strict=False))
        if a != b
    ]
    return Differences(
        tuple(counts),
        tuple(scalars),
        structure,
        # NOTE: if the nodes are numbered differently, so are the slots' sources; listing these would add nothing.
        tuple(slots) if structure is None else (),
        tuple(_tensors("constant", first.constants, second.constants, names.constants, other.constants)),
        tuple(_tensors("initial slot", first.initial, second.initial, names.slots, other.slots)),
    )


def _nodes(
    first: Graph, second: Graph, names: Names, other: Names
) -> tuple[list[Difference], Difference | None]:
    scalars = []
    for node, (a, b) in enumerate(zip(first.nodes, second.nodes, strict=False)):
        if a == b:
            continue
        what = _node_called(node, names.label(node), other.label(node))
        if _is_scalar(a) and _is_scalar(b) and a.outputs == b.outputs:
            dtype = a.outputs[0].dtype
            scalars.append(Difference(what, *(value_of(full.attrs["bits"], dtype) for full in (a, b))))
            continue
        return scalars, Difference(what, _text(first, node, names), _text(second, node, other))
    if len(first.nodes) != len(second.nodes):
        node = min(len(first.nodes), len(second.nodes))
        return scalars, Difference(f"node {node}", _text(first, node, names), _text(second, node, other))
    return scalars, None


def _is_scalar(node: Structure) -> bool:
    return node.name == "full" and not node.outputs[0].shape


def _text(graph: Graph, node: int, names: Names) -> str:
    if node >= len(graph.nodes):
        return "no such node"
    found = line(graph, node, names)
    return f"{found.op} {found.outputs} {found.inputs}".strip()


def _node_called(node: int, label: str, other: str) -> str:
    if label and other and label != other:
        return f"node {node} ({label}; in the second {other})"
    return f"node {node} ({label or other})" if label or other else f"node {node}"


def _tensors(
    what: str, first: Sequence[Tensor], second: Sequence[Tensor], names: Sequence[str], other: Sequence[str]
) -> list[TensorDifference]:
    """Return the tensors that differ. If one side is a skeleton, only types are compared."""
    found = []
    for i, j in _pairs(first, second, names, other):
        a, b = None if i is None else first[i], None if j is None else second[j]
        if a is not None and b is not None and TensorType in (type(a), type(b)):
            a, b = _type(a), _type(b)
        if a != b:
            called = _called(names, i) if i is not None else _called(other, j or 0)
            found.append(TensorDifference(f"{what} {called}", _described(a), _described(b), (i, j)))
    return found


def _pairs(
    first: Sequence[Tensor], second: Sequence[Tensor], names: Sequence[str], other: Sequence[str]
) -> Iterator[tuple[int | None, int | None]]:
    """Pair tensors: by name where both have names, by number where there are as many, and else by value."""
    keys: list[Sequence[Any]] = [range(len(first)), range(len(second))]
    if names and other:
        keys = [names, other]
    elif len(first) != len(second):
        types = any(isinstance(tensor, TensorType) for tensor in (*first, *second))
        keys = [[_described(_type(t) if types else t) for t in tensors] for tensors in (first, second)]
    left = defaultdict[Any, list[int]](list)
    for j, key in enumerate(keys[1]):
        left[key].append(j)
    for i, key in enumerate(keys[0]):
        yield i, left[key].pop(0) if left[key] else None
    yield from ((None, j) for j in sorted(itertools.chain.from_iterable(left.values())))


def _type(tensor: Tensor) -> TensorType:
    return tensor if isinstance(tensor, TensorType) else tensor.type


def _described(tensor: Tensor | None) -> str:
    if tensor is None:
        return "none"
    return str(tensor) if isinstance(tensor, TensorType) else f"{tensor.type} {tensor.hash.hex()}"


def _called(names: Sequence[str], k: int) -> str:
    return f"{k} ({names[k]})" if names else str(k)
