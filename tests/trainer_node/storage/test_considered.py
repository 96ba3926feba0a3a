"""What goes for a job that is only considered, as anybody can have one considered: no result before its time, no
finished run, and nothing at all unless the job fits afterwards."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from referee_py.program.terms import Terms
from tests.trainer_node.desk import (
    PROGRAM,
    TERMS,
    challenged,
    keeper_of,
    new_runner,
    put_package,
    until,
)
from tests.trainer_node.slow import Hand, SlowServer
from trainer_node.chain import JobView
from trainer_node.compute.job_runner import JobRunner
from trainer_node.storage import freeable, retention
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.disk import on_disk
from trainer_node.storage.disk_estimate import Needs, needs_of
from trainer_node.storage.freeable import FreeableBytes
from trainer_node.storage.retention import URGENT_GRACE_S, Policy, Retention, usage
from trainer_node.storage.store import Store

DAY = 24 * 3600
MINUTES = 600.0
"""Longer than what is used stays on a full disk, and shorter than the times of the policy."""
QUOTA = 1 << 20
BLOB = 10_000
SIZE = on_disk(BLOB)
ENDED, IDLE, OURS, ASKED, HUGE = 1, 2, 3, 4, 5
NEVER = Needs(1 << 60)
"""More than any disk has."""


def begins(store: Store, job: int, instant: float) -> None:
    """Let a job have begun to hold what it holds at another time."""
    path = store.holders._path(job)
    used, lines = path.stat().st_mtime, path.read_text().split("\n", 1)[1]
    path.write_text(f"b {int(instant)}\n{lines}")
    os.utime(path, (used, used))


class Disk:
    """A store with its keeper, which says who has swept it and how many files were looked at for that."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = Store(folder / "artifacts", sync=False)
        self.keeper, self.problems = keeper_of(folder, self.store, Database(None), store_bytes=QUOTA)
        self.looked, self.counted = 0, 0
        self.sweepers = set[int]()
        files = retention.files

        def walked(root: Path) -> Iterator[tuple[Path, str, int, float]]:
            self.sweepers.add(threading.get_ident())
            for found in files(root):
                self.looked += 1
                yield found

        def counted(size: int) -> int:
            self.counted += 1
            return on_disk(size)

        monkeypatch.setattr(retention, "files", walked)
        monkeypatch.setattr(freeable, "on_disk", counted)

    def put(self, job: int, number: int, *, result: bool = False) -> Name:
        view = self.store.held_by(job, result=result)
        return Name(Kind.BLOB, view.put_blob(number.to_bytes(BLOB, "big")))

    def has(self, *names: Name) -> list[bool]:
        return [self.store.find(name) is not None for name in names]

    def passes(self, seconds: float = MINUTES) -> None:
        """Let time pass in which nothing in the store is used."""
        for path in self.store.root.rglob("*"):
            if path.is_file():
                then = path.stat().st_mtime - seconds
                os.utime(path, (then, then))
        for number in self.store.holders.jobs():
            begins(self.store, number, self.store.holders.began(number) - seconds)
        self.store.usage = usage(self.store.root)
        self.looked = 0
        self.sweepers.clear()

    def lacks(self, job: int, size: int) -> None:
        """Let a job need so many bytes more than there are."""
        self.keeper.needs(job, Needs(self.keeper.room(job) + size))

    def ask(self, *jobs: int) -> list[bool]:
        """Ask whether jobs fit, as a round of the loop does; wait until what that has begun is done."""
        self.keeper._tried = float("-inf")
        fits = [self.keeper.too_full(job) is None for job in jobs]
        self.keeper.close()
        return fits


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(tmp_path, monkeypatch)


def test_a_job_that_never_fits_costs_no_file_and_no_look_at_the_store(disk: Disk) -> None:
    """The attack: for the gas of a posting all results and all finished runs of a node went, though it had room."""
    work, result = disk.put(ENDED, 1), disk.put(ENDED, 2, result=True)
    disk.passes()
    run = disk.put(IDLE, 3)
    disk.keeper.stake(IDLE, False)
    disk.keeper.over(ENDED)
    disk.passes()
    disk.keeper.needs(HUGE, NEVER)
    for _ in range(5):
        assert disk.ask(HUGE) == [False]
    assert disk.has(work, result, run) == [True, True, True]
    assert disk.looked == 0
    assert disk.counted == 2, "what has ended is counted once"


def test_the_work_of_jobs_that_are_over_goes_where_that_is_enough_and_nothing_else(disk: Disk) -> None:
    work, result = disk.put(ENDED, 1), disk.put(ENDED, 2, result=True)
    disk.passes()
    run = disk.put(IDLE, 3)
    disk.keeper.stake(IDLE, False)
    disk.keeper.over(ENDED)
    disk.passes()
    disk.lacks(ASKED, SIZE + 1)
    assert disk.ask(ASKED) == [False]
    assert disk.has(work, result, run) == [True, True, True], "a byte too little"
    disk.lacks(ASKED, SIZE)
    assert disk.ask(ASKED) == [False], "it is looked at again in the next round"
    assert disk.has(work, result, run) == [False, True, True]
    assert disk.ask(ASKED) == [True]
    assert disk.looked > 0
    assert threading.get_ident() not in disk.sweepers, "the loop does not wait for a sweep"


@pytest.mark.parametrize("staked", [False, True])
@pytest.mark.parametrize("collected", [False, True])
def test_a_strangers_job_that_goes_on_for_years_keeps_nothing_of_later_jobs(
    disk: Disk, staked: bool, collected: bool
) -> None:
    """Nor does ours, of what the lists of others name. What a crash may have taken the line of is in no list."""
    run = disk.put(IDLE, 1)
    disk.passes()
    disk.keeper.stake(IDLE, staked)
    work, loose = disk.put(ENDED, 2), Name(Kind.BLOB, disk.store.put_blob(b"l" * BLOB))
    disk.keeper.over(ENDED)
    disk.passes(DAY)
    disk.lacks(ASKED, SIZE)
    if collected:
        disk.keeper.collect()
    else:
        disk.ask(ASKED)
    assert disk.has(run, work) == [True, False]
    disk.keeper.collect()
    assert disk.has(run, loose) == [True, staked]


def test_a_job_that_has_just_ended_is_left_to_a_reorganisation(disk: Disk) -> None:
    work = disk.put(ENDED, 1)
    disk.passes()
    disk.keeper.over(ENDED)
    disk.lacks(ASKED, SIZE)
    assert disk.ask(ASKED, ASKED) == [False, False]
    assert disk.has(work) == [True]
    assert disk.looked == 0


def test_a_job_that_never_fits_does_not_take_the_turn_of_one_that_would(disk: Disk) -> None:
    work = disk.put(ENDED, 1)
    disk.keeper.over(ENDED)
    disk.passes()
    disk.keeper.needs(HUGE, NEVER)
    disk.lacks(ASKED, SIZE)
    disk.ask(HUGE)
    assert disk.keeper.too_full(ASKED) is not None, "too soon after the last"
    assert disk.has(work) == [True]
    disk.ask(HUGE)  # it is the first to ask again, and both are thought of
    assert disk.has(work) == [False]
    assert disk.ask(ASKED) == [True]


def test_a_sweep_that_wins_less_than_was_reckoned_is_not_repeated(disk: Disk) -> None:
    """The work of one job is the result of another."""
    shared = disk.put(ENDED, 1)
    assert disk.put(OURS, 1, result=True) == shared
    disk.keeper.over(ENDED)
    disk.keeper.over(OURS)
    disk.passes()
    disk.lacks(ASKED, SIZE)
    disk.ask(ASKED)
    looked = disk.looked
    assert looked > 0
    for _ in range(3):
        assert disk.ask(ASKED) == [False]
    assert disk.looked == looked
    assert disk.has(shared) == [True]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_for_what_has_our_stake_runs_and_then_results_go_if_they_are_enough(disk: Disk, parts: int) -> None:
    work, result = disk.put(ENDED, 1), disk.put(ENDED, 2, result=True)
    disk.passes()
    run = disk.put(IDLE, 3)
    disk.keeper.stake(IDLE, False)
    disk.keeper.over(ENDED)
    disk.passes()
    disk.lacks(OURS, 3 * SIZE + 1)
    disk.keeper.stake(OURS, True)
    disk.ask(OURS)
    assert disk.has(work, run, result) == [True, True, True], "all of it is not enough"
    assert disk.looked == 0
    disk.lacks(OURS, parts * SIZE)
    disk.ask(OURS)
    assert disk.has(work, run, result) == [parts <= before for before in range(3)]
    assert disk.ask(OURS) == [True]


def test_what_we_work_on_does_not_go_for_a_stake_either(disk: Disk) -> None:
    run = disk.put(IDLE, 1)
    disk.keeper.stake(IDLE, False)
    disk.keeper.works_at = lambda job: job == IDLE
    disk.passes()
    disk.lacks(OURS, SIZE)
    disk.keeper.stake(OURS, True)
    disk.ask(OURS)
    assert disk.has(run) == [True]
    assert disk.looked == 0


def test_a_job_that_was_given_up_is_counted_anew_when_it_comes_back(disk: Disk) -> None:
    """The list of what it holds begins anew, and would have been read from the middle."""
    for number in range(3):
        disk.put(IDLE, number)
    disk.keeper.stake(IDLE, False)
    disk.keeper.needs(IDLE, Needs(10 * SIZE))
    assert disk.keeper._left(IDLE) == 7 * SIZE
    disk.passes()
    assert not disk.keeper.make_room(1 << 60)
    assert disk.keeper._left(IDLE) == 10 * SIZE
    disk.put(IDLE, 1)
    assert disk.keeper._left(IDLE) == 9 * SIZE


def test_a_job_that_was_given_up_and_has_come_back_is_reckoned_with_by_what_it_holds_now(disk: Disk) -> None:
    counts = FreeableBytes(disk.store)
    for number in range(3):
        disk.put(IDLE, number)
    disk.passes(2 * MINUTES)
    assert counts.could_free(frozenset({IDLE}), runs=True).bytes == 3 * SIZE
    disk.keeper.stake(IDLE, False)
    assert not disk.keeper.make_room(1 << 60)
    disk.put(IDLE, 1)
    disk.passes()
    assert counts.could_free(frozenset({IDLE}), runs=True).bytes == SIZE


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("results", [False, True])
def test_what_is_reckoned_is_what_a_sweep_frees(tmp_path: Path, seed: int, runs: bool, results: bool) -> None:
    """Jobs that go on and that are over, since different times, hold files of their own; those that are given up may
    have used them later than they began."""
    chance, store, now = random.Random(seed), Store(tmp_path, sync=False), time.time()
    resting = set[int]()
    for number in range(8):
        for k in range(chance.randrange(1, 4)):
            view = store.held_by(number, result=chance.random() < 0.4)
            view.put_blob(bytes([number, k]) * chance.randrange(1, 4_500))
        began = int(now - chance.randrange(100, 1000))
        used = chance.uniform(began, now)
        path = store.holders.folder / str(number)
        begins(store, number, began)
        for _, held in store.holders.held(number):
            os.utime(store.root / held, (used, used))
        if chance.random() < 0.7:
            store.holders.end(number)
            os.utime(path.with_name(f"{number}.over"), (used, used))
        elif chance.random() < 0.5:
            resting.add(number)
    counts, given = FreeableBytes(store, clock=lambda: now), frozenset(resting)
    could = counts.could_free(given, runs=runs, results=results)
    sweeps = Retention(store, None, Policy(), clock=lambda: now)
    swept = sweeps.give_up(given, URGENT_GRACE_S, runs=runs, results=results)
    assert could.bytes >= swept.freed if runs else could.bytes == swept.freed


def test_a_finished_run_can_be_staked_on_beside_a_job_that_never_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A challenger has the right run of a job in which a lie may come until the challenges end. The attack: a
    stranger's job, in time and too large for the disk, took its states; no stake was given when the lie came."""
    disk, clock = Disk(tmp_path, monkeypatch), Hand()
    large = Terms.of(PROGRAM, 1 << 20, (1,))
    assert needs_of(PROGRAM, large).whole > 16 << 30
    disk.keeper._store_bytes = 16 << 30
    served = Store(tmp_path / "client", sync=False)
    file, database = put_package(served), Database(tmp_path / "node.sqlite3")
    node = new_runner(
        JobRunner,
        disk.store,
        database,
        follows=True,
        clock=clock,
        keeper=disk.keeper,
        problems=disk.problems,
    )
    disk.keeper.works_at = node.works_at
    with SlowServer(served, clock) as client:

        def of(number: int, terms: Terms) -> JobView:
            claims = [(bytes(32), client.uri)]
            return challenged(number, claims, DAY, uri=client.uri, program=terms, program_file=file)

        real, strangers = of(IDLE, TERMS), of(HUGE, large)
        until(lambda: node.train(real) is not None)
        disk.keeper.stake(IDLE, False)  # as in every round
        disk.keeper.stake(HUGE, False)
        until(lambda: not node.works_at(IDLE))
        assert node.too_full(IDLE) is None
        until(lambda: node.prepare(strangers) is not None)
        disk.passes()
        assert "make room" in str(node.too_full(HUGE))
        disk.keeper.close()
        assert node.too_full(IDLE) is None
        node.close()
    assert disk.looked == 0
    database.close()
