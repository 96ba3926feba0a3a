"""A program of a few operators, its honest run, and every lie about it that fits in small trees.

A liar can claim trees whose leaves are honest or false. A false leaf is either a hash of nothing (`junk`), or has data
beneath it that the liar can show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from repops.opset import lookup

from referee_py.commit import Record, Tag, Tree, depth_of, empty
from referee_py.program.structure import Kind
from referee_py.program.terms import leaf_count, leaf_end

from .synthetic import Graph, value
from .synthetic_run import Run

OPERANDS = (
    ((Kind.SLOT, 0), (Kind.CONSTANT, 0)),
    ((Kind.NODE, 0), (Kind.STEP, 0)),
    ((Kind.NODE, 1), (Kind.NODE, 0)),
    ((Kind.NODE, 2), (Kind.SLOT, 0)),
)
"""The two operands of each operator: every kind of source, and nodes one and two places before."""


def small_graph(nodes: int, steps: int, strides: tuple[int, ...]) -> Graph:
    """Return a program of the first `nodes` operators; the last one updates the only slot."""
    head = lookup("add").id.to_bytes(2, "big") + bytes([2, 1])
    shape = bytes([1, 1]) + (4).to_bytes(8, "big")
    structures = [
        head + b"".join(bytes([kind]) + index.to_bytes(4, "big") + b"\0" for kind, index in operands) + shape
        for operands in OPERANDS[:nodes]
    ]
    slots = ((nodes - 1, 0),)
    return Graph(0, tuple(structures), slots, (value("constant"),), (value("initial"),), steps, strides)


def junk(*where: object) -> bytes:
    """Return a hash of which nobody has a preimage."""
    return value("junk", *where)


@dataclass
class Lies:
    """All trees and records that the liar or anybody else can show, by hash."""

    graph: Graph
    trees: dict[tuple[Tag, bytes], Tree] = field(default_factory=dict)
    records: dict[bytes, Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for step in range(1, self.graph.steps + 1):
            self._keep(self.honest.step_tree(step))
            self.records.update({record.hash(): record for record in self.honest.records[step]})

    @cached_property
    def honest(self) -> Run:
        return Run(self.graph)

    def serve(self, tag: Tag, root: bytes, _leaves: int) -> Tree | None:
        return self.trees.get((tag, root))

    def serve_record(self, record_hash: bytes) -> Record | None:
        return self.records.get(record_hash)

    # --- every lie ----------------------------------------------------------------------------------------------------

    def claims(self) -> list[Tree]:
        """Return all coarsest run trees that differ from the honest one."""
        return list(self._run_trees(0, 0, self.graph.steps))

    def refinements(self, level: int, start: int, end: int, last: bytes) -> list[Tree]:
        """Return finer trees with the last leaf `last`, the liar's checkpoint at the end of the interval.

        NOTE: if there is data beneath `last`, it is the first false leaf; otherwise no match would reach that data.
        """
        count = leaf_count(start, end, self.graph.strides[level])
        honest = self.honest.run_tree(level, start, end).leaves
        found = [tree for tree in self._run_trees(level, start, end, last) if tree.leaves[count - 1] == last]
        return [
            tree for tree in found if last == junk(end) or tree.leaves[: count - 1] == honest[: count - 1]
        ]

    def _run_trees(self, level: int, start: int, end: int, last: bytes | None = None) -> Iterator[Tree]:
        """Yield false run trees of `(start, end]`. If `last` is given, a false last leaf is `last`."""
        honest = self.honest.run_tree(level, start, end)
        self._keep(honest)
        stride, count = self.graph.strides[level], len(honest.leaves)
        ends = [leaf_end(start, end, stride, leaf) for leaf in range(count)]
        for wrong in _subsets(1 << depth_of(count)):
            leaves = {place: junk(ends[place] if place < count else ("pad", level, place)) for place in wrong}
            if last is not None and count - 1 in leaves:
                leaves[count - 1] = last
            yield self._keep(_tree(honest, count, leaves))
            first = wrong[0]
            if first < count and len(wrong) == (1 << depth_of(count)) - first:
                for step_tree in self.step_lies(ends[first]):
                    yield self._keep(_tree(honest, count, {**leaves, first: step_tree.root}))

    def step_lies(self, step: int) -> list[Tree]:
        """Return all trees of the records of a step that differ from the honest one."""
        if step not in self._steps:
            self._steps[step] = list(self._step_trees(step))
        return self._steps[step]

    def _step_trees(self, step: int) -> Iterator[Tree]:
        honest = self.honest.step_tree(step)
        assert honest is not None
        count = len(honest.leaves)
        for wrong in _subsets(1 << depth_of(count)):
            leaves = {place: junk("record", step, place) for place in wrong}
            yield self._keep(_tree(honest, count, leaves))
            first = wrong[0]
            if first < count and len(wrong) == (1 << depth_of(count)) - first:
                for record in self._false_records(self.honest.records[step][first], first):
                    yield self._keep(_tree(honest, count, {**leaves, first: record.hash()}))

    def _false_records(self, right: Record, node: int) -> Iterator[Record]:
        """Yield records with each part wrong, alone and with outputs that follow from it."""
        structure, inputs, outputs, log = right.structure, right.inputs, right.outputs, right.log
        wrong = junk("in a record")
        yield from self._shown(
            Record(wrong, inputs, outputs, log),
            Record(structure, (*inputs, wrong), outputs, log),
            Record(structure, inputs[:-1], outputs, log),
            Record(structure, inputs, (), log),
            Record(structure, inputs, outputs, wrong),
            Record(structure, inputs, (wrong,), log),
        )
        for bent in ((wrong, inputs[1]), (inputs[0], wrong), (wrong, wrong), inputs[::-1]):
            follows = self.graph.outputs(node, bent, log)
            yield from self._shown(
                Record(structure, bent, outputs, log), Record(structure, bent, follows, log)
            )

    def _shown(self, *records: Record) -> tuple[Record, ...]:
        self.records.update({record.hash(): record for record in records})
        return records

    def _keep(self, tree: Tree | None) -> Tree:
        assert tree is not None
        return self.trees.setdefault((tree.tag, tree.root), tree)

    @cached_property
    def _steps(self) -> dict[int, list[Tree]]:
        return {}


def _subsets(places: int) -> list[tuple[int, ...]]:
    """Return all subsets but the empty one, each ascending."""
    return [chosen for size in range(1, places + 1) for chosen in combinations(range(places), size)]


def _tree(honest: Tree, count: int, wrong: dict[int, bytes]) -> Tree:
    """Return the honest tree with the leaves `wrong` in place of its own, or of absent ones beyond the last."""
    absent = empty(honest.tag, 0)
    places = [*honest.leaves, *(absent for _ in range((1 << depth_of(count)) - count))]
    return Tree(honest.tag, [wrong.get(place, leaf) for place, leaf in enumerate(places)])
