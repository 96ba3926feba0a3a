"""Works that wait for strangers: however many last, each other one has a turn within a share of its own period."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from referee_py.errors import Unavailable
from tests.support.clock import Clock
from trainer_node.compute.lanes import Lanes, Turn, turn_s
from trainer_node.limits.waits import LANE, TURN_S, later_turn_s

from ..desk import until

PERIOD_S = 160.0
SHARE_S = float(LANE) * PERIOD_S


@dataclass
class Room:
    """Lanes whose works note what they do. They last until they are told to stop, or let go."""

    clock: Clock = field(default_factory=Clock)
    stop: threading.Event = field(default_factory=threading.Event)
    free: threading.Event = field(default_factory=threading.Event)
    begun: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lanes = Lanes(2, "test", self.stop, self.clock)

    def slow(self, name: str, period_s: float = 30 * PERIOD_S) -> Future[str]:
        """Queue a work whose server serves nothing, and takes its time for that."""

        def work(told: threading.Event) -> str:
            self.begun.append(name)
            until(lambda: told.is_set() or self.free.is_set())
            raise Unavailable("nothing came")

        return self.lanes.submit(period_s, work)

    def quick(self, name: str, period_s: float = PERIOD_S) -> Future[str]:
        """Queue a work that is there as soon as it has a lane."""

        def work(_: threading.Event) -> str:
            self.begun.append(name)
            return name

        return self.lanes.submit(period_s, work)

    def computing(self, name: str) -> Future[str]:
        """Queue a work that is in a kernel, which cannot be stopped."""

        def work(_: threading.Event) -> str:
            self.begun.append(name)
            until(self.free.is_set)
            return name

        return self.lanes.submit(PERIOD_S, work)

    def pass_(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.now += seconds
        self.lanes.look()


def over(room: Room) -> list[object]:
    """Return what goes on though its turn is over."""
    rows = list(room.lanes._rows.values())
    return [one for row in rows for one in list(row.running) if one.turn is not None and one.turn.over]


@pytest.fixture
def room() -> Iterator[Room]:
    made = Room()
    yield made
    made.stop.set()
    made.free.set()


def test_alone_a_work_has_all_the_time(room: Room) -> None:
    first, second = room.slow("a"), room.slow("b")
    until(lambda: len(room.begun) == 2)
    room.pass_(1e9)
    room.free.set()
    for future in (first, second):
        with pytest.raises(Unavailable):
            future.result(timeout=60)
    assert sorted(room.begun) == ["a", "b"], "each had one turn"


def test_who_waits_has_a_lane_after_a_share_of_its_own_period(room: Room) -> None:
    """Those that last are of jobs with periods of a month, and there are many of them."""
    for name in "abcdefgh":
        room.slow(name)
    until(lambda: len(room.begun) == 2)
    right = room.quick("right")
    # Six wait before it, so it is at place 6 of two lanes: four turns are all that it has to wait for.
    for _ in range(4):
        assert not right.done()
        room.pass_(SHARE_S / 4)
        until(lambda: not over(room))
    assert right.result(timeout=60) == "right"
    assert room.clock.now == SHARE_S


def test_who_has_had_his_turn_comes_back_with_what_is_on_disk(room: Room, tmp_path: Path) -> None:
    """A slow and right server: each turn brings an artifact more."""

    def work(told: threading.Event) -> str:
        here = len(list(tmp_path.iterdir()))
        if here == 3:
            return "right"
        (tmp_path / str(here)).touch()
        until(told.is_set)
        raise Unavailable("its turn is over")

    right = room.lanes.submit(PERIOD_S, work)
    for number in range(20):
        room.slow(f"{number}", PERIOD_S)
    while not right.done():
        room.pass_(5.0)
        until(lambda: not over(room))
    assert right.result(timeout=60) == "right"
    assert len(list(tmp_path.iterdir())) == 3


def test_what_computes_keeps_no_lane_after_its_turn_and_there_is_an_end_to_it(room: Room) -> None:
    hogs = [room.computing(f"hog {number}") for number in range(4)]
    until(lambda: len(room.begun) == 2)
    room.pass_(SHARE_S)
    until(lambda: len(room.begun) == 4)
    right = room.quick("right")
    room.pass_(SHARE_S)
    assert not right.done(), "four compute at once, twice as many as there are lanes"
    assert len(room.begun) == 4
    room.free.set()
    assert right.result(timeout=60) == "right"
    assert {hog.result(timeout=60) for hog in hogs} == {f"hog {number}" for number in range(4)}


def test_what_nobody_wants_any_more_stops_and_makes_room(room: Room) -> None:
    first, second, third = room.slow("a"), room.slow("b"), room.slow("c")
    right = room.quick("right")
    assert third.cancel()
    assert first.cancel()
    assert right.result(timeout=60) == "right"
    assert "c" not in room.begun
    assert not second.done()


def test_errors_are_the_work_s(room: Room) -> None:
    def work(_: threading.Event) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        room.lanes.submit(1.0, work).result(timeout=60)


def test_nothing_begins_once_the_node_stops(room: Room) -> None:
    room.stop.set()
    assert not room.quick("late").done()
    assert room.begun == []


@given(st.lists(st.floats(1, 1e7), max_size=40), st.integers(1, 9))
def test_turns_are_short_enough_for_all_who_wait(periods: list[float], lanes: int) -> None:
    """All that run, and all before us, use up their turns."""
    now, waiting = 0.0, [(0.0, period) for period in periods]
    while waiting:
        now += turn_s(now, waiting, lanes)
        for since, period in waiting[:lanes]:
            assert now <= since + float(LANE) * period * (1 + 1e-9)
        waiting = waiting[lanes:]
    assert turn_s(now, waiting, lanes) == float("inf")


def test_who_waits_too_long_already_leaves_a_turn_to_others() -> None:
    assert turn_s(1000.0, [(0.0, PERIOD_S)], 2) == SHARE_S


def test_a_first_turn_is_short_however_patient_those_are_who_wait() -> None:
    assert turn_s(0.0, [(0.0, 1e9)], 2) == TURN_S


def test_nobody_waits_behind_a_turn_that_is_longer_than_his_own(room: Room) -> None:
    """Old works that stall hold none of the lanes for first turns, and those in long turns none of the shorter ones."""
    for number in range(40):
        room.slow(f"old {number}")
    for _ in range(600):
        room.pass_(1.0)
        until(lambda: not over(room))
    lengths = {number: len(row.running) for number, row in room.lanes._rows.items()}
    assert max(lengths) >= 3
    assert max(lengths.values()) == 2
    right, before = room.quick("right"), room.clock.now
    while not right.done():
        room.pass_(1.0)
        time.sleep(0.001)
    assert room.clock.now - before <= SHARE_S + 1


def test_each_later_turn_is_twice_as_long(room: Room) -> None:
    turns = list[float]()

    def work(told: Turn) -> str:
        until(lambda: told.is_set() or room.free.is_set())
        turns.append(room.clock.now - told._work.began)
        if len(turns) == 4:
            return "right"
        raise Unavailable("its turn is over")

    right = room.lanes.submit(1e9, work)
    for number in range(60):
        room.slow(f"{number}", 1e9)
    while not right.done():
        room.pass_(1.0)
        until(lambda: not over(room))
    assert [turn // TURN_S for turn in turns] == [later_turn_s(number) / TURN_S for number in range(4)]


def test_what_has_left_its_lane_goes_on_without_one_and_waits_for_none(room: Room) -> None:
    def work(name: str, turn: Turn) -> str:
        room.begun.append(name)
        turn.leave()
        assert room.free.wait(60)
        return name

    left = [room.lanes.submit(PERIOD_S, partial(work, f"{number}")) for number in range(8)]
    until(lambda: len(room.begun) == 8)
    assert room.quick("right").result(timeout=60) == "right"
    held = [room.slow("a"), room.slow("b")]
    until(lambda: len(room.begun) == 11)
    rows = list(room.lanes._rows.values())
    assert [one.future for row in rows for one in [*row.running, *row.waiting]] == held
    room.free.set()
    assert {future.result(timeout=60) for future in left} == {f"{number}" for number in range(8)}
    for future in held:
        with pytest.raises(Unavailable):
            future.result(timeout=60)


def test_what_has_left_its_lane_is_told_where_nobody_wants_it_any_more(room: Room) -> None:
    left, ended = threading.Event(), threading.Event()

    def work(turn: Turn) -> None:
        turn.leave()
        left.set()
        until(turn.is_set)
        ended.set()

    future = room.lanes.submit(PERIOD_S, work)
    assert left.wait(60)
    future.cancel()
    assert ended.wait(60)


def test_looks_do_not_grow_with_the_works_that_ask(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: hundreds of works, each of which asked five times a second, and each time all that wait were gone
    through, once for each that ran."""
    for number in range(40):
        room.slow(f"{number}")
    until(lambda: len(room.begun) == 2)
    turns, reckoned = [one.turn for one in room.lanes._rows[0].running], list[int]()

    def counted(began: float, waiting: list[tuple[float, float]], lanes: int) -> float:
        reckoned.append(len(waiting))
        return turn_s(began, waiting, lanes)

    monkeypatch.setattr("trainer_node.compute.lanes.turn_s", counted)
    for _ in range(100):
        for turn in turns:
            assert turn is not None
            assert not turn.is_set()
    assert reckoned == []
    room.clock.now += 0.5
    for _ in range(100):
        for turn in turns:
            assert turn is not None
            assert not turn.is_set()
    assert reckoned == [38], "once, for the turn that began first"


@given(st.lists(st.floats(1, 1e7), min_size=1, max_size=9), st.floats(0, 1e3), st.floats(0, 1e3))
def test_a_turn_that_began_later_does_not_end_before(
    periods: list[float], began: float, later: float
) -> None:
    waiting = [(number * 10.0, period) for number, period in enumerate(periods)]
    ends = [at + turn_s(at, waiting, 2) for at in (began, began + later)]
    assert ends[0] <= ends[1] * (1 + 1e-9)


def test_what_has_not_begun_is_dropped_at_the_end(room: Room) -> None:
    held = [room.slow(name) for name in "ab"]
    waiting = [room.quick(name) for name in "cd"]
    until(lambda: len(room.begun) == 2)
    room.lanes.close(wait=True)
    assert all(future.cancelled() for future in waiting)
    for future in held:
        with pytest.raises(Unavailable):
            future.result(timeout=0)
