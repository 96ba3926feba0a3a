"""Packages of strangers that come slowly: each holds a lane for a turn, has a share of a period, keeps nobody out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

from referee_py.errors import Unavailable
from trainer_node.chain import JobPhase
from trainer_node.compute.ordered import Ordered
from trainer_node.limits.waits import LANES, TURN_S, behind_s, package_s
from trainer_node.network.budget import Budget
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from ..desk import job, put_package, runner, serving, until
from ..slow import Hand, SlowServer


@pytest.mark.parametrize("decoys", [8, 16, 64])
def test_decoys_that_stall_hold_a_lane_for_one_turn(
    decoys: int, tmp_path: Path, database: Database, clock: Hand
) -> None:
    """The attack: eight packages that come slowly took all lanes for half an hour, and sixteen a challenge period."""
    long = {"phase": JobPhase.CHALLENGE, "challenge_period": 3600}
    with (
        SlowServer(None, clock, holds=True) as stalling,
        serving(tmp_path / "client") as uri,
        runner(tmp_path / "node", database, clock=clock) as works,
    ):
        jobs = [job(number, uri=f"{stalling.uri}/{number}", **long) for number in range(1, decoys + 1)]
        for decoy in jobs:
            works.prepare(decoy)
        real = job(999, uri=uri, **long)
        assert works.prepare(real) is None

        def begun(turns: int) -> bool:
            return len(stalling.asked_for) >= turns * LANES

        for turns in range(1, decoys // LANES + 1):
            until(partial(begun, turns))
            clock.on(TURN_S)
            for decoy in jobs:  # those whose turn is over go to the back
                works.prepare(decoy)
        until(lambda: works.prepare(real))
        assert clock() <= behind_s(decoys)
        stalling.release.set()


def test_a_package_that_comes_right_and_too_slowly_is_left_before_a_stake(
    tmp_path: Path, database: Database, clock: Hand
) -> None:
    put_package(client := Store(tmp_path / "client", sync=False))
    with (
        SlowServer(client, clock, late=1.1 * package_s(job())) as slow,
        runner(tmp_path / "node", database, clock=clock) as works,
    ):
        slowly = job(uri=slow.uri)
        assert until(lambda: works.prepare(slowly) or works.refused(1))
        assert "the package of job 1, for its training period: the 250 s" in (works.refused(1) or "")
        assert works.prepare(slowly) is None
        assert not works.busy, "nothing more is asked for"


def test_a_challenger_has_a_share_of_the_challenge_period(
    tmp_path: Path, database: Database, clock: Hand
) -> None:
    """Another period that a package serves gives another budget."""
    put_package(client := Store(tmp_path / "client", sync=False))
    with (
        SlowServer(client, clock, late=1.1 * package_s(job())) as slow,
        runner(tmp_path / "node", database, clock=clock) as works,
    ):
        until(lambda: works.prepare(job(uri=slow.uri)) or works.refused(1))
        slow.late = 0.0
        claimed = job(uri=slow.uri, phase=JobPhase.CHALLENGE, challenge_period=40)
        assert until(lambda: works.prepare(claimed))
        assert works.refused(1) is None


def test_what_we_have_staked_on_is_fetched_however_long_it_takes(
    tmp_path: Path, database: Database, clock: Hand
) -> None:
    put_package(client := Store(tmp_path / "client", sync=False))
    with (
        SlowServer(None, clock, holds=True) as stalling,
        SlowServer(client, clock, late=10_000) as slow,
        runner(tmp_path / "node", database, clock=clock) as works,
    ):
        for number in range(2, 2 + 2 * LANES):
            works.prepare(job(number, uri=stalling.uri))
        assert until(lambda: works.train(job(uri=slow.uri), ours=True)), (
            "it has lanes of its own, and no budget"
        )


class TestOrdered:
    """First steps, which are measured one after the other."""

    @pytest.fixture
    def ordered(self) -> Iterator[Ordered]:
        found = Ordered("test")
        yield found
        found.close()

    def test_a_lower_number_comes_first_then_the_order_of_arrival(self, ordered: Ordered) -> None:
        go, done = threading.Event(), list[tuple[int, int]]()
        holding = ordered.submit(0, lambda: go.wait(60))
        futures = [
            ordered.submit(place, lambda place=place, number=number: done.append((place, number)))  # type: ignore[misc]
            for number, place in enumerate((3, 1, 2, 1, 3))
        ]
        go.set()
        assert holding.result(60)
        for future in futures:
            future.result(60)
        assert done == [(1, 1), (1, 3), (2, 2), (3, 0), (3, 4)]

    def test_an_error_is_the_works_own(self, ordered: Ordered) -> None:
        def broken() -> None:
            raise ValueError("broken")

        with pytest.raises(ValueError, match="broken"):
            ordered.submit(1, broken).result(60)
        assert ordered.submit(1, lambda: 7).result(60) == 7

    def test_what_has_not_begun_is_dropped_at_the_end(self) -> None:
        ordered, go, begun = Ordered("test"), threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            go.wait(60)

        running: Future[None] = ordered.submit(1, hold)
        assert begun.wait(60)
        waiting = [ordered.submit(number, lambda: None) for number in (1, 2)]
        ordered.close()
        assert all(future.cancelled() for future in waiting)
        go.set()
        running.result(60)


class TestBudget:
    """Only waiting counts, and what is open side by side counts once."""

    def test_requests_side_by_side_count_once(self, clock: Hand) -> None:
        budget = Budget(10.0, "a work", clock=clock)
        with budget.waiting():
            clock.on(3)
            with budget.waiting():
                clock.on(2)
        clock.on(100)  # computing
        assert (budget.spent, budget.left) == (5.0, 5.0)
        budget.check()
        budget.begin()
        clock.on(5)
        assert budget.over
        with pytest.raises(Unavailable, match="a work: the 10 s"):
            budget.check()

    def test_who_took_the_time_is_told_once(self, clock: Hand) -> None:
        budget = Budget(10.0, "a work", clock=clock)
        for seconds in (2.0, 3.0):
            budget.took("slow", seconds)
        budget.took("quick", 0.5)
        assert budget.blamed() == {"slow": 5.0, "quick": 0.5}
        assert budget.blamed() == {}
