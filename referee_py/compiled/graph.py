"""A program as numbered values, and the properties of its operators that a compiler needs.

Values are numbered: slots, constants, the step, then the outputs of the nodes in order.

NOTE: a step in bf16 begins with casts of its f32 weights and ends with an update of these. Whoever updates a weight has
it at hand, so the cast is made there, for the next step, and the weight is not read again. For the compiler such a cast
is one more slot, after the program's own; its first value is computed when a state is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from repops.fuse.phases import ELEMENTWISE, REDUCTIONS
from repops.opset import BF16, F32, I64, ITEM_SIZE, Shape, Spec

from ..program import Kind, Operand, Program, SlotSource
from ..program.structure import Structure
from .views import View, view_of

VIEWS = frozenset(("reshape", "permute", "expand", "slice"))
KEPT_CASTS = 1 << 10
"""Maximum number of casts that are kept. Models cast some hundred weights; each costs the compiler time."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An operator with the numbers of its values; `place` is its node in the program, if it has one."""

    number: int
    op: str
    attrs: dict[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    place: int = -1


Says = Callable[[GraphNode, Sequence[Spec]], bool]
"""Predicate of a node and the specs of its inputs."""


class Graph:
    """The nodes and values of a validated program. `watched` are outputs to be read after a step; nodes for which
    `alone` is true join no kernel, and nodes for which `logged` is true are computed once. If `keep_casts`, casts of
    slots become slots; `casts` compute them from the program's `own_slots`."""

    def __init__(
        self,
        program: Program,
        watched: Iterable[SlotSource] = (),
        alone: Says = lambda _node, _inputs: False,
        logged: Says = lambda _node, _inputs: False,
        keep_casts: bool = True,
    ) -> None:
        self._alone, self._logged = alone, logged
        kept = _casts_of_slots(program) if keep_casts else {}
        self.own_slots = len(program.initial)
        self.slots = self.own_slots + len(kept)
        self.constants = len(program.constants)
        self.step = self.slots + self.constants
        types = [
            *(tensor.type for tensor in program.initial),
            *(program.nodes[number].outputs[0] for number in kept),
            *(tensor.type for tensor in program.constants),
        ]
        self.specs: list[Spec] = [(t.dtype, t.shape) for t in types] + [(I64, ())]
        self.nodes: list[GraphNode] = []
        self.maker: dict[int, GraphNode] = {}
        self._first: list[int] = []
        # NOTE: strangers may write long chains of views, so each view extends its source's; no chain is walked.
        self._roots, self._shaped = list(range(len(self.specs))), list(range(len(self.specs)))
        self._views: dict[int, View] = {}
        self._narrow: dict[int, View] = {}
        self.casts: list[GraphNode] = []
        renewed: dict[int, int] = {}
        updates: dict[int, list[tuple[Structure, int]]] = {}
        for slot, number in enumerate(kept, self.own_slots):
            cast = program.nodes[number]
            self.casts.append(GraphNode(-1, cast.name, cast.attrs, (cast.inputs[0].index,), (slot,)))
            updates.setdefault(program.slots[cast.inputs[0].index].node, []).append((cast, slot))
        for number, structure in enumerate(program.nodes):
            if number in kept:
                self._first.append(self.own_slots + kept[number])
                continue
            self._first.append(len(self.specs))
            self._add(structure, [self._value(operand) for operand in structure.inputs], number)
            for cast, slot in updates.get(number, ()):
                renewed[slot] = self._renew(cast, slot, self.output(program.slots[cast.inputs[0].index]))
        self.after = [*map(self.output, program.slots), *(renewed[slot] for slot in sorted(renewed))]
        """The value of each slot after the step."""
        assert len(self.after) == self.slots
        self.watched = [self.output(source) for source in watched]
        self.ends = self._ends(program)
        """The outputs of nodes that nothing reads. SAFETY: they are computed, too. A committed step computes them, so
        what a client's data make slow in them must be slow in the plain steps that are measured."""

    def _ends(self, program: Program) -> list[int]:
        read = {o.index for node in program.nodes for o in node.inputs if o.kind is Kind.NODE}
        read |= {slot.node for slot in program.slots}
        return [
            self._first[number] + output
            for number, node in enumerate(program.nodes)
            if number not in read
            for output in range(len(node.outputs))
        ]

    def _add(self, structure: Structure, inputs: Sequence[int], place: int = -1) -> None:
        """Add a node and its values."""
        outputs = tuple(range(len(self.specs), len(self.specs) + len(structure.outputs)))
        self.specs += [(t.dtype, t.shape) for t in structure.outputs]
        node = GraphNode(len(self.nodes), structure.name, structure.attrs, tuple(inputs), outputs, place)
        self.nodes.append(node)
        self.maker |= dict.fromkeys(outputs, node)
        is_view = node.op in VIEWS
        self._roots += [self._roots[inputs[0]]] if is_view else outputs
        self._shaped += [self._shaped[inputs[0]]] if node.op == "reshape" else outputs
        if is_view:
            self._views[outputs[0]] = self._view(node)
        if (narrow := self._narrowed(node)) is not None:
            self._narrow[outputs[0]] = narrow

    def _renew(self, cast: Structure, slot: int, new: int) -> int:
        """Return the cast of a slot's new value; if that is still the old value, so is its cast."""
        old = cast.inputs[0].index
        if self.view(new) == View.whole(old, self.shape(old)):
            return slot
        self._add(cast, [new])
        return self.nodes[-1].outputs[0]

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
        return View.whole(node.outputs[0], shape)  # without elements

    def view(self, value: int) -> View:
        """Return the place of a value in a computed one, or in a view that must be copied first."""
        return self._views.get(value) or View.whole(value, self.shape(value))

    def _narrowed(self, node: GraphNode) -> View | None:
        """Return the result's place in memory of bf16, if the node widens that or is a view of what does."""
        (result,) = node.outputs[:1]
        if node.op == "cast" and self.specs[node.inputs[0]][0] == BF16 and self.specs[result][0] == F32:
            return self.view(node.inputs[0])
        narrow = self._narrow.get(node.inputs[0]) if node.op in VIEWS else None
        return None if narrow is None else view_of(narrow, node.op, node.attrs, self.shape(result))

    def before_cast(self, value: int) -> View | None:
        """Return the place of a value's elements before a cast from bf16 widens them; None if no cast does."""
        return self._narrow.get(value)

    def root(self, value: int) -> int:
        """Follow views to the value that is computed."""
        return self._roots[value]

    def unshaped(self, value: int) -> int:
        """Follow reshapes only."""
        return self._shaped[value]

    def output(self, source: SlotSource) -> int:
        """Return the value of a node's output."""
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
        """Return the node that makes the value, or None if it is not one of these operators."""
        node = self.maker.get(value)
        return node if node is not None and node.op in ops else None

    def is_logged(self, node: GraphNode) -> bool:
        return self._logged(node, [self.specs[value] for value in node.inputs])

    def is_fusible(self, node: GraphNode) -> bool:
        """True for elementwise nodes and for reductions of f32 over the last dimensions, if they are not empty."""
        if 0 in self.shape(node.outputs[0]) or self._alone(node, [self.specs[v] for v in node.inputs]):
            return False
        if node.op in ELEMENTWISE:
            return True
        if node.op not in REDUCTIONS or self.specs[node.inputs[0]][0] != F32:
            return False
        shape, dims = self.shape(node.inputs[0]), node.attrs["dims"]
        trailing = tuple(range(len(shape) - len(dims), len(shape)))
        return bool(dims) and dims == trailing and math.prod(shape[dims[0] :]) > 1


def _casts_of_slots(program: Program) -> dict[int, int]:
    """Return the first nodes that cast a slot of f32 to bf16, numbered.

    INVARIANT: none of them makes a slot's new value whose cast is kept, since that is f32.
    """
    found: dict[int, int] = {}
    for number, node in enumerate(program.nodes):
        if node.name != "cast" or node.inputs[0].kind is not Kind.SLOT or node.outputs[0].dtype != BF16:
            continue
        if program.initial[node.inputs[0].index].type.dtype == F32 and len(found) < KEPT_CASTS:
            found[number] = len(found)
    return found
