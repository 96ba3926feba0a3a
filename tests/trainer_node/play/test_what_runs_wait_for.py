"""What a hearing does while runs rest for it, and what it keeps of executions that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest

from referee_py.commit import Record
from referee_py.panel.state import HearingPhase
from referee_py.trial import Stage
from trainer_node.network.opponents import Opponents
from trainer_node.play.drafts import RoundPatience
from trainer_node.play.hearings import HearingPlayer
from trainer_node.play.right_records import Rights

from ..desk import until
from ..hearing_room import ME, Room

PATIENT_S = 60.0


def test_no_run_rests_while_the_other_side_s_server_is_asked(tmp_path: Path) -> None:
    room, resting, asked = Room(tmp_path), [False], list[bool]()

    @contextmanager
    def first() -> Iterator[None]:
        resting[0] = True
        yield
        resting[0] = False

    class Served:
        def ask(self, _: Sequence[str]) -> Served:
            return self

        def tensor(self, *_: object) -> None:
            asked.append(resting[0])

    contracts, served = room.hearing_player._contracts, cast(Opponents, Served())
    room.hearing_player = HearingPlayer(contracts, ME, served, room.stop, RoundPatience(PATIENT_S), first)
    room.has_come_to(HearingPhase.TRIAL, trials=1)
    while room.trial.stage is not Stage.POST:
        if moves := room.attend(room.source()):
            room.accept(0, moves)
        else:
            room.liar_plays()
    assert asked
    assert not any(asked)


def test_two_executions_that_differ_are_followed_by_a_third(tmp_path: Path) -> None:
    """On a device that fails now and then; it is asked where the processor is late."""
    room = Room(tmp_path)
    right = room.dispute.records[0]
    found = [None, right]

    class Run:
        def right(self, *_: int) -> Record:
            raise MemoryError("no room")

        def again(self, *_: int) -> Record | None:
            return found.pop(0)

    rights = Rights()

    def looked() -> Record | None:
        try:
            return rights.of(room.hearing, Run(), 0.0, hurry=True)
        except MemoryError:
            return None

    assert until(looked) == right
    assert not found


def test_a_record_that_is_there_just_after_a_look_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, rights, may = Room(tmp_path), Rights(), Event()
    right, asked = room.dispute.records[0], list[int]()
    look = rights._again.result

    class Run:
        def right(self, *_: int) -> Record:
            raise MemoryError("no room")

        def again(self, step: int, *_: int) -> Record:
            may.wait()
            asked.append(step)
            return right

    def looked_and_then_done(*arguments: Any) -> Record | None:
        found = look(*arguments)
        may.set()
        wait(rights._again._futures.values())
        return found

    def looked() -> Record | None:
        return rights.of(room.hearing, Run(), PATIENT_S, hurry=True)

    monkeypatch.setattr(rights._again, "result", looked_and_then_done)
    with pytest.raises(MemoryError):
        looked()
    assert looked() == right
    assert len(asked) == 1


def test_a_second_execution_that_fails_hides_no_right_record(tmp_path: Path) -> None:
    """It failed before the processor's record was asked for, in every other look."""
    room, rights = Room(tmp_path), Rights()
    right = room.dispute.records[0]

    class Run:
        def right(self, *_: int) -> Record:
            return right

        def again(self, *_: int) -> Record | None:
            raise MemoryError("no room")

    def looked() -> Record | None:
        wait(rights._again._futures.values())
        return rights.of(room.hearing, Run(), PATIENT_S, hurry=True)

    assert [looked() for _ in range(6)] == [right] * 6


@pytest.mark.parametrize("fails", ["both", "the device"])
def test_what_fails_is_said_as_long_as_there_is_no_record(tmp_path: Path, fails: str) -> None:
    room, rights, may = Room(tmp_path), Rights(), Event()

    class Run:
        def right(self, *_: int) -> Record:
            if fails == "both":
                raise MemoryError("no room")
            may.wait()
            return room.dispute.records[0]

        def again(self, *_: int) -> Record | None:
            raise MemoryError("no room")

    def looked() -> str:
        try:
            rights.of(room.hearing, Run(), 0.0, hurry=True)
        except MemoryError as error:
            return str(error)
        return ""

    assert until(looked) == "no room"
    may.set()
