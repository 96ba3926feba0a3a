"""The rules of a match as one pure function: the contract `Referee` in Python (docs/protocol.md, section 7).

`apply(state, terms, move, sender, now)` returns the state after the move, or raises the refusal that is named after
the contract's custom error. A state is an immutable value.
"""

from __future__ import annotations

from dataclasses import replace

from ..commit import Tag, depth_of, empty
from ..program.terms import leaf_count, leaf_end
from ..walk import clock
from ..walk.descent import check_children, check_way
from ..walk.dispute import ZERO
from ..walk.proof import proven
from ..walk.reason import Reason
from ..walk.refusals import BadSide, WrongPhase, require
from ..walk.sides import BOTH, NOBODY, unlike
from . import judge, refusals
from .state import (
    Descend,
    JudgeInput,
    JudgeLog,
    JudgeStructure,
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


def apply(state: MatchState, terms: MatchTerms, move: Move, sender: str, now: int) -> MatchState:
    """Return the state after ``move`` by ``sender`` at ``now``, in seconds. Raises a Refusal if the rules refuse it."""
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
    """Return the state after the panel has decided a submitted match. ``losers`` is a bit mask."""
    assert state.phase is Phase.HEARING  # INVARIANT: the panel decides each submitted match once.
    return _end(state, losers, reason)


def _at(state: MatchState, phase: Phase, now: int) -> MatchState:
    """Check that the match is in ``phase`` and nobody is late; return the state with the clocks charged."""
    require(state.phase is phase, WrongPhase, state.phase.name, phase.name)
    late = clock.late(state, now)
    require(not late, refusals.Late, late)
    return clock.charge(state, now)


def _end(state: MatchState, losers: int, reason: Reason) -> MatchState:
    return replace(state, phase=Phase.DONE, losers=losers, reason=reason)


# --- walk -------------------------------------------------------------------------------------------------------


def opened(terms: MatchTerms, now: int) -> MatchState:
    """Return a new match: at the root of the coarsest run tree, or below it if that tree is one leaf."""
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
    require(side in (0, 1), BadSide, side)
    require(not state.posted >> side & 1, refusals.AlreadyPosted, side)
    return replace(state, posted=state.posted | 1 << side)


def _reveal(state: MatchState, terms: MatchTerms, move: Reveal) -> MatchState:
    state = _post(state, move.side)
    check_children(state.tag(terms.program), move.side, state.node[move.side], state.height, move.children)
    return state


def _descend(state: MatchState, terms: MatchTerms, move: Descend) -> MatchState:
    levels = check_way(state.tag(terms.program), state.node, state.height, move.way)
    state = replace(
        state,
        node=(move.way.node0, move.way.node1),
        index=(state.index << levels) + move.way.child,
        height=state.height - levels,
        posted=NOBODY,
    )
    if _agrees(state, terms):
        return _to_interval(_agree(state, terms, move), terms)
    require(move.previous == ZERO and not move.previous_path, refusals.PreviousNotNeeded)
    return _at_leaf(state, terms) if state.height == 0 else state


def _agrees(state: MatchState, terms: MatchTerms) -> bool:
    """Return whether the position is a leaf of a run tree with a checkpoint before it."""
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
        return _end(state, unlike(state.node, absent), Reason.PADDING)
    if state.in_step_tree(program):
        return replace(state, phase=Phase.OPEN)
    return _to_interval(state, terms)


def _to_interval(state: MatchState, terms: MatchTerms) -> MatchState:
    """Return the state at a leaf of a run tree: an interval of one step is entered, a longer one is refined."""
    program = terms.program
    stride = program.strides[state.level]
    start = state.start + state.index * stride
    end = leaf_end(state.start, state.end, stride, state.index)
    state = replace(state, start=start, end=end)
    if end - start > 1:
        return replace(state, phase=Phase.REFINE)
    return _enter(state, len(program.strides), state.node, program.node_count)


def _enter(state: MatchState, level: int, roots: tuple[bytes, bytes], leaves: int) -> MatchState:
    """Return the state at the root of the next tree; a step tree of one node is open at once."""
    height = depth_of(leaves)
    phase = Phase.WALK if height else Phase.OPEN
    return replace(
        state, phase=phase, posted=NOBODY, level=level, root=roots, node=roots, height=height, index=0
    )


def _refine(state: MatchState, terms: MatchTerms, move: Refine, sender: str) -> MatchState:
    state = _post(state, move.side)
    # SAFETY: of a finer root only the last leaf is bound by a hash, so only the side's spokesman may post it.
    spokesman = terms.players[move.side]
    require(sender == spokesman, refusals.NotSpokesman, sender, spokesman)
    level, count = refinement(state, terms)
    proven(Tag.RUN_TREE, state.node[move.side], count - 1, move.last_path, depth_of(count), move.root)
    roots = (move.root, state.root[1]) if move.side == 0 else (state.root[0], move.root)
    if state.posted == BOTH:
        return _enter(state, level, roots, count)
    return replace(state, root=roots)


def refinement(state: MatchState, terms: MatchTerms) -> tuple[int, int]:
    """Return level and number of leaves of the next finer run tree of the interval (docs/protocol.md, section 5)."""
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
