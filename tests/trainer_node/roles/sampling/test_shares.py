"""Jobs that anybody has posted take from the check of another no more than their share, however they are cut.

The servers, downloads, replays and threads are real; the clock moves by a second for each step that is computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_node.audit.runs import opened, publish
from tests.trainer_node.desk import challenged, new_runner, rules, until
from tests.trainer_node.roles.member import member
from tests.trainer_node.slow import Hand, SlowServer
from trainer_node.audit.interval import Auditor
from trainer_node.audit.published import PublishedRun
from trainer_node.chain import JobView
from trainer_node.compute.processors import Processors
from trainer_node.limits.waits import LANES
from trainer_node.roles.sampling.budget import Means
from trainer_node.roles.sampling.checks import Plan
from trainer_node.roles.sampling.runner import SampleRunner
from trainer_node.roles.sampling.sampler import Sampler
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .test_runner import Wanted
from .test_siege import INTERVAL, Siege, siege

__all__ = ["siege"]

HOUR, PERIOD = 3600, 1800
OURS, THEIRS, COUNT = 40, 10, 40
"""Steps of an interval of ours, and of one of theirs, a second each; and how many theirs are."""


@pytest.mark.parametrize("stakes", [(1, 1), (4, 1), (1, 4)])
def test_a_job_takes_from_another_what_it_has_at_stake_beside_it_however_short_its_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stakes: tuple[int, int]
) -> None:
    """The attack: one posted job with a right claim and many short intervals. Each of them began as if nothing had
    been computed for it, so all of them came before a longer one of another job."""
    lie = opened(publish(tmp_path / "lie", 2 * OURS, OURS, lie=OURS + 30), tmp_path / "seen1")
    right = opened(publish(tmp_path / "right", COUNT * THEIRS, THEIRS), tmp_path / "seen2")
    clock, database, steps = Hand(), Database(None), {lie.root: 0, right.root: 0}
    theirs = list[int]()

    class Draw(Wanted):
        def plan(self, _: object, group: Any) -> Plan:
            return Plan((2,) if group.root == lie.root else tuple(range(1, COUNT + 1)))

    node = new_runner(
        SampleRunner, Store(tmp_path / "node", sync=False), database, samples=Draw(), clock=clock
    )
    node._processors = Processors(clock)
    replay = Auditor.replay

    def busy(number: int) -> bool:
        return number in node._checks and node._checks[number].busy

    def timed(self: Auditor, interval: int, on_step: Callable[[int], None]) -> bytes:
        def step(number: int) -> None:
            # NOTE: a step lasts for as long as the other job's thread takes to come back for its next interval.
            until(lambda: node._processors.wanted or (sum(steps.values()) and not (busy(1) and busy(2))))
            clock.on(1.0)
            steps[self.published.root] += 1
            if steps[lie.root] == OURS:
                theirs.append(steps[right.root])
            on_step(number)

        return replay(self, interval, step)

    def job(number: int, run: PublishedRun, uri: str) -> JobView:
        terms: dict[str, Any] = {"program": run.terms, "program_file": run._program_file}
        made = challenged(number, [(run.root, uri)], PERIOD, uri=uri, rules=rules(clock=PERIOD), **terms)
        return replace(made, claims=(replace(made.claims[0], stake=stakes[number - 1]),))

    with (
        SlowServer(Store(tmp_path / "lie" / "artifacts", sync=False), clock) as one,
        SlowServer(Store(tmp_path / "right" / "artifacts", sync=False), clock) as two,
    ):
        real, bait = job(1, lie, one.uri), job(2, right, two.uri)
        until(lambda: [of for of in (real, bait) if node.prepare(of) is None] == [])
        monkeypatch.setattr(Auditor, "replay", timed)
        node.check(bait, 0)
        until(lambda: node._checks[2].computing)
        until(lambda: node.check(real, int(clock())) or clock() >= PERIOD)
        found = node.found(1)
        node.close()
        database.close()
    assert found
    assert steps[lie.root] == OURS
    assert theirs[0] <= OURS * stakes[1] / stakes[0] + 1


def test_what_is_staked_in_a_job_is_divided_among_its_living_roots() -> None:
    """Who claims more roots in his own job has no more for it than he stakes; nor has a root that was claimed late
    less because the job has had much."""
    one = challenged(1, [(b"a" * 32, ""), (b"b" * 32, "")], PERIOD)
    assert (one.at_stake, one.at_stake_by_root) == (2, 1.0)
    dead = replace(one, claims=(one.claims[0], replace(one.claims[1], lost=True)))
    dead = replace(dead, groups=(one.groups[0], replace(one.groups[1], spokesman=1)))
    assert (dead.at_stake, dead.at_stake_by_root) == (1, 1.0)
    three = replace(one, claims=(replace(one.claims[0], stake=5), one.claims[1]))
    assert (three.at_stake, three.at_stake_by_root) == (6, 3.0)


def a_sampler(siege: Siege, folder: Path) -> Sampler:
    """Return a sampler that draws every interval."""
    return Sampler(member(folder, check="sample:1"), siege.node)


def test_a_job_is_checked_whatever_else_is_posted(
    siege: Siege, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: thirty posted jobs that compute made a sampler leave one that takes it a minute of an hour."""
    sampler, go, replay = a_sampler(siege, tmp_path / "settings"), threading.Event(), Auditor.replay
    bait = [siege.job(100 + k, siege.lie, ends=30 * 24 * HOUR) for k in range(30)]
    real = siege.job(1, siege.lie, ends=HOUR)
    siege.prepared(*bait, real)
    monkeypatch.setattr(siege.node, "_part_s", lambda _: 60.0)

    def long(self: Auditor, interval: int, on_step: Callable[[int], None]) -> bytes:
        while not go.is_set():
            on_step(1)
        return replay(self, interval, on_step)

    monkeypatch.setattr(Auditor, "replay", long)
    for of in bait:
        sampler.decide(of, 0)
    until(lambda: sum(siege.node._checks[of.id].computing for of in bait) >= LANES)
    sampler.decide(real, 0)
    begun = 1 in siege.node._checks
    go.set()
    assert begun
    assert until(lambda: siege.check(real) == [[INTERVAL]])


def test_a_draw_that_is_too_much_for_its_time_is_checked_as_far_as_it_gets(
    siege: Siege, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its data are waited for though the rest of it cannot be computed in time; what cannot begin is left."""
    sampler = a_sampler(siege, tmp_path / "settings")
    siege.wanted.means = lambda: Means(commit_age=1.0)  # type: ignore[method-assign]
    real = siege.job(1, siege.lie, ends=HOUR)
    siege.prepared(real)
    monkeypatch.setattr(siege.node, "_part_s", lambda _: 10.0 * HOUR)
    monkeypatch.setattr(siege.node, "_interval_s", lambda _: 1.0 * HOUR)
    sampler.decide(real, 0)
    assert 1 not in siege.node._checks, "not even its first interval is in time"
    monkeypatch.setattr(siege.node, "_interval_s", lambda _: 60.0)
    assert until(lambda: sampler.decide(real, 0) and siege.node.found(1))
    assert not siege.node.withheld(real)
