"""A program as numbered values, and what its operators are to a compiler.

Values are numbered: slots, constants, the step, then the outputs of the nodes in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from repops.opset import F32, I64, ITEM_SIZE, OPS, Shape, Spec

from ..program import Kind, Operand, Program, SlotSource
from .views import View, view_of

ELEMENTWISE = frozenset(op.name for op in OPS if op.id < 40)
REDUCTIONS = frozenset(("sum", "amax"))
VIEWS = frozenset(("reshape", "permute", "expand", "slice"))


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An operator with the numbers of its values."""

    number: int
    op: str
    attrs: dict[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


Says = Callable[[GraphNode, Sequence[Spec]], bool]
"""Of a node with inputs like these."""


class Graph:
    """The nodes and values of a validated program. `watched` are outputs that somebody wants to see after a step; an
    operator that `alone` says so of is no part of a kernel, and one that is `logged` is computed once."""

    def __init__(
        self,
        program: Program,
        watched: Iterable[SlotSource] = (),
        alone: Says = lambda _node, _inputs: False,
        logged: Says = lambda _node, _inputs: False,
    ) -> None:
        self._alone, self._logged = alone, logged
        self.slots = len(program.initial)
        self.constants = len(program.constants)
        self.step = self.slots + self.constants
        described = [*program.initial, *program.constants]
        self.specs: list[Spec] = [(t.type.dtype, t.type.shape) for t in described] + [(I64, ())]
        self.nodes: list[GraphNode] = []
        self.maker: dict[int, GraphNode] = {}
        self._first: list[int] = []
        # NOTE: chains of views are as long as a stranger likes, so each is followed one link further, never walked.
        self._roots, self._shaped = list(range(len(self.specs))), list(range(len(self.specs)))
        self._views: dict[int, View] = {}
        for number, structure in enumerate(program.nodes):
            self._first.append(len(self.specs))
            outputs = tuple(range(len(self.specs), len(self.specs) + len(structure.outputs)))
            self.specs += [(t.dtype, t.shape) for t in structure.outputs]
            inputs = tuple(self._value(operand) for operand in structure.inputs)
            node = GraphNode(number, structure.name, structure.attrs, inputs, outputs)
            self.nodes.append(node)
            self.maker |= dict.fromkeys(outputs, node)
            is_view = node.op in VIEWS
            self._roots += [self._roots[inputs[0]]] if is_view else outputs
            self._shaped += [self._shaped[inputs[0]]] if node.op == "reshape" else outputs
            if is_view:
                self._views[outputs[0]] = self._view(node)
        self.after = [self.output(source) for source in program.slots]
        """The value of each slot after the step."""
        self.watched = [self.output(source) for source in watched]

    def _value(self, operand: Operand) -> int:
        match operand.kind:
            case Kind.NODE:
                return self._first[operand.index] + operand.output
            case Kind.SLOT:
                return operand.index
            case Kind.CONSTANT:
                return self.slots + operand.index
        return self.step

    def _view(self, node: GraphNode) -> View:
        source, shape = node.inputs[0], self.shape(node.outputs[0])
        for inner in (self.view(source), View.whole(source, self.shape(source))):
            if (found := view_of(inner, node.op, node.attrs, shape)) is not None:
                return found
        return View.whole(node.outputs[0], shape)  # of nothing at all

    def view(self, value: int) -> View:
        """Where a value lies in a computed one, or in a view that has to be copied first."""
        return self._views.get(value) or View.whole(value, self.shape(value))

    def root(self, value: int) -> int:
        """Through views, to what is computed."""
        return self._roots[value]

    def unshaped(self, value: int) -> int:
        """Through reshapes only."""
        return self._shaped[value]

    def output(self, source: SlotSource) -> int:
        """The value that a node gives."""
        return self._first[source.node] + source.output

    def shape(self, value: int) -> Shape:
        return self.specs[value][1]

    def elements(self, value: int) -> int:
        return math.prod(self.specs[value][1])

    def item_size(self, value: int) -> int:
        return ITEM_SIZE[self.specs[value][0]]

    def nbytes(self, value: int) -> int:
        return self.elements(value) * self.item_size(value)

    def made_by(self, value: int, *ops: str) -> GraphNode | None:
        """The node that makes it, if it is one of these operators."""
        node = self.maker.get(value)
        return node if node is not None and node.op in ops else None

    def is_logged(self, node: GraphNode) -> bool:
        return self._logged(node, [self.specs[value] for value in node.inputs])

    def is_fusible(self, node: GraphNode) -> bool:
        """Elementwise, or a reduction of f32 over the last dimensions, of something that has elements."""
        if 0 in self.shape(node.outputs[0]) or self._alone(node, [self.specs[v] for v in node.inputs]):
            return False
        if node.op in ELEMENTWISE:
            return True
        if node.op not in REDUCTIONS or self.specs[node.inputs[0]][0] != F32:
            return False
        shape, dims = self.shape(node.inputs[0]), node.attrs["dims"]
        trailing = tuple(range(len(shape) - len(dims), len(shape)))
        return bool(dims) and dims == trailing and math.prod(shape[dims[0] :]) > 1
