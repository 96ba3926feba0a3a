"""Whole runs side by side: a long one keeps no short one waiting, and what our stake rests on goes first."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path

import pytest

from referee_py.pauses import asked
from referee_py.program.terms import Terms
from trainer_node.chain import ClaimView, Group, JobPhase, JobView
from trainer_node.compute import breaks, runs
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.outcomes import RETRY_S
from trainer_node.compute.processors import Share
from trainer_node.compute.runs import PLACES, SLICE_S, Runs
from trainer_node.run.checkpoints import StoredCheckpoints
from trainer_node.run.replay import Interrupted
from trainer_node.run.tensors import Takes
from trainer_node.stake.deadlines import too_late
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from ..desk import PROGRAM, honest_run, job, new_runner, put_package, rules, until
from ..slow import Hand, SlowServer

HOUR = 3600
LONG = Terms.of(PROGRAM, 1 << 28, (1 << 14, 1 << 7, 1))
SHORT = Terms.of(PROGRAM, 12, (4, 2, 1))


class Desk:
    """Runs whose steps take a second each, by a clock that only they move. ``go`` lets the first step begin."""

    def __init__(self) -> None:
        self.clock, self.done, self.memory = Hand(), list[str](), False
        self.runs = Runs(lambda: self.memory, self.clock)
        self.go = threading.Event()
        self.shares = dict[str, Share]()
        self.left = dict[str, int]()
        self.begun = list[str]()
        self.on_step: Callable[[str], None] = lambda _: None

    def at_rest(self) -> bool:
        """Return whether nobody is about to leave or to come. NOTE: a real step lasts for longer than that takes."""
        waiting = list(self.runs._processors._waiting)
        leaves = [one for one in waiting if one.share.leaves]
        return not leaves and len(waiting) == len(self.runs._placed) - 1

    def begin(self, name: str, steps: int, *, ours: bool = False, size_s: float = 0.0) -> Future[str]:
        """Queue a run of so many steps. NOTE: like a real one it goes on from where it was left."""
        share = self.shares[name] = Share(ours=ours)
        self.left[name] = steps

        def act(pass_on: Callable[[], bool]) -> str:
            self.begun.append(name)
            assert self.go.wait(60)
            while self.left[name]:
                self.clock.on(1.0)
                self.left[name] -= 1
                self.done.append(name)
                self.on_step(name)
                if pass_on() and self.left[name]:
                    raise Interrupted(name)
            return name

        return self.runs.submit(share, act, size_s)


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.go.set()
    made.runs.close()


def test_a_new_run_is_done_after_as_many_steps_of_another_as_it_has(desk: Desk) -> None:
    long = desk.begin("a", 100)
    until(lambda: desk.begun)
    short = desk.begin("b", 3)
    until(lambda: desk.runs._processors.wanted)
    desk.go.set()
    wait([long, short], 60)
    told = "".join(desk.done)
    assert told[: told.rindex("b")].count("a") <= 3
    assert desk.done.count("a") == 100


def test_a_run_with_our_stake_goes_first_and_those_with_one_as_they_came(desk: Desk) -> None:
    """Each of them was begun because it is in time behind those before it."""
    begun = [desk.begin("a", 3, ours=True)]
    until(lambda: desk.begun)
    begun += [desk.begin("b", 2), desk.begin("c", 4, ours=True), desk.begin("d", 2, ours=True)]
    until(lambda: len(desk.runs._processors._waiting) == 3)
    desk.go.set()
    wait(begun, 60)
    assert "".join(desk.done) == "aaaccccddbb"


def test_a_stake_given_later_lets_a_run_go_first(desk: Desk) -> None:
    begun = [desk.begin("a", 3)]
    until(lambda: desk.begun)
    begun.append(desk.begin("b", 5))
    until(lambda: desk.runs._processors.wanted)
    desk.shares["b"].had_s = 1e6
    desk.shares["b"].ours = True
    desk.go.set()
    wait(begun, 60)
    assert "".join(desk.done) == "abbbbbaa"


def test_where_all_places_are_taken_the_one_that_has_had_most_leaves_and_goes_on_later(desk: Desk) -> None:
    """So neither long runs that came first keep a new one waiting, nor are more in memory than there are places."""
    most, long = 0, [f"long {n}" for n in range(2 * PLACES)]
    newcomer = list[Future[str]]()

    def on_step(_: str) -> None:
        nonlocal most
        until(desk.at_rest)
        most = max(most, len(desk.runs._placed))
        if len(desk.done) == 20 * SLICE_S:
            newcomer.append(desk.begin("new", 3))

    desk.on_step = on_step
    begun = [desk.begin(name, int(6 * SLICE_S)) for name in long]
    assert desk.runs.place_s == PLACES * SLICE_S
    desk.go.set()
    wait(begun, 60)
    assert newcomer[0].result(60) == "new"
    assert most == PLACES
    came = int(20 * SLICE_S)
    assert len(desk.done[came : desk.done.index("new")]) <= PLACES * SLICE_S, "as was reckoned"
    assert [desk.done.count(name) for name in long] == [6 * SLICE_S] * len(long)
    assert until(lambda: desk.runs.place_s == 0)


def test_a_step_that_lasts_lets_a_new_run_go_first(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: one step of a stranger's data takes an hour."""
    monkeypatch.setattr(breaks, "BREAK_S", 0.0)
    parts, short = 0, list[Future[str]]()

    def act(_: Callable[[], bool]) -> str:
        nonlocal parts
        operator_ends = asked()
        assert operator_ends is not None
        operator_ends()
        short.append(desk.begin("b", 3))
        until(lambda: desk.runs._processors.wanted)
        desk.go.set()
        for _part in range(HOUR):
            desk.clock.on(1.0)
            operator_ends()
            parts += 1
            if short[0].done():
                break
        return "slow"

    assert desk.runs.submit(Share(), act).result(60) == "slow"
    assert parts <= 5
    assert desk.done == ["b"] * 3


def test_a_step_that_lasts_is_ended_where_the_run_must_leave_or_stop(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaks, "BREAK_S", 0.0)
    share, parts = Share(), 0

    def act(_: Callable[[], bool]) -> str:
        nonlocal parts
        operator_ends = asked()
        assert operator_ends is not None
        desk.go.set()
        while True:
            desk.clock.on(1.0)
            operator_ends()
            parts += 1
            if parts == 10:
                desk.runs.drop(share)

    run = desk.runs.submit(share, act)
    with pytest.raises(Interrupted, match="in one step"):
        run.result(60)
    assert 10 < parts <= SLICE_S + 1, "a step that is over sooner is ended, and its state is kept"


def test_a_step_of_the_usual_length_is_not_ended(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or of many runs with long steps none would ever reach its next checkpoint."""
    monkeypatch.setattr(breaks, "BREAK_S", 0.0)
    step_s, steps, kept = 3 * SLICE_S, 4, dict[int, int]()

    def begin(number: int) -> Future[None]:
        kept[number] = 0

        def act(pass_on: Callable[[], bool]) -> None:
            operator_ends = asked()
            assert operator_ends is not None
            assert desk.go.wait(60)
            while kept[number] < steps:
                for _operator in range(8):
                    desk.clock.on(step_s / 8)
                    operator_ends()
                kept[number] += 1
                if pass_on() and kept[number] < steps:
                    raise Interrupted("asked to leave")

        return desk.runs.submit(Share(), act, usual_s=step_s)

    begun = [begin(number) for number in range(2 * PLACES)]
    desk.go.set()
    wait(begun, 60)
    assert set(kept.values()) == {steps}
    assert desk.clock() == pytest.approx(len(begun) * steps * step_s), "no step was computed twice"


def test_of_new_runs_that_wait_for_a_place_the_shortest_is_first(desk: Desk) -> None:
    for n in range(PLACES):
        desk.begin(f"first {n}", 1)
    day, second = desk.begin("day", 1, size_s=86_400.0), desk.begin("second", 1, size_s=1.0)
    until(lambda: desk.begun)
    desk.runs.drop(desk.shares[f"first {int(desk.begun == ['first 0'])}"])  # one that does not compute
    assert until(second.running)
    assert not day.running()


def test_with_our_stake_no_place_is_needed(desk: Desk) -> None:
    begun = [desk.begin(f"stranger {n}", 1) for n in range(PLACES)]
    mine = [desk.begin(f"ours {n}", 1, ours=True) for n in range(3)]
    assert all(run.running() for run in mine)
    desk.go.set()
    wait([*begun, *mine], 60)


def test_a_run_leaves_for_who_waits_for_its_memory_once_it_has_had_some_time(desk: Desk) -> None:
    desk.memory = True
    run = desk.begin("a", int(3 * SLICE_S))
    desk.go.set()
    assert run.result(60) == "a"
    assert desk.begun == ["a"] * 3, "it went on where it had been left"
    assert desk.done.count("a") == 3 * SLICE_S


def test_each_run_leaves_in_turn_for_who_waits_for_memory(desk: Desk) -> None:
    """The one that has had most may have no memory worth a word."""
    desk.memory = True
    begun = [desk.begin("most", int(5 * SLICE_S))]
    desk.shares["most"].had_s = 1e6
    until(lambda: desk.begun)
    begun.append(desk.begin("large", int(3 * SLICE_S)))
    until(lambda: desk.runs._processors.wanted)
    desk.on_step = lambda _: until(lambda: desk.at_rest() or len(desk.runs._placed) < 2)
    desk.go.set()
    wait(begun, 60)
    assert desk.begun.count("large") == 3
    assert desk.begun.count("most") > 1


def test_what_is_not_wanted_any_more_ends_after_its_step(desk: Desk) -> None:
    """A run of hours for a job that is over would take the half of all others'."""
    running = [desk.begin(f"a {n}", 1000) for n in range(PLACES)]
    waiting = desk.begin("b", 5)
    assert not waiting.running()
    for share in reversed(desk.shares.values()):
        desk.runs.drop(share)
    desk.go.set()
    wait(running, 60)
    assert waiting.cancelled()
    assert all(isinstance(run.exception(), Interrupted) for run in running)
    assert len(desk.done) <= 1


# ---------------------------------------------------------------------------------------- in a challenger


class Challenger:
    """A challenger's runner, and a client that serves the tiny program."""

    def __init__(self, folder: Path) -> None:
        put_package(store := Store(folder / "client", sync=False))
        self.file = put_package(store)
        self.clock, self.database = Hand(), Database(None)
        self.server = SlowServer(store, self.clock)
        self.client = self.server.__enter__()
        node = Store(folder / "node", sync=False)
        self.node = new_runner(JobRunner, node, self.database, follows=True, clock=self.clock)

    def job(self, number: int, terms: Terms, ends: int) -> JobView:
        """A posted job with one claim, in its challenge phase."""
        return job(
            number,
            uri=self.client.uri,
            program=terms,
            program_file=self.file,
            phase=JobPhase.CHALLENGE,
            rules=rules(clock=HOUR),
            challenge_period=ends,
            challenge_end=ends,
            groups=(Group(0, bytes(32), bytes(32), 0, 0, 0, 0, (0,)),),
            claims=(ClaimView(0, "0x" + "aa" * 20, 1, 0, False, False, False, self.client.uri),),
        )

    def close(self) -> None:
        self.node.close()
        self.server.__exit__(None, None, None)
        self.database.close()


@pytest.fixture
def challenger(tmp_path: Path) -> Iterator[Challenger]:
    made = Challenger(tmp_path)
    yield made
    made.close()


def test_a_strangers_run_of_days_keeps_no_other_job_waiting(challenger: Challenger) -> None:
    """The attack: one posted job whose run takes hours, so that a wrong root of a short job is claimed meanwhile."""
    node = challenger.node
    long, short = challenger.job(1, LONG, 100 * 24 * HOUR), challenger.job(2, SHORT, HOUR)
    until(lambda: node.prepare(long) is not None and node.prepare(short) is not None)
    own, others = node.ready_in_s(short), node.ready_in_s(long)
    assert own
    assert others
    assert others > 100 * own
    assert too_late(short, own, 0, 60) is None
    assert node.train(long) is None
    until(lambda: node._works[1].share.had_s)
    assert node.ready_in_s(short) == 2 * own, "of the other no more than it takes from ours"
    assert too_late(short, node.ready_in_s(short) or HOUR, 0, 60) is None
    assert until(lambda: node.train(short)), "it is done while the other one goes on"
    assert node.train(long) is None
    assert node._works[1].runs


def test_the_run_of_a_job_that_is_over_ends(challenger: Challenger) -> None:
    node, long = challenger.node, challenger.job(1, LONG, 100 * 24 * HOUR)
    until(lambda: node.train(long) is None and node._works.get(1) and node._works[1].share.had_s)
    claim = node._works[1].claim
    node.forget(1)
    assert claim is not None
    assert until(claim.done)


def test_a_run_that_was_left_goes_on_from_the_step_that_it_had_reached(
    challenger: Challenger, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, of = challenger.node, challenger.job(2, SHORT, HOUR)
    until(lambda: node.prepare(of))
    work, look, steps = node._works[2], node._runs.look, itertools.count(1)

    def looks() -> None:
        look()
        if work.share.had_s and next(steps) == 2:
            node._runs._processors.leave(work.share)

    monkeypatch.setattr(node._runs, "look", looks)
    run = honest_run()
    assert until(lambda: node.train(of)) == run.commit_interval(run.initial(), 12, 4).claim()
    kept = node._database.checkpoints(work.key)
    assert [step for step, (root, _) in kept.items() if root is None] == [3], (
        "it was kept, and is not a checkpoint"
    )


def test_a_run_that_takes_all_memory_gives_it_back_to_who_waits_and_goes_on(
    challenger: Challenger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: a run of days that takes most of the memory keeps all from it that do not fit beside it."""
    monkeypatch.setattr(runs, "SLICE_S", 0.0)
    node, tensors = challenger.node, challenger.node._tensors
    long, short = challenger.job(1, LONG, 100 * 24 * HOUR), challenger.job(2, SHORT, HOUR)
    until(lambda: node.prepare(long) is not None and node.prepare(short) is not None)
    tensors.of(1, Takes(step=tensors.limit))
    tensors.of(2, Takes(step=tensors.limit // 2))

    def rounds(question: Callable[[], object]) -> None:
        def ask() -> object:
            challenger.clock.on(RETRY_S)
            node.train(long)
            return question()

        until(ask)

    rounds(lambda: node._works[1].share.had_s)
    rounds(lambda: node.train(short))
    reached, had_s = (
        StoredCheckpoints(challenger.database, node._works[1].key).last,
        node._works[1].share.had_s,
    )
    assert reached
    rounds(lambda: node._works[1].share.had_s > had_s)
    node.close()
    assert StoredCheckpoints(challenger.database, node._works[1].key).last > reached
