"""Synthetic programs: random graphs whose "operators" are hashes, so a run of many steps costs nothing.

Still, their structures are valid encodings of operators, as a trial needs them. `real.py` has graphs that compute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from repops.opset import OPS

from referee_py.commit import NO_LOG, Record, Tag, Tree, digest
from referee_py.game.judge import Operand
from referee_py.game.judge import operand as operand_of
from referee_py.game.state import MatchTerms
from referee_py.program.modes import REPOPS_F32, Bounds, Form, Rounding, mode_or_unknown
from referee_py.program.structure import Kind
from referee_py.program.terms import Terms

WITHOUT_ATTRIBUTES = [op.id for op in OPS if not op.attrs]
LIES = (
    *("output", "input", "structure", "log", "arity"),
    *("step padding", "run padding", "checkpoint", "bogus refine"),
)
PLAYERS = ("0x" + "A0" * 20, "0x" + "B1" * 20)


def value(*parts: object) -> bytes:
    """Return a pseudo-random hash of anything."""
    return hashlib.sha256(repr(parts).encode()).digest()


@dataclass(frozen=True)
class Graph:
    """A random program, with every proof that the game needs (`ProgramView` for the solver)."""

    seed: int
    structures: tuple[bytes, ...]
    slots: tuple[tuple[int, int], ...]
    constants: tuple[bytes, ...]
    initial: tuple[bytes, ...]
    steps: int
    strides: tuple[int, ...]
    mode: int = REPOPS_F32.byte

    @property
    def lies(self) -> Sequence[int]:
        """Relative frequency of each kind of lie about such a graph, in the order of LIES."""
        return (
            (3, 6, 1, 5, 1, 1, 1, 1, 2)
            if mode_or_unknown(self.mode).follows_logs
            else (3, 6, 1, 1, 1, 1, 1, 1, 2)
        )

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
    def header(self) -> Terms:
        counts = len(self.structures), len(self.slots), len(self.constants), self.steps
        a, b, c, d = (tree.root for tree in self.trees.values())
        return Terms(1, self.mode, *counts, a, b, c, d, self.strides)

    @cached_property
    def operands(self) -> list[list[Operand]]:
        return [[operand_of(s, k) for k in range(s[2])] if sound(s) else [] for s in self.structures]

    @cached_property
    def structure_hashes(self) -> list[bytes]:
        return list(self.trees[Tag.STRUCTURE_TREE].leaves)

    def outputs(self, node: int, inputs: Sequence[bytes], log: bytes) -> tuple[bytes, ...]:
        """Return the outputs of the node's operator for these inputs and that log."""
        count = self.structures[node][3] if sound(self.structures[node]) else 1
        return tuple(value("output", self.structures[node], tuple(inputs), log, j) for j in range(count))

    def bent(self, output: bytes, seed: int) -> bytes:
        """Return a false hash in the place of an output."""
        return value("bent", output, seed)

    def truth(self, node: int, inputs: tuple[bytes, ...], log: bytes) -> Record:
        """Return the right record of a node for these inputs and that log: the one that a verifier attests."""
        return Record(self.structure_hashes[node], inputs, self.outputs(node, inputs, log), log)

    @cached_property
    def log_trees(self) -> list[Tree]:
        """The log trees that the job's trainer has committed to, from step 1 on. Every second node has no log."""
        nodes = range(len(self.structures))
        return [
            Tree(Tag.LOG_TREE, [value("log", self.seed, s, n) if (s + n) % 2 else NO_LOG for n in nodes])
            for s in range(1, self.steps + 1)
        ]

    def log(self, step: int, node: int) -> bytes:
        return self.log_trees[step - 1].leaves[node] if mode_or_unknown(self.mode).follows_logs else NO_LOG

    def log_tree(self, step: int) -> Tree | None:
        return self.log_trees[step - 1] if mode_or_unknown(self.mode).follows_logs else None

    def run_log_tree(self) -> Tree | None:
        roots = [tree.root for tree in self.log_trees]
        return Tree(Tag.LOG_RUN_TREE, roots) if mode_or_unknown(self.mode).follows_logs else None

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
    """Return whether the encoding holds the operands that it announces."""
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
    """Return a random program of few nodes and steps. If not ``sane``, it has structures that no program may have."""
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
        head = rng.choice(WITHOUT_ATTRIBUTES).to_bytes(2, "big") + bytes([len(operands) // 6, counts[node]])
        encoded = head + operands + shape * counts[node]
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
        mode=random_rounding(rng).mode if rounded else REPOPS_F32.byte,
    )


def random_rounding(rng: Random) -> Rounding:
    return Rounding(rng.randint(26, 32), rng.choice(list(Bounds)), rng.choice(list(Form)))


def _insane(rng: Random, node: int, structure: bytes) -> bytes:
    """Return a structure that only a malicious client commits to."""
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


def match_terms(graph: Graph, **changes: object) -> MatchTerms:
    defaults: dict[str, object] = {
        "program": graph.header,
        "clock": 100,
        "players": PLAYERS,
        "match_id": 7,
        "logs": graph.logs,
    }
    return MatchTerms(**{**defaults, **changes})  # type: ignore[arg-type]
