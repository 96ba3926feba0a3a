"""With many jobs, bad jobs and a failing endpoint, our own jobs are attended to every round and first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from referee_py.errors import InvalidInput
from trainer_node.chain import JobPhase, JobView
from trainer_node.daemon.job_queue import (
    CONFIRM_S,
    MAX_AT_WORK,
    PER_ROUND,
    QUIET,
    JobQueue,
    Scheduler,
    end_of,
    quiet_until,
)
from trainer_node.errors import RpcCorrupt, RpcUnavailable
from trainer_node.observe.problems import Problems
from trainer_node.storage.database import Database

from ..desk import challenged, job
from ..slow import Hand


class Chain:
    """A snapshot of ``count`` jobs; ``broken`` ones cannot be read. ``down``: it does not answer at all. ``doubt``: why
    others do not confirm what it says; ``doubt_of_jobs``: what it says of jobs, besides their number."""

    def __init__(self, count: int, broken: dict[int, Exception] | None = None, *, down: bool = False) -> None:
        self.count = count
        self.broken = broken or {}
        self.down = down
        self.doubt: str | None = None
        self.doubt_of_jobs: str | None = None
        self._shown = False
        self.hurried: list[bool] = []
        """By comparison: whether turns wait for it."""
        self.probes = 0
        self.now, self.block = 0, SimpleNamespace(number=7)
        self.changed: list[int] = []
        self.jobs: dict[int, JobView] = {}

    def job_count(self) -> int:
        self._shown = False
        return self.count

    def job(self, number: int) -> JobView:
        self._shown = True
        if self.down:
            raise RpcUnavailable("no answer")
        if number in self.broken:
            raise self.broken[number]
        return self.jobs.get(number) or job(number)

    def jobs_changed(self, _since: int | None) -> list[int]:
        if self.down:
            raise RpcUnavailable("no answer")
        changed, self.changed = self.changed, []
        return changed

    def confirm(self, *, hurried: bool) -> None:
        self.hurried.append(hurried)
        doubt = self.doubt or (self.doubt_of_jobs if self._shown else None)
        if doubt is not None:
            raise RpcUnavailable(doubt)

    def still_canonical(self) -> bool:
        self.probes += 1
        if self.down:
            raise RpcUnavailable("no answer")
        return True


def go(scheduler: Scheduler, chain: Any, attend: Callable[[JobView], bool] = lambda _: False) -> list[int]:
    """Run one round; return the jobs that were attended to."""
    seen: list[int] = []

    def attended(found: JobView) -> tuple[bool, Exception | None]:
        seen.append(found.id)
        return attend(found), None

    scheduler.go(chain, attended)
    return seen


def test_a_round_looks_at_ours_first_and_at_some_others(stored: Database) -> None:
    scheduler = Scheduler(JobQueue(stored, per_round=3), Problems())
    ours = {7, 9}
    chain = Chain(10)
    seen = [go(scheduler, chain, lambda found: found.id in ours) for _ in range(8)]
    assert seen[:4] == [[10, 1, 2], [3, 4, 5], [6, 7, 8], [7, 9, 10, 1]], (
        "the newest of those that are there comes first"
    )
    assert all(round_[:2] == [7, 9] and len(round_) <= 5 for round_ in seen[4:])
    assert {number for round_ in seen[4:7] for number in round_} == set(range(1, 11))


def test_new_jobs_come_before_those_that_were_looked_at(stored: Database) -> None:
    """And leave half of a round to those, however many are posted."""
    scheduler, chain = Scheduler(JobQueue(stored, per_round=6), Problems()), Chain(100)
    assert go(scheduler, chain)[:3] == [98, 99, 100]
    chain.count = 102
    assert go(scheduler, chain)[:2] == [101, 102]
    chain.count = 1000
    for first in (103, 106, 109):
        seen = go(scheduler, chain)
        assert seen[:3] == [first, first + 1, first + 2]
        assert len(seen) == 6


def test_jobs_of_others_that_have_ended_come_rarely(stored: Database) -> None:
    """Attack: one endpoint says once that a job has ended, and it was never looked at again."""
    ended, queue = set(range(1, 91)), JobQueue(stored, per_round=10)
    queue.mark(50, True)
    for number in ended - {50}:
        queue.mark(number, False, ended=True)
    queue.mark(50, True, ended=True)
    came = set[int]()
    for _ in range(89):
        due = queue.due(100)
        assert due[0] == 50, "ours may have hearings yet"
        assert len(set(due) & ended) <= 2
        came |= set(due)
    assert came == set(range(1, 101))


def test_what_we_work_at_has_its_turn_every_round(stored: Database) -> None:
    """A fetched package or a finished run does not wait for a turn through all jobs; only so many at a time."""
    working = {40, 60}
    scheduler = Scheduler(JobQueue(stored, per_round=4), Problems(), lambda number: number in working)
    for _ in range(30):
        go(scheduler, Chain(100))
    assert go(scheduler, Chain(100))[:2] == [40, 60]
    working.clear()
    assert go(scheduler, Chain(100))[:2] == [40, 60], "what came of it"
    assert not {40, 60} & set(go(scheduler, Chain(100))[:2])
    queue = JobQueue(stored)
    for number in range(1, 101):
        queue.mark(number, False, at_work=True)
    assert queue.due(100)[:MAX_AT_WORK] == list(range(1, MAX_AT_WORK + 1))
    assert len(queue.due(100)) == PER_ROUND + MAX_AT_WORK


def test_ten_thousand_jobs_of_strangers_do_not_slow_a_round(stored: Database) -> None:
    scheduler = Scheduler(JobQueue(stored), Problems())
    queue = JobQueue(stored)
    queue.mark(5000, True)
    assert len(go(Scheduler(queue, Problems()), Chain(10_000))) < 100
    assert len(go(scheduler, Chain(10_000))) < 100


def test_a_restart_knows_ours_at_once(stored: Database) -> None:
    queue = JobQueue(stored, per_round=1)
    queue.mark(8, True)
    queue.mark(5, True)
    queue.mark(5, False)
    assert JobQueue(stored, per_round=1).due(10) == [8, 1]


def test_a_job_that_is_gone_after_a_reorganisation_is_not_asked_for(stored: Database) -> None:
    queue = JobQueue(stored)
    queue.mark(3, True)
    assert queue.due(2) == [1, 2]
    assert queue.due(0) == []


def test_no_job_keeps_us_from_the_next(stored: Database) -> None:
    problems = Problems()
    scheduler = Scheduler(JobQueue(stored), problems)
    broken: dict[int, Exception] = {
        1: InvalidInput("odd"),
        2: ZeroDivisionError("bug"),
        3: RpcCorrupt("nonsense"),
        4: RpcCorrupt("nonsense"),
        5: RpcUnavailable("too large"),
        6: RpcCorrupt("nonsense"),
    }
    chain = Chain(8, broken)

    def attend(found: JobView) -> bool:
        if found.id == 7:
            raise KeyError("bug in what we do with it")
        return True

    assert go(scheduler, chain, attend) == [7, 8]
    assert problems.topics() == {f"job {number}" for number in range(1, 8)}
    assert chain.probes == 1, "after some failures the chain itself is asked for"

    chain.broken = {}
    assert go(scheduler, chain) == [8, 1, 2, 3, 4, 5, 6, 7], "ours first"
    assert not problems.topics()


def test_jobs_that_do_not_exist_are_no_problem(stored: Database) -> None:
    """An endpoint tells far too many jobs, once."""
    problems = Problems()
    scheduler = Scheduler(JobQueue(stored), problems)
    problems.job(1 << 40, "disk", "full", ours=True)
    missing: dict[int, Exception] = {job: RpcCorrupt("nonsense") for job in range(3, 100)}
    go(scheduler, Chain(99, missing))
    assert "job 99" in problems.topics()
    go(scheduler, Chain(3, missing))
    assert problems.topics() == {"job 3"}


def test_a_job_in_which_something_fails_is_still_ours(stored: Database) -> None:
    """Else it would have its turn with the jobs of strangers only, of which there may be many."""
    problems = Problems()
    scheduler = Scheduler(JobQueue(stored, per_round=4), problems)
    chain: Any = Chain(100)
    for _ in range(30):
        scheduler.go(
            chain, lambda found: (found.id == 60, RpcCorrupt("no event") if found.id == 60 else None)
        )
    assert problems.topics() == {"job 60"}
    assert go(scheduler, chain)[0] == 60


def test_an_outage_ends_the_round_soon(stored: Database) -> None:
    with pytest.raises(RpcUnavailable):
        go(Scheduler(JobQueue(stored), Problems()), Chain(1000, down=True))


def test_a_job_of_ours_that_has_ended_has_one_more_turn(stored: Database) -> None:
    """A reorganisation may revive it."""
    queue = JobQueue(stored)
    queue.mark(3, True)
    queue.mark(3, False, ended=True)
    assert 3 in queue.due(5)[:1] or not queue.ours(3)
    queue.mark(3, False, ended=True)
    assert not queue.ours(3)


CLAIM = [(bytes(32), "http://127.0.0.1:9")]


class Posted(Chain):
    """Jobs in which nobody has claimed and which nobody finalizes, and some of an adversary that are worked at."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        for number in range(1, count + 1):
            self.jobs[number] = job(number, phase=JobPhase.CLOSING)
        self.busy = set(range(1, MAX_AT_WORK + 1))
        for number in self.busy:
            self.jobs[number] = challenged(number, CLAIM, 10_000)


@pytest.mark.parametrize("shown", [True, False])
def test_a_claimed_job_is_looked_at_in_time_whatever_nobody_finalizes(stored: Database, shown: bool) -> None:
    """The attack: jobs are posted for gas and never claimed in, and each look at another waited for all of them."""
    chain, victim = Posted(4000), 2000
    chain.jobs[victim] = job(victim, phase=JobPhase.REVEAL, reveal_end=100)
    working = set(chain.busy)
    scheduler = Scheduler(JobQueue(stored), Problems(), lambda number: number in working, joins=False)
    for _ in range(4000 // (PER_ROUND - PER_ROUND // QUIET) + 2):
        go(scheduler, chain)
    assert victim not in go(scheduler, chain)
    chain.now, chain.jobs[victim] = 50, challenged(victim, CLAIM, 3600)
    if shown:
        chain.changed = [victim]
    else:
        chain.now = 100  # when the reveals are over, whatever the endpoint hides
    assert victim in go(scheduler, chain)
    for busy in (False, True, True, False, False):
        (working.add if busy else working.discard)(victim)
        assert victim in go(scheduler, chain), "and at each look that its check takes"


def test_what_happens_is_looked_at_first_and_leaves_room_for_the_rest(stored: Database) -> None:
    """However much happens. What cannot be read is no reason to end a round."""
    chain = Chain(200)
    scheduler = Scheduler(JobQueue(stored, per_round=8), Problems())
    go(scheduler, chain)
    chain.changed = [150, 20, 150, 999, 30]
    assert go(scheduler, chain)[:2] == [150, 20]
    assert go(scheduler, chain)[:1] == [30]
    chain.changed = list(range(100, 190))
    for first in (100, 102, 104):
        seen = go(scheduler, chain)
        assert seen[:2] == [first, first + 1]
        assert len(seen) == len(set(seen)) == 8
        assert min(seen) < 100, "the rest has its turn"


def test_events_that_cannot_be_read_keep_us_from_no_job(
    stored: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, asked = Chain(5), list[int | None]()
    scheduler = Scheduler(JobQueue(stored), Problems())

    def refuses(since: int | None) -> list[int]:
        asked.append(since)
        raise RpcUnavailable("too many logs")

    monkeypatch.setattr(chain, "jobs_changed", refuses)
    assert len(go(scheduler, chain)) == 5
    chain.block.number = 9
    assert len(go(scheduler, chain)) == 5
    assert asked == [None, 7]


def test_quiet_jobs_come_now_and_then_and_again_when_their_instant_has_come(stored: Database) -> None:
    queue = JobQueue(stored)
    for number in range(1, 1001):
        queue.mark(number, False, quiet_until=50.0 if number == 700 else 1e9)
    queue.due(1000)
    rounds, seen = 0, defaultdict[int, int](int)
    while len(seen) < 1000:
        due = queue.due(1000, 40.0)
        assert len(due) <= PER_ROUND // QUIET
        rounds += 1
        for number in due:
            seen[number] += 1
    assert rounds <= 1000 // (PER_ROUND // QUIET) + 1
    assert 700 in queue.due(1000, 50.0)


def test_of_those_at_work_the_ones_that_end_first_keep_their_places(stored: Database) -> None:
    """The attack: the first sixteen that stall held all of them for as long as they liked."""
    queue = JobQueue(stored)
    for number in range(1, MAX_AT_WORK + 1):
        queue.mark(number, False, at_work=True, ends=9000.0)
    queue.mark(500, False, at_work=True, ends=3600.0)
    queue.mark(600, False, at_work=True, ends=9000.0)
    due = queue.due(1000)[:MAX_AT_WORK]
    assert due == [*range(1, MAX_AT_WORK), 500]
    for _ in range(3):
        for number in due:
            queue.mark(number, False, at_work=True, ends=3600.0 if number == 500 else 9000.0)
        assert queue.due(1000)[:MAX_AT_WORK] == due


def test_what_may_be_due_by_itself_is_not_quiet() -> None:
    for phase, until in (
        (JobPhase.REVEAL, 2000),
        (JobPhase.CHALLENGE, 3000),
        (JobPhase.CLOSING, float("inf")),
    ):
        assert quiet_until(job(phase=phase), joins=True) == until
        assert quiet_until(challenged(1, CLAIM, 10, phase=phase), joins=False) == 0
    assert quiet_until(job(phase=JobPhase.TRAINING), joins=False) == 1000
    assert quiet_until(job(phase=JobPhase.TRAINING), joins=True) == 0, "it may be joined at any time"
    assert quiet_until(job(phase=JobPhase.UNCLAIMED), joins=False) == 0
    assert end_of(job(phase=JobPhase.TRAINING), 10.0) == 1000
    assert end_of(challenged(1, CLAIM, 3600), 10.0) == 3600
    assert end_of(challenged(1, CLAIM, 3600), 3600.0) == float("inf")


def test_a_lie_about_the_number_of_jobs_makes_no_round_long() -> None:
    """The attack: one endpoint says that there are 2^60. NOTE: a round that walks over them all does not end."""
    scheduler, chain = Scheduler(JobQueue(Database(None)), Problems()), Chain(100)
    chain.jobs = {number: replace(job(number), phase=JobPhase.CLOSING) for number in range(1, 51)}
    go(scheduler, chain)
    chain.count = 1 << 60
    for _ in range(10):
        assert len(go(scheduler, chain)) <= PER_ROUND + PER_ROUND // QUIET
    chain.count = 100
    seen = set[int]()
    for _ in range(10):
        seen.update(go(scheduler, chain))
    assert seen == set(range(1, 101))


def test_a_look_of_one_endpoint_without_our_stake_keeps_its_turns() -> None:
    """The attack: one endpoint of several shows a job once as if we had no claim in it."""
    clock = Hand()
    scheduler, chain = Scheduler(JobQueue(Database(None)), Problems(), clock=clock), Chain(3000)
    go(scheduler, chain)
    while 100 not in go(scheduler, chain, lambda found: found.id == 100):
        pass
    chain.doubt = "our claim"
    assert 100 in go(scheduler, chain)
    chain.doubt = None
    assert 100 in go(scheduler, chain)
    clock.now += CONFIRM_S
    assert 100 in go(scheduler, chain), "it is shown again, or others confirm that it has gone"
    assert [100 in go(scheduler, chain) for _ in range(3)] == [False] * 3
    assert chain.hurried
    assert all(chain.hurried), "a slow endpoint would keep the turns of later jobs waiting"
