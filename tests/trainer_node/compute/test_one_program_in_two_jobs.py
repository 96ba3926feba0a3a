"""A client posts a program twice: the second job has the run of the first, and knows of it what the first knew."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from referee_py.execute import Executor, State, StepTrace, executor_for
from tests.support.clock import Clock
from trainer_node.compute import job_runner
from trainer_node.run.checkpoints import StoredCheckpoints
from trainer_node.run.replay import Replay
from trainer_node.run.step_times import StepTimes, Taken
from trainer_node.storage.database import Database
from trainer_node.storage.retention import Policy, Retention
from trainer_node.storage.store import Store

from ..desk import STRIDES, TERMS, job, runner, serving, until
from ..slow import Hand

HOUR = 3600.0


def counting(told: Callable[[int], None]) -> type[Replay]:
    """Return runs that report the steps that they compute."""

    class Counted(Executor):
        def __init__(self, within: Executor) -> None:
            self._within = within

        def step(self, state: State, commit: bool) -> tuple[State, StepTrace | None]:
            told(state.step + 1)
            return self._within.step(state, commit)

    class Counting(Replay):
        def _executor(self) -> Executor:
            return Counted(executor_for(self.program, self._package.constants, self._backend))

    return Counting


def test_its_states_stay_when_the_first_job_is_over(tmp_path: Path) -> None:
    """The attack: the first job's states were collected, and disputes about the second began at the first step."""
    steps = list[int]()
    database = Database(tmp_path / "node.sqlite3")
    with (
        serving(tmp_path / "client") as uri,
        runner(tmp_path / "node", database, replay=counting(steps.append)) as node,
    ):
        first, second = job(1, uri=uri), job(2, uri=uri)
        until(lambda: node.train(first, ours=True))
        store = Store(tmp_path / "node", sync=False)
        for path in store.root.rglob("*"):  # it was some days ago
            if path.is_file():
                os.utime(path, (time.time() - 100 * HOUR,) * 2)
        store.holders.end(1)
        node.forget(1)
        until(lambda: node.prepare(second))
        steps.clear()
        assert until(lambda: node.train(second, ours=True))
        assert not steps, "the run is there"

        clock = Clock(time.time() + 1.5 * HOUR)
        Retention(store, database, Policy(HOUR, 10 * HOUR), clock=clock).collect()
        kept = StoredCheckpoints(database, node._key(second)).kept
        assert kept == TERMS.steps // STRIDES[0]
        last = TERMS.steps - STRIDES[0]
        node.replay(2).run_tree(1, last, TERMS.steps)
        assert steps == list(range(last + 1, TERMS.steps + 1)), "an interval, and not the run"

        clock.now += 20 * HOUR
        sweep = Retention(store, database, Policy(HOUR, 10 * HOUR), clock=clock).collect
        sweep()
        assert 1 not in store.holders.jobs()
        assert StoredCheckpoints(database, node._key(second)).kept == kept
        node.forget(2)
        store.holders.end(2)
        clock.now += 20 * HOUR
        sweep()
        assert database.checkpoints(node._key(second)) == {}, "the last job that rests on it has gone"
        assert StoredCheckpoints(database, node._key(second)).last == 0


def test_it_knows_what_the_steps_have_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: the first job's slot is given back, and the second one is committed to without a step."""
    clock = Hand()

    class Measured(StepTimes):
        def __init__(self) -> None:
            super().__init__(clock, clock)

        def ends(self, *, committed: bool) -> None:
            clock.on(400.0 if committed else 0.0)
            super().ends(committed=committed)

    monkeypatch.setattr(job_runner, "StepTimes", Measured)
    database = Database(tmp_path / "node.sqlite3")
    with serving(tmp_path / "client") as uri, runner(tmp_path / "node", database) as node:
        first, beside, later = (job(number, uri=uri) for number in (1, 2, 3))
        until(lambda: node.prepare(first))
        until(lambda: node.prepare(beside))
        until(lambda: node.train(first, ours=True))
        taken = Taken(0.0, 400.0)
        assert node._step_book.of(node._key(first)) == taken
        for other in (first, beside):
            estimate = node.taken(other)
            assert estimate is not None
            assert estimate.commit_s == 200.0, "as it counts twice"
        node.forget(1)
        estimate = until(lambda: node.prepare(later))
        assert estimate.commit_s == 400.0
