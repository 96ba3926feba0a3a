"""Synthetic programs and runs: random graphs whose "operators" are hashes, so a run of many steps costs nothing.

A run is honest or carries lies. A lie is a small named change (`Lie`), and everything after it follows honestly
from it, as it would in a forged training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from referee_py.commit import NO_LOG, Record, Tag, Tree, digest
from referee_py.game.judge import Operand, step_hash
from referee_py.game.judge import operand as operand_of
from referee_py.game.state import MatchTerms, ProgramHeader, leaf_count, leaf_end
from referee_py.program import MODE_REPOPS_F32
from referee_py.program.structure import Kind
from referee_py.rounding.mode import Bounds, Form, Rounding, is_rounded

PLAYERS = ("0x" + "A0" * 20, "0x" + "B1" * 20)
REFEREE = "0x" + "CC" * 20


def value(*parts: object) -> bytes:
    """A pseudo-random hash of anything."""
    return hashlib.sha256(repr(parts).encode()).digest()


@dataclass(frozen=True)
class Graph:
    """A random program, with every proof that the game needs. `ProgramView` for the solver."""

    seed: int
    structures: tuple[bytes, ...]
    slots: tuple[tuple[int, int], ...]
    constants: tuple[bytes, ...]
    initial: tuple[bytes, ...]
    steps: int
    strides: tuple[int, ...]
    mode: int = MODE_REPOPS_F32

    @cached_property
    def trees(self) -> dict[Tag, Tree]:
        rows = [digest(Tag.SLOT, n.to_bytes(4, "big"), bytes([o])) for n, o in self.slots]
        return {
            Tag.STRUCTURE_TREE: Tree(Tag.STRUCTURE_TREE, [digest(Tag.STRUCTURE, s) for s in self.structures]),
            Tag.SLOT_TREE: Tree(Tag.SLOT_TREE, rows),
            Tag.CONSTANT_TREE: Tree(Tag.CONSTANT_TREE, self.constants),
            Tag.INITIAL_TREE: Tree(Tag.INITIAL_TREE, self.initial),
        }

    @cached_property
    def header(self) -> ProgramHeader:
        counts = len(self.structures), len(self.slots), len(self.constants), self.steps
        return ProgramHeader(
            1, self.mode, *counts, *(tree.root for tree in self.trees.values()), self.strides
        )

    @cached_property
    def operands(self) -> list[list[Operand]]:
        return [[operand_of(s, k) for k in range(s[2])] if sound(s) else [] for s in self.structures]

    @cached_property
    def structure_hashes(self) -> list[bytes]:
        return list(self.trees[Tag.STRUCTURE_TREE].leaves)

    def outputs(self, node: int, inputs: Sequence[bytes], log: bytes) -> tuple[bytes, ...]:
        """What the node's operator gives for these inputs and that log."""
        count = self.structures[node][3] if sound(self.structures[node]) else 1
        return tuple(value("output", self.structures[node], tuple(inputs), log, j) for j in range(count))

    def truth(self, node: int, inputs: tuple[bytes, ...], log: bytes) -> Record:
        """The right record of a node for these inputs and that log: what a verifier attests."""
        return Record(self.structure_hashes[node], inputs, self.outputs(node, inputs, log), log)

    @cached_property
    def log_trees(self) -> list[Tree]:
        """The logs that the job's trainer has committed to, by step (from 0 on: step 1). Every second node has none."""
        nodes = range(len(self.structures))
        return [
            Tree(Tag.LOG_TREE, [value("log", self.seed, s, n) if (s + n) % 2 else NO_LOG for n in nodes])
            for s in range(1, self.steps + 1)
        ]

    def log(self, step: int, node: int) -> bytes:
        return self.log_trees[step - 1].leaves[node] if is_rounded(self.mode) else NO_LOG

    def log_tree(self, step: int) -> Tree | None:
        return self.log_trees[step - 1] if is_rounded(self.mode) else None

    def run_log_tree(self) -> Tree | None:
        roots = [tree.root for tree in self.log_trees]
        return Tree(Tag.LOG_RUN_TREE, roots) if is_rounded(self.mode) else None

    @cached_property
    def logs(self) -> bytes:
        tree = self.run_log_tree()
        return tree.root if tree else NO_LOG

    def structure(self, node: int) -> bytes:
        return self.structures[node]

    def structure_path(self, node: int) -> Sequence[bytes]:
        return self.trees[Tag.STRUCTURE_TREE].path(node)

    def slot_source(self, slot: int) -> tuple[int, int]:
        return self.slots[slot]

    def slot_path(self, slot: int) -> Sequence[bytes]:
        return self.trees[Tag.SLOT_TREE].path(slot)

    def constant_hash(self, constant: int) -> bytes:
        return self.constants[constant]

    def constant_path(self, constant: int) -> Sequence[bytes]:
        return self.trees[Tag.CONSTANT_TREE].path(constant)

    def initial_hash(self, slot: int) -> bytes:
        return self.initial[slot]

    def initial_path(self, slot: int) -> Sequence[bytes]:
        return self.trees[Tag.INITIAL_TREE].path(slot)


def sound(structure: bytes) -> bool:
    """Whether the encoding holds the operands that it announces."""
    return 4 <= len(structure) <= 8192 and len(structure) >= 4 + 6 * structure[2]


def random_strides(rng: Random, steps: int) -> tuple[int, ...]:
    strides = [1]
    while len(strides) < 4 and rng.random() < 0.6:
        strides.insert(0, strides[0] * rng.randint(2, 4))
    return tuple(strides) if rng.random() < 0.9 or steps > 200 else (1,)


def random_graph(
    rng: Random,
    *,
    nodes: int | None = None,
    steps: int | None = None,
    strides: Sequence[int] | None = None,
    sane: bool = True,
    rounded: bool = False,
) -> Graph:
    """A random program of few nodes and steps. One that is not sane has structures that no program may have."""
    nodes = nodes or rng.choice((1, 2, 3, 5, 8, 13, 17, 20))
    steps = steps or rng.choice((1, 2, 3, 5, 9, 16, 27))
    slots, constants = rng.randint(0, 4), rng.randint(0, 4)
    counts = [rng.choice((1, 1, 1, 2, 3)) for _ in range(nodes)]
    structures = []
    for node in range(nodes):
        operands = b"".join(
            _random_operand(rng, counts[:node], slots, constants) for _ in range(rng.randint(0, 4))
        )
        shape = bytes([1, 1]) + (4).to_bytes(8, "big")
        head = rng.randrange(1 << 16).to_bytes(2, "big") + bytes([len(operands) // 6, counts[node]])
        encoded = head + operands + shape * counts[node] + rng.randbytes(rng.randint(0, 9))
        structures.append(encoded if sane or rng.random() < 0.5 else _insane(rng, node, encoded))
    table = [(node, rng.randrange(counts[node])) for node in (rng.randrange(nodes) for _ in range(slots))]
    return Graph(
        seed=rng.randrange(1 << 30),
        structures=tuple(structures),
        slots=tuple(table),
        constants=tuple(rng.randbytes(32) for _ in range(constants)),
        initial=tuple(rng.randbytes(32) for _ in range(slots)),
        steps=steps,
        strides=tuple(strides or random_strides(rng, steps)),
        mode=_random_rounding(rng).mode if rounded else MODE_REPOPS_F32,
    )


def _random_rounding(rng: Random) -> Rounding:
    return Rounding(rng.randint(26, 32), rng.choice(list(Bounds)), rng.choice(list(Form)))


def _insane(rng: Random, node: int, structure: bytes) -> bytes:
    """A structure that a sound client never commits to, but a malicious one may."""
    forward = bytes([Kind.NODE]) + rng.choice((node, node, node + 1)).to_bytes(4, "big") + b"\0"
    unknown = bytes([rng.randint(4, 255)]) + rng.randbytes(5)
    grown = bytes([structure[2] + 1, structure[3]])
    return rng.choice(
        (
            structure[: rng.randint(0, 5)],
            structure[:2] + grown + forward + structure[4:],
            b"\0\1\1\1" + forward + structure[4:],
            structure[:2] + grown + unknown + structure[4:],
            structure + bytes(8190),
        )
    )


def _random_operand(rng: Random, earlier: Sequence[int], slots: int, constants: int) -> bytes:
    kinds = [Kind.STEP]
    kinds += [Kind.NODE] * 4 if earlier else []
    kinds += [Kind.SLOT] * 3 if slots else []
    kinds += [Kind.CONSTANT] if constants else []
    kind = rng.choice(kinds)
    index = {Kind.STEP: 1, Kind.NODE: len(earlier), Kind.SLOT: slots, Kind.CONSTANT: constants}[kind]
    chosen = rng.randrange(index)
    output = rng.randrange(earlier[chosen]) if kind is Kind.NODE else 0
    return bytes([kind]) + chosen.to_bytes(4, "big") + bytes([output])


LIES = (
    "output",
    "input",
    "structure",
    "log",
    "arity",
    "step padding",
    "run padding",
    "checkpoint",
    "bogus refine",
)
WEIGHTS = (3, 6, 1, 1, 1, 1, 1, 1, 2)
ROUNDED_WEIGHTS = (3, 6, 1, 5, 1, 1, 1, 1, 2)


@dataclass(frozen=True)
class Lie:
    """One deviation: its kind, where it is, and a seed for what is put there."""

    kind: str
    step: int = 1
    node: int = 0
    k: int = 0
    seed: int = 0

    def junk(self) -> bytes:
        return value("junk", self)


def random_lie(rng: Random, graph: Graph) -> Lie:
    return Lie(
        rng.choices(LIES, ROUNDED_WEIGHTS if is_rounded(graph.mode) else WEIGHTS)[0],
        rng.randint(1, graph.steps),
        rng.randrange(len(graph.structures)),
        rng.randrange(256),
        rng.randrange(1 << 30),
    )


@dataclass
class Run:
    """A run of a graph with lies; what it has, it can prove. `OwnRun` for the solver."""

    graph: Graph
    lies: tuple[Lie, ...] = ()
    _step_trees: dict[int, Tree] = field(default_factory=dict)
    _run_trees: dict[tuple[int, int, int], Tree] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Callable[..., object]:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.graph, name)  # type: ignore[no-any-return]

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
                outputs = _put(outputs, lie)
            case "input" if inputs:
                inputs = _put(inputs, lie)
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
        """`C_0` to `C_n`; a lie about a checkpoint has nothing beneath it."""
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


def _output(record: Record, output: int) -> bytes:
    return record.outputs[output] if output < len(record.outputs) else bytes(32)


def _put(hashes: tuple[bytes, ...], lie: Lie) -> tuple[bytes, ...]:
    k = lie.k % len(hashes)
    return (*hashes[:k], lie.junk(), *hashes[k + 1 :])


def _pad(leaves: list[bytes], lie: Lie) -> list[bytes]:
    """Something beyond the last leaf, where the tree has room."""
    room = (1 << max(len(leaves) - 1, 0).bit_length()) - len(leaves)
    return [*leaves, *(value(lie, k) for k in range(lie.k % room + 1))] if room else leaves


def match_terms(graph: Graph, **changes: object) -> MatchTerms:
    defaults: dict[str, object] = {
        "program": graph.header,
        "clock": 100,
        "verdict_period": 50,
        "threshold": 1,
        "verifiers": (),
        "players": PLAYERS,
        "match_id": 7,
        "chain_id": 31337,
        "referee": REFEREE,
        "logs": graph.logs,
    }
    return MatchTerms(**{**defaults, **changes})  # type: ignore[arg-type]
