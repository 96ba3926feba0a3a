"""A claimed root needs a lane once, however many of its intervals are drawn: what has come is replayed beside the rest.

The servers, downloads and replays are real; the clock stands still until a test moves it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from referee_py.errors import Unavailable
from tests.trainer_node.audit.runs import opened, publish
from tests.trainer_node.desk import job, new_runner, rules, until
from tests.trainer_node.slow import Hand, SlowServer
from trainer_node.audit.interval import Auditor
from trainer_node.audit.published import PublishedRun
from trainer_node.chain import ClaimView, Group, JobPhase, JobView
from trainer_node.compute.lanes import Lanes, Turn
from trainer_node.errors import DiskFailed
from trainer_node.limits.waits import LANE
from trainer_node.roles.sampling import beside
from trainer_node.roles.sampling.beside import Beside, Judge
from trainer_node.roles.sampling.checks import Plan
from trainer_node.roles.sampling.runner import SampleRunner
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .test_runner import Wanted

PERIOD_S = 900
INTERVALS, STEPS = 12, 3
LIE = INTERVALS * STEPS - 1
"""The last interval is wrong."""


@dataclass
class Hall:
    """A node, a run of many intervals that is served at once, and lanes that strangers' works may hold."""

    node: SampleRunner
    run: PublishedRun
    wanted: Wanted
    clock: Hand
    quick: SlowServer
    submitted: list[float] = field(default_factory=list)
    """The periods of the works that were queued for a lane."""
    last: Future[Any] | None = None
    """The last of them."""
    go: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        submit = self.node._lanes.submit

        def counted(period_s: float, do: Callable[[Turn], Any]) -> Future[Any]:
            self.submitted.append(period_s)
            self.last = submit(period_s, do)
            return self.last

        self.node._lanes.submit = counted  # type: ignore[method-assign]

    def job(self, uri: str | None = None) -> JobView:
        of = job(
            1,
            uri=self.quick.uri,
            program=self.run.terms,
            program_file=self.run._program_file,
            phase=JobPhase.CHALLENGE,
            rules=rules(clock=PERIOD_S),
            challenge_period=PERIOD_S,
            challenge_end=PERIOD_S,
            groups=(Group(0, self.run.root, bytes(32), 0, 0, 0, 0, (0,)),),
            claims=(ClaimView(0, "0x" + "aa" * 20, 1, 0, False, False, False, uri or self.quick.uri),),
        )
        until(lambda: self.node.prepare(of) is not None)
        return of

    def found(self, of: JobView) -> list[int]:
        return [lie.index + 1 for lie in self.node.check(of, int(self.clock()))]

    def stranger(self, turn: Turn) -> None:
        """Hold a lane, as a claimant does whose data come right and slowly."""
        until(lambda: turn.is_set() or self.go.is_set())
        raise Unavailable("what is there stays")


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    run = opened(publish(tmp_path / "run", INTERVALS * STEPS, STEPS, lie=LIE), tmp_path / "seen")
    clock, wanted, database = Hand(), Wanted(), Database(None)
    wanted.drawn = Plan(tuple(range(1, INTERVALS + 1)))
    store = Store(tmp_path / "node", sync=False)
    node = new_runner(SampleRunner, store, database, samples=wanted, clock=clock)
    with SlowServer(Store(tmp_path / "run" / "artifacts", sync=False), clock) as quick:
        made = Hall(node, run, wanted, clock, quick)
        yield made
        made.go.set()
        node.close()
    database.close()


def test_a_root_waits_for_a_lane_once_whatever_is_drawn_of_it(hall: Hall) -> None:
    """The attack: 64 jobs whose claims are right and slow. Each interval was behind all of them again, up to an eighth
    of the period each time, and twelve of them outlast it."""
    of, lanes = hall.job(), hall.node._lanes
    for _ in range(64):
        lanes.submit(30.0 * 24 * 3600, hall.stranger)
    hall.submitted.clear()
    assert hall.found(of) == []
    turns = 0
    while INTERVALS not in hall.found(of):
        (root,) = hall.node._checks[1].roots.values()
        assert root.running is not None
        if any(one.future is hall.last for one in list(lanes._rows[0].waiting)):
            hall.clock.on(1.0)
            turns += 1
        until(lambda: not any(one.turn.over for one in list(lanes._rows[0].running) if one.turn))
    assert hall.submitted == [PERIOD_S]
    assert turns <= float(LANE) * PERIOD_S + 1


def test_what_is_found_wrong_waits_for_no_lane(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: a lie that had been found waited behind all strangers' works before the loop knew of it."""
    hall.wanted.drawn = Plan((INTERVALS, 1))
    of, replay, begun = hall.job(), Auditor.replay, threading.Event()

    def slowly(self: Auditor, interval: int, on_step: Callable[[int], None]) -> bytes:
        begun.set()
        assert hall.go.wait(120)
        return replay(self, interval, on_step)

    monkeypatch.setattr(Auditor, "replay", slowly)
    hall.found(of)
    assert begun.wait(120)
    for _ in range(64):
        hall.node._lanes.submit(PERIOD_S, lambda turn: until(turn.is_set))
    hall.go.set()
    assert until(lambda: hall.found(of) == [INTERVALS])
    assert hall.clock() == 0.0, "no turn of a stranger had to end"


def test_a_lie_that_is_served_is_found_while_the_next_interval_is_withheld(
    hall: Hall, tmp_path: Path
) -> None:
    hall.wanted.drawn = Plan((INTERVALS, 3))
    withheld = set(hall.run.names(3)) - set(hall.run.names(INTERVALS))
    served = Store(tmp_path / "run" / "artifacts", sync=False)

    class Partly(Store):
        def get(self, name: Any) -> Any:
            if name in withheld:
                assert hall.go.wait(120)
            return super().get(name)

    with SlowServer(Partly(served.root, sync=False), hall.clock) as half:
        of = hall.job(half.uri)
        assert until(lambda: hall.found(of) == [INTERVALS])
        hall.go.set()
    assert hall.clock() == 0.0
    assert not hall.node.withheld(of)


def test_where_much_waits_for_its_replay_the_rest_is_asked_for_later(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "AHEAD", 5)
    of, replay = hall.job(), Auditor.replay
    waiting = list[int]()

    def counted(self: Auditor, interval: int, on_step: Callable[[int], None]) -> bytes:
        (root,) = hall.node._checks[1].roots.values()
        waiting.append(len(root.brought))
        assert hall.go.wait(120)
        return replay(self, interval, on_step)

    monkeypatch.setattr(Auditor, "replay", counted)
    hall.found(of)
    until(lambda: len(hall.node._checks[1].roots[hall.run.root].brought) == 5)
    rows = hall.node._lanes._rows
    until(lambda: not any(row.running for row in list(rows.values())))
    hall.clock.on(PERIOD_S / 2)
    hall.go.set()
    assert until(lambda: hall.found(of) == [INTERVALS])
    assert max(waiting) <= 5
    assert 1 < len(hall.submitted) <= 3, "twelve, at most five at a time before any replay is over"
    assert hall.submitted == [PERIOD_S, *[PERIOD_S / 2] * (len(hall.submitted) - 1)], "of what is left"


def begun(replay: Judge) -> tuple[Beside, Future[None]]:
    """Return what replays in lanes of its own, and what brings, which is done once that is set."""
    lanes, brings = Lanes(1, "test"), Future[None]()
    work = Beside(partial(lanes.submit, 30.0), lambda _: replay)
    work.begin(brings)
    return work, brings


def test_bytes_that_wait_for_their_replay_have_a_bound() -> None:
    go = threading.Event()

    def replay(_: int, __: int) -> None:
        assert go.wait(120)

    work, brings = begun(replay)
    work.give(1, 1, beside.AHEAD_BYTES - 1)
    assert not work.full
    work.give(2, 2, 1)
    assert work.full
    go.set()
    until(lambda: not work.full)
    assert not work.all.done()
    brings.set_result(None)
    assert work.all.result(120) is None


def test_an_error_of_a_replay_ends_the_work_and_is_its_own() -> None:
    def replay(_: int, __: int) -> None:
        raise DiskFailed("full")

    work, brings = begun(replay)
    work.turn = threading.Event()
    work.give(1, 1, 0)
    assert work.turn.wait(120), "what brings is told to stop"
    assert work.over
    brings.set_exception(Unavailable("it was told to stop"))
    with pytest.raises(DiskFailed):
        work.all.result(120)


def test_who_cancels_takes_both_from_their_queues() -> None:
    go, replayed = threading.Event(), list[int]()
    lanes = Lanes(1, "test")
    busy = lanes.submit(30.0, lambda _: go.wait(120))
    work, brings = (
        Beside(partial(lanes.submit, 30.0), lambda _: lambda drawn, __: replayed.append(drawn)),
        Future[None](),
    )
    work.begin(brings)
    work.give(1, 1, 0)
    assert work.all.cancel()
    assert brings.cancelled()
    go.set()
    assert busy.result(120)
    until(lambda: not lanes._rows[0].waiting)
    assert replayed == []
