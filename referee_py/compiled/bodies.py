"""The nodes that each unit computes, and the values that are stored in memory.

A value is stored if an operator outside all groups reads it, if it leaves the step, or if another group reads it and
should not recompute it. To recompute a value costs arithmetic instead of memory traffic and keeps peak memory low; the
body of a group then holds copies of nodes of another group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from repops.fuse.expression import Expression, Recorder, Symbol
from repops.fuse.phases import REDUCTIONS, NotFusibleError
from repops.opset import Shape, Spec

from .graph import Graph, GraphNode
from .groups import Groups, Unit, is_scalar
from .products import operand_views
from .unfused import Of, Operand, Operator, Unfused
from .views import View, merged_factors, refined, regroup

_COST = {
    "div": 3,
    "sqrt": 3,
    "exp": 4,
    "log": 5,
    "rsqrt": 5,
    "tanh": 6,
    "erf": 8,
    "sin": 8,
    "cos": 8,
    "log1p": 8,
}
_LIMIT = 24
"""Cost of arithmetic that equals a large value's way to memory and back."""
_MOST = 256
"""Maximum number of nodes of a body, recomputed nodes included: the kernels' executor takes no more values."""


@dataclass
class Body:
    """One launch. `reads` are views of stored values, in the order of the kernel's inputs.

    If no unit makes the base of a view, the base is a scalar to be filled in, or a view that must be copied.
    """

    unit: Unit
    writes: tuple[int, ...]
    reads: list[View]
    expression: Expression | None = None
    strides: list[Shape] = field(default_factory=list)
    unfused: Unfused | None = None

    @property
    def node(self) -> GraphNode:
        """The operator of a unit that has only one."""
        return self.unit.nodes[0]


class Apart(Exception):
    """The nodes of these units cannot be one kernel after all."""

    def __init__(self, units: list[Unit]) -> None:
        self.nodes = {node.number for unit in units for node in unit.nodes}
        super().__init__(f"units {[unit.number for unit in units]}")


class Bodies:
    """The launches of a graph, in no order. `widens`: products of f32 read operands of bf16.

    Raises Apart, with all the units that cannot be kernels.
    """

    def __init__(self, graph: Graph, groups: Groups, widens: bool) -> None:
        self.graph, self.groups = graph, groups
        products = (node for node in graph.nodes if node.op in ("mm", "bmm"))
        self._products = {node.number: operand_views(graph, node, widens) for node in products}
        self.stored = self._needed()
        self._find_shared()
        self.bodies: list[Body] = []
        refused: list[Unit] = []
        for unit in groups.units.values():
            writes = tuple(v for node in unit.nodes for v in node.outputs if v in self.stored)
            if not unit.fused:
                self.bodies.append(self._single(unit))
            elif writes:
                try:
                    self.bodies.append(_Fusion(self, unit, writes).body)
                except NotFusibleError:
                    refused.append(unit)
        if refused:
            raise Apart(refused)

    # ------------------------------------------------------------------------------------------------ storage

    def _needed(self) -> set[int]:
        """Return the values that must be in memory at any cost."""
        graph, unit_of = self.graph, self.groups.unit_of
        needed = {graph.root(value) for value in (*graph.after, *graph.watched, *graph.ends)}
        for node in graph.nodes:
            unit = unit_of.get(node.number)
            if unit is None:
                continue
            for source in self._sources(node):
                maker = graph.maker.get(source)
                if maker is None or maker.number not in unit_of:
                    continue
                other = unit_of[maker.number]
                if not unit.fused or not other.fused or other.number in unit.whole:
                    needed.add(source)
        for unit in self.groups.units.values():
            if not unit.fused:
                needed.update(unit.nodes[0].outputs)
        return {v for v in needed if (made := graph.maker.get(v)) is not None and not is_scalar(graph, made)}

    def _reads(self, node: GraphNode) -> list[View]:
        """Return the places of a node's operands."""
        found = self._products.get(node.number)
        return [self.graph.view(value) for value in node.inputs] if found is None else found

    def _sources(self, node: GraphNode) -> set[int]:
        """Return the computed values that hold a node's operands."""
        return {self.graph.root(view.base) for view in self._reads(node)}

    def _find_shared(self) -> None:
        """Decide, in program order, which values that one group makes and another reads are stored."""
        graph, unit_of = self.graph, self.groups.unit_of
        readers: dict[int, list[GraphNode]] = {}
        for node in graph.nodes:
            if node.number in unit_of:
                for source in self._sources(node):
                    readers.setdefault(source, []).append(node)
        for node in graph.nodes:
            unit = unit_of.get(node.number)
            if unit is None or not unit.fused or node.outputs[0] in self.stored:
                continue
            value = node.outputs[0]
            numbers = {unit_of[r.number].number for r in readers.get(value, ())} - {unit.number}
            others = [self.groups.units[number] for number in numbers]
            if not others or self._can_repeat(node, unit, others):
                continue
            # What is widened from bf16 takes twice the memory that it does before.
            narrow = graph.before_cast(value)
            before = None if narrow is None else graph.root(narrow.base)
            if before is not None and before not in self.stored and self._is_made_by(before, unit):
                self.stored.add(before)
                if self._can_repeat(node, unit, others):
                    continue
                self.stored.remove(before)
            self.stored.add(value)

    def _is_made_by(self, value: int, unit: Unit) -> bool:
        maker = self.graph.maker.get(value)
        return maker is not None and self.groups.unit_of.get(maker.number) is unit

    def _can_repeat(self, node: GraphNode, unit: Unit, readers: Sequence[Unit]) -> bool:
        """Return whether all readers may recompute this node; if so, items that this takes are stored. A node with a
        log is computed once."""
        return all(self._repeats(node, unit, reader) for reader in readers)

    def _repeats(self, node: GraphNode, unit: Unit, reader: Unit) -> bool:
        domain = refined(reader.domain or (), unit.domain or ())
        if node.number in unit.items or domain is None or (reader.row and domain[-1] != reader.row):
            return False
        graph, cost, seen = self.graph, 0, set()
        large: set[int] = set()
        items: set[int] = set()
        todo = [node]
        while todo:
            at = todo.pop()
            cost += _COST.get(at.op, 20 if at.op == "pow" else 1)
            if cost > _LIMIT or graph.is_logged(at):
                return False
            for value in at.inputs:
                source = graph.root(value)
                maker = graph.maker.get(source)
                if source in seen or (maker is not None and is_scalar(graph, maker)):
                    continue
                seen.add(source)
                made_here = maker is not None and self.groups.unit_of[maker.number].fused
                if made_here and maker is not None and source not in self.stored:
                    if maker.number in self.groups.unit_of[maker.number].items:
                        items.add(source)
                    else:
                        todo.append(maker)
                elif graph.elements(source) * 4 > math.prod(unit.domain or ()):
                    large.add(source)
        if len(large) > 1:
            return False
        self.stored |= items
        return True

    # ------------------------------------------------------------------------------------------------ bodies

    def _single(self, unit: Unit) -> Body:
        node = unit.nodes[0]
        return Body(unit, node.outputs, self._reads(node))


_Key = tuple[int, tuple[int, ...]]
"""Identity of an input: the value it lies in, and its offset and strides there."""


class _Fusion:
    """The expression of a group over its domain; raises NotFusibleError."""

    def __init__(self, bodies: Bodies, unit: Unit, writes: tuple[int, ...]) -> None:
        self._bodies, self._graph, self._unit = bodies, bodies.graph, unit
        self._domain = unit.domain or ()
        self._operands: list[tuple[View, tuple[tuple[int, int], ...]]] = []
        self._order: list[GraphNode] = []
        self._find_nodes(writes)
        self._refine()
        inputs = self._inputs()
        recorder = Recorder([spec for spec, _, _ in inputs.values()], f"unit {unit.number}")
        self._known = {key: recorder.input(i) for i, key in enumerate(inputs)}
        values: dict[int, Symbol] = {}
        for node in self._order:
            values[node.outputs[0]] = self._apply(recorder, node, values)
        for value in writes:
            whole = self._graph.maker[value].number not in unit.items
            if values[value].shape != (self._domain if whole else (*self._domain[:-1], 1)):
                raise NotFusibleError("a result does not reach over the domain", shape=values[value].shape)
        # SAFETY: in programs that are not canonical. A kernel would compute them once, and a committed step, whose time
        # is estimated by that of plain steps, as often as they stand there.
        if len({symbol.number for symbol in values.values()}) < len(values):
            raise NotFusibleError("two nodes are the same")
        expression = recorder.expression
        expression.names = tuple(f"value {view.base}" for _, view, _ in inputs.values())
        expression.outputs = tuple(values[value].number for value in writes)
        self.body = Body(
            unit,
            writes,
            [view for _, view, _ in inputs.values()],
            expression,
            [s for *_, s in inputs.values()],
            self._unfused(inputs, writes),
        )

    def _find_nodes(self, writes: tuple[int, ...]) -> None:
        """Find the nodes that the results need, in program order: the group's, and those that it recomputes."""
        graph, found = self._graph, {}
        todo = [graph.maker[value] for value in writes]
        while todo:
            node = todo.pop()
            if node.number in found:
                continue
            found[node.number] = node
            if len(found) > _MOST:
                raise NotFusibleError("a group computes too much again", nodes=len(found), limit=_MOST)
            todo += [maker for value in node.inputs if (maker := self._inside(value)) is not None]
        self._order = [found[number] for number in sorted(found)]

    def _inside(self, value: int) -> GraphNode | None:
        """Return the node that makes an operand, or None if this body does not compute it."""
        source = self._graph.root(value)
        maker = self._graph.maker.get(source)
        if maker is None or is_scalar(self._graph, maker):
            return None
        here = self._bodies.groups.unit_of[maker.number] is self._unit
        return maker if here or source not in self._bodies.stored else None

    def _space(self, node: GraphNode) -> tuple[Shape, bool]:
        """Return the shape whose elements the node runs over, and whether these are one per row."""
        shape = self._graph.shape(node.inputs[0] if node.op in REDUCTIONS else node.outputs[0])
        return shape, node.op not in REDUCTIONS and math.prod(shape) != math.prod(self._domain)

    def _factors(self, value: int, node: GraphNode) -> list[tuple[int, int]]:
        """Return sizes and strides, outermost first, of an operand in memory over the node's elements."""
        shape, item = self._space(node)
        view = self._graph.view(value).expand(shape)
        flat = [factor for dim in view.dims for factor in dim]
        return [*flat, (self._unit.row or 1, 0)] if item else flat

    def _outside(self) -> list[tuple[int, GraphNode]]:
        """Return the operands that are in memory, with their readers."""
        return [
            (value, node)
            for node in self._order
            for value in node.inputs
            if self._inside(value) is None and not self._is_scalar(value)
        ]

    def _is_scalar(self, value: int) -> bool:
        maker = self._graph.maker.get(self._graph.root(value))
        return maker is not None and is_scalar(self._graph, maker)

    def _refine(self) -> None:
        """Split the domain wherever the domain of a recomputed node is split, or an operand in memory."""
        shapes = [shape for shape, item in map(self._space, self._order) if not item]
        shapes += [tuple(size for size, _ in self._factors(*operand)) for operand in self._outside()]
        for shape in shapes:
            domain = refined(self._domain, shape)
            if domain is not None and (self._unit.row is None or domain[-1] == self._unit.row):
                self._domain = domain

    def _inputs(self) -> dict[_Key, tuple[Spec, View, Shape]]:
        """Return (spec, view, strides) of each distinct operand in memory. One that lies badly is read from a copy."""
        result: dict[_Key, tuple[Spec, View, Shape]] = {}
        for value, node in self._outside():
            view, strides = self._lies(value, node)
            key = self._key(view, strides)
            shape = tuple(1 if s == 0 else d for d, s in zip(self._domain, strides, strict=True))
            result[key] = ((self._graph.specs[view.base][0], shape), view, strides)
        return result

    @staticmethod
    def _key(view: View, strides: Shape) -> _Key:
        return view.base, (view.offset, *strides)

    def _lies(self, value: int, node: GraphNode) -> tuple[View, Shape]:
        view = self._graph.view(value)
        strides = self._strides(self._factors(value, node))
        if strides is None or (strides and strides[-1] not in (0, 1)):
            shape, item = self._space(node)
            view = View.whole(value, self._graph.shape(value))
            factors = [factor for dim in view.expand(shape).dims for factor in dim]
            strides = self._strides([*factors, (self._unit.row or 1, 0)] if item else factors)
        if strides is None:
            raise NotFusibleError("an operand cannot be had over the group's elements", value=value)
        return view, strides

    def _strides(self, factors: list[tuple[int, int]]) -> Shape | None:
        """Return one stride for each dimension of the domain, or None if a dimension needs more."""
        dims = regroup(factors, self._domain)
        if dims is None:
            return None
        merged = [merged_factors(dim) for dim in dims]
        return tuple(dim[0][1] for dim in merged) if all(len(dim) == 1 for dim in merged) else None

    def _unfused(self, inputs: Mapping[_Key, tuple[Spec, View, Shape]], writes: tuple[int, ...]) -> Unfused:
        """Return the same nodes as operators to be executed one by one."""
        places = {key: place for place, key in enumerate(inputs)}
        scalars: dict[int, GraphNode] = {}

        def operand(value: int, node: GraphNode) -> Operand:
            root = self._graph.root(value)
            if self._is_scalar(value):
                scalars[root] = self._graph.maker[root]
                return Operand(Of.SCALAR, root)
            if self._inside(value) is not None:
                return Operand(Of.VALUE, root)
            return Operand(Of.INPUT, places[self._key(*self._lies(value, node))])

        operators = tuple(
            Operator(
                node,
                tuple(operand(value, node) for value in node.inputs),
                self._space(node)[1],
                self._graph.item_size(node.outputs[0]),
            )
            for node in self._order
        )
        given = tuple((spec[0], strides) for spec, _, strides in inputs.values())
        outputs = {value: self._graph.specs[value] for value in writes}
        return Unfused(self._domain, given, outputs, operators, scalars)

    def _apply(self, recorder: Recorder, node: GraphNode, values: dict[int, Symbol]) -> Symbol:
        operands = []
        for value in node.inputs:
            if self._is_scalar(value):
                maker = self._graph.maker[self._graph.root(value)]
                attrs = {**maker.attrs, "shape": ()}
                operands.append(recorder.full(**attrs))
            elif (maker_inside := self._inside(value)) is not None:
                operands.append(values[maker_inside.outputs[0]])
            else:
                operands.append(self._known[self._key(*self._lies(value, node))])
        operator: Callable[..., Symbol] = getattr(recorder, node.op)
        if node.op in REDUCTIONS:
            if operands[0].shape[-1:] != self._domain[-1:]:
                raise NotFusibleError("what is reduced is the same along the row", shape=operands[0].shape)
            return operator(*operands, dims=(len(self._domain) - 1,), keepdim=1)
        return operator(*operands, **node.attrs)
