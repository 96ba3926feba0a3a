"""A spokesman in a hearing and its trials; the other side serves or withholds, and is not to be trusted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from referee_py.panel.state import HearingPhase
from referee_py.trial import (
    NOT_SHOWN,
    Stage,
    Timeout,
    open_trial,
)
from referee_py.trial.solver import Operator
from trainer_node.errors import RpcCorrupt
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.storage.store import Store

from ..hearing_room import BEGAN, CLOCK, LIAR, ME, STAKE, STRANGER, VERIFIER, Room, Told


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


# ---------------------------------------------------------------------- verdicts


def test_a_verdict_that_calls_the_right_record_wrong_expect_an_appeal_with_a_bond(room: Room) -> None:
    room.has_come_to(HearingPhase.RULED, verdict=room.dispute.records[1].hash())
    assert room.attend(room.source()).function == "appeal"
    assert room.sent[-1][1] == (2 * STAKE, STAKE)
    assert room.attend(room.source(), now=BEGAN + 100).function == "proceed", "it is too late for an appeal"


def test_the_own_record_turns_out_wrong_expect_no_appeal(room: Room) -> None:
    """A faulty device has computed it; executed again, the operator gives the liar's record."""
    room.has_come_to(HearingPhase.RULED, verdict=room.dispute.records[1].hash())
    source = replace(room.source(), record=room.dispute.records[1])
    assert room.attend(source) is None


def test_what_is_right_is_found_once_and_only_if_it_matters(room: Room) -> None:
    room.has_come_to(HearingPhase.RULED, verdict=room.dispute.records[0].hash())
    source = room.source()
    assert room.attend(source) is None
    assert source.asked == 0, "the verdict is in our favour"
    room.has_come_to(HearingPhase.RULED, verdict=bytes(31) + b"\1")
    assert [room.attend(source).function for _ in range(3)] == ["appeal"] * 3
    assert source.asked == 1


@pytest.mark.parametrize("me", [ME, LIAR, STRANGER])
def test_no_verdict_in_time_expect_the_court_whoever_sees_it(tmp_path: Path, me: str) -> None:
    room = Room(tmp_path, me)
    assert room.attend(room.source(), now=BEGAN + 99) is None
    assert room.attend(room.source(), now=BEGAN + 100).function == "escalate"


def test_an_overruled_verdict_expect_its_signers_bonds_once_their_time_is_over(room: Room) -> None:
    signed = (VERIFIER, room.dispute.records[1].hash())
    room.has_come_to(HearingPhase.DEFENCE, verdict=signed[1], votes=(signed,), voters=(VERIFIER,))
    assert room.attend(room.source()) is None
    assert room.attend(room.source(), now=BEGAN + 100).function == "proceed"


def test_a_signer_whose_vote_is_hidden_expect_an_error_and_no_end_of_its_own_time(tmp_path: Path) -> None:
    """Others end it: they have no bond to lose."""
    for me in (VERIFIER, STRANGER):
        room = Room(tmp_path / me, me)
        room.has_come_to(HearingPhase.DEFENCE, verdict=room.dispute.records[1].hash())
        room.hearing = replace(room.hearing, hidden="not all events")
        if me == VERIFIER:
            for now in (BEGAN + 1, BEGAN + 100):
                with pytest.raises(RpcCorrupt, match="not all events"):
                    room.attend(room.source(), now=now)
        else:
            assert room.attend(room.source(), now=BEGAN + 100).function == "proceed"


def test_a_hearing_that_is_over_expect_nothing(room: Room) -> None:
    room.has_come_to(HearingPhase.DONE)
    assert room.attend(room.source(), now=BEGAN + 5000) is None


def test_what_is_known_is_let_go_of_when_a_hearing_is_over(room: Room) -> None:
    room.has_come_to(HearingPhase.RULED, verdict=room.dispute.records[1].hash())
    source = room.source()
    room.attend(source)
    room.hearing_player.forget(1, but=[room.hearing.id])
    room.hearing_player.forget(2)
    room.attend(source)
    assert source.asked == 1
    room.hearing_player.forget(1)
    room.attend(source)
    assert source.asked == 2


# ---------------------------------------------------------------------- trials


@pytest.mark.parametrize("served", [True, False])
def test_a_trial_is_played_to_the_step_and_won(room: Room, tmp_path: Path, served: bool) -> None:
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    other = Store(tmp_path / "other", sync=False)
    if served:
        other.put_tensor(room.setting.sides[1].outputs[0])
    with ArtifactServer(other) as server:
        for _ in range(60):
            moves = room.attend(room.source(server.uri))
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
    room.accept(0, room.attend(room.source()))
    watcher.trial = room.trial
    assert room.attend(room.source(), now=BEGAN + CLOCK) is None
    assert watcher.attend(watcher.source(), now=BEGAN + CLOCK) is None
    assert room.attend(room.source(), now=BEGAN + CLOCK + 2) == [Timeout()]
    assert watcher.attend(watcher.source(), now=BEGAN + CLOCK + 2) == [Timeout()]


def test_without_tensors_yet_expect_a_timeout_at_least(room: Room) -> None:
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    room.accept(0, room.attend(room.source()))
    nothing = Told(None, None)
    fresh = Room(room.store.root.parent / "restarted")
    fresh.hearing, fresh.trial = room.hearing, room.trial
    assert fresh.attend(nothing) is None
    assert fresh.attend(nothing, now=BEGAN + CLOCK + 2) == [Timeout()]


def test_the_liar_names_a_tensor_of_another_shape_expect_only_the_own_half(
    room: Room, tmp_path: Path
) -> None:
    """Its record is well formed and its output is served, but the output is not this operator's."""
    false, other = np.zeros((3, 3), np.float32), Store(tmp_path / "other", sync=False)
    right, wrong = room.dispute.records
    wrong = replace(wrong, outputs=(other.put_tensor(false),))
    room.dispute = replace(room.dispute, records=(right, wrong))
    room.trial = open_trial(room.dispute, (ME, LIAR), (CLOCK, CLOCK), BEGAN)
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    with ArtifactServer(other) as server:
        (move,) = room.attend(room.source(server.uri))
        assert [root != NOT_SHOWN for root in move.roots] == [True, False]
        room.accept(0, [move])
        assert room.attend(room.source(server.uri)) is None, "the liar cannot show a root for it, and is late"


def test_own_inputs_are_not_the_agreed_ones_expect_silence_not_a_crash(room: Room) -> None:
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    for _ in range(30):
        if room.trial.steps:
            break
        moves = room.attend(room.source())
        if moves:
            room.accept(0, moves)
        if not room.trial.steps:
            room.liar_plays()
    assert room.trial.steps == 300
    side = room.setting.sides[0]
    strange = Operator([array + 1 for array in side.inputs], side.outputs)
    fresh = Room(room.store.root.parent / "restarted")
    fresh.hearing, fresh.trial = room.hearing, room.trial
    assert fresh.attend(replace(room.source(), tensors=strange)) is None
