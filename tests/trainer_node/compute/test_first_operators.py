"""A slow operator that is the first of a turn, of which nothing was measured before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from referee_py.execute import Executor, State, StepTrace, executor_for
from referee_py.pauses import asked
from trainer_node.chain import JobView
from trainer_node.compute import breaks, job_runner
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.processors import Share
from trainer_node.compute.runs import PLACES
from trainer_node.run.replay import Replay
from trainer_node.run.step_times import StepTimes
from trainer_node.stake.deadlines import too_slow
from trainer_node.storage.database import Database

from ..desk import challenged, rules, runner, serving, until
from ..slow import Hand

SLOW_S, CLOCK_S = 3000.0, 1000
AT = 4
"""The state before the slow step: a checkpoint of the first stride."""


@dataclass
class Slow:
    """Runs whose step after `AT` waits until told, and whose first operator lasts there."""

    clock: Hand
    reached: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def replay(self) -> type[Replay]:
        slow = self

        class Steps(Executor):
            def __init__(self, within: Executor) -> None:
                self._within = within

            def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
                between = asked() or (lambda: None)
                between()
                if state.step == AT:
                    slow.reached.set()
                    assert slow.go.wait(60)
                for seconds in (SLOW_S if state.step == AT else 1.0, 1.0):
                    slow.clock.on(seconds)
                    between()
                return self._within.step(state, commit)

        class Slowly(Replay):
            def _executor(self) -> Executor:
                return Steps(executor_for(self.program, self._package.constants, self._backend))

        return Slowly


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    clock = Hand()
    monkeypatch.setattr(breaks, "BREAK_S", 0.0)

    class Measured(StepTimes):
        def __init__(self) -> None:
            super().__init__(clock, clock)

    monkeypatch.setattr(job_runner, "StepTimes", Measured)
    return Slow(clock)


@pytest.mark.parametrize("others", [0, PLACES])
def test_a_slow_operator_counts_wherever_a_turn_begins(tmp_path: Path, slow: Slow, others: int) -> None:
    """The attack: others wait for places, so the run leaves in the midst of the slow step, whose slow operator is then
    the first of its next turn; and a challenger staked on what it could not play."""
    database = Database(tmp_path / "node.sqlite3")
    with (
        serving(tmp_path / "client") as uri,
        runner(tmp_path / "node", database, replay=slow.replay()) as node,
    ):
        one = begun(node, uri, slow)

        def filler(pass_on: Callable[[], bool]) -> None:
            for _ in range(3):
                pass_on()

        waiting = [node._runs.submit(Share(), filler) for _ in range(others)]
        slow.go.set()
        assert until(lambda: node.train(one))
        for future in waiting:
            future.result(60)
        estimate = node.measured(one)
        assert estimate is not None
        assert estimate.commit_s >= SLOW_S
        assert too_slow(one, estimate) is not None


def test_a_node_that_ends_in_the_midst_of_a_slow_step_knows_of_it_later(tmp_path: Path, slow: Slow) -> None:
    database = Database(tmp_path / "node.sqlite3")
    with serving(tmp_path / "client") as uri:
        with runner(tmp_path / "node", database, replay=slow.replay()) as node:
            one = begun(node, uri, slow)
            node._stop.set()
            slow.go.set()
        with runner(tmp_path / "node", database) as node:
            until(lambda: node.prepare(one))
            estimate = node.measured(one)
            assert estimate is not None
            assert max(estimate.step_s, estimate.commit_s) >= SLOW_S
            assert too_slow(one, estimate) is not None


def begun(node: JobRunner, uri: str, slow: Slow) -> JobView:
    """Let a run come to its slow step, and return its job, of which the first step says nothing."""
    node._runs._processors._clock = slow.clock
    one = challenged(1, [(b"\7" * 32, uri)], 10**6, uri=uri, rules=rules(CLOCK_S))
    until(lambda: node.prepare(one))
    estimate = node.measured(one)
    assert estimate is not None
    assert too_slow(one, estimate) is None
    node.train(one)
    assert slow.reached.wait(60)
    return one
