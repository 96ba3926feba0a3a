"""What to play in a trial: a pure decision.

`plan` gives the moves to send in ONE transaction. It plays its own moves through the rules and goes on as far as known
data permits: it concludes when it knows both halves, and publishes its own half when it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from repops.opset import Dtype

from ..commit import LEAF_BYTES, DataTree, Nodes, Tag, Tree, fold_descendants
from ..commit.tensor import Array, dtype_of
from ..element import Case, rule_of
from ..errors import InvalidInput
from ..program import TensorType
from ..rounding import Log
from ..rounding.blocks import BLOCK, LogTree
from .refusals import Refusal
from .rules import MAX_GENERATIONS, apply, case_of, first_difference, late, output_type, places, split
from .state import (
    NO_BLOCK,
    NOT_SHOWN,
    Answer,
    Compare,
    Dispute,
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
from .walk import Walk


class Opponent(Protocol):
    """What is known of the other side's tensors; everything is checked before it is used."""

    def output(self, number: int) -> Array | None:
        """The whole output, if it is served."""
        ...

    def children(self) -> Sequence[bytes] | None:
        """What it revealed last of its data tree."""
        ...

    def leaf(self) -> bytes | None:
        """The leaf that it has shown."""
        ...


@dataclass
class Operator:
    """The disputed operator as a side has it: inputs and log that both agree on, and its own outputs."""

    inputs: Sequence[Array]
    outputs: Sequence[Array]
    log: Log | LogTree | None = None
    """What both records' log hash commits to, or its tree; None if it is no log."""
    walk: Walk = field(default_factory=Walk)
    """What is computed of the element's chain. It may be kept when the tensors are let go of."""
    _trees: dict[int, DataTree] = field(default_factory=dict)

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(Tensor(TensorType.of(a), self.data(i).root) for i, a in enumerate(self.inputs))

    def data(self, number: int) -> DataTree:
        """The tree over an input's data."""
        return self._tree_of(number, self.inputs[number])

    def output(self, number: int) -> DataTree:
        """The tree over an output's data."""
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
        """What shows the log's entry of an element of an output; of a log for another number of them the first."""
        tree = self._log_tree
        if tree is None or dtype_of(self.outputs[number]) is not Dtype.F32:
            return NO_BLOCK
        index = element // BLOCK if tree.elements == self.outputs[number].size else 0
        return LogBlock(tree.elements, tree.block(index), tuple(tree.path(index)))

    def states(self, case: Case, at: Sequence[int]) -> list[bytes]:
        """The chain's states as this side says they are, after so many steps, ascending."""
        return self.walk.states(case, self.inputs, [tensor.root for tensor in self.tensors()], at)

    def _tree_of(self, key: int, array: Array) -> DataTree:
        if key not in self._trees:
            self._trees[key] = DataTree(array, self.walk.rest)
        return self._trees[key]


def plan(
    state: TrialState, dispute: Dispute, side: int, own: Operator, opponent: Opponent, now: int
) -> list[Move]:
    """The best batch of moves of ``side`` at ``now``; empty if it owes nothing or can do nothing."""
    if mask := late(state, now):
        return [Timeout()] if mask == 1 << (1 - side) else []
    player, moves = _Planner(dispute, side, own, opponent), list[Move]()
    while True:
        try:
            move = player.next(state)
            if move is None:
                break
            state = apply(state, dispute, move, state.players[side], now)
        except (Refusal, InvalidInput):
            break  # The data at hand is not what the chain commits to: no way on.
        moves.append(move)
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
        """NOTE: a root is bound by a hash, so a served output is shown for the opponent, too."""
        mine, theirs = self.own.output(state.output), self._served(state)
        roots = [
            NOT_SHOWN if tree is None or state.posted >> side & 1 else tree.root
            for side, tree in enumerate((mine, theirs) if self.side == 0 else (theirs, mine))
        ]
        return ShowOutputs((roots[0], roots[1])) if roots != [NOT_SHOWN] * 2 else None

    def _served(self, state: TrialState) -> DataTree | None:
        """Over the opponent's output, if it is served."""
        if state.output not in self.served:
            array = self.opponent.output(state.output)
            self.served[state.output] = None if array is None else DataTree(array, self.own.walk.rest)
        return self.served[state.output]

    def _walk(self, state: TrialState) -> Move | None:
        mine = self.own.output(state.output)
        if (theirs := self._served(state)) is not None:
            return self._descend(mine, theirs, state.height, state.index)
        generations, children = min(state.height, MAX_GENERATIONS), self.opponent.children()
        here = mine.descendants(state.height, state.index, generations)
        fits = children is not None and len(children) == 1 << generations
        if children and fits and fold_descendants(Tag.DATA_TREE, children) == state.nodes[1 - self.side]:
            trees = Tree(Tag.DATA_TREE, here), Tree(Tag.DATA_TREE, children)
            return self._descend(*trees, generations, 0)
        return None if state.posted >> self.side & 1 else NodesReveal(self.side, tuple(here))

    def _descend(self, mine: Nodes, theirs: Nodes, levels: int, index: int) -> NodesDescend:
        """To the first difference that is so many levels below a node of this index."""
        child = 0
        for level in range(1, levels + 1):
            child <<= 1
            at = levels - level, (index << level) + child
            child += mine.node(*at) == theirs.node(*at)
        leaf, by_side = (index << levels) + child, (mine, theirs) if self.side == 0 else (theirs, mine)
        nodes = [tree.node(0, leaf) for tree in by_side]
        paths = [tuple(tree.path(leaf, 0, levels)) for tree in by_side]
        return NodesDescend(child, nodes[0], paths[0], nodes[1], paths[1])

    def _compare(self, state: TrialState) -> Move | None:
        mine, served = self.own.output(state.output).leaf(state.index), self._served(state)
        theirs = self.opponent.leaf() if served is None else served.leaf(state.index)
        if theirs is None:
            return None if state.posted >> self.side & 1 else ShowLeaf(self.side, mine)
        leaves = (mine, theirs) if self.side == 0 else (theirs, mine)
        kind = output_type(state, self.dispute)
        same = len(leaves[0]) == len(leaves[1])
        element = first_difference(state, kind, leaves) if same else 0
        return Compare(*leaves, self.own.tensors(), self.own.block(state.output, element))

    def _states(self, state: TrialState, at: Sequence[int]) -> list[bytes]:
        """The own states after so many steps, ascending."""
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
        return JudgeStep(self.own.tensors(), state.agreed, openings)
