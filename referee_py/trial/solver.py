"""The moves to play in a trial: a pure decision.

`plan` returns the moves to send in ONE transaction, each with the state before it. It applies each of them and
continues as far as the known data permits. It concludes if it knows both halves, and otherwise publishes its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from ..commit import LEAF_BYTES, DataTree, Tag
from ..commit.tensor import Array, dtype_of
from ..element import Case, rule_of
from ..errors import InvalidInput
from ..program import TensorType
from ..rounding import Log
from ..rounding.blocks import BLOCK, LogTree
from ..walk import clock
from ..walk.descent import Descent, Position, next_half
from ..walk.dispute import Dispute
from ..walk.refusals import Refusal
from ..walk.sides import by_side
from .chain_states import ChainStates
from .rules import apply, case_of, first_difference, output_type, places, split
from .state import (
    NO_BLOCK,
    NOT_SHOWN,
    Answer,
    Compare,
    Inputs,
    JudgeStep,
    LogBlock,
    Move,
    NodesDescend,
    NodesReveal,
    Opening,
    Post,
    ShowLeaf,
    ShowOutputs,
    Stage,
    Tensor,
    Timeout,
    TrialState,
)

Planned = tuple[Move, TrialState]
"""A move, and the state that it expects, which the moves before it lead to."""


class Opponent(Protocol):
    """The other side's tensors, as far as they are known; all data is checked before it is used."""

    def output(self, number: int) -> Array | None:
        """Return the whole output if it is served, else None."""
        ...

    def children(self) -> Sequence[bytes] | None:
        """Return the nodes of its data tree that the other side revealed last, or None."""
        ...

    def leaf(self) -> bytes | None:
        """Return the leaf that the other side has shown, or None."""
        ...


@dataclass
class Operator:
    """One side's data of the disputed operator: inputs and log, on which both sides agree, and its own outputs."""

    inputs: Sequence[Array]
    outputs: Sequence[Array]
    log: Log | LogTree | None = None
    """The log that both records' log hash commits to, or its tree; None if the hash is not that of a log."""
    walk: ChainStates = field(default_factory=ChainStates)
    """The computed states of the element's chain. It may outlive the tensors."""
    _trees: dict[int, DataTree] = field(default_factory=dict)

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(Tensor(TensorType.of(a), self.data(i).root) for i, a in enumerate(self.inputs))

    def data(self, number: int) -> DataTree:
        """Return the tree over an input's data."""
        return self._tree_of(number, self.inputs[number])

    def output(self, number: int) -> DataTree:
        """Return the tree over an output's data."""
        return self._tree_of(~number, self.outputs[number])

    def read(self, number: int, element: int) -> int:
        array = self.inputs[number]
        leaf, offset = divmod(element * array.itemsize, LEAF_BYTES)
        return int.from_bytes(self.data(number).leaf(leaf)[offset : offset + array.itemsize], "little")

    def open(self, number: int, element: int) -> Opening:
        tree, leaf = self.data(number), element * self.inputs[number].itemsize // LEAF_BYTES
        return Opening(number, element, tree.leaf(leaf), tuple(tree.path(leaf)))

    @cached_property
    def _log_tree(self) -> LogTree | None:
        return LogTree(self.log) if isinstance(self.log, Log) else self.log

    def block(self, number: int, element: int) -> LogBlock:
        """Return the log block with an output's element; the first one if the log has another number of elements."""
        tree = self._log_tree
        if tree is None or not dtype_of(self.outputs[number]).is_float:
            return NO_BLOCK
        index = element // BLOCK if tree.elements == self.outputs[number].size else 0
        return LogBlock(tree.elements, tree.block(index), tuple(tree.path(index)))

    def states(self, case: Case, at: Sequence[int]) -> list[bytes]:
        """Return this side's states of the chain after ``at`` steps, ascending."""
        return self.walk.states(case, self.inputs, [tensor.root for tensor in self.tensors()], at)

    def _tree_of(self, key: int, array: Array) -> DataTree:
        if key not in self._trees:
            self._trees[key] = DataTree(array, self.walk.rest)
        return self._trees[key]


def plan(
    state: TrialState, dispute: Dispute, side: int, own: Operator, opponent: Opponent, now: int
) -> list[Planned]:
    """Return the best batch of moves of ``side`` at ``now``, in seconds; empty if it owes or can do nothing."""
    if mask := clock.late(state, now):
        return [(Timeout(), state)] if mask == 1 << (1 - side) else []
    player, moves = _Planner(dispute, side, own, opponent), list[Planned]()
    while True:
        try:
            move = player.next(state)
            if move is None:
                break
            after = apply(state, dispute, move, state.players[side], now)
        except (Refusal, InvalidInput):
            break  # The data does not match what the chain commits to: nothing to play.
        moves.append((move, state))
        state = after
    return moves


@dataclass
class _Planner:
    dispute: Dispute
    side: int
    own: Operator
    opponent: Opponent
    served: dict[int, DataTree | None] = field(default_factory=dict)

    def next(self, state: TrialState) -> Move | None:
        match state.stage:
            case Stage.OUTPUTS:
                return self._show_outputs(state)
            case Stage.WALK:
                return self._walk(state)
            case Stage.LEAF:
                return self._compare(state)
            case Stage.POST if self.side == 0:
                return Post(b"".join(self._states(state, places(state)[:-1])))
            case Stage.ANSWER if self.side == 1:
                return self._answer(state)
            case Stage.STEP:
                return self._judge(state)
        return None

    def _show_outputs(self, state: TrialState) -> Move | None:
        """NOTE: a hash binds each data root, so a side can show the root of a served output for the opponent, too."""
        mine, theirs = self.own.output(state.output), self._served(state)
        roots = [
            NOT_SHOWN if tree is None or state.posted >> side & 1 else tree.root
            for side, tree in enumerate(by_side(self.side, mine, theirs))
        ]
        return ShowOutputs((roots[0], roots[1])) if roots != [NOT_SHOWN] * 2 else None

    def _served(self, state: TrialState) -> DataTree | None:
        """Return the tree over the opponent's output if that is served, else None."""
        if state.output not in self.served:
            array = self.opponent.output(state.output)
            self.served[state.output] = None if array is None else DataTree(array, self.own.walk.rest)
        return self.served[state.output]

    def _walk(self, state: TrialState) -> Move | None:
        at = Position(Tag.DATA_TREE, state.height, state.index, state.nodes, state.posted)
        own, served = self.own.output(state.output), self._served(state)
        half = next_half(at, self.side, own, served, self.opponent.children())
        if isinstance(half, Descent):
            return NodesDescend(half)
        return None if half is None else NodesReveal(self.side, half)

    def _compare(self, state: TrialState) -> Move | None:
        mine, served = self.own.output(state.output).leaf(state.index), self._served(state)
        theirs = self.opponent.leaf() if served is None else served.leaf(state.index)
        if theirs is None:
            return None if state.posted >> self.side & 1 else ShowLeaf(self.side, mine)
        leaves = by_side(self.side, mine, theirs)
        kind = output_type(state, self.dispute)
        same = len(leaves[0]) == len(leaves[1])
        element = first_difference(state, kind, leaves) if same else 0
        return Compare(*leaves, Inputs.of(self.own.tensors()), self.own.block(state.output, element))

    def _states(self, state: TrialState, at: Sequence[int]) -> list[bytes]:
        """Return the own states after ``at`` steps, ascending."""
        return self.own.states(case_of(state, self.dispute, self.own.tensors()), at)

    def _answer(self, state: TrialState) -> Move:
        offered = split(state, state.offer)
        own = self._states(state, places(state)[:-1])
        pairs = enumerate(zip(offered, own, strict=True))
        place = next((n for n, (theirs, mine) in pairs if theirs != mine), len(offered))
        return Answer(state.offer, place, own[place] if place < len(own) else b"")

    def _judge(self, state: TrialState) -> Move:
        case = case_of(state, self.dispute, self.own.tensors())
        reads: list[tuple[int, int]] = []

        def read(number: int, element: int) -> int:
            reads.append((number, element))
            return self.own.read(number, element)

        rule_of(case).step(case, state.lo, state.agreed, read)
        openings = tuple(self.own.open(*read) for read in reads)
        return JudgeStep(Inputs.of(self.own.tensors()), state.agreed, openings)
