"""What a spokesman does in a hearing and in its trials; the other side serves, withholds, and is not to be trusted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from referee_py.commit import Record
from referee_py.element import Case
from referee_py.errors import Unavailable
from referee_py.panel.state import (
    Adjudication,
    HearingPhase,
    HearingState,
    HearingTerms,
    Submission,
    hearing_id,
    suit_of,
)
from referee_py.trial import (
    NOT_SHOWN,
    NodesReveal,
    Post,
    ShowLeaf,
    Stage,
    Timeout,
    TrialState,
    apply,
    dispute_hash,
    open_trial,
    places,
)
from referee_py.trial import Move as TrialMove
from referee_py.trial import solver as trials
from referee_py.trial.rules import case_of
from referee_py.trial.solver import Operator
from tests.referee_py.trial.parties import Known, Setting
from trainer_node.chain import HearingInfo, TrialInfo
from trainer_node.counsel import MAX_KEPT, Counsel
from trainer_node.fetch import Fetcher
from trainer_node.opponent import Opponents
from trainer_node.server import ArtifactServer
from trainer_node.store import Store

from .desk import REFEREE, rules, until

ME, LIAR, STRANGER = "0x" + "aa" * 20, "0x" + "bb" * 20, "0x" + "cc" * 20
VERIFIER = "0x" + "dd" * 20
CLOCK, BEGAN, STAKE = 1000, 1000, 7
PATIENT_S = 60.0
"""So that what is due is sent in the round in which it is asked for."""


@dataclass
class Told:
    """A brief that says what it is told to say, and counts how often it is asked."""

    record: Record | None
    tensors: Operator | None
    uris: list[str] = field(default_factory=list)
    asked: int = 0

    def right(self) -> Record | None:
        self.asked += 1
        return self.record

    def operator(self) -> Operator | None:
        self.asked += 1
        return self.tensors

    def servers(self) -> Sequence[str]:
        return self.uris


class Room:
    """A hearing about a product of matrices, of which the liar has one element wrong, and the counsel at it."""

    def __init__(self, folder: Path, me: str = ME, patience_s: float = PATIENT_S) -> None:
        rng = np.random.default_rng(7)
        inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((20, 300), (300, 20))]
        setting = Setting.of("mm", inputs, {}, 0.7, 0, 137)
        assert setting is not None
        self.setting, self.dispute = setting, setting.dispute
        hashes = self.dispute.records[0].hash(), self.dispute.records[1].hash()
        at = Submission(1, "0x" + "34" * 20, 1, 5, 3, (ME, LIAR), hashes, dispute_hash(self.dispute))
        terms = HearingTerms(
            hearing_id(REFEREE, 1), at, self.dispute, rules(), STAKE, (VERIFIER,), 1, "0x" + "12" * 20
        )
        self.hearing = HearingInfo(HearingState(HearingPhase.VOTING, until=BEGAN + 100), terms, {})
        self.trial = open_trial(self.dispute, (ME, LIAR), (CLOCK, CLOCK), BEGAN)
        self.shown = Known(), Known()
        self.sent: list[tuple[Any, int]] = []
        self.store = Store(folder / "own", sync=False)
        contracts: Any = SimpleNamespace(
            hearing_move=lambda _id, move, value: (move, value),
            trial_moves=lambda _trial, moves, _sender, _now: (list(moves), 0),
        )
        transactions: Any = SimpleNamespace(address=me, send=self._send)
        fetcher = Fetcher(self.store, timeout_s=60.0, attempts=1, budget_s=60.0)
        self.stop = threading.Event()
        opponents = Opponents(fetcher, patience_s=60.0)
        self.counsel = Counsel(contracts, transactions, opponents, self.stop, patience_s=patience_s)

    def _send(self, call: tuple[Any, int], *, timeout_s: float) -> None:
        assert timeout_s <= 60
        self.sent.append(call)

    def attend(self, brief: Told, now: int = BEGAN + 1) -> Any:
        """One look; the move that is sent, or the batch of a trial; None if nothing is."""
        before = len(self.sent)
        snapshot: Any = SimpleNamespace(now=now, trial=lambda _hearing: self.trial_info())
        self.counsel.attend(snapshot, self.hearing, brief)
        return self.sent[-1][0] if len(self.sent) > before else None

    def has_come_to(self, phase: HearingPhase, **changes: Any) -> None:
        self.hearing = replace(self.hearing, state=replace(self.hearing.state, phase=phase, **changes))

    def trial_info(self) -> TrialInfo:
        """The trial as events and views tell of it."""
        state = self.trial
        children = tuple(None if k.revealed is None else tuple(k.revealed) for k in self.shown)
        leaves = tuple(k.shown for k in self.shown)
        suit = suit_of(self.hearing.terms, 1, (ME, LIAR), self.dispute)
        return TrialInfo(9, suit, self.dispute, state, (children[0], children[1]), (leaves[0], leaves[1]))

    def accept(self, side: int, moves: Sequence[TrialMove], now: int = BEGAN + 1) -> TrialState:
        """The court takes these moves."""
        for move in moves:
            before = self.trial
            self.trial = apply(self.trial, self.dispute, move, (ME, LIAR)[side], now)
            if isinstance(move, NodesReveal):
                self.shown[side].revealed = move.children
            elif (before.height, before.index) != (self.trial.height, self.trial.index):
                self.shown[0].revealed = self.shown[1].revealed = None
            if isinstance(move, ShowLeaf):
                self.shown[side].shown = move.leaf
        return self.trial

    def liar_plays(self, now: int = BEGAN + 1) -> None:
        rival = self.shown[0]
        self.accept(1, trials.plan(self.trial, self.dispute, 1, self.setting.sides[1], rival, now), now)

    def brief(self, *uris: str) -> Told:
        return Told(self.dispute.records[0], self.setting.sides[0], list(uris))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


# ---------------------------------------------------------------------- verdicts


def test_a_verdict_that_calls_the_right_record_wrong_expect_an_appeal_with_a_bond(room: Room) -> None:
    room.has_come_to(HearingPhase.RULED, verdict=room.dispute.records[1].hash())
    assert room.attend(room.brief()).function == "appeal"
    assert room.sent[-1][1] == STAKE
    assert room.attend(room.brief(), now=BEGAN + 100).function == "proceed", "it is too late for an appeal"


def test_the_own_record_turns_out_wrong_expect_no_appeal(room: Room) -> None:
    """A faulty device has computed it; executed once more, the operator gives what the liar says."""
    room.has_come_to(HearingPhase.RULED, verdict=room.dispute.records[1].hash())
    brief = replace(room.brief(), record=room.dispute.records[1])
    assert room.attend(brief) is None


def test_what_is_right_is_found_once_and_only_if_it_matters(room: Room) -> None:
    room.has_come_to(HearingPhase.RULED, verdict=room.dispute.records[0].hash())
    brief = room.brief()
    assert room.attend(brief) is None
    assert brief.asked == 0, "the verdict is in our favour"
    room.has_come_to(HearingPhase.RULED, verdict=bytes(31) + b"\1")
    assert [room.attend(brief).function for _ in range(3)] == ["appeal"] * 3
    assert brief.asked == 1


@pytest.mark.parametrize("me", [ME, LIAR, STRANGER])
def test_no_verdict_in_time_expect_the_court_whoever_sees_it(tmp_path: Path, me: str) -> None:
    room = Room(tmp_path, me)
    assert room.attend(room.brief(), now=BEGAN + 99) is None
    assert room.attend(room.brief(), now=BEGAN + 100).function == "escalate"
    attested = replace(room.hearing.terms, rules=rules(Adjudication.ATTESTED))
    room.hearing = replace(room.hearing, terms=attested)
    assert room.attend(room.brief(), now=BEGAN + 100).function == "proceed"


def test_an_overruled_verdict_expect_its_signers_bonds_once_their_time_is_over(room: Room) -> None:
    signed = (VERIFIER, room.dispute.records[1].hash())
    room.has_come_to(HearingPhase.DEFENCE, verdict=signed[1], votes=(signed,), voters=(VERIFIER,))
    assert room.attend(room.brief()) is None
    assert room.attend(room.brief(), now=BEGAN + 100).function == "proceed"


def test_a_hearing_that_is_over_expect_nothing(room: Room) -> None:
    room.has_come_to(HearingPhase.DONE)
    assert room.attend(room.brief(), now=BEGAN + 5000) is None


def test_what_is_known_is_let_go_of_when_a_hearing_is_over(room: Room) -> None:
    room.has_come_to(HearingPhase.RULED, verdict=room.dispute.records[1].hash())
    brief = room.brief()
    room.attend(brief)
    room.counsel.forget(1, but=[room.hearing.id])
    room.counsel.forget(2)
    room.attend(brief)
    assert brief.asked == 1
    room.counsel.forget(1)
    room.attend(brief)
    assert brief.asked == 2


# ---------------------------------------------------------------------- trials


@pytest.mark.parametrize("served", [True, False])
def test_a_trial_is_played_to_the_step_and_won(room: Room, tmp_path: Path, served: bool) -> None:
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    other = Store(tmp_path / "other", sync=False)
    if served:
        other.put_tensor(room.setting.sides[1].outputs[0])
    with ArtifactServer(other) as server:
        for _ in range(60):
            moves = room.attend(room.brief(server.uri))
            if moves:
                room.accept(0, moves)
            if room.trial.stage is Stage.DONE:
                break
            room.liar_plays()
    assert (room.trial.losers, room.trial.steps) == (0b10, 300)


def test_the_other_side_is_silent_expect_a_timeout_from_anybody(tmp_path: Path) -> None:
    room, watcher = Room(tmp_path / "a"), Room(tmp_path / "b", STRANGER)
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    watcher.has_come_to(HearingPhase.TRIAL, trials=1)
    room.accept(0, room.attend(room.brief()))
    watcher.trial = room.trial
    assert room.attend(room.brief(), now=BEGAN + CLOCK) is None
    assert watcher.attend(watcher.brief(), now=BEGAN + CLOCK) is None
    assert room.attend(room.brief(), now=BEGAN + CLOCK + 2) == [Timeout()]
    assert watcher.attend(watcher.brief(), now=BEGAN + CLOCK + 2) == [Timeout()]


def test_without_tensors_yet_expect_a_timeout_at_least(room: Room) -> None:
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    room.accept(0, room.attend(room.brief()))
    nothing = Told(None, None)
    fresh = Room(room.store.root.parent / "restarted")
    fresh.hearing, fresh.trial = room.hearing, room.trial
    assert fresh.attend(nothing) is None
    assert fresh.attend(nothing, now=BEGAN + CLOCK + 2) == [Timeout()]


def test_the_liar_names_a_tensor_of_another_shape_expect_only_the_own_half(
    room: Room, tmp_path: Path
) -> None:
    """Its record is well formed, its output is served, and is none of this operator."""
    false, other = np.zeros((3, 3), np.float32), Store(tmp_path / "other", sync=False)
    right, wrong = room.dispute.records
    wrong = replace(wrong, outputs=(other.put_tensor(false),))
    room.dispute = replace(room.dispute, records=(right, wrong))
    room.trial = open_trial(room.dispute, (ME, LIAR), (CLOCK, CLOCK), BEGAN)
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    with ArtifactServer(other) as server:
        (move,) = room.attend(room.brief(server.uri))
        assert [root != NOT_SHOWN for root in move.roots] == [True, False]
        room.accept(0, [move])
        assert room.attend(room.brief(server.uri)) is None, "the liar cannot show a root for it, and is late"


def test_own_inputs_are_not_the_agreed_ones_expect_silence_not_a_crash(room: Room) -> None:
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    for _ in range(30):
        if room.trial.steps:
            break
        moves = room.attend(room.brief())
        if moves:
            room.accept(0, moves)
        if not room.trial.steps:
            room.liar_plays()
    assert room.trial.steps == 300
    side = room.setting.sides[0]
    strange = Operator([array + 1 for array in side.inputs], side.outputs)
    fresh = Room(room.store.root.parent / "restarted")
    fresh.hearing, fresh.trial = room.hearing, room.trial
    assert fresh.attend(replace(room.brief(), tensors=strange)) is None


# ---------------------------------------------------------------------- beside the loop


@dataclass
class Slow(Operator):
    """Has its states when it is let go on; as a long chain, it asks whether to stop meanwhile."""

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
    """A trial in which this side has to post its states."""
    room = Room(folder)
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    while room.trial.stage is not Stage.POST:
        if moves := trials.plan(room.trial, room.dispute, 0, room.setting.sides[0], room.shown[1], BEGAN):
            room.accept(0, [move for move in moves if not isinstance(move, Post)])
        room.liar_plays()
    return room


def second_hearing(room: Room, number: int) -> HearingInfo:
    at = replace(room.hearing.terms.submission, match_id=number)
    terms = replace(room.hearing.terms, submission=at, hearing_id=hearing_id(REFEREE, number))
    return replace(room.hearing, terms=terms)


def test_a_trial_that_takes_long_holds_up_no_other(tmp_path: Path) -> None:
    room = at_the_states(tmp_path)
    room.counsel = impatient(room)
    operator, first, second = slow(room), room.hearing, second_hearing(room, 2)
    brief = replace(room.brief(), tensors=operator)
    assert room.attend(brief) is None
    room.hearing = second
    found = until(lambda: room.attend(room.brief()))
    assert [type(move) for move in found] == [Post]
    room.hearing = first
    assert room.attend(brief) is None, "it is still at work"
    assert brief.asked == 1
    operator.go.set()
    assert until(lambda: room.attend(brief)) == found


def test_the_other_is_late_while_states_are_computed_expect_a_timeout_at_once(tmp_path: Path) -> None:
    room = at_the_states(tmp_path)
    room.counsel = impatient(room)
    operator = slow(room)
    brief = replace(room.brief(), tensors=operator)
    assert room.attend(brief) is None
    room.trial = replace(room.trial, stage=Stage.ANSWER)
    assert room.attend(brief, now=BEGAN + CLOCK + 2) == [Timeout()]
    room.stop.set()


def test_the_trial_goes_on_without_us_expect_the_moves_of_its_new_state(tmp_path: Path) -> None:
    room = at_the_states(tmp_path)
    room.counsel = impatient(room)
    operator, was = slow(room), room.trial
    brief = replace(room.brief(), tensors=operator)
    assert room.attend(brief) is None
    room.trial = replace(was, lo=10, agreed=operator_states(room, [10])[0])
    operator.go.set()
    (post,) = until(lambda: room.attend(brief))
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
    brief = replace(room.brief(), tensors=operator)
    for _ in range(2):
        with pytest.raises(MemoryError, match="no room"):
            room.attend(brief)
    operator.failure = None
    assert [type(move) for move in room.attend(brief)] == [Post]


@pytest.mark.parametrize("how", ["stop", "forget"])
def test_a_node_that_stops_or_lets_go_ends_what_it_computes(tmp_path: Path, how: str) -> None:
    room = at_the_states(tmp_path)
    room.counsel = impatient(room)
    brief = replace(room.brief(), tensors=slow(room))
    assert room.attend(brief) is None
    drafts = room.counsel._drafts
    future = drafts._drafts[room.hearing.id].future
    if how == "stop":
        room.stop.set()
    else:
        room.counsel.forget(1)
        assert not drafts.busy(room.hearing.id)
    assert isinstance(future.exception(timeout=20), Unavailable)


def test_more_trials_than_tensors_are_kept_expect_every_one_to_go_on(tmp_path: Path) -> None:
    """All are begun before one is done; those that find no room wait for it, and nobody loses its place at work."""
    room = at_the_states(tmp_path)
    room.counsel = impatient(room)
    hearings = [second_hearing(room, number) for number in range(2, 2 + 3 * MAX_KEPT)]
    operators = [slow(room) for _ in hearings]
    briefs = [replace(room.brief(), tensors=operator) for operator in operators]

    def look() -> list[int]:
        found = []
        for number, (hearing, brief) in enumerate(zip(hearings, briefs, strict=True)):
            room.hearing = hearing
            if room.attend(brief):
                found.append(number)
        return found

    assert look() == look() == []
    assert [brief.asked for brief in briefs] == [1] * MAX_KEPT + [0] * (2 * MAX_KEPT)
    for operator in operators:
        operator.go.set()
    done: set[int] = set()
    until(lambda: done.update(look()) or len(done) == len(hearings))


def impatient(room: Room) -> Counsel:
    """One that never waits for what it computes."""
    old = room.counsel
    return Counsel(old._contracts, old._transactions, old._opponents, room.stop, patience_s=0.0)
