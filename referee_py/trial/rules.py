"""The rules of a trial as one pure function: the contract `Court` in Python (docs/adjudication.md, section 1).

`apply(state, dispute, move, sender, now)` returns the state after the move, or raises the refusal that is named after
the contract's custom error. A state is an immutable value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt

from ..commit import NO_LOG, Tag, depth_of, digest, empty, fold_path
from ..commit.tensor import LEAF_BYTES, typed_hash
from ..element import NO_ENTRY, Case, Entry, rule_of
from ..element.scalar import canonical
from ..errors import InvalidProof
from ..params import MAX_PLACES, POST_BYTES
from ..program import Structure, TensorType
from ..rounding.blocks import BLOCK, digest_of_block, read_entry
from ..rounding.environment import sound
from ..walk import clock
from ..walk.descent import check_children, check_way
from ..walk.dispute import ZERO, Dispute
from ..walk.refusals import require
from ..walk.sides import BOTH, NOBODY, unlike
from . import refusals
from .state import (
    NOT_SHOWN,
    Answer,
    Compare,
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


def open_trial(dispute: Dispute, players: tuple[str, str], clock: tuple[int, int], now: int) -> TrialState:
    """Return a new trial; ``clock`` is in seconds. Raises a Refusal unless the records differ only in outputs."""
    one, other = dispute.records
    outputs = len(Structure.decode(dispute.structure).outputs)
    same = (one.structure, one.inputs, one.log) == (other.structure, other.inputs, other.log)
    require(same and len(one.outputs) == len(other.outputs) == outputs, refusals.RecordsDiffer)
    differ = [o for o, (a, b) in enumerate(zip(one.outputs, other.outputs, strict=True)) if a != b]
    require(bool(differ), refusals.OutputsEqual)
    return TrialState(players, Stage.OUTPUTS, now, clock, differ[0])


def apply(state: TrialState, dispute: Dispute, move: Move, sender: str, now: int) -> TrialState:
    """Return the state after ``move`` by ``sender`` at ``now``, in seconds. Raises a Refusal if the rules refuse it."""
    # NOTE: elements are computed in binary64. The contract never flushes subnormal numbers, so nothing here may either.
    with sound("a trial"):
        return _apply(state, dispute, move, sender, now)


def _apply(state: TrialState, dispute: Dispute, move: Move, sender: str, now: int) -> TrialState:
    match move:
        case ShowOutputs():
            return _show_outputs(_at(state, Stage.OUTPUTS, now), dispute, move)
        case NodesReveal():
            return _reveal(_at(state, Stage.WALK, now), move)
        case NodesDescend():
            return _descend(_at(state, Stage.WALK, now), dispute, move)
        case ShowLeaf():
            state = _show(_at(state, Stage.LEAF, now), move.side)
            _check_leaf(state, move.side, move.leaf)
            return state
        case Compare():
            return _compare(_at(state, Stage.LEAF, now), dispute, move)
        case Post():
            return _post(_at(state, Stage.POST, now), move, sender)
        case Answer():
            return _answer(_at(state, Stage.ANSWER, now), move, sender)
        case JudgeStep():
            return _judge(_at(state, Stage.STEP, now), dispute, move)
        case Timeout():
            losers = clock.late(state, now)
            require(losers != NOBODY, refusals.NotTooLate)
            return _end(state, losers)
    raise TypeError(f"no rule for {move!r}")


# --- the beginning of a move ------------------------------------------------------------------------------------


def _at(state: TrialState, stage: Stage, now: int) -> TrialState:
    require(state.stage is stage, refusals.WrongStage, state.stage.name, stage.name)
    mask = clock.late(state, now)
    require(mask == NOBODY, refusals.TooLate, mask)
    return clock.charge(state, now)


# --- to the element ---------------------------------------------------------------------------------------------


def output_type(state: TrialState, dispute: Dispute) -> TensorType:
    """Return the type of the disputed output."""
    return Structure.decode(dispute.structure).outputs[state.output]


def leaf_count(kind: TensorType) -> int:
    """Return the number of leaves of a tensor's data."""
    return -(-kind.nbytes // LEAF_BYTES)


def _show(state: TrialState, side: int) -> TrialState:
    require(side in (0, 1), refusals.NoSuchSide, side)
    require(not state.posted >> side & 1, refusals.AlreadyShown, side)
    return replace(state, posted=state.posted | 1 << side)


def _show_outputs(state: TrialState, dispute: Dispute, move: ShowOutputs) -> TrialState:
    kind = output_type(state, dispute)
    require(any(root != NOT_SHOWN for root in move.roots), refusals.NothingShown)
    for side, root in enumerate(move.roots):
        if root == NOT_SHOWN:
            continue
        state = _show(state, side)
        have = typed_hash(kind.dtype, kind.shape, root)
        want = dispute.records[side].outputs[state.output]
        require(have == want, refusals.AnotherHash, have, want)
        nodes = (root, state.nodes[1]) if side == 0 else (state.nodes[0], root)
        state = replace(state, nodes=nodes)
    if state.posted != BOTH:
        return state
    return _at_node(replace(state, posted=NOBODY, stage=Stage.WALK, height=depth_of(leaf_count(kind))), kind)


def _reveal(state: TrialState, move: NodesReveal) -> TrialState:
    state = _show(state, move.side)
    check_children(Tag.DATA_TREE, move.side, state.nodes[move.side], state.height, move.children)
    return state


def _descend(state: TrialState, dispute: Dispute, move: NodesDescend) -> TrialState:
    levels = check_way(Tag.DATA_TREE, state.nodes, state.height, move.way)
    state = replace(
        state,
        height=state.height - levels,
        index=(state.index << levels) + move.way.child,
        posted=NOBODY,
        nodes=(move.way.node0, move.way.node1),
    )
    return _at_node(state, output_type(state, dispute))


def _at_node(state: TrialState, kind: TensorType) -> TrialState:
    if state.height:
        return state
    if state.index < leaf_count(kind):
        return replace(state, stage=Stage.LEAF)
    return _end(state, unlike(state.nodes, empty(Tag.DATA_TREE, 0)))


def _check_leaf(state: TrialState, side: int, leaf: bytes) -> None:
    require(len(leaf) <= LEAF_BYTES, refusals.LeafTooLong, len(leaf))
    have = digest(Tag.LEAF, leaf)
    require(have == state.nodes[side], refusals.AnotherHash, have, state.nodes[side])


def _compare(state: TrialState, dispute: Dispute, move: Compare) -> TrialState:
    leaves, kind = (move.leaf0, move.leaf1), output_type(state, dispute)
    for side in (0, 1):
        _check_leaf(state, side, leaves[side])
    want = min(kind.nbytes - state.index * LEAF_BYTES, LEAF_BYTES)
    if losers := unlike([len(leaf) for leaf in leaves], want):
        return _end(state, losers)
    item = kind.nbytes // kind.count
    element = first_difference(state, kind, leaves)
    offset = element * item - state.index * LEAF_BYTES
    values = tuple(int.from_bytes(leaf[offset : offset + item], "little") for leaf in leaves)
    entry = _entry(dispute.records[0].log, kind, element, move.log)
    state = replace(state, element=element, values=(values[0], values[1]), entry=entry)
    case = case_of(state, dispute, move.inputs.tensors())
    rule = rule_of(case)
    steps, first = rule.length(case), rule.begin(case)
    if not steps:
        return _end(state, unlike(state.values, rule.finish(case, first, state.entry)))
    stage = Stage.STEP if steps == 1 else Stage.POST
    state = replace(state, stage=stage, posted=NOBODY, nodes=(ZERO, ZERO))
    return replace(state, steps=steps, hi=steps, state_bytes=len(first), agreed=first)


def first_difference(state: TrialState, kind: TensorType, leaves: Sequence[bytes]) -> int:
    """Return the first element of the tensor in which two leaves of equal length at the position differ."""
    item = kind.nbytes // kind.count
    one, other = leaves
    offset = next(i for i in range(0, len(one), item) if one[i : i + item] != other[i : i + item])
    return (state.index * LEAF_BYTES + offset) // item


def _entry(log: bytes, kind: TensorType, element: int, shown: LogBlock) -> Entry:
    """Return the agreed log's entry for an element of the output. Raises a Refusal or InvalidProof.

    NOTE: only f32 and bf16 are ever rounded. Of an output of another type a log says nothing, so nobody has to show it.
    """
    if log == NO_LOG or not kind.dtype.is_float:
        return NO_ENTRY
    fits, count = shown.elements == kind.count, kind.count
    index, place = divmod(element, BLOCK) if fits else (0, 0)
    have = digest_of_block(shown.elements, index, shown.entries, shown.path)
    require(have == log, refusals.AnotherLog, have, log)
    if not fits:
        return NO_ENTRY
    return Entry(*read_entry(shown.entries, place, min(count - index * BLOCK, BLOCK)))


def case_of(state: TrialState, dispute: Dispute, inputs: Sequence[Tensor]) -> Case:
    """Return the disputed element as a case. Raises a Refusal unless the inputs are the agreed ones."""
    hashes = dispute.records[0].inputs
    require(len(inputs) == len(hashes), refusals.WrongInputCount, len(inputs), len(hashes))
    for place, (tensor, want) in enumerate(zip(inputs, hashes, strict=True)):
        have = typed_hash(tensor.type.dtype, tensor.type.shape, tensor.root)
        require(have == want, refusals.AnotherInput, place, have, want)
    structure, types = Structure.decode(dispute.structure), tuple(tensor.type for tensor in inputs)
    where = state.output, state.element
    return Case(structure.name, types, structure.outputs, structure.attrs, *where, dispute.mode)


# --- to the step ------------------------------------------------------------------------------------------------


def places(state: TrialState) -> list[int]:
    """Return the next round's places lo < p_1 < ... < p_n = hi, evenly spread (docs/adjudication.md, section 1)."""
    open_ = state.hi - state.lo
    count = max(min(POST_BYTES // state.state_bytes, MAX_PLACES), 2)
    if open_ <= count:
        count = open_
    elif open_ <= count * count:  # two rounds, of as many places each
        count = isqrt(open_ - 1) + 1
    return [state.lo + open_ * i // count for i in range(1, count + 1)]


def split(state: TrialState, states: bytes) -> list[bytes]:
    """Split posted bytes into states of ``state.state_bytes`` bytes."""
    return [states[i : i + state.state_bytes] for i in range(0, len(states), state.state_bytes)]


def _post(state: TrialState, move: Post, sender: str) -> TrialState:
    require(sender == state.players[0], refusals.NotPlayer, sender, state.players[0])
    want = (len(places(state)) - 1) * state.state_bytes
    require(len(move.states) == want, refusals.BadStates, len(move.states), want)
    return replace(state, offer=move.states, stage=Stage.ANSWER)


def _answer(state: TrialState, move: Answer, sender: str) -> TrialState:
    require(sender == state.players[1], refusals.NotPlayer, sender, state.players[1])
    require(move.states == state.offer, refusals.AnotherHash)
    offered, at = split(state, move.states), [state.lo, *places(state)]
    require(move.place < len(at) - 1, refusals.NoSuchPlace, move.place, len(at) - 1)
    if move.place < len(offered):
        require(len(move.own) == state.state_bytes, refusals.BadStates, len(move.own), state.state_bytes)
        require(move.own != offered[move.place], refusals.SameState)
        state = replace(state, states=(offered[move.place], move.own))
    else:
        require(not move.own, refusals.StateNotNeeded)
    if move.place:
        state = replace(state, agreed=offered[move.place - 1])
    lo, hi = at[move.place], at[move.place + 1]
    return replace(state, lo=lo, hi=hi, offer=b"", stage=Stage.STEP if hi - lo == 1 else Stage.POST)


def _judge(state: TrialState, dispute: Dispute, move: JudgeStep) -> TrialState:
    require(move.agreed == state.agreed, refusals.AnotherHash)
    case = case_of(state, dispute, move.inputs.tensors())
    opened = [((o.input, o.element), _bits(move.inputs.tensors(), o)) for o in move.openings]
    taken = 0

    def read(place: int, element: int) -> int:
        nonlocal taken
        next_ = opened[taken][0] if taken < len(opened) else None
        require(next_ == (place, element), refusals.NotOpened, place, element)
        taken += 1
        return opened[taken - 1][1]

    rule = rule_of(case)
    after = rule.step(case, state.lo, state.agreed, read)
    require(taken == len(opened), refusals.NotTaken, len(opened), taken)
    if state.hi == state.steps:
        return _end(state, unlike(state.values, rule.finish(case, after, state.entry)))
    return _end(state, unlike(state.states, after))


def _bits(inputs: Sequence[Tensor], opening: Opening) -> int:
    """Return an element's bits, NaN as committed. Raises a Refusal or InvalidProof unless the input contains it."""
    require(opening.input < len(inputs), refusals.OutsideTensor, opening.input, opening.element)
    kind, root = inputs[opening.input].type, inputs[opening.input].root
    require(opening.element < kind.count, refusals.OutsideTensor, opening.input, opening.element)
    item = kind.nbytes // kind.count
    leaf, offset = divmod(opening.element * item, LEAF_BYTES)
    if len(opening.path) != depth_of(leaf_count(kind)):
        raise InvalidProof(f"a path of {len(opening.path)}; the tree is {depth_of(leaf_count(kind))} deep")
    have = fold_path(Tag.DATA_TREE, digest(Tag.LEAF, opening.leaf), leaf, opening.path)
    require(have == root, refusals.AnotherHash, have, root)
    return canonical(int.from_bytes(opening.leaf[offset : offset + item], "little"), kind.dtype)


# --- end --------------------------------------------------------------------------------------------------------


def _end(state: TrialState, losers: int) -> TrialState:
    return replace(state, stage=Stage.DONE, losers=losers)
