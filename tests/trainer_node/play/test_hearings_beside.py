"""Computations of the hearing player outside the loop: no trial waits for the states of another."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from referee_py.element import Case
from referee_py.errors import Unavailable
from referee_py.panel.state import (
    HearingPhase,
    hearing_id,
)
from referee_py.trial import (
    Post,
    Stage,
    Timeout,
    places,
)
from referee_py.trial import solver as trials
from referee_py.trial.rules import case_of
from referee_py.trial.solver import Operator
from tests.support.planned import moves_of
from trainer_node.chain import HearingInfo
from trainer_node.play.drafts import RoundPatience
from trainer_node.play.hearings import MAX_KEPT, HearingPlayer

from ..desk import REFEREE, until
from ..hearing_room import BEGAN, CLOCK, Room


@dataclass
class Slow(Operator):
    """An operator that has its states once it is released; until then it asks whether to stop, as a long chain does."""

    go: threading.Event = field(default_factory=threading.Event)
    failure: Exception | None = None

    def states(self, case: Case, at: Sequence[int]) -> list[bytes]:
        while not self.go.wait(0.001):
            self.walk.rest()
        if self.failure is not None:
            raise self.failure
        return super().states(case, at)


def slow(room: Room) -> Slow:
    side = room.setting.sides[0]
    return Slow(side.inputs, side.outputs)


def at_the_states(folder: Path) -> Room:
    """Return a trial in which this side has to post its states."""
    room = Room(folder)
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    while room.trial.stage is not Stage.POST:
        if moves := moves_of(
            trials.plan(room.trial, room.dispute, 0, room.setting.sides[0], room.shown[1], BEGAN)
        ):
            room.accept(0, [move for move in moves if not isinstance(move, Post)])
        room.liar_plays()
    return room


def second_hearing(room: Room, number: int) -> HearingInfo:
    at = replace(room.hearing.terms.submission, match_id=number)
    terms = replace(room.hearing.terms, submission=at, hearing_id=hearing_id(REFEREE, number))
    return replace(room.hearing, terms=terms)


def test_a_trial_that_takes_long_holds_up_no_other(tmp_path: Path) -> None:
    room = at_the_states(tmp_path)
    room.hearing_player = impatient(room)
    operator, first, second = slow(room), room.hearing, second_hearing(room, 2)
    source = replace(room.source(), tensors=operator)
    assert room.attend(source) is None
    room.hearing = second
    found = until(lambda: room.attend(room.source()))
    assert [type(move) for move in found] == [Post]
    room.hearing = first
    assert room.attend(source) is None, "it is still at work"
    assert source.asked == 1
    operator.go.set()
    assert until(lambda: room.attend(source)) == found


def test_the_other_is_late_while_states_are_computed_expect_a_timeout_at_once(tmp_path: Path) -> None:
    room = at_the_states(tmp_path)
    room.hearing_player = impatient(room)
    operator = slow(room)
    source = replace(room.source(), tensors=operator)
    assert room.attend(source) is None
    room.trial = replace(room.trial, stage=Stage.ANSWER)
    assert room.attend(source, now=BEGAN + CLOCK + 2) == [Timeout()]
    room.stop.set()


def test_the_trial_goes_on_without_us_expect_the_moves_of_its_new_state(tmp_path: Path) -> None:
    room = at_the_states(tmp_path)
    room.hearing_player = impatient(room)
    operator, was = slow(room), room.trial
    source = replace(room.source(), tensors=operator)
    assert room.attend(source) is None
    room.trial = replace(was, lo=10, agreed=operator_states(room, [10])[0])
    operator.go.set()
    (post,) = until(lambda: room.attend(source))
    assert post.states == b"".join(operator_states(room, places(room.trial)[:-1]))
    assert post.states != b"".join(operator_states(room, places(was)[:-1]))


def operator_states(room: Room, at: Sequence[int]) -> list[bytes]:
    side = room.setting.sides[0]
    return side.states(case_of(room.trial, room.dispute, side.tensors()), at)


def test_what_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    room = at_the_states(tmp_path)
    operator = slow(room)
    operator.failure = MemoryError("no room")
    operator.go.set()
    source = replace(room.source(), tensors=operator)
    for _ in range(2):
        with pytest.raises(MemoryError, match="no room"):
            room.attend(source)
    operator.failure = None
    assert [type(move) for move in room.attend(source)] == [Post]


@pytest.mark.parametrize("how", ["stop", "forget"])
def test_a_node_that_stops_or_lets_go_ends_what_it_computes(tmp_path: Path, how: str) -> None:
    room = at_the_states(tmp_path)
    room.hearing_player = impatient(room)
    source = replace(room.source(), tensors=slow(room))
    assert room.attend(source) is None
    drafts = room.hearing_player._drafts
    future = drafts._drafts[room.hearing.id].future
    if how == "stop":
        room.stop.set()
    else:
        room.hearing_player.forget(1)
        assert not drafts.busy(room.hearing.id)
    assert isinstance(future.exception(timeout=20), Unavailable)


def test_more_trials_than_tensors_are_kept_expect_every_one_to_go_on(tmp_path: Path) -> None:
    """All begin before one is done; those without room wait for it, and none loses its place at work."""
    room = at_the_states(tmp_path)
    room.hearing_player = impatient(room)
    hearings = [second_hearing(room, number) for number in range(2, 2 + 3 * MAX_KEPT)]
    operators = [slow(room) for _ in hearings]
    sources = [replace(room.source(), tensors=operator) for operator in operators]

    def look() -> list[int]:
        found = []
        for number, (hearing, source) in enumerate(zip(hearings, sources, strict=True)):
            room.hearing = hearing
            if room.attend(source):
                found.append(number)
        return found

    assert look() == look() == []
    assert [source.asked for source in sources] == [1] * MAX_KEPT + [0] * (2 * MAX_KEPT)
    for operator in operators:
        operator.go.set()
    done: set[int] = set()

    def all_done() -> bool:
        done.update(look())
        return len(done) == len(hearings)

    until(all_done)


@pytest.mark.parametrize("trials", [MAX_KEPT, MAX_KEPT + 1, 2 * MAX_KEPT])
def test_trials_that_wait_for_the_other_side_cost_their_tensors_once(tmp_path: Path, trials: int) -> None:
    """Tensors of an operator take an interval of a run, in the loop's thread, while all clocks run."""
    room = at_the_states(tmp_path)
    operator = room.setting.sides[0]
    hearings = [second_hearing(room, number) for number in range(2, 2 + trials)]
    sources = [replace(room.source(), tensors=replace(operator)) for _ in hearings]
    room.accept(0, room.attend(room.source()))  # now the other side has to post
    for _ in range(20):
        for hearing, source in zip(hearings, sources, strict=True):
            room.hearing = hearing
            assert not room.attend(source)
    room.stop.set()
    assert [source.asked for source in sources] == [1] * trials


def impatient(room: Room) -> HearingPlayer:
    """Return a player that never waits for its computations."""
    old = room.hearing_player
    return HearingPlayer(old._contracts, old._me, old._opponents, room.stop, RoundPatience(0.0))
