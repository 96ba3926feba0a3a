"""Groups of operators that become one kernel.

A unit is launched at once: a group of operators that one pass over rows computes, or a single operator. Nodes join in
program order. A node joins the group that makes one of its operands, if both run over the same elements and no unit
outside would have to run in the middle. Views belong to no unit.

Groups form within blocks of the program's nodes. The order of units is tracked within a block only; a unit of an
earlier block always runs before. So grouping takes time in proportion to the nodes, not to their square.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from repops.fuse.phases import REDUCTIONS
from repops.opset import Shape

from .graph import VIEWS, Graph, GraphNode
from .views import refined

MAX_NODES = 96
"""Maximum number of nodes of a group: below the limit of the kernels' executor, with room for recomputed nodes."""
BLOCK = 4096
"""Nodes of a block. Most training steps have no more, or two or three times as many."""
SIBLINGS = 64
"""Number of later readers of the same value that a group is tried with."""


@dataclass(eq=False)
class Unit:
    """`domain` is the shape that a group runs over, without dimensions of size 1; `row` its last dimension, if that is
    reduced. `items` are the nodes that give one element per row. `needs` are the units whose results this one reads; of
    those in `whole` it cannot take them element by element."""

    number: int
    nodes: list[GraphNode] = field(default_factory=list)
    domain: Shape | None = None
    row: int | None = None
    items: set[int] = field(default_factory=set)
    needs: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)

    @property
    def fused(self) -> bool:
        return self.domain is not None


class Groups:
    """The units of a graph: `units` by number, `unit_of` by node. Nodes in `apart` join no kernel."""

    def __init__(self, graph: Graph, apart: Container[int] = ()) -> None:
        self.graph = graph
        self.units: dict[int, Unit] = {}
        self.unit_of: dict[int, Unit] = {}
        self._open: dict[int, Unit] = {}  # units of the current block
        self._before: dict[int, int] = {}  # for each of them, a bit for each other that must run before it
        for first in range(0, len(graph.nodes), BLOCK):
            self._form(graph.nodes[first : first + BLOCK], apart)

    def _form(self, nodes: Sequence[GraphNode], apart: Container[int]) -> None:
        """Form the units of a block."""
        self._open, self._before, self._first = {}, {}, nodes[0].number
        for node in nodes:
            if node.op in VIEWS or is_scalar(self.graph, node):
                continue
            if node.number in apart or not (self.graph.is_fusible(node) and self._join(node)):
                self._alone(node, apart)
        self._join_siblings()
        for unit in self._open.values():
            if len(unit.nodes) == 1 and unit.nodes[0].op in REDUCTIONS:
                unit.domain = None  # the operator's own kernel is faster
        self.units |= self._open

    # ------------------------------------------------------------------------------------------------ joining

    def _alone(self, node: GraphNode, apart: Container[int]) -> None:
        unit = Unit(node.number, [node])
        if self.graph.is_fusible(node) and node.number not in apart:
            operand = self.graph.shape(node.inputs[0])
            shape = operand if node.op in REDUCTIONS else self.graph.shape(node.outputs[0])
            unit.domain = tuple(d for d in shape if d != 1)
            if node.op in REDUCTIONS:
                unit.row = math.prod(operand[node.attrs["dims"][0] :])
                unit.domain = (*(d for d in operand[: node.attrs["dims"][0]] if d != 1), unit.row)
                unit.items.add(node.number)
        self._open[unit.number] = unit
        self.unit_of[node.number] = unit
        makers = self._makers(node)
        unit.whole |= {maker.number for maker in makers if not self._reads_elements(node, maker)}
        unit.needs |= {maker.number for maker in makers}
        self._before[unit.number] = self._mask(unit.needs)  # NOTE: no unit comes after a new one

    def _join(self, node: GraphNode) -> bool:
        """Add a node to the group of an operand, merging its operands' groups where possible. False if none fits."""
        makers = self._makers(node)
        joined: Unit | None = None
        for unit in sorted(makers, key=lambda unit: -unit.number):
            if unit.number not in self._open or not self._reads_elements(node, unit):
                continue
            fits = self._fit(node, unit)
            others = {maker.number for maker in makers if maker is not unit}
            if joined is None and fits is not None and self._independent(unit, others):
                unit.whole |= {m.number for m in makers if not self._reads_elements(node, m)}
                unit.domain, unit.row, is_item = fits
                unit.nodes.append(node)
                if is_item:
                    unit.items.add(node.number)
                self.unit_of[node.number] = unit
                unit.needs |= others
                self._widen(unit, self._mask(others))
                joined = unit
            elif joined is not None and unit is not joined:
                joined = self._merge(joined, unit) or joined
        return joined is not None

    def _fit(self, node: GraphNode, unit: Unit) -> tuple[Shape, int | None, bool] | None:
        """Return (domain, row, whether it gives items) of the group with this node; None if it does not fit."""
        if unit.domain is None or len(unit.nodes) >= MAX_NODES:
            return None
        graph, elements = self.graph, math.prod(unit.domain)
        reduces = node.op in REDUCTIONS
        shape = graph.shape(node.inputs[0] if reduces else node.outputs[0])
        if math.prod(shape) == elements:
            if reduces:
                first = node.attrs["dims"][0]
                row = math.prod(shape[first:])
                shape = (*shape[:first], row)
                if unit.row not in (None, row):
                    return None
            else:
                row = unit.row or 0
            domain = refined(unit.domain, shape)
            if domain is None or (row and domain[-1:] != (row,)):
                return None
            return domain, row or None, reduces
        if unit.row is None or reduces or math.prod(shape) * unit.row != elements:
            return None
        domain = refined(unit.domain, (*shape, unit.row))
        reads_items = any(
            (maker := graph.maker.get(graph.root(i))) is not None and maker.number in unit.items
            for i in node.inputs
        )
        if domain is None or domain[-1] != unit.row or not reads_items:
            return None
        return domain, unit.row, True

    def _reads_elements(self, node: GraphNode, unit: Unit) -> bool:
        """Return whether the node takes the results of the unit element by element, or one item for each row.

        If so, an element of the node's domain needs only what the unit computes for that element, or for its row.
        """
        if unit.domain is None:
            return False
        graph = self.graph
        reduces = node.op in REDUCTIONS
        shape = graph.shape(node.inputs[0] if reduces else node.outputs[0])
        for value in node.inputs:
            seen = value if not (last := graph.made_by(value, "expand")) else last.inputs[0]
            root = graph.root(value)
            maker = graph.maker.get(root)
            if maker is None or self.unit_of.get(maker.number) is not unit:
                continue
            if graph.unshaped(seen) != root:
                return False
            if not _aligned(graph, seen, shape, unit, maker.number in unit.items):
                return False
        return True

    def _merge(self, a: Unit, b: Unit) -> Unit | None:
        """Merge two units; None if that is impossible."""
        if b.number in a.whole or a.number in b.whole:
            return None
        if a.domain is None or b.domain is None or len(a.nodes) + len(b.nodes) > MAX_NODES:
            return None
        if a.row is not None and b.row is not None and a.row != b.row:
            return None
        row = a.row if a.row is not None else b.row
        domain = refined(a.domain, b.domain)
        if domain is None or (row is not None and domain[-1] != row):
            return None
        if not self._independent(a, b.needs - {a.number}) or not self._independent(b, a.needs - {b.number}):
            return None
        a.domain, a.row = domain, row
        a.nodes = sorted((*a.nodes, *b.nodes), key=lambda node: node.number)
        a.items |= b.items
        for node in b.nodes:
            self.unit_of[node.number] = a
        del self._open[b.number]
        old, new = self._bit(b.number), self._bit(a.number)
        before = (self._before.pop(b.number) | self._before[a.number]) & ~(old | new)
        for unit in self._open.values():
            for others in (unit.needs, unit.whole):
                if b.number in others:
                    others.remove(b.number)
                    others.add(a.number)
            # INVARIANT: a unit that came after one of the two now comes after everything that the other needs, too.
            if self._before[unit.number] & (old | new):
                self._before[unit.number] = (self._before[unit.number] & ~old) | new | before
        self._before[a.number] = before
        a.needs = (a.needs | b.needs) - {a.number, b.number}
        a.whole |= b.whole
        return a

    def _join_siblings(self) -> None:
        """Merge groups that read the same large value, if they run over the same elements: it is then read once."""
        graph = self.graph
        readers: dict[int, list[Unit]] = {}
        for number in sorted(self._open):
            unit = self._open[number]
            if unit.fused:
                for root in sorted({graph.root(i) for node in unit.nodes for i in node.inputs}):
                    if graph.elements(root) == math.prod(unit.domain or ()):
                        readers.setdefault(root, []).append(unit)
        for units in readers.values():
            for k, unit in enumerate(units):
                for other in units[k + 1 : k + 1 + SIBLINGS]:
                    alive = self._open.get(unit.number) is unit and self._open.get(other.number) is other
                    if alive and unit is not other:
                        self._merge(unit, other)

    # ------------------------------------------------------------------------------------------------ order

    def _makers(self, node: GraphNode) -> set[Unit]:
        """Return the units whose results a node reads."""
        made = (self.graph.maker.get(self.graph.root(value)) for value in node.inputs)
        return {self.unit_of[m.number] for m in made if m is not None and m.number in self.unit_of}

    def _bit(self, number: int) -> int:
        return 1 << number - self._first

    def _mask(self, numbers: Iterable[int]) -> int:
        """Return the bits of these units of the block, and of the units that must run before them."""
        mask = 0
        for number in numbers:
            if number in self._open:
                mask |= self._before[number] | self._bit(number)
        return mask

    def _independent(self, unit: Unit, others: Iterable[int]) -> bool:
        """Return whether none of the others needs the unit to have run: then they can all run before it."""
        at = unit.number - self._first
        return not any(self._before.get(other, 0) >> at & 1 for other in others)

    def _widen(self, unit: Unit, mask: int) -> None:
        """Make these units run before a unit, and so before all that come after it."""
        if mask & ~self._before[unit.number] == 0:
            return
        self._before[unit.number] |= mask
        at = unit.number - self._first
        for number, before in self._before.items():
            if before >> at & 1:
                self._before[number] = before | mask


def is_scalar(graph: Graph, node: GraphNode) -> bool:
    """Return whether the node is a constant that kernels fill in."""
    return node.op == "full" and 0 not in graph.shape(node.outputs[0])


def _aligned(graph: Graph, value: int, shape: Shape, unit: Unit, item: bool) -> bool:
    """Return whether a value of a unit, broadcast to this shape, has at each place the unit's element or row's item."""
    own, elements = graph.shape(value), math.prod(unit.domain or ())
    if not item:
        return own == shape and math.prod(shape) == elements
    padded = (1,) * (len(shape) - len(own)) + own
    if math.prod(shape) * (unit.row or 0) == elements:
        return padded == shape
    at = len(shape)
    while at and math.prod(shape[at:]) < (unit.row or 0):
        at -= 1
    rows = (*shape[:at], *(1,) * (len(shape) - at))
    return math.prod(shape) == elements and math.prod(shape[at:]) == unit.row and padded == rows
