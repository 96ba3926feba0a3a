"""What to play: a pure decision (docs/protocol.md, section 7). Before the panel: referee_py/panel/solver.

`plan` gives the moves to send in ONE transaction. It plays its own moves through the rules and goes on as far as
known data permits: it concludes when it knows both halves, publishes its own half when it does not, refines,
enters the step tree and brings the right case before the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ..commit import Tree, depth_of, fold_descendants
from ..errors import InvalidInput
from ..program.structure import Kind
from . import clock
from .judge import Operand, ill_formed, operand
from .refusals import Refusal
from .rules import apply, refinement
from .state import (
    MAX_GENERATIONS,
    Descend,
    Evidence,
    Exhibit,
    JudgeInput,
    JudgeLog,
    JudgeStructure,
    LogProof,
    MatchState,
    MatchTerms,
    Move,
    OpenRecord,
    Phase,
    Refine,
    Reveal,
    Submit,
    Timeout,
)
from .view import OpponentView, OwnRun

T = TypeVar("T")


def plan(
    state: MatchState,
    terms: MatchTerms,
    side: int,
    *,
    may_refine: bool,
    own: OwnRun,
    opponent: OpponentView,
    now: int,
    concede: bool = True,
) -> list[Move]:
    """The best batch of moves of ``side`` at ``now``; empty if it owes nothing or can do nothing.

    ``may_refine``: whether the caller is the spokesman of its side. ``concede``: whether to make a move that ends
    the match with a loss for the own side; an honest side never faces one, a liar may prefer silence.
    """
    late = clock.late(state, now)
    if late:
        return [Timeout()] if late == 1 << (1 - side) else []
    player = _Planner(terms, side, may_refine, own, opponent, opponent.children())
    moves: list[Move] = []
    while True:
        try:
            move = player.next(state)
            if move is None:
                break
            after = apply(state, terms, move, terms.players[side], now)
        except (Refusal, InvalidInput):
            break  # The data at hand is not what the chain commits to, or the program is unsound: no way on.
        if not concede and after.losers >> side & 1:
            break
        moves.append(move)
        state = after
    return moves


@dataclass
class _Planner:
    """One planning: the data, and what it knows of the opponent at the simulated position."""

    terms: MatchTerms
    side: int
    may_refine: bool
    own: OwnRun
    opponent: OpponentView
    children: Sequence[bytes] | None

    def next(self, state: MatchState) -> Move | None:
        match state.phase:
            case Phase.WALK:
                return self._walk(state)
            case Phase.REFINE:
                return self._refine(state)
            case Phase.OPEN:
                return self._judge(state)
        return None

    # --- walk ---------------------------------------------------------------------------------------------------

    def _walk(self, state: MatchState) -> Move | None:
        tag = state.tag(self.terms.program)
        tree = self._own_tree(state)
        if tree is None:
            return None
        mine = _Subtree(tree, state.height, state.index)
        served = self._served_tree(state)
        if served is not None:
            return self._descend(state, mine, _Subtree(served, state.height, state.index), state.height)
        generations = min(state.height, MAX_GENERATIONS)
        if self._revealed(state, generations):
            assert self.children is not None
            theirs = _Subtree(Tree(tag, self.children), generations, 0)
            return self._descend(state, mine, theirs, generations)
        if state.posted >> self.side & 1:
            return None
        return Reveal(self.side, tuple(tree.descendants(state.height, state.index, generations)))

    def _own_tree(self, state: MatchState) -> Tree | None:
        if state.in_step_tree(self.terms.program):
            tree = self.own.step_tree(state.end)
        else:
            tree = self.own.run_tree(state.level, state.start, state.end)
        return tree if tree is not None and tree.root == state.root[self.side] else None

    def _served_tree(self, state: MatchState) -> Tree | None:
        leaves, tag = state.leaves(self.terms.program), state.tag(self.terms.program)
        root = state.root[1 - self.side]
        tree = self.opponent.tree(tag, root, leaves)
        fits = tree is not None and (tree.tag, tree.root, tree.depth) == (tag, root, depth_of(leaves))
        return tree if fits else None

    def _revealed(self, state: MatchState, generations: int) -> bool:
        """Whether the revealed half is that of the current position."""
        if self.children is None or len(self.children) != 1 << generations:
            return False
        return fold_descendants(state.tag(self.terms.program), self.children) == state.node[1 - self.side]

    def _descend(self, state: MatchState, mine: _Subtree, theirs: _Subtree, generations: int) -> Descend:
        """Down to the first difference; at a leaf of a run tree with the agreed checkpoint before it."""
        child = _first_difference(mine, theirs, generations)
        nodes = self._by_side(mine.node(generations, child), theirs.node(generations, child))
        paths = self._by_side(mine.path(generations, child), theirs.path(generations, child))
        move = Descend(child, nodes[0], paths[0], nodes[1], paths[1])
        self.children = None
        program, index = self.terms.program, (state.index << generations) + child
        at_checkpoint = state.height == generations and not state.in_step_tree(program)
        if at_checkpoint and 0 < index < state.leaves(program):
            path = tuple(mine.tree.path(index - 1))
            move = replace(move, previous=mine.tree.node(0, index - 1), previous_path=path)
        return move

    def _by_side(self, mine: T, theirs: T) -> tuple[T, T]:
        return (mine, theirs) if self.side == 0 else (theirs, mine)

    # --- refine -------------------------------------------------------------------------------------------------

    def _refine(self, state: MatchState) -> Refine | None:
        if state.posted >> self.side & 1 or not self.may_refine:
            return None
        level, count = refinement(state, self.terms)
        tree = self.own.run_tree(level, state.start, state.end)
        if tree is None:
            return None
        return Refine(self.side, tree.root, tuple(tree.path(count - 1)))

    # --- judge --------------------------------------------------------------------------------------------------

    def _judge(self, state: MatchState) -> Move | None:
        mine = self.own.record(state.end, state.index)
        if mine is None or mine.hash() != state.node[self.side]:
            return None
        theirs = self.opponent.record(state.node[1 - self.side])
        if theirs is None or theirs.hash() != state.node[1 - self.side]:
            return None if state.posted >> self.side & 1 else OpenRecord(self.side, mine)
        records = self._by_side(mine, theirs)
        path = tuple(self.own.structure_path(state.index))
        exhibit = Exhibit(*records, self.own.structure(state.index), path)
        if ill_formed(exhibit, self.terms.program.mode):
            return JudgeStructure(exhibit)
        pairs = zip(records[0].inputs, records[1].inputs, strict=True)
        k = next((k for k, (a, b) in enumerate(pairs) if a != b), None)
        if k is not None:
            evidence = evidence_of(self.own, state, k, operand(exhibit.structure, k))
            return JudgeInput(exhibit, evidence) if evidence else None
        if records[0].log != records[1].log:
            proof = log_proof_of(self.own, state)
            return JudgeLog(exhibit, proof) if proof else None
        return Submit(exhibit)


# --- evidence ---------------------------------------------------------------------------------------------------


def evidence_of(own: OwnRun, state: MatchState, k: int, source: Operand) -> Evidence | None:
    """Where input ``k`` of the open node comes from, proven with the own run's data; None if it has not got it."""
    j = source.index
    match source.kind:
        case Kind.NODE:
            return _from_node(own, state.end, j, Evidence(k))
        case Kind.SLOT if state.start == 0:
            return Evidence(k, source_path=tuple(own.initial_path(j)), tensor=own.initial_hash(j))
        case Kind.SLOT:
            node, output = own.slot_source(j)
            row = Evidence(k, slot_node=node, slot_output=output, slot_path=tuple(own.slot_path(j)))
            return _from_node(own, state.start, node, row)
        case Kind.CONSTANT:
            return Evidence(k, source_path=tuple(own.constant_path(j)), tensor=own.constant_hash(j))
    return Evidence(k)


def _from_node(own: OwnRun, step: int, node: int, evidence: Evidence) -> Evidence | None:
    source, tree = own.record(step, node), own.step_tree(step)
    if source is None or tree is None:
        return None
    return replace(evidence, source=source, source_path=tuple(tree.path(node)))


def log_proof_of(own: OwnRun, state: MatchState) -> LogProof | None:
    """What the log of the open node truly is, proven with the logs that the run goes by; None without them."""
    step, run = own.log_tree(state.end), own.run_log_tree()
    if step is None or run is None:
        return None
    leaf = state.end - 1  # steps are counted from 1
    node_path, step_path = step.path(state.index), run.path(leaf)
    return LogProof(step.node(0, state.index), step.root, tuple(step_path), tuple(node_path))


# --- trees ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Subtree:
    """The part of a tree below one of its nodes."""

    tree: Tree
    height: int
    index: int

    def node(self, generations: int, child: int) -> bytes:
        return self.tree.node(self.height - generations, (self.index << generations) + child)

    def path(self, generations: int, child: int) -> tuple[bytes, ...]:
        """Siblings from that descendant up to the subtree's root."""
        bottom = self.height - generations
        return tuple(self.tree.path((self.index << generations) + child, bottom, self.height))


def _first_difference(a: _Subtree, b: _Subtree, generations: int) -> int:
    """The leftmost descendant that differs; the roots of the subtrees differ."""
    child = 0
    for generation in range(1, generations + 1):
        child <<= 1
        if a.node(generation, child) == b.node(generation, child):
            child += 1
    return child
