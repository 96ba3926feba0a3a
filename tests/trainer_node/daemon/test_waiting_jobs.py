"""Jobs that are ours only because a lie in them may be refuted: some have a turn in each round, and all have one."""

from __future__ import annotations

import math

from trainer_node.daemon.job_queue import CONFIRM_S, MAX_WAITING, PER_ROUND, JobQueue, Scheduler
from trainer_node.observe.problems import Problems
from trainer_node.storage.database import Database

from ..slow import Hand
from .test_job_queue import Chain, go

MANY = 200


def waiting(stored: Database) -> JobQueue:
    """Return a queue in which all jobs wait; the last of them ends first."""
    queue = JobQueue(stored)
    for number in range(1, MANY + 1):
        queue.mark(number, True, waits=10_000.0 - number)
    return queue


def test_those_that_end_first_come_in_each_round_and_the_others_among_those_of_strangers(
    stored: Database,
) -> None:
    queue, came = waiting(stored), set[int]()
    for _ in range(math.ceil(MANY / PER_ROUND)):
        due = queue.due(MANY)
        assert due[:MAX_WAITING] == list(range(MANY - MAX_WAITING + 1, MANY + 1))
        assert len(due) <= MAX_WAITING + PER_ROUND
        came.update(due)
    assert came == set(range(1, MANY + 1))
    queue.mark(1, True)
    assert queue.due(MANY)[0] == 1, "it has our stake"
    queue.mark(2, True, waits=10.0)
    assert 2 in queue.due(MANY)[: MAX_WAITING + 1]
    queue.mark(MANY, False)
    assert [queue.waits(number) for number in (1, 2, MANY)] == [False, True, False]


def test_a_restart_makes_no_round_longer_and_comes_soon_to_each(stored: Database) -> None:
    waiting(stored).mark(7, True)
    queue, came = JobQueue(stored), set[int]()
    for _ in range(math.ceil(MANY / MAX_WAITING)):
        due = queue.due(10_000)
        assert len(due) <= 1 + MAX_WAITING + PER_ROUND
        every = set(due[: 1 + MAX_WAITING])
        assert 7 in every, "it has our stake"
        for number in every - {7}:
            queue.mark(number, True, waits=10_000.0 - number)
        came |= every
    assert came == set(range(1, MANY + 1))


def test_one_that_nobody_says_still_waits_stays_ours_until_others_confirm_that_and_comes_last() -> None:
    """The attack: while endpoints disagree, jobs whose time is over hold the places of those whose time is not."""
    clock, waits = Hand(), dict.fromkeys(range(1, MANY + 1), 100.0)
    database, chain = Database(None), Chain(MANY)
    queue = JobQueue(database)
    scheduler = Scheduler(queue, Problems(), waits=waits.get, clock=clock)
    for _ in range(5):
        go(scheduler, chain, lambda found: found.id in waits)
    assert len(database.jobs("waits")) == MANY
    chain.doubt = "the claims"
    for number in range(1, MANY - MAX_WAITING + 1):
        del waits[number]
    for _ in range(5):
        seen = go(scheduler, chain, lambda found: found.id in waits)
    assert seen[:MAX_WAITING] == sorted(waits)
    assert queue.ours(1)
    chain.doubt = None
    clock.on(CONFIRM_S)
    for _ in range(5):
        go(scheduler, chain, lambda found: found.id in waits)
    assert database.jobs("waits") == sorted(waits)
