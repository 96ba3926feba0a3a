"""Every sequence of moves of small hearings: a right party that plays loses nothing, ether is conserved, and all end.

Honest parties send the solver's moves in time. Everybody else makes any move that the rules accept, in any order with
those of honest parties. A trial is abstracted to its result: any, except that a right party that plays does not lose
(tests/referee_py/trial/test_exhaustive.py shows that of real trials).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import pytest

from referee_py.commit import Record
from referee_py.panel.solver import plan
from referee_py.panel.state import HearingPhase, Move, trial_players
from referee_py.walk.reason import Reason
from referee_py.walk.refusals import Refusal

from .scene import (
    APPEAL_PERIOD,
    BOND,
    CLOCK,
    NEITHER,
    RIGHT,
    SPOKESMEN,
    STAKE,
    START,
    STRANGER,
    VERDICT_PERIOD,
    VERIFIERS,
    WRONG,
    Scene,
)

VOTERS = 2
TRIAL_SECONDS = 2 * CLOCK
MATCH_SECONDS = VERDICT_PERIOD + APPEAL_PERIOD + TRIAL_SECONDS
DEFENCE_SECONDS = VOTERS * (APPEAL_PERIOD + TRIAL_SECONDS) + APPEAL_PERIOD


@dataclass
class World:
    """All states that can be reached, explored. `truth` is the right record: side 0's, or neither side's."""

    truth: Record
    honest: frozenset[str]
    seen: set[object] = field(default_factory=set)
    ends: set[tuple[object, ...]] = field(default_factory=set)
    deepest: int = 0

    def explore(self, scene: Scene, depth: int = 0) -> None:
        money = (frozenset(escrow.items()) for escrow in (scene.panel.credits, scene.paid))
        bonds = (*scene.bonds(*range(VOTERS)), *scene.holds())
        key = scene.now, scene.state, *money, bonds, tuple(scene.decided)
        if key in self.seen:
            return
        self.seen.add(key)
        self.deepest = max(self.deepest, depth)
        self.check(scene)
        if scene.state.phase is HearingPhase.DONE:
            self.check_end(scene)
            return
        for after in self.next(scene):
            self.explore(after, depth + 1)

    # --- moves and results ----------------------------------------------------------------------------------------

    def next(self, scene: Scene) -> Iterator[Scene]:
        if scene.state.in_trial:
            yield from self.results(scene)
            return
        over = scene.now >= scene.state.until
        due = [(plan(scene.state, scene.terms, me, self.truth, scene.now), me) for me in self.honest]
        for move, me in due:
            if move:
                yield self.played(scene, move, me)
        for move, sender in self.anything(scene):
            try:
                yield self.played(scene, move, sender)
            except Refusal:
                continue
        # An honest party sends a due move in time, so the period does not end before it.
        if not over and not any(move for move, _ in due):
            yield scene.copy().over()

    def played(self, scene: Scene, move: Move, sender: str) -> Scene:
        return scene.copy().play(move, sender, STAKE if move == scene.appeal else 0)

    def anything(self, scene: Scene) -> Iterator[tuple[Move, str]]:
        """Yield every move that a dishonest party may try, and honest votes, with the sender."""
        for voter, record in product(range(VOTERS), (RIGHT, WRONG, NEITHER)):
            voted = VERIFIERS[voter] in scene.state.voters
            if not voted and (VERIFIERS[voter] not in self.honest or record == self.truth):
                yield scene.vote(record, voter), STRANGER
        for spokesman in SPOKESMEN:
            if spokesman not in self.honest:
                yield scene.appeal, spokesman
        for verifier, record in product(VERIFIERS[:VOTERS], (RIGHT, WRONG, NEITHER)):
            if verifier not in self.honest:
                yield scene.stand(record), verifier
        yield scene.escalate, STRANGER
        yield scene.proceed, STRANGER

    def results(self, scene: Scene) -> Iterator[Scene]:
        """Yield every result of the running trial, at once or after the longest time."""
        number = scene.panel.trial_of(scene.terms.hearing_id)
        assert number is not None
        trial = scene.panel.trials[number]
        players = trial_players(scene.state, scene.terms)
        assert players == trial.state.players
        safe = sum(
            1 << side
            for side in (0, 1)
            if players[side] in self.honest and trial.dispute.records[side] == self.truth
        )
        for losers, late, seconds in product((1, 2, 3), (False, True), (0, TRIAL_SECONDS)):
            if not losers & safe:
                after = scene.copy()
                after.now += seconds
                yield after.tried(losers, late=late)

    # --- what must hold -------------------------------------------------------------------------------------------

    def check(self, scene: Scene) -> None:
        assert scene.conserved()
        assert len(scene.decided) <= 1
        if not scene.decided:
            assert scene.now <= START + MATCH_SECONDS
        assert scene.now <= START + MATCH_SECONDS + DEFENCE_SECONDS
        for losers, reason, deciders in scene.decided:
            assert losers, "a match has a loser"
            assert reason in (Reason.OPERATOR, Reason.TIMEOUT)
            assert set(deciders) <= set(VERIFIERS[:VOTERS])
            if SPOKESMEN[0] in self.honest and self.truth == RIGHT:
                assert not losers & 1
        for number, verifier in enumerate(scene.terms.verifiers):
            if verifier in self.honest or verifier not in scene.state.voters:
                assert scene.bonds(number) == [BOND]

    def check_end(self, scene: Scene) -> None:
        state = scene.state
        assert len(scene.decided) == 1, "a hearing ends its match"
        assert not any(scene.holds())
        assert (state.bond, scene.panel.at_risk()) == (0, 0)
        if state.defendant in state.signers(state.verdict):  # the last trial cleared it
            assert scene.credits(state.defendant) == [STAKE // 2]
        if SPOKESMEN[0] in self.honest and self.truth == RIGHT:
            assert scene.credits(SPOKESMEN[0])[0] >= scene.paid.get(SPOKESMEN[0], 0)
        self.ends.add((*scene.decided[0], state.trials, tuple(scene.bonds(*range(VOTERS)))))


CASES = [
    (threshold, truth, honest)
    for threshold in (0, 1, 2)
    for truth in ("side 0", "neither")
    for honest in (
        (),
        ("spokesman",),
        ("one",),
        ("one", "two"),
        ("spokesman", "one"),
        ("spokesman", "one", "two"),
    )
    if threshold or "one" not in honest
]
NAMES = {"spokesman": SPOKESMEN[0], "one": VERIFIERS[0], "two": VERIFIERS[1]}


@pytest.mark.parametrize(
    ("threshold", "truth", "honest"),
    CASES,
    ids=["-".join((str(t), w, *(h or ("nobody",)))) for t, w, h in CASES],
)
def test_every_hearing(threshold: int, truth: str, honest: tuple[str, ...]) -> None:
    """Two verifiers, or none if the threshold is zero. The parties in ``honest`` are honest, all others are not."""
    world = World(RIGHT if truth == "side 0" else NEITHER, frozenset(NAMES[name] for name in honest))
    world.explore(Scene(threshold, VOTERS if threshold else 0))
    assert world.deepest <= 9
    # The play tests something only if a side that does not play loses, and false verdicts cost their signers.
    if not honest:
        assert {end[0] for end in world.ends} >= {1, 2, 3}
        lost = (0,) * threshold + (BOND,) * (VOTERS - threshold)
        assert not threshold or lost in {end[-1] for end in world.ends}
    print(f"{len(world.seen)} states, {len(world.ends)} ends, {world.deepest} deep")
