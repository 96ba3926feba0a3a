"""The rules of a match as one pure function: the contract `Referee` in Python (docs/protocol.md, section 7).

`apply(state, terms, move, sender, now)` gives the state after the move, or raises the refusal that names the
contract's custom error; the state is a value and never changes.
"""

from __future__ import annotations

from dataclasses import replace

from ..commit import Tag, depth_of, empty, fold_descendants, fold_path
from . import clock, judge, refusals
from .judge import proven
from .refusals import require
from .state import (
    BOTH,
    MAX_GENERATIONS,
    NOBODY,
    ZERO,
    Descend,
    JudgeInput,
    JudgeLog,
    JudgeStructure,
    MatchState,
    MatchTerms,
    Move,
    OpenRecord,
    Phase,
    Reason,
    Refine,
    Reveal,
    Submit,
    Timeout,
    leaf_count,
    leaf_end,
)


def apply(state: MatchState, terms: MatchTerms, move: Move, sender: str, now: int) -> MatchState:
    """The state after ``move`` by ``sender`` at ``now``. Raises a Refusal if the rules refuse it."""
    match move:
        case Reveal():
            return _reveal(_at(state, Phase.WALK, now), terms, move)
        case Descend():
            return _descend(_at(state, Phase.WALK, now), terms, move)
        case Refine():
            return _refine(_at(state, Phase.REFINE, now), terms, move, sender)
        case OpenRecord():
            return _open(_at(state, Phase.OPEN, now), move)
        case JudgeStructure():
            return _end(
                _at(state, Phase.OPEN, now),
                judge.structure(state, terms.program, move.exhibit),
                Reason.STRUCTURE,
            )
        case JudgeInput():
            return _end(_at(state, Phase.OPEN, now), *judge.input_(state, terms.program, move))
        case JudgeLog():
            return _end(_at(state, Phase.OPEN, now), judge.log(state, terms, move), Reason.LOG)
        case Submit():
            return _submit(_at(state, Phase.OPEN, now), terms, move)
        case Timeout():
            return _timeout(state, now)
    raise TypeError(f"no rule for {move!r}")


def hearing_decided(state: MatchState, losers: int, reason: Reason) -> MatchState:
    """The end that the panel gives to a match that was submitted."""
    assert state.phase is Phase.HEARING  # INVARIANT: the panel says it once for each such match.
    return _end(state, losers, reason)


def _at(state: MatchState, phase: Phase, now: int) -> MatchState:
    """The guards of a move by which a side meets its clock, and its charge."""
    require(state.phase is phase, refusals.WrongPhase, state.phase.name, phase.name)
    late = clock.late(state, now)
    require(not late, refusals.Late, late)
    return clock.charge(state, now)


def _end(state: MatchState, losers: int, reason: Reason) -> MatchState:
    return replace(state, phase=Phase.DONE, losers=losers, reason=reason)


# --- walk -------------------------------------------------------------------------------------------------------


def opened(terms: MatchTerms, now: int) -> MatchState:
    """A match as it begins: at the root of the coarsest run tree, or below it if that tree is one leaf."""
    program = terms.program
    state = MatchState(
        phase=Phase.WALK,
        posted=NOBODY,
        level=0,
        height=depth_of(leaf_count(0, program.steps, program.strides[0])),
        index=0,
        start=0,
        end=program.steps,
        root=terms.roots,
        node=terms.roots,
        agreed=program.initial_root,
        clock=(terms.clock, terms.clock),
        tick=now,
    )
    return state if state.height else _to_interval(state, terms)


def _post(state: MatchState, side: int) -> MatchState:
    require(side in (0, 1), refusals.BadSide, side)
    require(not state.posted >> side & 1, refusals.AlreadyPosted, side)
    return replace(state, posted=state.posted | 1 << side)


def _reveal(state: MatchState, terms: MatchTerms, move: Reveal) -> MatchState:
    state = _post(state, move.side)
    expected = 1 << min(state.height, MAX_GENERATIONS)
    require(len(move.children) == expected, refusals.WrongChildCount, len(move.children), expected)
    folded, want = fold_descendants(state.tag(terms.program), move.children), state.node[move.side]
    require(folded == want, refusals.WrongNode, move.side, folded, want)
    return state


def _descend(state: MatchState, terms: MatchTerms, move: Descend) -> MatchState:
    levels = len(move.path0)
    require(levels == len(move.path1), refusals.PathsDiffer, levels, len(move.path1))
    least = min(state.height, MAX_GENERATIONS)
    require(least <= levels <= state.height, refusals.BadDescent, levels, state.height)
    require(move.child >> levels == 0, refusals.ChildOutOfRange, move.child, levels)
    require(move.node0 != move.node1, refusals.NoDifference, move.node0)
    tag = state.tag(terms.program)
    for side, (node, path) in enumerate(((move.node0, move.path0), (move.node1, move.path1))):
        folded = fold_path(tag, node, move.child, path)
        require(folded == state.node[side], refusals.WrongNode, side, folded, state.node[side])
    for level in range(levels):
        # INVARIANT: everything to the left of the position is equal in both trees.
        left = move.child >> level & 1
        require(not left or move.path0[level] == move.path1[level], refusals.EarlierDifference, level)
    state = replace(
        state,
        node=(move.node0, move.node1),
        index=(state.index << levels) + move.child,
        height=state.height - levels,
        posted=NOBODY,
    )
    if _agrees(state, terms):
        return _to_interval(_agree(state, terms, move), terms)
    require(move.previous == ZERO and not move.previous_path, refusals.PreviousNotNeeded)
    return _at_leaf(state, terms) if state.height == 0 else state


def _agrees(state: MatchState, terms: MatchTerms) -> bool:
    """Whether the position is a leaf of a run tree with a checkpoint before it."""
    program = terms.program
    return not state.height and not state.in_step_tree(program) and 0 < state.index < state.leaves(program)


def _agree(state: MatchState, terms: MatchTerms, move: Descend) -> MatchState:
    depth = depth_of(state.leaves(terms.program))
    proven(Tag.RUN_TREE, move.previous, state.index - 1, move.previous_path, depth, *state.root)
    return replace(state, agreed=move.previous)


def _at_leaf(state: MatchState, terms: MatchTerms) -> MatchState:
    program = terms.program
    if state.index >= state.leaves(program):
        absent = empty(state.tag(program), 0)
        return _end(state, _wrong(state.node, absent), Reason.PADDING)
    if state.in_step_tree(program):
        return replace(state, phase=Phase.OPEN)
    return _to_interval(state, terms)


def _wrong(claimed: tuple[bytes, bytes], truth: bytes) -> int:
    return sum(1 << side for side in (0, 1) if claimed[side] != truth)


def _to_interval(state: MatchState, terms: MatchTerms) -> MatchState:
    """At a leaf of a run tree: the disputed interval is one step, or is refined."""
    program = terms.program
    stride = program.strides[state.level]
    start = state.start + state.index * stride
    end = leaf_end(state.start, state.end, stride, state.index)
    state = replace(state, start=start, end=end)
    if end - start > 1:
        return replace(state, phase=Phase.REFINE)
    return _enter(state, len(program.strides), state.node, program.node_count)


def _enter(state: MatchState, level: int, roots: tuple[bytes, bytes], leaves: int) -> MatchState:
    """The root of the next tree; a step tree of one node is open at once."""
    height = depth_of(leaves)
    phase = Phase.WALK if height else Phase.OPEN
    return replace(
        state, phase=phase, posted=NOBODY, level=level, root=roots, node=roots, height=height, index=0
    )


def _refine(state: MatchState, terms: MatchTerms, move: Refine, sender: str) -> MatchState:
    state = _post(state, move.side)
    # SAFETY: a finer root is not bound by any hash but its last leaf, so only the side itself may post it.
    spokesman = terms.players[move.side]
    require(sender == spokesman, refusals.NotSpokesman, sender, spokesman)
    level, count = refinement(state, terms)
    proven(Tag.RUN_TREE, state.node[move.side], count - 1, move.last_path, depth_of(count), move.root)
    roots = (move.root, state.root[1]) if move.side == 0 else (state.root[0], move.root)
    if state.posted == BOTH:
        return _enter(state, level, roots, count)
    return replace(state, root=roots)


def refinement(state: MatchState, terms: MatchTerms) -> tuple[int, int]:
    """Level and number of leaves of the next finer run tree of the disputed interval (section 5)."""
    strides = terms.program.strides
    level = next(k for k, stride in enumerate(strides) if stride < state.end - state.start)
    return level, leaf_count(state.start, state.end, strides[level])


# --- open -------------------------------------------------------------------------------------------------------


def _open(state: MatchState, move: OpenRecord) -> MatchState:
    state = _post(state, move.side)
    judge.belongs(move.record, move.side, state)
    return state


def _submit(state: MatchState, terms: MatchTerms, move: Submit) -> MatchState:
    judge.operator(state, terms.program, move.exhibit)
    return replace(state, phase=Phase.HEARING, posted=NOBODY)


def _timeout(state: MatchState, now: int) -> MatchState:
    losers = clock.late(state, now)
    require(losers != NOBODY, refusals.NotLate)
    return _end(state, losers, Reason.TIMEOUT)
