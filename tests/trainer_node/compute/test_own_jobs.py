"""Jobs in which we have a stake, after a restart: nothing comes before them, and nobody else gets what they have.

The servers, runs and measurements are real; the clock stands still until a test moves it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from trainer_node.chain import JobView
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.outcomes import MAX_RETRY_S
from trainer_node.compute.packages import Work
from trainer_node.limits.waits import LANES, package_s
from trainer_node.observe.problems import Problems
from trainer_node.run.cost_estimate import CostEstimate
from trainer_node.run.package import Package
from trainer_node.storage.database import Database

from ..desk import TERMS, job, runner, serving, until
from ..slow import Hand, SlowServer

Opened = Callable[..., Any]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path / "client") as uri:
        yield uri


@pytest.fixture
def opened(tmp_path: Path, stored: Database, clock: Hand, served: str) -> Opened:
    """Open the node, which has finished the run of the tiny program for a job of ours: each time after a restart."""
    ours = job(1, uri=served)
    with runner(tmp_path / "node", stored) as node:
        until(lambda: node.train(ours, ours=True))
    return partial(runner, tmp_path / "node", stored, clock=clock)


@dataclass
class Held:
    """Lets what it wraps wait for some jobs, until it is let go."""

    jobs: frozenset[int]
    begun: set[int] = field(default_factory=set)
    go: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()

    def wait(self, number: int) -> None:
        if number in self.jobs:
            self.begun.add(number)
            assert self.go.wait(120)


def measures(monkeypatch: pytest.MonkeyPatch, before: Callable[[int], None]) -> None:
    """Do something before the measurement of each job."""
    measure = JobRunner._measure

    def measured(self: JobRunner, of: JobView, package: Package, limit_s: float) -> CostEstimate:
        before(of.id)
        return measure(self, of, package, limit_s)

    monkeypatch.setattr(JobRunner, "_measure", measured)


# ------------------------------------------------------------------------ strangers that name a program of ours


@pytest.mark.parametrize("strangers", [2, 2 * LANES])
def test_strangers_that_name_our_program_keep_us_from_nothing(
    opened: Opened, served: str, clock: Hand, strangers: int
) -> None:
    """The attack: their fetches took the threads of our own jobs, with no turn and no end."""
    with opened() as node, SlowServer(None, clock, holds=True) as stalling:
        for number in range(2, 2 + strangers):
            node.prepare(job(number, uri=f"{stalling.uri}/{number}", program_file=bytes(32)))
        until(lambda: len(stalling.asked_for) == min(strangers, LANES))
        assert until(lambda: node.train(job(1, uri=served), ours=True))
        assert node.replay(1).step_tree(TERMS.steps)
        assert clock() == 0.0


def test_measurements_of_strangers_that_name_our_program_keep_us_from_nothing(
    opened: Opened, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the file of our program, too, they need not be served at all."""
    held = Held(frozenset({2, 3}))
    measures(monkeypatch, held.wait)
    with opened() as node, held:
        until(lambda: [node.prepare(job(number)) for number in held.jobs] and held.begun)
        assert until(lambda: node.train(job(1, uri=served), ours=True))
        assert until(lambda: node.prepare(job(1, uri=served)))


def test_strangers_that_name_our_program_have_turns_and_a_budget_as_all_others(
    opened: Opened, clock: Hand
) -> None:
    with opened() as node, SlowServer(None, clock, holds=True) as stalling:
        others = [job(n, uri=f"{stalling.uri}/{n}", program_file=bytes(32)) for n in range(2, 2 + 2 * LANES)]
        for other in others:
            node.prepare(other)
        until(lambda: len(stalling.asked_for) == LANES)
        assert len(node._packages._strangers._rows[0].waiting) == LANES
        clock.on(package_s(others[0]))
        assert until(lambda: node.prepare(others[0]) or node.refused(2))
        assert "the package of job 2, for its training period" in (node.refused(2) or "")


@pytest.mark.parametrize("strangers", [2, 8])
def test_runs_of_strangers_that_come_back_from_the_disk_are_not_before_ours(
    opened: Opened, served: str, monkeypatch: pytest.MonkeyPatch, strangers: int
) -> None:
    held, run = Held(frozenset(range(2, 2 + strangers))), JobRunner._run

    def slowly(self: JobRunner, work: Work, *given: Any) -> Any:
        held.wait(work.job.id)
        return run(self, work, *given)

    monkeypatch.setattr(JobRunner, "_run", slowly)
    with opened() as node, held:
        others = [job(number, uri=served) for number in sorted(held.jobs)]
        until(lambda: [node.train(other) for other in others] and len(held.begun) == 2)
        assert until(lambda: node.train(job(1, uri=served), ours=True))


@pytest.mark.parametrize("begun", [True, False])
def test_a_package_that_was_a_strangers_is_fetched_at_once_when_it_is_ours(
    tmp_path: Path, served: str, stored: Database, clock: Hand, begun: bool
) -> None:
    with (
        runner(tmp_path / "node", stored, clock=clock) as node,
        SlowServer(None, clock, holds=True) as stalling,
    ):
        if not begun:
            for number in range(2, 2 + LANES):
                node.prepare(job(number, uri=f"{stalling.uri}/{number}"))
        node.prepare(job(1, uri=f"{stalling.uri}/1"))
        until(lambda: len(stalling.asked_for) == (1 if begun else LANES))
        assert until(lambda: node.train(job(1, uri=served), ours=True))
        assert clock() == 0.0


# ------------------------------------------------------------------------ what it costs


@pytest.mark.parametrize("jobs", [1, 6])
def test_a_finished_run_is_there_before_it_is_measured(
    opened: Opened, served: str, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """The attack: each job with our stake was measured again before it could be defended, two at a time."""
    mine = [job(number, uri=served) for number in range(1, jobs + 1)]
    held = Held(frozenset(of.id for of in mine))
    measures(monkeypatch, held.wait)
    with opened() as node, held:
        for of in mine:
            assert until(partial(node.train, of, ours=True))
            assert node.replay(of.id).step_tree(TERMS.steps)
        assert all(node.prepare(of) is None for of in mine)
        held.go.set()
        for of in mine:
            assert until(partial(node.prepare, of)), "it is measured all the same"


def test_a_run_of_ours_that_is_not_measured_lets_no_other_job_seem_to_be_in_time(
    tmp_path: Path, stored: Database, clock: Hand, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes the processors first is not forgotten because nobody knows how long it takes."""
    measured, runs, run = Held(frozenset({1})), Held(frozenset({1})), JobRunner._run

    def slowly(self: JobRunner, work: Work, *given: Any) -> Any:
        runs.wait(work.job.id)
        return run(self, work, *given)

    monkeypatch.setattr(JobRunner, "_run", slowly)
    measures(monkeypatch, measured.wait)
    ours, other = job(1, uri=served), job(2, uri=served)
    with runner(tmp_path / "node", stored, clock=clock) as node, measured, runs:
        until(lambda: node.train(ours, ours=True) is None and runs.begun)
        until(lambda: node.prepare(other))
        assert node.ready_in_s(other) is None
        measured.go.set()
        until(lambda: node.prepare(ours))
        own, both = node.ready_in_s(ours), node.ready_in_s(other)
        assert own
        assert both
        assert both > own


def test_a_measurement_that_fails_keeps_us_from_nothing_else_in_a_job_of_ours(
    opened: Opened, served: str, clock: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, problems = threading.Event(), Problems()

    def fails(number: int) -> None:
        if broken.is_set():
            raise RuntimeError(f"job {number} cannot be measured")

    broken.set()
    measures(monkeypatch, fails)
    ours = job(1, uri=served)
    with opened(problems=problems) as node:
        assert until(lambda: node.train(ours, ours=True))
        until(lambda: node.prepare(ours) is None and "job 1: measure" in problems)
        assert node.train(ours, ours=True)
        assert node.replay(1).step_tree(TERMS.steps)
        broken.clear()
        assert node.prepare(ours) is None
        clock.on(MAX_RETRY_S[False])
        assert until(lambda: node.prepare(ours))
        assert "job 1: measure" not in problems
