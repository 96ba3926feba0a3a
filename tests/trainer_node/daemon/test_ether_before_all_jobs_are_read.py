"""A node whose database is lost, or older than its newest stake (a restored backup), finds its jobs in their turns, 64
a round. Until then it knew of none, and sent on, or staked, the ether that these jobs may need."""

from __future__ import annotations

from dataclasses import replace

import pytest

from referee_py.errors import InvalidInput
from trainer_node.chain import JobPhase, JobView
from trainer_node.daemon.job_queue import CONFIRM_S, PER_ROUND, JobQueue, Scheduler
from trainer_node.errors import RpcUnavailable
from trainer_node.observe.problems import Problems
from trainer_node.storage.database import Database

from ..desk import job
from ..slow import Hand
from .test_job_queue import Chain, go

STAKED = 5000


def scheduler(*, lost: bool, clock: Hand | None = None) -> Scheduler:
    return Scheduler(JobQueue(Database(None)), Problems(), lost=lambda: lost, clock=clock or Hand())


def test_a_round_that_has_not_seen_all_jobs_does_not_know_what_they_may_take() -> None:
    node, chain = scheduler(lost=True), Chain(10_000)
    seen = set[int]()
    while len(seen) < chain.count:
        seen |= set(go(node, chain, lambda found: found.id == STAKED))
        assert node.complete == (len(seen) == chain.count)
        assert node.unread == chain.count - len(seen)
    assert STAKED in seen


def test_a_node_that_knows_all_it_has_sent_waits_for_nothing() -> None:
    node = scheduler(lost=False)
    go(node, Chain(10_000))
    assert (node.complete, node.unread) == (True, 0)


@pytest.mark.parametrize(
    ("error", "read"),
    [(ValueError("bug"), True), (InvalidInput("bad"), True), (RpcUnavailable("away"), False)],
)
def test_a_job_that_its_author_has_broken_is_not_waited_for_and_what_an_endpoint_lacks_is(
    error: Exception, read: bool
) -> None:
    node, chain = scheduler(lost=True), Chain(PER_ROUND, {3: error})
    for _ in range(3):
        go(node, chain)
    assert (node.unread == 0) == read


@pytest.mark.parametrize("first", [0, 100, 10_000])
def test_one_look_that_shows_fewer_jobs_makes_none_known(first: int) -> None:
    """The attack: one endpoint says once that there is no job, or fewer than there are. Others do not confirm it."""
    clock = Hand()
    node, chain = scheduler(lost=True, clock=clock), Chain(first)
    chain.doubt = None if first == 10_000 else "another number"
    go(node, chain)
    for count in (10_000, 0, 10, 10_000):
        clock.now += CONFIRM_S
        chain.count, chain.doubt = count, None if count == 10_000 else "another number"
        go(node, chain)
        assert node.unread
        assert not node.complete


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("confirmed", [False, True])
def test_jobs_that_one_endpoint_has_made_up_are_not_waited_for(restarted: bool, confirmed: bool) -> None:
    """The attack: one endpoint says once that there are 2^60. Where it is the only one, its number is taken, and is
    taken back with the next; also those that a reorganisation takes back."""
    database, clock = Database(None), Hand()
    node, chain = Scheduler(JobQueue(database), Problems(), lost=lambda: True, clock=clock), Chain(1 << 60)
    chain.doubt = None if confirmed else "another number"
    go(node, chain)
    assert node.unread
    if restarted:
        node = Scheduler(JobQueue(database), Problems(), lost=lambda: not confirmed)
    chain.count, chain.doubt = 100, None
    clock.now += CONFIRM_S
    for _ in range(10):
        go(node, chain)
    assert (node.unread, node.complete) == (0, True)
    again = Scheduler(JobQueue(database), Problems())
    go(again, chain)
    assert again.unread == 0


def test_a_look_that_hides_our_stake_makes_no_job_known() -> None:
    """The attack: the endpoint that serves hides a stake of ours once, and others agree about the number of jobs."""
    clock = Hand()
    node, chain = scheduler(lost=True, clock=clock), Chain(PER_ROUND // 2)
    go(node, chain)
    assert node.unread == 0
    node, chain = scheduler(lost=True, clock=clock), Chain(10)
    chain.doubt_of_jobs = "our stake"
    go(node, chain)
    assert node.unread == 10
    chain.doubt_of_jobs = None
    go(node, chain)
    assert node.unread == 10, "others are asked once a minute"
    clock.now += CONFIRM_S
    go(node, chain)
    assert node.unread == 0


def test_what_was_read_before_the_jobs_were_counted_is_read() -> None:
    """The attack: ended jobs are quiet from then on, and would be read again a few a round."""
    clock = Hand()
    node, chain = scheduler(lost=True, clock=clock), Chain(1000)
    chain.jobs = {number: replace(job(number), phase=JobPhase.ACCEPTED) for number in range(1, 1001)}
    chain.doubt = "away"
    rounds = 0
    while node.unread:
        go(node, chain)
        rounds += 1
        if rounds == 2:
            clock.now, chain.doubt = clock.now + CONFIRM_S, None
    assert rounds < 1000 // PER_ROUND + 20


def test_what_nobody_has_counted_is_unread_after_a_restart_too() -> None:
    """The attack: endpoints disagree about the number of jobs. A move is sent meanwhile, and the process ends: its
    newest transaction is known to the next one, which would take all jobs for read."""
    database, clock, chain = Database(None), Hand(), Chain(100)
    chain.doubt = "another number"
    go(Scheduler(JobQueue(database), Problems(), lost=lambda: True), chain)
    for _ in range(2):
        node = Scheduler(JobQueue(database), Problems(), lost=lambda: False, clock=clock)
        go(node, chain)
        assert (node.unread > 0, node.complete) == (True, False)
    clock.now, chain.doubt = clock.now + CONFIRM_S, None
    for _ in range(5):
        go(node, chain)
    assert (node.unread, node.complete) == (0, True)


def test_what_a_round_has_seen_that_ended_early_is_not_confirmed_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The attack: the endpoint that serves hides our stake, and lets the round end before others are asked. They
    confirm what the next round shows, and that was another job."""
    queue, clock = JobQueue(Database(None), per_round=4), Hand()
    node, chain = Scheduler(queue, Problems(), lost=lambda: True, clock=clock), Chain(100)
    chain.doubt_of_jobs = "our stake"
    seen = list[int]()

    def attend(found: JobView) -> bool:
        seen.append(found.id)
        chain.broken = dict.fromkeys(set(range(1, 101)) - {found.id}, RpcUnavailable("away"))
        return False

    def canonical() -> bool:
        raise RpcUnavailable("no such block")

    with monkeypatch.context() as patch:
        patch.setattr(chain, "still_canonical", canonical)
        with pytest.raises(RpcUnavailable):
            go(node, chain, attend)
    assert len(seen) == 1
    chain.broken, chain.doubt_of_jobs = {}, None
    clock.now += CONFIRM_S
    looked = set(go(node, chain))
    assert seen[0] not in looked
    assert node.unread == 100 - len(looked)


def test_what_an_earlier_loss_has_noted_is_not_all_that_is_unread() -> None:
    """A backup of a time at which 100 jobs were to be read is restored, and the account has staked on a later one."""
    database, clock = Database(None), Hand()
    go(Scheduler(JobQueue(database), Problems(), lost=lambda: True, clock=clock), Chain(100))
    node, chain = Scheduler(JobQueue(database), Problems(), lost=lambda: True, clock=clock), Chain(500)
    for _ in range(4):
        go(node, chain)
    assert node.unread > 200


def test_who_does_not_answer_about_the_account_keeps_nobody_from_moves() -> None:
    answers = [False]

    def lost() -> bool:
        if not answers[0]:
            raise RpcUnavailable("eth_getTransactionCount: not now")
        return False

    node, chain, attended = Scheduler(JobQueue(Database(None)), Problems(), lost=lost), Chain(3), set[int]()

    def attend(job: JobView) -> tuple[bool, None]:
        attended.add(job.id)
        return False, None

    node.go(chain, attend)  # type: ignore[arg-type]
    assert (attended, node.unread, node.complete) == ({1, 2, 3}, 1, False)
    answers[0] = True
    node.go(chain, attend)  # type: ignore[arg-type]
    assert (node.unread, node.complete) == (0, True)
