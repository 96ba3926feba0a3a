"""What a dispute asks for has the processors alone: beside a run it took twice as long, and the clock was over."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from referee_py.execute import Executor, State, StepTrace, executor_for
from referee_py.pauses import asked
from trainer_node.compute import breaks
from trainer_node.compute.processors import Processors, Share
from trainer_node.compute.runs import PLACES, SLICE_S
from trainer_node.run.replay import Replay
from trainer_node.run.turns import Turns
from trainer_node.storage.database import Database

from ..desk import challenged, runner, serving, until
from .test_runs import Desk, desk

__all__ = ["desk"]

GLANCE_S = 0.05


def test_a_run_rests_after_its_step_while_a_dispute_computes(desk: Desk) -> None:
    entered, leave = threading.Event(), threading.Event()

    def dispute() -> None:
        with desk.runs.first():
            entered.set()
            assert leave.wait(60)

    threads = [threading.Thread(target=dispute)]

    def on_step(_: str) -> None:
        if len(desk.done) == 3:
            threads[0].start()
            assert entered.wait(60)

    desk.on_step = on_step
    run = desk.begin("a", 10)
    desk.go.set()
    until(lambda: bool(desk.runs._processors._waiting) and entered.is_set())
    assert len(desk.done) == 3
    newcomer = desk.begin("b", 1, ours=True)
    time.sleep(GLANCE_S)
    assert len(desk.done) == 3, "nobody else begins, either"
    leave.set()
    assert (run.result(60), newcomer.result(60)) == ("a", "b")
    threads[0].join()


def test_a_run_rests_in_the_midst_of_a_step(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaks, "BREAK_S", 0.0)
    operators = 0

    def act(_: object) -> None:
        nonlocal operators
        between = asked()
        assert between is not None
        assert desk.go.wait(60)
        for _operator in range(1000):
            desk.clock.on(1.0)
            between()
            operators += 1

    run = desk.runs.submit(Share(), act, usual_s=1e6)
    with desk.runs.first():
        desk.go.set()
        until(lambda: bool(desk.runs._processors._waiting))
        before = operators
        time.sleep(GLANCE_S)
        assert operators == before
    run.result(60)
    assert operators == 1000


def test_who_must_leave_leaves_though_a_dispute_computes() -> None:
    processors, share, left = Processors(), Share(), threading.Event()

    def work() -> None:
        with processors.share(share) as held:
            while not held():
                pass
        left.set()

    thread = threading.Thread(target=work)
    thread.start()
    with processors.first(), processors.first():
        until(lambda: bool(processors._waiting))
        processors.leave(share)
        assert left.wait(60)
    thread.join()


def test_moves_go_before_runs_and_answers_beside_one() -> None:
    """Answers may be asked for without end, and would keep a slot from being filled."""
    processors = Processors()
    turns = Turns(processors.first)
    for turn, first in ((turns.move, 1), (turns.answer, 0)):
        with turn():
            assert processors._first == first
        assert processors._first == 0
    with turns.move(), turns.move():
        assert processors._first == 1, "a turn within a turn is part of it"


def test_a_move_of_one_job_lets_the_run_of_another_rest(tmp_path: Path) -> None:
    disputed, at_work, go = threading.Event(), threading.Event(), threading.Event()

    class Steps(Executor):
        def __init__(self, within: Executor) -> None:
            self._within = within

        def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
            if disputed.is_set():
                at_work.set()
                assert go.wait(60)
            return self._within.step(state, commit)

    class Waiting(Replay):
        def _executor(self) -> Executor:
            return Steps(executor_for(self.program, self._package.constants, self._backend))

    with (
        serving(tmp_path / "client") as uri,
        runner(tmp_path / "node", Database(tmp_path / "node.sqlite3"), replay=Waiting) as node,
    ):
        one = challenged(1, [(b"\7" * 32, uri)], 10**6, uri=uri)
        assert until(lambda: node.train(one))
        disputed.set()
        mover = threading.Thread(target=node.replay(1).step_tree, args=(6,))
        mover.start()
        assert at_work.wait(60)
        run = node._runs.submit(Share(), lambda pass_on: pass_on())
        time.sleep(GLANCE_S)
        assert not run.done()
        go.set()
        mover.join()
        assert run.result(60) is False


def test_checks_of_intervals_rest_as_runs_do(desk: Desk) -> None:
    beside = desk.runs.beside()
    with desk.runs.first():
        assert beside._first == desk.runs._processors._first == 1
    assert beside._first == desk.runs._processors._first == 0


def test_one_slow_run_keeps_a_place_from_nobody(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: one posted job has a step that lasts, and every new check on every node looked hopeless, since it was
    taken for all four places."""
    monkeypatch.setattr(breaks, "BREAK_S", 0.0)
    slow_s, began, told = 100 * SLICE_S, 0, list[float]()
    newcomer = list[str]()

    def slow(_: object) -> None:
        nonlocal began
        began += 1
        between = asked()
        assert between is not None
        assert desk.go.wait(60)
        for _second in range(int(slow_s)):
            desk.clock.on(1.0)
            between()

    run = desk.runs.submit(Share(), slow, usual_s=1.0)
    until(lambda: bool(began))
    others = [desk.begin(name, int(30 * SLICE_S)) for name in "abcd"]
    assert len(others) == PLACES

    def on_step(_: str) -> None:
        told.append(desk.runs.place_s)
        if began > 1 and not newcomer:
            newcomer.append("new")
            desk.begin("new", 3)
            newcomer.append(str(len(desk.done)))
        elif newcomer and "new" not in desk.begun:
            time.sleep(
                0.01
            )  # NOTE: steps here take no time, and a thread of a busy machine takes some to begin

    desk.on_step = on_step
    desk.go.set()
    for other in others:
        other.result(120)
    assert max(told) == PLACES * SLICE_S
    came = int(newcomer[1])
    assert len(desk.done[came : desk.done.index("new", came)]) <= PLACES * SLICE_S
    run.result(120)
