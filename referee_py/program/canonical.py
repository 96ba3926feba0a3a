"""A canonical form: the program that computes the same bits with no superfluous node, in an order of its own.

    simple        every rule of `simplify` that keeps all bits in every mode has been applied
    merged        no two nodes and no two constants are equal
    live          every node serves a slot, or an output that must be kept (a metric)
    ordered       by the graph alone, so that few values are alive at once

A program does not know the mode it is run in, so its form does not depend on the mode: operators that round are
neither removed nor precomputed. `ahead` permits both, with the results of repops-f32, for authors of new programs.

So two programs that differ only in the order in which their nodes and constants were written have one canonical form,
and the canonical form of a canonical program is itself. Slots keep their numbers, since the state defines a run.

The order is depth first: products and reductions first, in the order in which the shallowest slots need them, each
with what it needs; then the rest of what the slots need, the largest slots first. In a training step that is forward,
backward from the last layer to the first, and then the optimizer. (GPT-2 small, batch 8 x 64: at most 1.50 GB of
values at once, where the order of the trace needs 1.52, and depth first by slots 1.95.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ..errors import InvalidProgram
from .program import Program
from .simplify import Graph
from .skeleton import Skeleton, SlotSource
from .structure import Kind, Operand, Structure


@dataclass(frozen=True)
class Canonical:
    """The canonical skeleton, and the old numbers of its parts.

    `constants[k]` is the old number of constant k. `nodes[k]` is the old number of a node with the same value as the
    first output of node k, or -1 if there was none. `keep` are the outputs to keep, at their new places.
    """

    skeleton: Skeleton
    constants: tuple[int, ...]
    nodes: tuple[int, ...]
    keep: tuple[SlotSource, ...]


def canonical_program(program: Program, keep: Sequence[SlotSource] = ()) -> tuple[Program, Canonical]:
    """Return the canonical form of a validated program. Constants with one hash become one.

    Raises InvalidProgram if it has no slot and no output to keep.
    """
    found = canonical_skeleton(program.skeleton, keep, [constant.hash for constant in program.constants])
    skeleton = found.skeleton
    constants = tuple(program.constants[k] for k in found.constants)
    return Program(skeleton.nodes, skeleton.slots, constants, program.initial, program.opset), found


def canonical_skeleton(
    skeleton: Skeleton,
    keep: Sequence[SlotSource] = (),
    same: Sequence[Hashable] | None = None,
    *,
    ahead: bool = False,
) -> Canonical:
    """Return the canonical form of a validated skeleton. Constants with equal entries in `same` are merged."""
    if not skeleton.slots and not keep:
        raise InvalidProgram("a program without slots and without outputs to keep computes nothing")
    form = _Form(skeleton, keep, same, ahead)
    while form.simplify():
        pass
    return form.ordered()


_GATHERING = frozenset(
    (
        *("mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad", "max_pool2d"),
        *("sum", "amax", "argmax", "scatter_add"),
    )
)
"""Operators that make one element of many: after one of them, its operands are often no longer needed."""


class _Form:
    """A program while it is being transformed: `roots` are the sources of the slots, then the outputs to keep."""

    def __init__(
        self,
        skeleton: Skeleton,
        keep: Sequence[SlotSource],
        same: Sequence[Hashable] | None,
        ahead: bool,
    ) -> None:
        self._ahead = ahead
        self._skeleton = skeleton
        self._nodes = list(skeleton.nodes)
        self._origin = list(range(len(self._nodes)))
        self._roots = [Operand(Kind.NODE, s.node, s.output) for s in (*skeleton.slots, *keep)]
        first: dict[Hashable, int] = {}
        keys = range(len(skeleton.constants)) if same is None else same
        self._constant = [first.setdefault(key, k) for k, key in enumerate(keys)]

    def simplify(self) -> bool:
        """Pass once over the live nodes, in order. Return whether anything changed."""
        graph = Graph(self._skeleton.constants, self._skeleton.initial, self._ahead)
        place: dict[Operand, Operand] = {}
        origin: dict[int, int] = {}
        uses = self._uses()

        def moved(operand: Operand) -> Operand:
            if operand.kind == Kind.CONSTANT:
                return Operand(Kind.CONSTANT, self._constant[operand.index])
            return place[operand] if operand.kind == Kind.NODE else operand

        for number, node in enumerate(self._nodes):
            if not uses[number]:
                continue
            inputs = tuple(moved(operand) for operand in node.inputs)
            if len(node.outputs) == 1:
                result = self._flat_reduction(graph, node, uses, moved) or graph.op(
                    node.name, *inputs, **node.attrs
                )
                # INVARIANT: a rule gives the value that the node gave; otherwise the result would be another program.
                assert graph.type_of(result) == node.outputs[0], (node, result)
                place[Operand(Kind.NODE, number)] = result
                if result.kind == Kind.NODE and result.output == 0:
                    origin.setdefault(result.index, self._origin[number])
            else:
                kept = graph.node(Structure(node.op, inputs, node.outputs, node.attributes))
                origin.setdefault(kept, self._origin[number])
                for output in range(len(node.outputs)):
                    place[Operand(Kind.NODE, number, output)] = Operand(Kind.NODE, kept, output)
        roots = [_as_node(graph, place[root]) for root in self._roots]
        changed = (graph.nodes, roots) != (self._nodes, self._roots)
        self._nodes, self._roots = graph.nodes, roots
        self._origin = [origin.get(k, -1) for k in range(len(graph.nodes))]
        return changed

    def _flat_reduction(
        self, graph: Graph, node: Structure, uses: list[int], moved: Callable[[Operand], Operand]
    ) -> Operand | None:
        """Drop dimensions within a reduction that keeps them, if its only use is a reshape that drops them."""
        source = node.inputs[0] if node.inputs else None
        if node.name != "reshape" or source is None or source.kind != Kind.NODE or uses[source.index] != 1:
            return None
        inner = self._nodes[source.index]
        if inner.name not in ("sum", "amax", "argmax") or not inner.attrs["keepdim"]:
            return None
        bare = graph.op(inner.name, moved(inner.inputs[0]), **{**inner.attrs, "keepdim": 0})
        return bare if graph.type_of(bare) == node.outputs[0] else None

    def _uses(self) -> list[int]:
        """Return the number of uses of each node by operands of live nodes and by roots; 0 if it is dead."""
        uses = [0] * len(self._nodes)
        for root in self._roots:
            uses[root.index] += 1
        for number in range(len(self._nodes) - 1, -1, -1):
            if uses[number]:
                for operand in self._nodes[number].inputs:
                    if operand.kind == Kind.NODE:
                        uses[operand.index] += 1
        return uses

    def ordered(self) -> Canonical:
        """Return the nodes in the order of the graph, and constants in the order of their first use."""
        order = self._order()
        place = {number: k for k, number in enumerate(order)}
        constants: dict[int, int] = {}
        for number in order:
            for operand in self._nodes[number].inputs:
                if operand.kind == Kind.CONSTANT:
                    constants.setdefault(operand.index, len(constants))

        def moved(operand: Operand) -> Operand:
            match operand.kind:
                case Kind.NODE:
                    return Operand(Kind.NODE, place[operand.index], operand.output)
                case Kind.CONSTANT:
                    return Operand(Kind.CONSTANT, constants[operand.index])
            return operand

        nodes = [self._nodes[number] for number in order]
        sources = [SlotSource(place[root.index], root.output) for root in self._roots]
        count = len(self._skeleton.slots)
        return Canonical(
            Skeleton(
                tuple(Structure(n.op, tuple(map(moved, n.inputs)), n.outputs, n.attributes) for n in nodes),
                tuple(sources[:count]),
                tuple(self._skeleton.constants[k] for k in constants),
                self._skeleton.initial,
                self._skeleton.opset,
            ),
            tuple(constants),
            tuple(self._origin[number] for number in order),
            tuple(sources[count:]),
        )

    def _order(self) -> list[int]:
        """Return the live nodes in the order that the head of this file defines."""
        depth = [0] * len(self._nodes)
        for number, node in enumerate(self._nodes):
            below = [depth[operand.index] for operand in node.inputs if operand.kind == Kind.NODE]
            depth[number] = 1 + max(below, default=0)
        roots = sorted(range(len(self._roots)), key=lambda k: (depth[self._roots[k].index], k))
        plain = self._depth_first([self._roots[k].index for k in roots])
        rank = {number: k for k, number in enumerate(plain)}
        last = sorted({root.index for root in self._roots}, key=lambda n: (-self._bytes(n), rank[n]))
        return self._depth_first([n for n in plain if self._nodes[n].name in _GATHERING] + last)

    def _bytes(self, number: int) -> int:
        return sum(type_.nbytes for type_ in self._nodes[number].outputs)

    def _depth_first(self, roots: Sequence[int]) -> list[int]:
        """Return all nodes that the roots need, each after its operands from first to last.

        NOTE: the stack is explicit, since a stranger's graph may be as deep as it has nodes.
        """
        order: list[int] = []
        done: set[int] = set()
        stack = [(root, False) for root in reversed(roots)]
        while stack:
            number, ready = stack.pop()
            if number in done:
                continue
            if ready:
                done.add(number)
                order.append(number)
                continue
            stack.append((number, True))
            operands = [o.index for o in self._nodes[number].inputs if o.kind == Kind.NODE]
            stack.extend((index, False) for index in reversed(operands) if index not in done)
        return order


def _as_node(graph: Graph, operand: Operand) -> Operand:
    """Return the operand, or a copy node of it if it is not a node's output, since only nodes update slots."""
    if operand.kind == Kind.NODE:
        return operand
    type_ = graph.type_of(operand)
    return Operand(Kind.NODE, graph.node(Structure.make("reshape", (operand,), (type_,), shape=type_.shape)))
