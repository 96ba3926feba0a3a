"""A root that nobody serves keeps a sampler from no other root of its job, where the whole run is not begun for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trainer_node.audit.runs import opened, publish
from tests.trainer_node.desk import REFEREE, challenged, keeper_of, new_runner, rules, until
from tests.trainer_node.slow import Hand, SlowServer
from trainer_node.audit.published import PublishedRun
from trainer_node.chain import JobView
from trainer_node.daemon.remembered import Remembered
from trainer_node.roles.sampling.budget import Means, data_s
from trainer_node.roles.sampling.runner import SampleRunner
from trainer_node.roles.sampling.sampler import Sampler
from trainer_node.settings.extent import Mode
from trainer_node.settings.settings import load_settings
from trainer_node.storage.database import Database
from trainer_node.storage.disk_estimate import Needs
from trainer_node.storage.disk_keeper import Keeper
from trainer_node.storage.store import Store

from .test_runner import Wanted

HOUR = 3600
ENDS = 6 * HOUR
GONE, NOBODY = b"w" * 32, "http://127.0.0.1:9"
LIE, INTERVAL = 8, 3
"""The third of four intervals of three steps is wrong."""
TOO_MUCH = Needs(1 << 60)
"""What no disk has room for; an interval takes none of it."""


class Acting(Wanted):
    def means(self) -> Means:
        return Means(commit_age=60.0, acts_s=24.0)


@dataclass
class Watch:
    """A sampler with its own keeper and judgement of jobs, and a run with a lie."""

    run: PublishedRun
    node: SampleRunner
    keeper: Keeper
    sampler: Sampler
    clock: Hand
    server: SlowServer

    def job(self, *roots: bytes) -> JobView:
        """Return a job in its challenge phase: nobody serves a root but that of the run."""
        return challenged(
            1,
            [(root, self.server.uri if root == self.run.root else NOBODY) for root in roots],
            ENDS,
            uri=self.server.uri,
            program=self.run.terms,
            program_file=self.run._program_file,
            rules=rules(clock=HOUR),
            referee=REFEREE,
        )

    def found(self, of: JobView) -> list[int]:
        """Let a round pass. Return the intervals that are found wrong."""
        now = int(self.clock())
        self.sampler.decide(of, now)
        found, _ = self.sampler.refutations(of, now)
        return [lie.index + 1 for lie in found]

    def withheld(self, needs: Needs | None = None) -> None:
        """Let a root of the job be withheld, an hour before anything else is claimed."""
        alone = self.job(GONE)
        until(lambda: self.node.prepare(alone) is not None)
        if needs is not None:
            self.keeper.needs(1, needs)

        def told() -> bool:
            self.found(alone)
            self.clock.on(1.0)
            return self.node.withheld(alone)

        until(told)
        assert self.clock() < HOUR
        self.clock.to(HOUR)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    run = opened(publish(tmp_path / "run", 12, 3, lie=LIE), tmp_path / "seen")
    clock, database, store = Hand(), Database(None), Store(tmp_path / "node", sync=False)
    keeper, problems = keeper_of(tmp_path, store, database)
    node = new_runner(
        SampleRunner, store, database, samples=Acting(), clock=clock, keeper=keeper, problems=problems
    )
    daemon: Any = SimpleNamespace(
        settings=load_settings(
            chain_id=31337, data_dir=tmp_path / "settings", mode=Mode.WATCH, check="sample:1"
        ),
        address=None,
        transactions=None,
        database=database,
        remembered=Remembered(),
        keeper=keeper,
        duties=SimpleNamespace(moves_s=lambda _: 0.0, sends_s=lambda _: 0.0),
        client=SimpleNamespace(deployment=SimpleNamespace(referee=REFEREE), commit_age=lambda: 60),
    )
    with SlowServer(Store(tmp_path / "run" / "artifacts", sync=False), clock) as server:
        yield Watch(run, node, keeper, Sampler(daemon, node), clock, server)
        node.close()
    database.close()


def test_a_lie_beside_a_withheld_root_is_found_where_the_whole_run_has_no_room(watch: Watch) -> None:
    """The attack: an ally claims 32 random bytes before the liar claims. The whole run would have been in time, so the
    parts were not checked, and the disk had no room for it, so it was not begun."""
    watch.withheld(TOO_MUCH)
    both = watch.job(GONE, watch.run.root)
    assert until(lambda: watch.found(both)) == [INTERVAL]
    assert not watch.node.in_whole(1)
    assert watch.clock() == HOUR, "what is served at once is found at once"


def test_a_lie_beside_a_withheld_root_is_found_where_another_run_goes_first(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack as above, where the run of another job takes a day."""
    monkeypatch.setattr(watch.node, "_runs_s", lambda *_: 24.0 * HOUR)
    watch.withheld()
    both = watch.job(GONE, watch.run.root)
    assert until(lambda: watch.found(both)) == [INTERVAL]
    assert not watch.node.in_whole(1)
    assert watch.clock() == HOUR


def test_the_whole_run_is_begun_for_a_withheld_root_where_it_fits(watch: Watch) -> None:
    watch.withheld()
    alone = watch.job(GONE)
    until(lambda: watch.found(alone) or watch.node.known(1) is not None)
    assert watch.node.in_whole(1)


def test_no_room_is_made_for_a_whole_run_that_this_node_would_not_compute(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    monkeypatch.setattr(watch.keeper, "too_full", lambda number, **_: asked.append(number))
    means = watch.node._samples.means()
    monkeypatch.setattr(watch.node._samples, "means", lambda: replace(means, max_whole_s=0.0))
    watch.withheld(TOO_MUCH)
    both = watch.job(GONE, watch.run.root)
    assert until(lambda: watch.found(both)) == [INTERVAL]
    assert not asked
    monkeypatch.setattr(watch.node._samples, "means", lambda: means)
    watch.found(both)
    assert set(asked) == {1}


def test_no_time_is_kept_for_a_whole_run_that_has_no_room(watch: Watch) -> None:
    """And none is freed for it before it is wanted."""
    alone = watch.job(GONE)
    until(lambda: watch.node.prepare(alone) is not None)
    watch.found(alone)
    checks = watch.node._checks[1]
    assert checks.whole_after_s == 0.0
    watch.keeper.needs(1, TOO_MUCH)
    watch.found(alone)
    assert checks.whole_after_s == float("inf")
    # A run that takes nearly all that is left would leave the data of an interval no time.
    means = Means(commit_age=60.0, acts_s=24.0)
    whole_s = (ENDS - 60.0) / 2 - 24.0
    of = means, whole_s, whole_s / 100, ENDS, ENDS
    assert data_s(*of) == 0.0
    assert data_s(*of, checks.whole_after_s) > HOUR
