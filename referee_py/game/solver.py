"""The moves to play in a match: a pure decision (docs/protocol.md, section 7). Hearings: referee_py/panel/solver.

`plan` returns the moves to send in ONE transaction, each with the state before it. It applies each of them and
continues as far as the known data permits. It concludes if it knows both halves and otherwise publishes its own; it
refines, enters the step tree and submits the right case to the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..commit import Tree, depth_of
from ..errors import InvalidInput
from ..program.structure import Kind
from ..walk import clock
from ..walk.descent import Descent, Position, next_half
from ..walk.refusals import Refusal
from ..walk.sides import by_side
from .judge import Operand, ill_formed, operand
from .player_data import OpponentView, OwnRun
from .rules import apply, refinement
from .state import (
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

Planned = tuple[Move, MatchState]
"""A move, and the state that it expects, which the moves before it lead to."""


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
) -> list[Planned]:
    """Return the best batch of moves of ``side`` at ``now``, in seconds; empty if it owes or can do nothing.

    ``may_refine``: True if the caller is the spokesman of its side. ``concede``: True to make even a move that ends
    the match with a loss for ``side``. An honest side never faces such a move; a liar may prefer silence.
    """
    late = clock.late(state, now)
    if late:
        return [(Timeout(), state)] if late == 1 << (1 - side) else []
    player = _Planner(terms, side, may_refine, own, opponent, opponent.children())
    moves: list[Planned] = []
    while True:
        try:
            move = player.next(state)
            if move is None:
                break
            after = apply(state, terms, move, terms.players[side], now)
        except (Refusal, InvalidInput):
            break  # The data does not match what the chain commits to, or the program is unsound: nothing to play.
        if not concede and after.losers >> side & 1:
            break
        moves.append((move, state))
        state = after
    return moves


@dataclass
class _Planner:
    """One run of `plan`: the data, and the half that the opponent has revealed at the simulated position."""

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
        tree = self._own_tree(state)
        if tree is None:
            return None
        at = Position(state.tag(self.terms.program), state.height, state.index, state.node, state.posted)
        half = next_half(at, self.side, tree, self._served_tree(state), self.children)
        if isinstance(half, Descent):
            return self._descend(state, tree, half)
        return None if half is None else Reveal(self.side, half)

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

    def _descend(self, state: MatchState, own: Tree, way: Descent) -> Descend:
        """Return the move down ``way``. At a leaf of a run tree it also shows the checkpoint before that leaf."""
        move = Descend(way)
        self.children = None
        levels, program = len(way.path0), self.terms.program
        index = (state.index << levels) + way.child
        at_checkpoint = state.height == levels and not state.in_step_tree(program)
        if at_checkpoint and 0 < index < state.leaves(program):
            move = replace(move, previous=own.node(0, index - 1), previous_path=tuple(own.path(index - 1)))
        return move

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
        records = by_side(self.side, mine, theirs)
        path = tuple(self.own.structure_path(state.index))
        exhibit = Exhibit(*records, self.own.structure(state.index), path)
        if ill_formed(exhibit, self.terms.program):
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
    """Return the proof of input ``k`` of the open node from the data of ``own``; None if that data is missing."""
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
    """Return the proof of the open node's log under the run's logs that ``own`` has; None if it lacks them."""
    step, run = own.log_tree(state.end), own.run_log_tree()
    if step is None or run is None:
        return None
    leaf = state.end - 1  # steps are counted from 1
    node_path, step_path = step.path(state.index), run.path(leaf)
    return LogProof(step.node(0, state.index), step.root, tuple(step_path), tuple(node_path))
