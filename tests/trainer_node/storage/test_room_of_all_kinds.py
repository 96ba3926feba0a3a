"""Room for a stake: all that may go for it counts together, and what is drawn to check others' claims takes none."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.trainer_node.desk import keeper_of
from trainer_node.errors import RoomKept
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.asked_room import AskedRoom, Asks
from trainer_node.storage.database import Database
from trainer_node.storage.disk_estimate import Needs
from trainer_node.storage.disk_keeper import Keeper
from trainer_node.storage.drawn import rests_on
from trainer_node.storage.job_holds import DRAWN, WORK
from trainer_node.storage.resting_states import Found
from trainer_node.storage.store import Store

from .test_letting_go import DAY, fill, here, later

OURS, LIE, RESTS, DIFFERS, ENDED = 1, 2, 5, 6, 7
UNIT = 4096


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return keeper_of(tmp_path, Store(tmp_path / "store", sync=False), Database(None))[0]


def fits(keeper: Keeper, job: int, size: int) -> bool:
    """Return whether there is room for so many bytes once some was made, as a round of the loop asks for it."""
    for _ in range(3):
        keeper._tried = -math.inf
        if keeper.fits(job, size, whole=True) is None:
            return True
        keeper.close()
    return False


@pytest.mark.parametrize("lacks", [8, 12, 20, 21])
@pytest.mark.parametrize("ours", [True, False])
def test_what_may_go_counts_together(keeper: Keeper, ours: bool, lacks: int) -> None:
    """Ten units may go of one kind and ten of another: what a job holds that is over, or has nothing at stake, and
    states of a run from which something differs. All stay where both are not enough."""
    store, asks = keeper._store, OURS if ours else LIE
    differs = fill(store, DIFFERS, 10)
    keeper.needs(DIFFERS, Needs(0), [Name(Kind.BLOB, bytes(32))])
    keeper.considers(DIFFERS, stakes=True)
    keeper.finds(DIFFERS, Found.DIFFERS)
    keeper.stake(DIFFERS, False)
    others = fill(store, RESTS if ours else ENDED, 10)
    if ours:
        keeper.stake(RESTS, False)
    else:
        keeper.over(ENDED)
    later(store, 1800)
    fill(store, asks, 1)
    keeper.considers(asks, stakes=True)
    keeper.finds(asks, Found.NOTHING if ours else Found.LIE)
    keeper.stake(asks, ours)
    keeper.collect()  # counts what is there
    keeper._store_bytes = store.usage.total
    assert fits(keeper, asks, lacks * UNIT) == (lacks <= 20)
    if lacks > 20:
        assert (here(store, differs), here(store, others)) == (10, 10)
    if lacks < 10:
        assert (here(store, differs), here(store, others)) == (10, 0), "the least valuable first"


def test_what_is_drawn_takes_no_room_of_a_stake_though_one_is_in_its_job(keeper: Keeper) -> None:
    store = keeper._store
    keeper.takes_part(LIE, True)
    keeper.needs(LIE, Needs(1 << 40, 0, 5 * UNIT))
    keeper.stake(LIE, True)
    keeper.needs(OURS, Needs(20 * UNIT))
    keeper.stake(OURS, True)
    keeper._store_bytes = 30 * UNIT
    drawn = store.held_by(LIE, drawn=True)
    kept = [drawn.put_blob(bytes([number]) * 2000) for number in range(5)]
    with pytest.raises(RoomKept):
        drawn.put_blob(b"one more")
    assert len(kept) == 5
    for number in range(25):  # as it is all ours, one does not keep the other from what it must write
        store.held_by(LIE).put_blob(bytes([100 + number]) * 2000)


def test_what_is_drawn_takes_no_room_of_a_stake_that_waits_in_its_job(keeper: Keeper) -> None:
    store = keeper._store
    keeper.needs(LIE, Needs(1 << 40, 0, 5 * UNIT))
    keeper.finds(LIE, Found.LIE)
    keeper.stake(LIE, False)
    keeper._store_bytes = 6 * UNIT
    drawn = store.held_by(LIE, drawn=True)
    drawn.put_blob(b"there is room for this")
    with pytest.raises(RoomKept):
        drawn.put_blob(b"one more")
    assert keeper.too_full(LIE, part=True) is None


@pytest.mark.parametrize("found", [Found.LIE, Found.DIFFERS])
def test_what_was_drawn_goes_for_a_stake_in_its_job_and_what_is_wrong_stays(
    keeper: Keeper, found: Found
) -> None:
    """For a refutation, and for a claim of the right root: strangers decide how much is drawn."""
    store = keeper._store
    drawn = store.held_by(LIE, drawn=True)
    names = [Name(Kind.BLOB, drawn.put_blob(bytes([number]) * 2000)) for number in range(6)]
    drawn.works()
    rests_on(store.held_by(LIE), *names[:2])
    names.append(Name(Kind.BLOB, drawn.put_blob(b"what the refutation takes")))
    stages = [stage for stage, _ in store.holders.held(LIE)]
    assert (stages.count(WORK), stages.count(DRAWN)) == (3, 4)
    later(store, DAY)
    keeper.finds(LIE, found)
    keeper.stake(LIE, False)
    keeper._store_bytes = store.usage.total + 6 * UNIT
    assert not fits(keeper, LIE, 11 * UNIT)
    assert here(store, names) == 7, "it is not enough"
    assert fits(keeper, LIE, 10 * UNIT)
    assert (here(store, names[:2]), here(store, names[2:6]), here(store, names[6:])) == (2, 0, 1)


def test_nothing_that_was_drawn_goes_where_no_stake_is_due(keeper: Keeper) -> None:
    store = keeper._store
    names = [Name(Kind.BLOB, store.held_by(LIE, drawn=True).put_blob(b"drawn"))]
    later(store, DAY)
    keeper.considers(LIE, stakes=True)
    keeper.stake(LIE, False)
    keeper._store_bytes = store.usage.total
    assert not fits(keeper, LIE, UNIT)
    assert here(store, names) == 1


def test_what_is_drawn_hides_nothing_that_its_job_asks_for() -> None:
    asked = AskedRoom()
    asked.add(1, 100, Asks.WHOLE)
    asked.add(1, 5, Asks.DRAWN)
    asked.add(2, 5, Asks.DRAWN)
    asked.add(2, 100, Asks.WRITTEN)
    assert asked.take() == {1: (100, Asks.WHOLE), 2: (100, Asks.WRITTEN)}
    assert asked.take() == {}
