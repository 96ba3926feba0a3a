"""The rules of a match as one pure function: the contract `Referee` in Python (docs/protocol.md, section 7).

`apply(state, terms, move, sender, now)` gives the state after the move, or raises the refusal that names the
contract's custom error; the state is a value and never changes.
"""

from __future__ import annotations

from dataclasses import replace

from ..attestation import Verdict, recover
from ..commit import Tag, depth_of, empty, fold_descendants
from . import clock, judge, refusals
from .judge import proven
from .refusals import require
from .state import (
    BOTH,
    MAX_GENERATIONS,
    NOBODY,
    ZERO,
    Attest,
    CallVerifiers,
    Descend,
    Expire,
    JudgeInput,
    JudgeStructure,
    MatchState,
    Move,
    OpenRecord,
    Phase,
    Reason,
    Refine,
    Reveal,
    Terms,
    Timeout,
    leaf_count,
    leaf_end,
)


def apply(state: MatchState, terms: Terms, move: Move, sender: str, now: int) -> MatchState:
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
                _at(state, Phase.OPEN, now), judge.structure(state, terms.program, move), Reason.STRUCTURE
            )
        case JudgeInput():
            return _end(_at(state, Phase.OPEN, now), *judge.input(state, terms.program, move))
        case CallVerifiers():
            return _call_verifiers(_at(state, Phase.OPEN, now), terms, move, now)
        case Attest():
            return _attest(_at(state, Phase.VERDICT, now), terms, move, now)
        case Expire():
            return _expire(_at(state, Phase.VERDICT, now), now)
        case Timeout():
            return _timeout(state, now)
    raise TypeError(f"no rule for {move!r}")


def _at(state: MatchState, phase: Phase, now: int) -> MatchState:
    """The guards of every move but a timeout, and its charge."""
    require(state.phase is phase, refusals.WrongPhase)
    require(not clock.late(state, now), refusals.Late)
    return clock.charge(state, now)


def _end(state: MatchState, losers: int, reason: Reason) -> MatchState:
    return replace(state, phase=Phase.DONE, posted=NOBODY, losers=losers, reason=reason)


# --- walk -----------------------------------------------------------------------------------------------------


def _post(state: MatchState, side: int) -> MatchState:
    require(side in (0, 1), refusals.BadSide)
    require(not state.posted >> side & 1, refusals.AlreadyPosted)
    return replace(state, posted=state.posted | 1 << side)


def _reveal(state: MatchState, terms: Terms, move: Reveal) -> MatchState:
    state = _post(state, move.side)
    expected = 1 << min(state.height, MAX_GENERATIONS)
    require(
        len(move.children) == expected, refusals.WrongLength, f"{len(move.children)} nodes, not {expected}"
    )
    folded = fold_descendants(state.tag(terms.program), move.children)
    require(folded == state.node[move.side], refusals.WrongHash)
    return state


def _descend(state: MatchState, terms: Terms, move: Descend) -> MatchState:
    generations = len(move.path0)
    least = min(state.height, MAX_GENERATIONS)
    require(len(move.path1) == generations, refusals.WrongLength)
    require(least <= generations <= state.height, refusals.WrongLength)
    require(move.node0 != move.node1, refusals.SameNode)
    tag = state.tag(terms.program)
    proven(tag, move.node0, move.child, move.path0, state.node[0], generations)
    proven(tag, move.node1, move.child, move.path1, state.node[1], generations)
    # INVARIANT: everything to the left of the position is equal in both trees.
    left = [level for level in range(generations) if move.child >> level & 1]
    require(all(move.path0[level] == move.path1[level] for level in left), refusals.NotFirst)
    state = replace(
        state,
        node=(move.node0, move.node1),
        index=(state.index << generations) + move.child,
        height=state.height - generations,
        posted=NOBODY,
    )
    return _at_leaf(state, terms, move) if state.height == 0 else _no_previous(state, move)


def _no_previous(state: MatchState, move: Descend) -> MatchState:
    require(move.previous == ZERO and not move.previous_path, refusals.WrongLength)
    return state


def _at_leaf(state: MatchState, terms: Terms, move: Descend) -> MatchState:
    program = terms.program
    if state.index >= state.leaves(program):
        absent = empty(state.tag(program), 0)
        losers = sum(1 << side for side in (0, 1) if state.node[side] != absent)
        return _end(_no_previous(state, move), losers, Reason.PADDING)
    if state.in_step_tree(program):
        return replace(_no_previous(state, move), phase=Phase.OPEN)
    if state.index:
        depth = depth_of(state.leaves(program))
        proven(Tag.RUN_TREE, move.previous, state.index - 1, move.previous_path, state.root[0], depth)
        state = replace(state, agreed=move.previous)
    else:
        _no_previous(state, move)
    stride = program.strides[state.level]
    start = state.start + state.index * stride
    state = replace(state, start=start, end=leaf_end(state.start, state.end, stride, state.index))
    if state.end - state.start > 1:
        return replace(state, phase=Phase.REFINE)
    return _enter(state, len(program.strides), state.node, program.node_count)


def _enter(state: MatchState, level: int, roots: tuple[bytes, bytes], leaves: int) -> MatchState:
    """The root of the next tree; a step tree of one node is open at once."""
    height = depth_of(leaves)
    phase = Phase.WALK if height else Phase.OPEN
    return replace(
        state, phase=phase, posted=NOBODY, level=level, root=roots, node=roots, height=height, index=0
    )


def _refine(state: MatchState, terms: Terms, move: Refine, sender: str) -> MatchState:
    state = _post(state, move.side)
    # SAFETY: a new root is not bound by a hash, so nobody may post it for another.
    require(sender == terms.players[move.side], refusals.NotSpokesman)
    level, count = refinement(state, terms)
    proven(Tag.RUN_TREE, state.node[move.side], count - 1, move.last_path, move.root, depth_of(count))
    refined = (move.root, state.refined[1]) if move.side == 0 else (state.refined[0], move.root)
    if state.posted != BOTH:
        return replace(state, refined=refined)
    return _enter(replace(state, refined=(ZERO, ZERO)), level, refined, count)


def refinement(state: MatchState, terms: Terms) -> tuple[int, int]:
    """Level and number of leaves of the next finer run tree of the disputed interval (section 5)."""
    length = state.end - state.start
    level = next(k for k, stride in enumerate(terms.program.strides) if stride < length)
    return level, leaf_count(state.start, state.end, terms.program.strides[level])


# --- open and verdict -----------------------------------------------------------------------------------------


def _open(state: MatchState, move: OpenRecord) -> MatchState:
    state = _post(state, move.side)
    judge.opened(move.record, state.node[move.side])
    return state


def _call_verifiers(state: MatchState, terms: Terms, move: CallVerifiers, now: int) -> MatchState:
    judge.operator(state, terms.program, move)
    return replace(state, phase=Phase.VERDICT, posted=NOBODY, verdict_end=now + terms.verdict_period)


def _attest(state: MatchState, terms: Terms, move: Attest, now: int) -> MatchState:
    require(now < state.verdict_end, refusals.VerdictOver)
    verdict = Verdict(terms.match_id, state.end, state.index, move.record)
    verifier = recover(verdict, terms.chain_id, terms.referee, move.signature)
    if verifier is None or verifier not in terms.verifiers:
        raise refusals.NotVerifier
    require(verifier not in [voter for voter, _ in state.votes], refusals.AlreadyVoted)
    votes = (*state.votes, (verifier, move.record))
    state = replace(state, votes=votes)
    if sum(record == move.record for _, record in votes) < terms.threshold:
        return state
    losers = sum(1 << side for side in (0, 1) if state.node[side] != move.record)
    return _end(state, losers, Reason.OPERATOR)


def _expire(state: MatchState, now: int) -> MatchState:
    require(now >= state.verdict_end, refusals.VerdictOpen)
    return _end(state, NOBODY, Reason.UNRESOLVED)


def _timeout(state: MatchState, now: int) -> MatchState:
    losers = clock.late(state, now)
    require(losers != NOBODY, refusals.NotLate)
    return _end(state, losers, Reason.TIMEOUT)
