"""Claimants that serve right and slowly, and jobs that compute for days, keep a sampler from nothing else.

The servers, downloads and replays are real; the clock stands still until a test moves it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from tests.trainer_node.audit.runs import opened, publish
from tests.trainer_node.desk import challenged, new_runner, rules, until
from tests.trainer_node.slow import Hand, SlowServer
from trainer_node.audit.interval import Auditor
from trainer_node.audit.published import PublishedRun
from trainer_node.chain import JobView
from trainer_node.compute.lanes import Lanes, Turn
from trainer_node.compute.outcomes import RETRY_S
from trainer_node.compute.processors import Share
from trainer_node.limits.waits import LANE, LANES, TURN_S, retry_s, staked_s
from trainer_node.roles.sampling.budget import ChainClock
from trainer_node.roles.sampling.checks import Checks, Root
from trainer_node.roles.sampling.interval_runner import Task
from trainer_node.roles.sampling.runner import SampleRunner
from trainer_node.run.cost_estimate import CostEstimate
from trainer_node.run.package import Package
from trainer_node.run.tensors import Takes
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store
from trainer_node.storage.store_files import path_of

from .test_runner import Wanted

DAY = 24 * 3600
LIE, INTERVAL = 8, 3
"""The third of four intervals of three steps is wrong."""


@dataclass
class Siege:
    """A node, a run with a lie that is served at once, and a server that answers nothing until it is told."""

    run: PublishedRun
    node: SampleRunner
    wanted: Wanted
    clock: Hand
    quick: SlowServer
    stalling: SlowServer
    others: int = 0
    brings: defaultdict[int, list[Future[None]]] = field(default_factory=lambda: defaultdict(list))
    """By job, what was queued for a lane."""

    def __post_init__(self) -> None:
        queue = self.node._in_turn

        def noted(lanes: Lanes, task: Task, do: Callable[[Turn], None]) -> Future[None]:
            work = queue(lanes, task, do)
            if lanes is self.node._lanes:
                self.brings[task.job.id].append(work)
            return work

        self.node._in_turn = noted  # type: ignore[method-assign]

    def job(self, number: int, *claims: tuple[bytes, str], ends: int = DAY) -> JobView:
        """Return a job whose roots are claimed, each by a server of its own."""
        return challenged(
            number,
            claims,
            ends,
            uri=self.quick.uri,
            program=self.run.terms,
            program_file=self.run._program_file,
            rules=rules(clock=DAY),
        )

    @property
    def lie(self) -> tuple[bytes, str]:
        return self.run.root, self.quick.uri

    def slow(self) -> tuple[bytes, str]:
        """Return another root, which only the server that stalls may have."""
        self.others += 1
        return self.others.to_bytes(32, "big"), f"{self.stalling.uri}/{self.others}"

    def prepared(self, *jobs: JobView) -> None:
        """Let the packages come, and be measured."""
        until(lambda: [self.node.prepare(of) for of in jobs if self.node.prepare(of) is None] == [])

    def check(self, *jobs: JobView, ours: bool = False) -> list[list[int]]:
        """Return the intervals found wrong in each job by now."""
        return [[lie.index + 1 for lie in self.node.check(of, int(self.clock()), ours=ours)] for of in jobs]

    def delayed(self, number: int) -> bool:
        """Return whether the check of a root of a job is tried again later."""
        return any(root.tries.retry_at > 0.0 for root in self.node._checks[number].works())

    def queued(self, of: JobView) -> bool:
        """Return whether a root of a job waits for a lane."""
        rows = list(self.node._lanes._rows.values())
        return any(one.future in self.brings[of.id] for row in rows for one in list(row.waiting))

    @property
    def ending(self) -> bool:
        """Whether something goes on though its turn in a lane is over."""
        rows = list(self.node._lanes._rows.values())
        return any(one.turn is not None and one.turn.over for row in rows for one in list(row.running))


@pytest.fixture
def siege(tmp_path: Path) -> Iterator[Siege]:
    run = opened(publish(tmp_path / "run", 12, 3, lie=LIE), tmp_path / "seen")
    clock, wanted, database = Hand(), Wanted(), Database(None)
    store = Store(tmp_path / "node", sync=False)
    node = new_runner(SampleRunner, store, database, samples=wanted, clock=clock)
    served = Store(tmp_path / "run" / "artifacts", sync=False)
    with SlowServer(served, clock) as quick, SlowServer(served, clock, holds=True) as stalling:
        yield Siege(run, node, wanted, clock, quick, stalling)
        node.close()
    database.close()


@pytest.mark.parametrize("decoys", [8, pytest.param(64, marks=pytest.mark.slow)])
def test_a_job_that_is_served_is_checked_whatever_others_serve(siege: Siege, decoys: int) -> None:
    """The attack: 64 jobs of a month's periods whose claims were served slowly held all lanes for weeks."""
    slow = [siege.job(100 + number, siege.slow(), ends=30 * DAY) for number in range(decoys)]
    real = siege.job(1, siege.lie)
    siege.prepared(*slow, real)
    siege.check(*slow)
    until(lambda: len(siege.stalling.asked_for) == LANES)
    found: list[list[int]] = []
    while found != [[INTERVAL]]:
        siege.check(*slow)
        found = siege.check(real)
        until(lambda: not siege.ending)
        if siege.queued(real):
            siege.clock.on(1.0)
    waited = (decoys // LANES + 1) * TURN_S + decoys // LANES
    assert siege.clock() <= min(waited, float(LANE) * DAY)


def test_what_waits_for_a_lane_is_not_counted_against_its_claimants(siege: Siege) -> None:
    """A turn that is over is not a failure to serve."""
    slow = [siege.job(100 + number, siege.slow()) for number in range(3 * LANES)]
    siege.prepared(*slow)
    while len(siege.stalling.asked_for) < 3 * LANES:
        siege.check(*slow)
        siege.clock.on(TURN_S)
        until(lambda: not siege.ending)
    roots = [root for of in slow for root in siege.node._checks[of.id].roots.values()]
    assert [root.unserved for root in roots] == [{}] * len(slow)
    assert not any(siege.node.withheld(of) for of in slow)


def test_a_slow_root_keeps_no_other_root_of_its_job_waiting(siege: Siege) -> None:
    of = siege.job(1, siege.slow(), siege.slow(), siege.lie)
    siege.prepared(of)
    assert until(lambda: siege.check(of) == [[INTERVAL]])
    assert siege.clock() == 0.0


# ---------------------------------------------------------------------------------------- what is staked on


@pytest.mark.parametrize("before", [0, 1, 2])
def test_what_is_staked_on_is_found_again_before_all_else(siege: Siege, before: int) -> None:
    """The attack: after a restart it came behind the slow roots before it, while the clock of its match ran."""
    refuted(siege)
    of = siege.job(1, *(siege.slow() for _ in range(before)), siege.lie)
    siege.prepared(of)
    assert until(lambda: siege.check(of, ours=True) == [[INTERVAL]])
    assert siege.clock() == 0.0


@pytest.mark.parametrize("others", [8, pytest.param(64, marks=pytest.mark.slow)])
def test_what_is_staked_on_waits_for_no_other_job(siege: Siege, others: int) -> None:
    """The attack: eight jobs with a stake of ours and one more root that was served slowly held all lanes of such
    jobs."""
    refuted(siege)
    slow = [
        siege.job(100 + k, (siege.run.root, f"{siege.stalling.uri}/ours"), siege.slow())
        for k in range(others)
    ]
    slow = [replace(of, uri=siege.stalling.uri) for of in slow]
    real = siege.job(1, siege.lie)
    siege.stalling.release.set()
    siege.prepared(*slow, real)
    siege.stalling.release.clear()
    siege.check(*slow, ours=True)
    assert until(lambda: siege.check(real, ours=True) == [[INTERVAL]])
    assert siege.clock() == 0.0


def test_what_is_staked_on_waits_for_no_failure_of_its_job(siege: Siege) -> None:
    refuted(siege)
    of = siege.job(1, siege.lie)
    siege.prepared(of)
    work = siege.node._works[1]
    for tries in (work.package_tries, work.measure_tries, work.run_tries, work.return_tries):
        tries.retry_at = 1e9
    assert until(lambda: siege.check(of, ours=True) == [[INTERVAL]])


def test_what_is_staked_on_waits_for_no_measurement(siege: Siege, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: after a restart each job was measured again first, two at a time."""
    measure, go = SampleRunner._measure, threading.Event()

    def slowly(self: SampleRunner, of: JobView, package: Package, limit_s: float) -> CostEstimate:
        assert go.wait(120)
        return measure(self, of, package, limit_s)

    monkeypatch.setattr(siege.node._packages, "_measure", partial(slowly, siege.node))
    refuted(siege)
    jobs = [siege.job(number, siege.lie) for number in range(1, 5)]
    assert until(lambda: siege.check(*jobs, ours=True) == [[INTERVAL]] * len(jobs))
    assert siege.node.prepare(jobs[0]) is None
    go.set()
    siege.prepared(*jobs)


def test_what_is_staked_on_has_an_end_and_is_asked_for_again(siege: Siege) -> None:
    """Then the whole run is what can be computed; and who serves later is heard."""
    refuted(siege)
    of = replace(siege.job(1, (siege.run.root, siege.stalling.uri)), uri=siege.stalling.uri)
    siege.stalling.release.set()
    siege.prepared(of)
    siege.stalling.release.clear()
    siege.wanted.drawn = replace(siege.wanted.drawn, intervals=())
    siege.stalling.seen.clear()
    assert siege.check(of, ours=True) == [[]]
    until(lambda: siege.stalling.seen)
    assert not siege.node.withheld(of)
    siege.clock.on(staked_s(of))
    until(lambda: siege.check(of, ours=True) and siege.node.withheld(of))
    siege.stalling.release.set()
    siege.clock.on(retry_s(of))
    assert until(lambda: siege.check(of, ours=True) == [[INTERVAL]])


@pytest.mark.parametrize("ours", [False, True])
def test_an_interval_without_memory_is_checked_once_there_is_some_and_one_with_our_stake_at_once(
    siege: Siege, ours: bool
) -> None:
    of, tensors = siege.job(1, siege.lie), siege.node._tensors
    siege.prepared(of)
    tensors.of(2, Takes(step=tensors.limit))
    if ours:
        refuted(siege)
    with tensors.lent(2):
        siege.check(of, ours=ours)
        if not ours:
            until(lambda: siege.check(of) and siege.delayed(1))
            assert siege.node.found(1) == []
            assert not siege.node.withheld(of), "it is not a fault of the claimants"
        else:
            assert until(lambda: siege.check(of, ours=True) == [[INTERVAL]])
    siege.clock.on(RETRY_S)
    assert until(lambda: siege.check(of, ours=ours) == [[INTERVAL]])


@pytest.mark.parametrize("ours", [False, True])
def test_a_package_that_the_disk_has_lost_is_fetched_again(siege: Siege, ours: bool) -> None:
    of = siege.job(1, siege.lie)
    siege.prepared(of)
    store = siege.node._fetcher.store
    path_of(store.root, Name(Kind.BLOB, of.program_file)).unlink()
    if ours:
        refuted(siege)
    siege.check(of, ours=ours)
    until(
        lambda: siege.check(of, ours=ours) and path_of(store.root, Name(Kind.BLOB, of.program_file)).exists()
    )
    assert not siege.node.withheld(of), "it is not a fault of the claimants"
    siege.clock.on(RETRY_S)
    assert until(lambda: siege.check(of, ours=ours) == [[INTERVAL]])


def refuted(siege: Siege) -> None:
    """Let a refutation of the lie be ours, from before a restart."""
    siege.wanted.refuted, siege.wanted.of = (INTERVAL,), siege.run.root


# ---------------------------------------------------------------------------------------- what computes


def test_an_interval_is_replayed_beside_a_whole_run(siege: Siege) -> None:
    """The attack: a claimant that withholds makes us compute a whole run for days, while other intervals waited."""
    of, end = siege.job(1, siege.lie), threading.Event()
    siege.prepared(of)
    siege.node._runs.submit(Share(), lambda _: end.wait())
    assert until(lambda: siege.check(of) == [[INTERVAL]])
    end.set()


@pytest.mark.parametrize("ours", [False, True])
def test_an_interval_begins_within_a_step_of_any_other(
    siege: Siege, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    """A client chooses how long an interval is."""
    long, short = siege.job(1, siege.lie), siege.job(2, siege.lie)
    siege.prepared(long, short)
    begun, go, replay = threading.Event(), threading.Event(), Auditor.replay

    def slowly(self: Auditor, interval: int, on_step: Callable[[int], None]) -> bytes:
        if not begun.is_set():
            begun.set()
            while not go.is_set():
                on_step(1)
        return replay(self, interval, on_step)

    monkeypatch.setattr(Auditor, "replay", slowly)
    siege.check(long)
    assert begun.wait(60)
    if ours:
        refuted(siege)
    assert until(lambda: siege.check(short, ours=ours) == [[INTERVAL]])
    assert siege.check(long) == [[]], "it computes still"
    go.set()
    assert until(lambda: siege.check(long) == [[INTERVAL]])


def test_a_job_is_not_left_because_others_compute_for_long(
    siege: Siege, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is expected until the first interval is checked counts half for whole runs, and nothing for what else is
    computed; a whole run counts half for all intervals beside it."""
    node, one, other = siege.node, siege.job(1, siege.lie), siege.job(2, siege.lie)
    siege.prepared(one, other)
    own = node.ready_in_s(one)
    assert own
    monkeypatch.setattr(node, "_part_s", lambda of: 1e9 if of.id == 2 else own)
    node._checks[2] = Checks(ChainClock(siege.clock))
    node._checks[2].brought(Root(), 1)
    assert node.ready_in_s(one) == own
    assert node.whole_after_s(one) == node._whole_s(one)
    monkeypatch.setattr(node, "_runs_s", lambda *_: 1e9)
    assert node.ready_in_s(one) == 2 * own
