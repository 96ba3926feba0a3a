"""Rounding logs that come right and slowly: as good as withheld, and they keep no other run waiting."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from referee_py.errors import Unavailable
from referee_py.execute import RunClaim
from referee_py.rounding.step_log import StepLog
from trainer_node.chain import ClaimView, JobPhase, JobView
from trainer_node.compute import job_runner, outcomes
from trainer_node.compute.lanes import Lanes
from trainer_node.errors import LogsLate
from trainer_node.limits.waits import TURN_S, logs_s, retry_s
from trainer_node.network.budget import Budget
from trainer_node.network.fetcher import PARALLEL, Fetcher
from trainer_node.run import fetched_logs
from trainer_node.run.fetched_logs import STARVED_AFTER, WINDOW, FetchedLogs
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .. import near
from ..desk import job, put_package, runner, until
from ..slow import Hand, SlowServer
from .test_log_sources import LOGS as STEP_LOGS
from .test_log_sources import NODES, STEPS, TREE
from .test_rounded import OWNER, Trainer

PERIOD = 3600


class TestALogSource:
    """As a run uses it: step after step, in threads."""

    @pytest.fixture
    def published(self, tmp_path: Path) -> Store:
        store = Store(tmp_path / "theirs", sync=False)
        store.put_tree(TREE)
        store.put_logs(STEP_LOGS, NODES)
        return store

    @pytest.fixture
    def lanes(self, clock: Hand) -> Iterator[Lanes]:
        lanes = Lanes(2, "logs", clock=clock)
        yield lanes
        lanes.close()

    def source(
        self,
        folder: Path,
        server: SlowServer,
        lanes: Lanes,
        clock: Hand,
        seconds: float,
        *,
        others: bool = False,
    ) -> FetchedLogs:
        fetcher = Fetcher(Store(folder, sync=False), timeout_s=60.0, attempts=1)
        return FetchedLogs(
            fetcher,
            lambda: [server.uri],
            TREE.root,
            STEPS,
            NODES,
            partial(lanes.submit, PERIOD),
            step_bytes=1 << 20,
            run_bytes=1 << 20,
            budget=Budget(seconds, "rounding logs", clock=clock),
            others=lambda: others,
            clock=clock,
        )

    def test_right_answers_that_come_late_count_as_withheld_once_the_budget_ends(
        self, tmp_path: Path, published: Store, lanes: Lanes, clock: Hand
    ) -> None:
        """The attack: 9 s for each answer, no failure, no request on the chain."""
        with SlowServer(published, clock, late=9.0) as slow:
            # The tree and the first window take twice 9 s at least, and the run can do nothing else meanwhile.
            logs = self.source(tmp_path / "mine", slow, lanes, clock, seconds=17.0)
            told = set[str]()
            while logs.reached < STEPS:
                try:
                    assert logs.get(logs.reached + 1) == STEP_LOGS[logs.reached - 1]
                except Unavailable as error:
                    told.add(str(error).partition("; ")[2])
                    assert logs.starved
            assert told <= {"rounding logs: the 17 s in which it had to come are over"}
            assert logs.starved, "and what comes later is used all the same"
            assert not logs._absent, "all that was answered was right"

    def test_what_is_computed_meanwhile_does_not_count(
        self, tmp_path: Path, published: Store, lanes: Lanes, clock: Hand
    ) -> None:
        with SlowServer(published, clock) as quick:
            logs = self.source(tmp_path / "mine", quick, lanes, clock, seconds=25.0)
            for step in range(1, STEPS + 1):
                assert logs.get(step) == STEP_LOGS[step - 1]
                until(lambda: all(window.done() for window in logs._windows.values()))
                clock.on(100.0)
            assert not logs.starved

    def test_what_is_on_its_way_counts_while_the_run_does_something_else(
        self, tmp_path: Path, published: Store, lanes: Lanes, clock: Hand
    ) -> None:
        with SlowServer(published, clock, holds=True) as stalling:
            logs = self.source(tmp_path / "mine", stalling, lanes, clock, seconds=100.0, others=True)
            logs._turn = Budget(0.0, "no turn", clock=clock)
            with pytest.raises(Unavailable, match="on its way; it is looked for again"):
                logs.get(1)
            assert not logs.starved
            clock.on(100.0)
            assert logs.starved, "it waits for the same log still"

    @pytest.mark.parametrize("others", [False, True])
    def test_a_move_waits_for_no_log_and_nothing_is_requested_before_a_turn_is_over(
        self, tmp_path: Path, published: Store, lanes: Lanes, clock: Hand, others: bool
    ) -> None:
        """Its run is over. A server that is right and takes a moment must not cost a deposit."""
        with SlowServer(published, clock, holds=True) as slow:
            logs = self.source(tmp_path / "mine", slow, lanes, clock, seconds=1e6, others=others)
            clock.on(2 * TURN_S)
            logs.end_turn()
            for _ in range(2 * STARVED_AFTER):
                with pytest.raises(LogsLate, match="on its way"):
                    logs.get(1)
            assert (logs.starved, logs.lacks) == (False, True)
            clock.on(TURN_S)
            for _ in range(STARVED_AFTER):
                assert not logs.starved
                with pytest.raises(LogsLate, match="on its way"):
                    logs.get(1)
            assert logs.starved
            slow.release.set()
            assert until(lambda: log_or_none(logs, 1)) == STEP_LOGS[0]
            assert not logs.lacks

    def test_a_download_that_takes_longer_than_a_turn_goes_to_the_back_and_is_no_failure(
        self, tmp_path: Path, published: Store, lanes: Lanes, clock: Hand
    ) -> None:
        """Others wait for a lane meanwhile, and have one."""
        with SlowServer(published, clock, holds=True) as stalling:
            logs = self.source(tmp_path / "mine", stalling, lanes, clock, seconds=1e6)
            with ThreadPoolExecutor(1) as run:
                step = run.submit(logs.get, 1)
                until(lambda: stalling.seen)
                lanes.submit(PERIOD, lambda told: until(told.is_set))
                others = [lanes.submit(PERIOD, lambda _: None) for _ in range(4)]
                while not all(other.done() for other in others):
                    clock.on(1.0)
                    time.sleep(0.001)
                assert not step.done()
                stalling.release.set()
                assert step.result(60) == STEP_LOGS[0]
        assert (logs._absent, logs.starved) == ({}, False)


def log_or_none(logs: FetchedLogs, step: int) -> StepLog | None:
    try:
        return logs.get(step)
    except LogsLate:
        return None


# ---------------------------------------------------------------------- whole runs


class Revealed:
    """A job of a trainer whose logs the follower needs, and the view of it."""

    def __init__(self, folder: Path) -> None:
        self.trainer = Trainer(folder)
        self.claim: RunClaim = self.trainer.replay().train()
        self.store = self.trainer.store
        for arrays in near.tensors():
            for array in arrays:
                self.store.put_tensor(array)
        self.file = self.store.put_blob(near.PROGRAM.to_bytes())

    def view(self, uri: str, number: int = 1) -> JobView:
        claim = ClaimView(0, OWNER, 1, 0, True, False, False, uri)
        return job(
            number,
            uri=uri,
            program=near.TERMS,
            program_file=self.file,
            phase=JobPhase.CHALLENGE,
            challenge_period=PERIOD,
            logs=self.claim.logs,
            claims=(claim,),
        )


@pytest.fixture
def revealed(tmp_path: Path) -> Iterator[Revealed]:
    found = Revealed(tmp_path / "trainer")
    yield found
    found.trainer.database.close()


def fetched_first(works: job_runner.JobRunner, view: JobView, slow: SlowServer, late: float) -> None:
    """Let a job be prepared quickly, and everything after that come late."""
    until(lambda: works.prepare(view))
    slow.late = late


def test_logs_that_come_right_and_slowly_are_requested_on_the_chain(
    revealed: Revealed, tmp_path: Path, database: Database, clock: Hand
) -> None:
    with (
        SlowServer(revealed.store, clock) as slow,
        runner(tmp_path / "node", database, follows=True, clock=clock) as works,
    ):
        view = revealed.view(slow.uri)
        fetched_first(works, view, slow, late=logs_s(view) + 1)
        assert works.train(view) is None
        assert until(lambda: works.train(view) or works.starved(1)) == near.PROGRAM
        assert works._works[1].log_source is not None
        assert not works._works[1].log_source._absent, "all that was answered was right"


def test_one_look_with_a_short_period_starves_no_run(
    revealed: Revealed, tmp_path: Path, database: Database, clock: Hand
) -> None:
    """The attack: the endpoint that serves shows a challenge period of no seconds when the run begins. The run was
    starved at once and for good, so its logs were paid for on the chain though their trainer served them."""
    with (
        SlowServer(revealed.store, clock) as slow,
        runner(tmp_path / "node", database, follows=True, clock=clock) as works,
    ):
        view = revealed.view(slow.uri)
        until(lambda: works.prepare(view))
        slow.release.clear()
        assert works.train(replace(view, challenge_period=0)) is None
        until(lambda: works._works[1].log_source is not None)
        until(lambda: works.starved(1))
        assert works.train(view) is None
        assert works.starved(1) is None
        slow.release.set()

        def later() -> RunClaim | None:
            clock.to(works._works[1].run_tries.retry_at)
            return works.train(view)

        assert until(later) == revealed.claim
        assert works.starved(1) is None


def test_a_run_that_waits_for_logs_lets_others_go_first(
    revealed: Revealed, tmp_path: Path, database: Database, clock: Hand
) -> None:
    """A job whose logs stall holds the processors for one turn, not for the share of its challenge period."""
    put_package(client := Store(tmp_path / "client", sync=False))
    with (
        SlowServer(revealed.store, clock) as stalling,
        SlowServer(client, clock) as quick,
        runner(tmp_path / "node", database, follows=True, clock=clock) as works,
    ):
        view, other = revealed.view(stalling.uri), job(2, uri=quick.uri, phase=JobPhase.CHALLENGE)
        until(lambda: works.prepare(view) and works.prepare(other))
        stalling.release.clear()
        works.train(view)
        until(lambda: any(name.kind is Kind.TREE for _, name in stalling.seen))
        assert works.train(other) is None, "it waits for the processors"
        clock.on(TURN_S)
        assert until(lambda: works.train(other))
        assert works.train(view) is None
        stalling.release.set()
        clock.on(retry_s(view))
        assert until(lambda: works.train(view)) == revealed.claim


def test_the_delay_of_a_run_that_gets_on_does_not_grow(
    revealed: Revealed, tmp_path: Path, database: Database, clock: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt comes some steps further; the server has the next ones only after the attempt has failed."""
    monkeypatch.setattr(fetched_logs, "WINDOW", 1)
    tree = revealed.store.get_tree(revealed.trainer.log_source.tree.tag, revealed.claim.logs, near.STEPS)
    names = [Name(Kind.LOG, root, count=len(near.PROGRAM.nodes)) for root in tree.leaves]
    with (
        SlowServer(revealed.store, clock) as slow,
        runner(tmp_path / "node", database, follows=True, clock=clock) as works,
    ):
        view, delays, failures = revealed.view(slow.uri), list[float](), 0
        slow.lost |= set(names)
        until(lambda: works.prepare(view))
        work = works._works[1]
        while (claim := works.train(view)) is None:
            if not works.busy and work.run_tries.retry_at > clock():
                failures += 1
                delays.append(work.run_tries.retry_at - clock())
                slow.lost -= set(names[:failures])
                clock.to(work.run_tries.retry_at)
        assert claim == revealed.claim
        assert delays == [outcomes.RETRY_S] * len(set(names))
        assert len(delays) > 3


def test_the_delay_is_a_share_of_the_period(tmp_path: Path, database: Database, clock: Hand) -> None:
    with runner(tmp_path / "node", database, clock=clock) as works:
        nowhere = replace(job(), phase=JobPhase.CHALLENGE, challenge_period=640)
        delays: list[float] = []
        while len(delays) < 8:
            works.prepare(nowhere)
            work = works._works[1]
            if work.package_tries.retry_at > clock():
                delays.append(work.package_tries.retry_at - clock())
                clock.to(work.package_tries.retry_at)
        assert delays[:2] == [outcomes.RETRY_S, 2 * outcomes.RETRY_S]
        assert delays[-1] == retry_s(nowhere) == 20.0


def test_a_window_is_no_more_than_is_asked_for_side_by_side() -> None:
    assert WINDOW <= PARALLEL
