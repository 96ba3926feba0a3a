"""A job lets go of what it holds by its own times, and only if it still may at that moment."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer_node.desk import keeper_of
from trainer_node.errors import DiskFull
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.at_rest import Leaves
from trainer_node.storage.database import Database
from trainer_node.storage.disk_estimate import Needs
from trainer_node.storage.disk_keeper import Keeper
from trainer_node.storage.held_bytes import HeldBytes
from trainer_node.storage.job_holds import Holders
from trainer_node.storage.resting_states import Found
from trainer_node.storage.retention import Retention
from trainer_node.storage.store import Store

from .test_considered import begins

DAY = 24 * 3600
OURS, RESTS, ENDED = 1, 2, 3


def fill(store: Store, job: int, count: int) -> list[Name]:
    draw = np.random.default_rng(job)
    put = [store.held_by(job).put_tensor(draw.random(1000, np.float32)) for _ in range(count)]
    return [Name(Kind.TENSOR, tensor) for tensor in put]


def later(store: Store, seconds: float) -> None:
    """Let all files of the store, and all lists, be older."""
    for path in (path for path in store.root.rglob("*") if path.is_file()):
        os.utime(path, (path.stat().st_mtime - seconds,) * 2)
    for job in store.holders.jobs():
        begins(store, job, store.holders.began(job) - seconds)


def here(store: Store, names: list[Name]) -> int:
    return sum(store.find(name) is not None for name in names)


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return keeper_of(tmp_path, Store(tmp_path / "store", sync=False), Database(None))[0]


HAPPENS: dict[str, Callable[[Keeper], object]] = {
    "a stake": lambda keeper: keeper.stake(RESTS, True),
    "a lie": lambda keeper: keeper.finds(RESTS, Found.LIE),
    "something differs": lambda keeper: keeper.finds(RESTS, Found.DIFFERS),
    "a stake is about to be sent": lambda keeper: keeper.too_full(RESTS),
}


@pytest.mark.parametrize("happens", HAPPENS)
@pytest.mark.parametrize("what", ["all", "states"])
def test_what_happens_once_a_sweep_has_begun_counts(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, what: str, happens: str
) -> None:
    """Jobs are looked through for minutes; what rested when that began may be staked on since."""
    store = keeper._store
    names = fill(store, RESTS, 3)
    keeper.needs(RESTS, Needs(0), [Name(Kind.BLOB, bytes(32))])
    keeper.considers(RESTS, stakes=True)
    keeper.stake(RESTS, False)
    later(store, DAY)
    assert RESTS in keeper._resting()
    jobs, held = Holders.jobs, Holders.held

    def looks(holders: Holders, job: int) -> Any:
        monkeypatch.setattr(Holders, "held", held)
        HAPPENS[happens](keeper)
        return held(holders, job)

    def lists(holders: Holders) -> dict[int, float | None]:
        monkeypatch.setattr(Holders, "jobs", jobs)
        found = jobs(holders)
        HAPPENS[happens](keeper)
        return found

    if what == "all":
        monkeypatch.setattr(Holders, "jobs", lists)
        assert not keeper.make_room(1 << 60)
    else:
        monkeypatch.setattr(Holders, "held", looks)
        keeper._give(lambda resting: keeper._resting_states._give({RESTS}, resting, 1, lambda _: True))
    assert here(store, names) == len(list(store.holders.held(RESTS))) == 3


def test_a_job_that_comes_back_once_a_sweep_has_begun_keeps_all(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, jobs = keeper._store, Holders.jobs
    names = fill(store, ENDED, 3)
    keeper.over(ENDED)
    later(store, DAY)

    def lists(holders: Holders) -> dict[int, float | None]:
        monkeypatch.setattr(Holders, "jobs", jobs)
        found = jobs(holders)
        keeper.runs(ENDED)
        return found

    monkeypatch.setattr(Holders, "jobs", lists)
    keeper.collect()
    assert here(store, names) == len(list(store.holders.held(ENDED))) == 3


def test_what_work_has_just_found_is_told_before_anything_goes(keeper: Keeper) -> None:
    """The work is done, and the loop has not told yet that it has found a lie."""
    store, works = keeper._store, {RESTS}
    names = fill(store, RESTS, 3)
    keeper.works_at = works.__contains__
    keeper.considers(RESTS, stakes=True)
    keeper.stake(RESTS, False)
    keeper.finds(RESTS, Found.NOTHING)
    later(store, DAY)
    works.clear()
    keeper.make_room(1 << 60)
    assert here(store, names) == 3
    keeper.stake(RESTS, False)
    keeper.finds(RESTS, Found.NOTHING)
    keeper._urgent = float("-inf")
    keeper.make_room(1 << 60)
    assert here(store, names) == 0, "it has found nothing"


def test_no_stake_is_given_until_it_is_known_what_has_gone(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its states are counted in the database, which is told after the files are gone."""
    store, told = keeper._store, keeper._retention.drop_states
    fill(store, RESTS, 3)
    keeper.stake(RESTS, False)
    later(store, DAY)
    answers = []

    def tell() -> None:
        answers.append(keeper.too_full(RESTS))
        told()

    monkeypatch.setattr(keeper._retention, "drop_states", tell)
    keeper.make_room(1 << 60)
    assert answers[0] == Leaves()
    assert keeper.too_full(RESTS) is None


def test_what_is_held_while_it_goes_stays(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another job adopts what an earlier one has left, between its lines and its files."""
    store, remove = keeper._store, Store.remove
    names = fill(store, ENDED, 3)
    keeper.over(ENDED)
    later(store, DAY)

    def adopts(one: Store, path: Path, unless_used_since: float = float("inf")) -> int:
        monkeypatch.setattr(Store, "remove", remove)
        store.held_by(OURS).hold(*names)
        return remove(one, path, unless_used_since)

    monkeypatch.setattr(Store, "remove", adopts)
    keeper.collect()
    assert here(store, names) == len(list(store.holders.held(OURS))) == 3


@pytest.mark.parametrize("urgent", [False, True])
def test_a_job_that_is_over_goes_by_its_own_times_however_old_ours_is(keeper: Keeper, urgent: bool) -> None:
    store = keeper._store
    ours = fill(store, OURS, 1)
    later(store, 30 * DAY)
    keeper.stake(OURS, True)
    ended = fill(store, ENDED, 5)
    keeper.over(ENDED)
    later(store, 10 * DAY)
    could = keeper._freeable.could_free(keeper._resting(), results=True).bytes
    assert could == 5 * 4096
    if urgent:
        keeper.make_room(1 << 60)
    else:
        keeper.collect()
    assert (here(store, ours), here(store, ended)) == (1, 0)
    assert store.holders.jobs().keys() == {OURS}


def test_what_was_used_just_now_keeps_its_line(keeper: Keeper) -> None:
    """So it goes with the next sweep, however old a job of ours is."""
    store = keeper._store
    fill(store, OURS, 1)
    keeper.stake(OURS, True)
    names = fill(store, ENDED, 2)
    keeper.over(ENDED)
    later(store, 8 * DAY)
    assert store.has(names[0])
    keeper.collect()
    assert (here(store, names), len(list(store.holders.held(ENDED)))) == (1, 1)
    later(store, DAY)
    keeper.collect()
    assert here(store, names) == 0


def test_a_list_is_shortened_without_a_block_and_keeps_its_time(keeper: Keeper) -> None:
    store = keeper._store
    names, counts = fill(store, ENDED, 200), HeldBytes(store)
    keeper.over(ENDED)
    later(store, DAY)
    assert counts.of(ENDED) == 200 * 4096
    since, node = store.holders.over(ENDED), store.holders._path(ENDED).stat().st_ino
    stays = {path for _, path in list(store.holders.held(ENDED))[::2]}
    assert len(store.holders.let_go(ENDED, lambda _, path: path not in stays)) == 100
    assert {path for _, path in store.holders.held(ENDED)} == stays
    assert (store.holders.over(ENDED), store.holders._path(ENDED).stat().st_ino) == (since, node)
    assert counts.of(ENDED) == 100 * 4096
    assert here(store, names) == 200


def test_lists_are_whole_for_whoever_reads_them_meanwhile(keeper: Keeper) -> None:
    store, torn, over = keeper._store, list[int](), threading.Event()
    fill(store, RESTS, 1)
    held = [path for _, path in store.holders.held(RESTS)]

    def reads() -> None:
        while not over.is_set():
            if not set(held) <= {path for _, path in store.holders.held(RESTS)}:
                torn.append(1)

    reader = threading.Thread(target=reads)
    reader.start()
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        store.holders.hold(RESTS, [f"tensor/aa/{number:064x}" for number in range(50)])
        store.holders.let_go(RESTS, lambda _, path: path.startswith("tensor/aa/0000"))
    over.set()
    reader.join()
    assert not torn


def test_a_disk_that_refuses_to_shorten_a_list_takes_nothing_of_the_job(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = keeper._store
    names = fill(store, RESTS, 3)
    keeper.considers(RESTS, stakes=True)
    keeper.stake(RESTS, False)
    later(store, DAY)

    def refuses(_: Holders, __: int, ___: object) -> list[str]:
        raise DiskFull("no space left")

    monkeypatch.setattr(Holders, "let_go", refuses)
    assert not keeper.make_room(1 << 60)
    assert here(store, names) == 3
    assert not store.holders.leaving


@pytest.mark.parametrize("restarts", [False, True])
def test_the_database_is_told_again_what_has_gone(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, restarts: bool
) -> None:
    """It was full, or the process ended, when files had gone and it was not told; it reckoned with them for good."""
    store, fails = keeper._store, [True]
    keeper.considers(RESTS, stakes=True)
    keeper.stake(RESTS, False)
    fill(store, RESTS, 3)
    later(store, DAY)
    told = Retention.drop_states

    def tell(retention: Retention) -> None:
        if fails[0]:
            raise DiskFull("no space left for a row")
        told(retention)

    monkeypatch.setattr(Retention, "drop_states", tell)
    with pytest.raises(DiskFull):
        keeper._retention.give_up(frozenset({RESTS}), 0.0, runs=True)
    assert not list(store.holders.held(RESTS))
    assert isinstance(keeper._at_rest.fitted(RESTS), Leaves)
    calls, fails[0] = list[int](), False
    if restarts:
        store = Store(store.root, sync=False)
        keeper = keeper_of(tmp_path, store, Database(None))[0]

    def counted(retention: Retention) -> None:
        calls.append(1)
        told(retention)

    monkeypatch.setattr(Retention, "drop_states", counted)
    keeper._retention.collect()
    assert calls == [1]
    assert keeper._at_rest.fitted(RESTS) is None
    keeper._retention.collect()
    assert calls == [1]
