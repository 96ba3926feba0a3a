"""Every sequence of moves of small trials: the honest side never loses, always has a move that it owes, and all end.

The other side makes any move that the rules accept, in any order with the honest side's: it concludes for both, posts
true and false states, answers with any place, or does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from referee_py.commit import DataTree
from referee_py.errors import InvalidInput
from referee_py.rounding import Rounding
from referee_py.trial import (
    NOT_SHOWN,
    Answer,
    Move,
    NodesReveal,
    Post,
    ShowLeaf,
    ShowOutputs,
    Stage,
    TrialState,
    apply,
    open_trial,
    places,
    rules,
)
from referee_py.trial.solver import plan
from referee_py.walk.clock import owing
from referee_py.walk.refusals import Refusal
from tests.referee_py.rounding.logs import log_of
from tests.support.planned import moves_of

from . import logged
from .logged import tie
from .parties import Known, Setting, outputs_of

PLAYERS = ("0x" + "11" * 20, "0x" + "22" * 20)
NOW, CLOCK = 100, 1000


@dataclass
class Game:
    """All states that can be reached, explored."""

    setting: Setting
    honest: int
    seen: set[tuple[object, ...]] = field(default_factory=set)
    ends: int = 0
    deepest: int = 0

    def explore(self, state: TrialState, known: Known, depth: int) -> None:
        key = state, known.revealed, known.shown
        if key in self.seen:
            return
        self.seen.add(key)
        self.deepest = max(self.deepest, depth)
        if state.stage is Stage.DONE:
            assert not state.losers >> self.honest & 1
            self.ends += 1
            return
        dispute, own = self.setting.dispute, self.setting.sides[self.honest]
        moves = moves_of(plan(state, dispute, self.honest, own, known, NOW))
        # INVARIANT: an honest side that owes a move has one. So only a silent liar loses by its clock.
        assert moves or not owing(state) >> self.honest & 1, state
        for move, by in [
            *((m, self.honest) for m in moves[:1]),
            *((m, 1 - self.honest) for m in self.any(state)),
        ]:
            try:
                after = apply(state, dispute, move, PLAYERS[by], NOW)
            except (Refusal, InvalidInput):
                continue
            self.explore(after, self.told(known, move), depth + 1)

    def any(self, state: TrialState) -> Iterator[Move]:
        """Yield moves of the other side: with its own data, with the honest side's, and with false states."""
        for knows in (Known(), Known(self.setting.sides[self.honest].outputs)):
            liar = self.setting.sides[1 - self.honest]
            yield from moves_of(plan(state, self.setting.dispute, 1 - self.honest, liar, knows, NOW))[:1]
        for side in (0, 1):
            tree = DataTree(self.setting.sides[side].outputs[state.output])
            yield ShowOutputs((tree.root, NOT_SHOWN) if side == 0 else (NOT_SHOWN, tree.root))
            yield ShowLeaf(side, tree.leaf(state.index))
            if state.stage is Stage.WALK:
                yield NodesReveal(
                    side, tuple(tree.descendants(state.height, state.index, min(state.height, 4)))
                )
        if state.stage in (Stage.POST, Stage.ANSWER):
            yield from self.states(state)

    def states(self, state: TrialState) -> Iterator[Move]:
        case = rules.case_of(state, self.setting.dispute, self.setting.sides[0].tensors())
        at = places(state)
        truth = self.setting.sides[self.honest].states(case, at[:-1])
        for flips in range(3 ** (len(at) - 1)):
            said = [_changed(true, flips // 3**i % 3) for i, true in enumerate(truth)]
            yield Post(b"".join(said))
            for place, one in enumerate([*said, b""]):
                yield Answer(state.offer, place, one)

    def told(self, known: Known, move: Move) -> Known:
        """Return the honest side's knowledge after a move of the other side."""
        if isinstance(move, NodesReveal) and move.side != self.honest:
            return replace(known, revealed=move.children)
        if isinstance(move, ShowLeaf) and move.side != self.honest:
            return replace(known, shown=move.leaf)
        return known


def _changed(state: bytes, how: int) -> bytes:
    return state if not how else bytes([state[0] ^ how, *state[1:]])


@pytest.mark.parametrize("honest", [0, 1])
@pytest.mark.parametrize("most", [2, 3])
@pytest.mark.parametrize(("shapes", "served"), [([(1, 13), (13, 1)], True), ([(20, 5), (5, 30)], False)])
def test_every_game(
    monkeypatch: pytest.MonkeyPatch, shapes: list[tuple[int, int]], served: bool, most: int, honest: int
) -> None:
    """Sums of 13 products, or a result of three leaves; rounds of two places, and of three."""
    monkeypatch.setattr(rules, "MAX_PLACES", most)
    rng = np.random.default_rng(9)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    setting = Setting.of("mm", inputs, {}, 0.7, honest, 2)
    assert setting is not None
    explored(setting, served)


@pytest.mark.parametrize("honest", [0, 1])
@pytest.mark.parametrize("most", [2, 3])
@pytest.mark.parametrize(("entry", "served"), [(True, True), (False, False), (None, True)])
def test_every_game_under_a_log(
    monkeypatch: pytest.MonkeyPatch, entry: bool | None, served: bool, most: int, honest: int
) -> None:
    """Sums on a midpoint: the log gives a direction or nothing, and the liar has the other neighbour."""
    monkeypatch.setattr(rules, "MAX_PLACES", most)
    case, log = tie(600), log_of(600, {} if entry is None else {555: entry}, {3: 7.0})
    (either,) = outputs_of(
        case.name, case.inputs, case.attrs, Rounding(32).mode, log_of(600, {555: not entry})
    )
    explored(logged.told(case, Rounding(32), log, 555, float(either[555]), honest, 2), served)


def explored(setting: Setting, served: bool) -> None:
    game = Game(setting, setting.honest)
    state = open_trial(setting.dispute, PLAYERS, (CLOCK, CLOCK), NOW)
    game.explore(state, Known(setting.sides[1 - setting.honest].outputs if served else None), 0)
    assert game.ends > 2
    assert len(game.seen) > 50
    assert game.deepest < 40
