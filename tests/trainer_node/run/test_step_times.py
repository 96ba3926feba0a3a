"""What the steps of a computation take, by clocks that the tests move."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainer_node.compute.step_book import StepBook
from trainer_node.errors import DiskFailed
from trainer_node.run.cost_estimate import CostEstimate
from trainer_node.run.step_times import StepTimes, Taken
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.storage.database import Database

from ..slow import Hand


class Machine:
    """A computation, the clock, and the seconds of a processor that its thread has had."""

    def __init__(self) -> None:
        self.clock, self.busy = Hand(), Hand()
        self.times = StepTimes(self.clock, self.busy)

    def step(self, seconds: float, used: float | None = None, *, committed: bool = False) -> None:
        self.times.resumes()
        self.takes(seconds, used)
        self.times.ends(committed=committed)

    def takes(self, seconds: float, used: float | None = None) -> None:
        self.clock.on(seconds)
        self.busy.on(seconds if used is None else used)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_what_is_before_the_first_operator_does_not_count(machine: Machine) -> None:
    machine.takes(100.0)
    machine.times.ends(committed=False)
    assert machine.times.count == 0
    machine.step(2.0)
    assert machine.times.mean_s == machine.times.slowest.step_s == 2.0


def test_of_the_clock_and_the_thread_the_lower_counts(machine: Machine) -> None:
    machine.step(50.0, used=3.0)  # a busy machine
    assert machine.times.slowest.step_s == 3.0
    machine.step(1.0, used=4.0)
    assert machine.times.mean_s == 2.0


def test_what_other_processes_have_computed_for_a_step_counts(machine: Machine) -> None:
    """A dispute is played by one process, which computes what three have, one after the other."""
    machine.times.beside(7.0)
    machine.times.beside(8.0)
    machine.step(30.0, used=5.0)
    assert machine.times.slowest.step_s == 20.0
    machine.times.beside(100.0)
    machine.times.drops()
    machine.step(4.0)
    assert machine.times.mean_s == 12.0, "the step that was dropped is none"


def test_what_others_have_of_the_processors_does_not_count(machine: Machine) -> None:
    machine.times.resumes()
    machine.takes(1.0)
    machine.times.rests()
    machine.takes(1000.0)
    machine.times.resumes()
    machine.takes(2.0)
    machine.times.ends(committed=False)
    machine.takes(1000.0)  # a state is kept, and others compute
    machine.step(5.0)
    assert (machine.times.mean_s, machine.times.slowest.step_s) == (4.0, 5.0)


def test_a_step_that_was_ended_in_its_midst_is_none(machine: Machine) -> None:
    machine.step(2.0)
    machine.times.resumes()
    machine.takes(30.0)
    machine.times.drops()
    machine.step(2.0)
    assert (machine.times.mean_s, machine.times.slowest.step_s, machine.times.count) == (2.0, 2.0, 2)


def test_one_slow_step_among_many_is_seen(machine: Machine) -> None:
    for number in range(100):
        machine.step(148.0 if number == 60 else 1.0)
    assert machine.times.slowest == Taken(148.0)
    assert machine.times.mean_s == pytest.approx(2.47)


def test_committed_steps_are_another_kind(machine: Machine) -> None:
    """Each takes three to twenty plain ones, in any job."""
    for number in range(1, 101):
        committed = number % 10 == 0
        machine.step(19.0 if committed else 4.6, committed=committed)
    assert machine.times.slowest == Taken(pytest.approx(4.6), pytest.approx(19.0))  # type: ignore[arg-type]
    assert machine.times.mean_s == pytest.approx(6.04)


@pytest.mark.parametrize("committed", [False, True])
def test_short_steps_count_together(machine: Machine, committed: bool) -> None:
    """One of a millisecond that took sixteen says nothing."""
    for number in range(3000):
        machine.step(1 / 64 if number == 60 else 1 / 1024, committed=committed)
    slowest = machine.times.slowest
    assert 1 / 1024 < (slowest.commit_s if committed else slowest.step_s) < 1.02 / 1024


def test_short_steps_do_not_hide_a_long_one(machine: Machine) -> None:
    """The attack: one step of 20 s behind seven of 0.14 s counted as eight of 2.7 s."""
    for seconds in (*[0.125] * 7, 20.0, *[0.125] * 100):
        machine.step(seconds, committed=True)
    assert machine.times.slowest.commit_s == 20.0


def test_a_short_computation_is_its_mean(machine: Machine) -> None:
    assert machine.times.slowest == Taken()
    machine.step(0.25)
    assert machine.times.mean_s == machine.times.slowest.step_s == 0.25


def test_what_steps_have_really_taken_raises_an_estimate() -> None:
    estimate = CostEstimate(step_s=1.0, commit_s=3.0, trial=NO_TRIAL)
    assert estimate.at_least(Taken(1.5)) == replace(estimate, step_s=1.5, commit_s=3.5)
    assert estimate.at_least(Taken(1.0, 4.0)) == replace(estimate, step_s=2.0, commit_s=4.0)
    assert estimate.at_least(Taken(0.5, 3.0)) == estimate


def test_a_restart_forgets_no_slow_step(tmp_path: Path) -> None:
    book = StepBook(Database(tmp_path / "node.sqlite3"))
    book.note(7, Taken(2.0, 3.0))
    book.note(7, Taken(1.0, 1.0))
    assert book.of(7) == Taken(2.0, 3.0)
    again = StepBook(Database(tmp_path / "node.sqlite3"))
    assert (again.of(7), again.of(8)) == (Taken(2.0, 3.0), Taken())


def test_a_full_disk_forgets_no_slow_step_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "node.sqlite3")
    book = StepBook(database)

    def refuses(*_: object) -> None:
        raise DiskFailed("no space")

    with monkeypatch.context() as full:
        full.setattr(database, "put", refuses)
        book.note(7, Taken(2.0, 3.0))
    assert book.of(7) == Taken(2.0, 3.0)
    book.note(7, Taken(1.0, 1.0))
    assert StepBook(Database(tmp_path / "node.sqlite3")).of(7) == Taken(2.0, 3.0)
