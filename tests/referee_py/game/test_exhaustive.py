"""Every sequence of moves of small matches: the honest side never loses, always has a move that it owes, and all end.

Trees have height 2 at most: a run tree of one stride, its refinement by another, and the tree of a step of at most four
operators. The test enumerates:

- the liar's claim and each of its refinements: every set of leaves that differ from the honest ones, including those
  beyond the last leaf. Beneath the first false leaf is nothing (a hash that nobody can open) or, if all leaves to its
  right are false as well, every tree of the next kind below. NOTE: leaves to the right of the first difference affect
  only hashes;
- the tree of a step in the same way. Its first false record cannot be opened by anybody, or has a wrong structure, log,
  number of inputs or of outputs, output, or inputs, with outputs that follow from them or not;
- moves, in any order with the honest side's: everything that anybody can publish for either side, or conclude with the
  known data of both, including each wrong child, level and case, and every refinement of the liar. The honest side
  sends the first move of its plan. The panel judges a submitted operator rightly (tests/referee_py/panel shows that);
- time: the liar is silent from any point on. With waits, both clocks may also run down second by second, the honest
  side's too, as long as it moves in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from referee_py.errors import InvalidInput
from referee_py.game.player_data import ChainLog, LoggedView
from referee_py.game.rules import apply, hearing_decided, opened, refinement
from referee_py.game.solver import evidence_of, log_proof_of, plan
from referee_py.game.state import (
    Descend,
    Evidence,
    Exhibit,
    JudgeInput,
    JudgeLog,
    JudgeStructure,
    LogProof,
    MatchState,
    Move,
    OpenRecord,
    Phase,
    Refine,
    Reveal,
    Submit,
    Timeout,
)
from referee_py.walk import clock, descent
from referee_py.walk.descent import Descent, shown
from referee_py.walk.dispute import ZERO
from referee_py.walk.reason import Reason
from referee_py.walk.refusals import Refusal
from tests.support.planned import moves_of, observe

from .small import Lies, junk, small_graph
from .synthetic import match_terms

START, CLOCK = 1_000, 1
STRANGER = "0x" + "EE" * 20


@dataclass
class Game:
    """All states that can be reached, explored. `served`: the honest side gets all data that the liar has."""

    lies: Lies
    honest: int
    served: bool
    waits: bool
    seen: set[object] = field(default_factory=set)
    ends: set[tuple[Reason, int]] = field(default_factory=set)
    deepest: int = 0

    def __post_init__(self) -> None:
        self.terms = match_terms(self.lies.graph, clock=CLOCK)
        self.program = self.lies.graph.header

    def explore(self) -> None:
        for claim in self.lies.claims():
            roots = self.lies.honest.root, claim.root
            terms = replace(self.terms, roots=roots if self.honest == 0 else roots[::-1])
            self._go(opened(terms, START), ChainLog(), START, 0)

    def _go(self, state: MatchState, log: ChainLog, now: int, depth: int) -> None:
        key = self._known(state), tuple(log.children), frozenset(log.records), now
        if key in self.seen:
            return
        self.seen.add(key)
        self.deepest = max(self.deepest, depth)
        if state.phase is Phase.DONE:
            assert not state.losers >> self.honest & 1, state
            assert now <= START + 2 * CLOCK + 1
            self.ends.add((state.reason, state.level))
            return
        moves = self._plan(state, log, now)
        # INVARIANT: an honest side that owes a move has one. So only a silent liar loses by its clock.
        assert moves or not clock.owing(state) >> self.honest & 1, state
        for move, sender in [
            *((move, self.terms.players[self.honest]) for move in moves[:1]),
            *((move, self.terms.players[1 - self.honest]) for move in self._any(state)),
        ]:
            try:
                after = self._applied(state, move, sender, now)
            except (Refusal, InvalidInput):
                continue
            self._go(after, _told(log, state, move, after), now, depth + 1)
        if self._may_wait(state, now, bool(moves)):
            self._go(state, log, now + 1, depth + 1)

    def _known(self, state: MatchState) -> MatchState:
        """NOTE: in Refine, the root of a side that has not refined is that of the tree above, and has no effect."""
        if state.phase is not Phase.REFINE:
            return state
        root = tuple(root if state.posted >> side & 1 else ZERO for side, root in enumerate(state.root))
        return replace(state, root=root)  # type: ignore[arg-type]

    def _plan(self, state: MatchState, log: ChainLog, now: int) -> list[Move]:
        serve = (self.lies.serve, self.lies.serve_record) if self.served else (None, None)
        view = LoggedView(log, 1 - self.honest, *serve)
        own = self.lies.honest
        return moves_of(
            plan(state, self.terms, self.honest, may_refine=True, own=own, opponent=view, now=now)
        )

    def _applied(self, state: MatchState, move: Move, sender: str, now: int) -> MatchState:
        after = apply(state, self.terms, move, sender, now)
        if after.phase is not Phase.HEARING:
            return after
        record = self.lies.records[after.node[self.honest]]
        truth = self.lies.graph.truth(after.index, record.inputs, record.log).hash()
        return hearing_decided(
            after, sum(1 << side for side in (0, 1) if after.node[side] != truth), Reason.OPERATOR
        )

    def _may_wait(self, state: MatchState, now: int, moves: bool) -> bool:
        """Return whether a second may pass. Without waits, only if nobody but the liar can make a move."""
        if clock.late(state, now) or (moves and not self.waits):
            return False
        return not clock.late(state, now + 1) >> self.honest & 1

    # --- what anybody may try -----------------------------------------------------------------------------------------

    def _any(self, state: MatchState) -> Iterator[Move]:
        yield Timeout()
        match state.phase:
            case Phase.WALK:
                yield from self._walks(state)
            case Phase.REFINE:
                yield from self._refinements(state)
            case Phase.OPEN:
                yield from self._cases(state)

    def _walks(self, state: MatchState) -> Iterator[Move]:
        tag = state.tag(self.program)
        trees = [self.lies.serve(tag, root, 0) for root in state.root]
        for side, tree in enumerate(trees):
            if tree is not None:
                levels = shown(state.height)
                yield Reveal(side, tuple(tree.descendants(state.height, state.index, levels)))
        first, second = trees
        if first is None or second is None:
            return
        for levels in range(1, state.height + 1):
            for child in range(1 << levels):
                index, height = (state.index << levels) + child, state.height - levels
                nodes = [tree.node(height, index) for tree in (first, second)]
                paths = [tuple(tree.path(index, height, state.height)) for tree in (first, second)]
                move = Descend(Descent(child, nodes[0], paths[0], nodes[1], paths[1]))
                yield move
                if not height and index:
                    for tree in (first, second):
                        before = tree.node(0, index - 1), tuple(tree.path(index - 1))
                        yield replace(move, previous=before[0], previous_path=before[1])

    def _refinements(self, state: MatchState) -> Iterator[Move]:
        liar = 1 - self.honest
        level, count = refinement(state, self.terms)
        for tree in self.lies.refinements(level, state.start, state.end, state.node[liar]):
            yield Refine(liar, tree.root, tuple(tree.path(count - 1)))
            yield Refine(self.honest, tree.root, tuple(tree.path(count - 1)))
        honest = self.lies.honest.run_tree(level, state.start, state.end)
        yield Refine(liar, honest.root, tuple(honest.path(count - 1)))

    def _cases(self, state: MatchState) -> Iterator[Move]:
        records = [self.lies.records.get(node) for node in state.node]
        for side, record in enumerate(records):
            if record is not None:
                yield OpenRecord(side, record)
        first, second = records
        if first is None or second is None:
            return
        graph = self.lies.graph
        exhibit = Exhibit(
            first, second, graph.structure(state.index), tuple(graph.structure_path(state.index))
        )
        yield JudgeStructure(exhibit)
        yield Submit(exhibit)
        yield JudgeLog(exhibit, log_proof_of(self.lies.honest, state) or LogProof(ZERO, ZERO, (), ()))
        for k, operand in enumerate(graph.operands[state.index]):
            yield JudgeInput(exhibit, Evidence(k))
            right = evidence_of(self.lies.honest, state, k, operand)
            if right is not None:
                yield JudgeInput(exhibit, right)
                yield JudgeInput(exhibit, replace(right, source=first))
                yield JudgeInput(exhibit, replace(right, source=second))
                yield JudgeInput(exhibit, replace(right, tensor=junk("tensor")))


def _told(log: ChainLog, before: MatchState, move: Move, after: MatchState) -> ChainLog:
    """Return the chain's log including the move."""
    told = ChainLog()
    told.children, told.records = list(log.children), dict(log.records)
    observe(told, before, move, after)
    return told


def play(
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, int, tuple[int, ...]],
    honest: int,
    *,
    served: bool,
    generations: int = 4,
    waits: bool = False,
) -> Game:
    """Explore a match. `shape`: nodes, steps and strides. `generations`: levels that one reveal goes down."""
    monkeypatch.setattr(descent, "REVEAL_LEVELS", generations)
    game = Game(Lies(small_graph(*shape)), honest, served, waits)
    game.explore()
    print(f"{len(game.seen)} states, {len(game.ends)} kinds of ends, {game.deepest} deep")
    return game


Shape = tuple[int, int, tuple[int, ...]]
SMALL = [
    # A step tree with a place beyond its last leaf.
    pytest.param((3, 4, (2, 1)), {}, marks=pytest.mark.slow),
    # A run tree with one, and a last interval of one step.
    ((2, 5, (2, 1)), {}),
    pytest.param((2, 5, (2, 1)), {"generations": 1}, marks=pytest.mark.slow),
    # A run tree of one leaf, and a step tree of one.
    ((1, 3, (3, 1)), {"waits": True}),
    pytest.param((2, 2, (2, 1)), {"waits": True}, marks=pytest.mark.slow),
]
LARGE = [
    (shape, options)
    for shape in ((3, 6, (2, 1)), (2, 8, (4, 1)), (4, 8, (4, 1)), (4, 12, (4, 1)))
    for options in ({}, {"generations": 1}, {"waits": True})
]


@pytest.mark.parametrize("honest", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("served", [True, False], ids=["served", "withheld"])
@pytest.mark.parametrize(("shape", "options"), SMALL, ids=str)
def test_every_match(
    monkeypatch: pytest.MonkeyPatch, shape: Shape, options: dict[str, Any], served: bool, honest: int
) -> None:
    game = play(monkeypatch, shape, honest, served=served, **options)
    # The play tests something only if it reaches every ending; one operator, or full trees, do not have all of them.
    want = {Reason.TIMEOUT, Reason.STRUCTURE, Reason.INPUT_CHECKPOINT, Reason.INPUT_CONSTANT, Reason.OPERATOR}
    want |= {Reason.INPUT_NODE, Reason.INPUT_STEP} if shape[0] > 1 else set()
    want |= {Reason.PADDING} if shape[1] > 3 else set()
    assert {reason for reason, _ in game.ends} == want


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("served", [True, False], ids=["served", "withheld"])
@pytest.mark.parametrize(("shape", "options"), LARGE, ids=str)
def test_every_larger_match(
    monkeypatch: pytest.MonkeyPatch, shape: Shape, options: dict[str, Any], served: bool
) -> None:
    play(monkeypatch, shape, int(served), served=served, **options)
