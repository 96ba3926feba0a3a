"""Runs of synthetic programs: honest, or with lies. A lie is a small named change (`Lie`); everything after it is
computed honestly from it, as in a forged training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from referee_py.commit import Record, Tag, Tree
from referee_py.game.judge import Operand, step_hash
from referee_py.program.structure import Kind
from referee_py.program.terms import leaf_count, leaf_end

from .synthetic import LIES, Graph, value


@dataclass(frozen=True)
class Lie:
    """One deviation: its kind, its place, and a seed for the false data."""

    kind: str
    step: int = 1
    node: int = 0
    k: int = 0
    seed: int = 0

    def junk(self) -> bytes:
        return value("junk", self)


def random_lie(rng: Random, graph: Graph) -> Lie:
    return Lie(
        rng.choices(LIES, graph.lies)[0],
        rng.randint(1, graph.steps),
        rng.randrange(len(graph.structures)),
        rng.randrange(256),
        rng.randrange(1 << 30),
    )


@dataclass
class Run:
    """A run of a graph with lies, and proofs for all its data (`OwnRun` for the solver)."""

    graph: Graph
    lies: tuple[Lie, ...] = ()
    _step_trees: dict[int, Tree] = field(default_factory=dict)
    _run_trees: dict[tuple[int, int, int], Tree] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.graph, name)

    @cached_property
    def records(self) -> list[list[Record]]:
        """Records by step (from 1) and node."""
        rows: list[list[Record]] = [[]]
        state = self.graph.initial
        for step in range(1, self.graph.steps + 1):
            rows.append(self._step(step, state))
            state = tuple(_output(rows[-1][node], output) for node, output in self.graph.slots)
        return rows

    def _step(self, step: int, state: Sequence[bytes]) -> list[Record]:
        row: list[Record] = []
        for node, operands in enumerate(self.graph.operands):
            inputs = tuple(self._input(operand, row, state, step) for operand in operands)
            record = self.graph.truth(node, inputs, self.graph.log(step, node))
            for lie in self.lies:
                if (lie.step, lie.node) == (step, node):
                    record = self._bend(record, lie)
            row.append(record)
        return row

    def _input(self, operand: Operand, row: Sequence[Record], state: Sequence[bytes], step: int) -> bytes:
        match operand.kind:
            case Kind.NODE if operand.index < len(row):
                return _output(row[operand.index], operand.output)
            case Kind.SLOT if operand.index < len(state):
                return state[operand.index]
            case Kind.CONSTANT:
                return self.graph.constants[operand.index]
            case Kind.STEP:
                return step_hash(step)
        return value("no such source", operand)

    def _bend(self, record: Record, lie: Lie) -> Record:
        structure, inputs, outputs, log = record.structure, record.inputs, record.outputs, record.log
        match lie.kind:
            case "output" if outputs:
                k = lie.k % len(outputs)
                outputs = _put(outputs, k, self.graph.bent(outputs[k], lie.seed))
            case "input" if inputs:
                inputs = _put(inputs, lie.k % len(inputs), lie.junk())
                outputs = self.graph.outputs(lie.node, inputs, log) if lie.seed % 2 else outputs
            case "structure":
                structure = lie.junk()
            case "log":
                log = lie.junk()
                outputs = self.graph.outputs(lie.node, inputs, log) if lie.seed % 2 else outputs
            case "arity" if lie.seed % 2:
                inputs = (*inputs, lie.junk())
            case "arity":
                outputs = outputs[1:]
        return Record(structure, inputs, outputs, log)

    @cached_property
    def checkpoints(self) -> list[bytes]:
        """`C_0` to `C_n`; there is no data beneath a false checkpoint."""
        roots = [self.graph.header.initial_root]
        for step in range(1, self.graph.steps + 1):
            garbage = [lie.junk() for lie in self.lies if (lie.kind, lie.step) == ("checkpoint", step)]
            roots.append(garbage[0] if garbage else self._tree_of(step).root)
        return roots

    def _tree_of(self, step: int) -> Tree:
        if step not in self._step_trees:
            leaves = [record.hash() for record in self.records[step]]
            for lie in self.lies:
                if (lie.kind, lie.step) == ("step padding", step):
                    leaves = _pad(leaves, lie)
            self._step_trees[step] = Tree(Tag.STEP_TREE, leaves)
        return self._step_trees[step]

    def step_tree(self, step: int) -> Tree | None:
        tree = self._tree_of(step)
        return tree if tree.root == self.checkpoints[step] else None

    def record(self, step: int, node: int) -> Record | None:
        return self.records[step][node] if node < len(self.records[step]) else None

    def run_tree(self, level: int, start: int, end: int) -> Tree:
        key = (level, start, end)
        if key not in self._run_trees:
            stride = self.graph.strides[level]
            ends = [leaf_end(start, end, stride, k) for k in range(leaf_count(start, end, stride))]
            leaves = [self.checkpoints[step] for step in ends]
            for lie in self.lies:
                if lie.kind == "run padding" and (level == 0) == (lie.seed % 2 == 0):
                    leaves = _pad(leaves, lie)
                if lie.kind == "bogus refine" and level:
                    leaves = [*(value(lie, leaf) for leaf in leaves[:-1]), leaves[-1]]
            self._run_trees[key] = Tree(Tag.RUN_TREE, leaves)
        return self._run_trees[key]

    @property
    def root(self) -> bytes:
        return self.claim_tree.root

    @property
    def claim_tree(self) -> Tree:
        return self.run_tree(0, 0, self.graph.steps)

    @property
    def last(self) -> bytes:
        return self.checkpoints[self.graph.steps]

    @property
    def last_path(self) -> list[bytes]:
        tree = self.claim_tree
        return tree.path(leaf_count(0, self.graph.steps, self.graph.strides[0]) - 1)

    # --- as an artifact server -----------------------------------------------------------------------------------

    def serve(self, tag: Tag, root: bytes, _leaves: int) -> Tree | None:
        trees = [*self._run_trees.values(), *(self._tree_of(s) for s in range(1, self.graph.steps + 1))]
        return next((tree for tree in trees if (tree.tag, tree.root) == (tag, root)), None)

    def serve_record(self, record_hash: bytes) -> Record | None:
        return self._by_hash.get(record_hash)

    @cached_property
    def _by_hash(self) -> dict[bytes, Record]:
        return {record.hash(): record for row in self.records for record in row}


@dataclass
class Graft(Run):
    """One interval of a victim's run, computed again from the victim's own state with lies of its own; all else is the
    victim's. Its root is that of a refutation of the victim's run."""

    victim: Run = None  # type: ignore[assignment]
    interval: int = 0

    @property
    def span(self) -> tuple[int, int]:
        """The steps `(start, end]` of the interval."""
        start = self.interval * self.graph.strides[0]
        return start, min(start + self.graph.strides[0], self.graph.steps)

    @cached_property
    def records(self) -> list[list[Record]]:
        rows, (start, end) = list(self.victim.records), self.span
        state = self.graph.initial
        if start:
            state = tuple(_output(rows[start][node], output) for node, output in self.graph.slots)
        for step in range(start + 1, end + 1):
            rows[step] = self._step(step, state)
            state = tuple(_output(rows[step][node], output) for node, output in self.graph.slots)
        return rows

    @cached_property
    def checkpoints(self) -> list[bytes]:
        roots, (start, end) = list(self.victim.checkpoints), self.span
        roots[start + 1 : end + 1] = super().checkpoints[start + 1 : end + 1]
        return roots

    def _tree_of(self, step: int) -> Tree:
        start, end = self.span
        return super()._tree_of(step) if start < step <= end else self.victim._tree_of(step)

    def run_tree(self, level: int, start: int, end: int) -> Tree:
        if level:
            return super().run_tree(level, start, end)
        leaves = list(self.victim.claim_tree.leaves)
        leaves[self.interval] = self.checkpoints[self.span[1]]
        return Tree(Tag.RUN_TREE, leaves)


def _output(record: Record, output: int) -> bytes:
    return record.outputs[output] if output < len(record.outputs) else bytes(32)


def _put(hashes: tuple[bytes, ...], k: int, other: bytes) -> tuple[bytes, ...]:
    return (*hashes[:k], other, *hashes[k + 1 :])


def _pad(leaves: list[bytes], lie: Lie) -> list[bytes]:
    """Return the leaves with junk beyond the last one, if the tree has room."""
    room = (1 << max(len(leaves) - 1, 0).bit_length()) - len(leaves)
    return [*leaves, *(value(lie, k) for k in range(lie.k % room + 1))] if room else leaves
