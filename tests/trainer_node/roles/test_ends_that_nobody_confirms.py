"""Attack: the endpoint that serves shows for a look or two that a job of ours has ended. It was let go of at once after
a restart, and where an earlier look had shown it without our stake: its files and its turns with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trainer_node.desk import job
from tests.trainer_node.slow import Hand
from trainer_node.chain import ClaimView, Group, JobPhase, JobView
from trainer_node.daemon.job_queue import JobQueue, Scheduler
from trainer_node.daemon.job_turns import JobTurns
from trainer_node.errors import Disagreement
from trainer_node.observe.metrics import Metrics
from trainer_node.observe.problems import Problems
from trainer_node.play.ends import CONFIRM_S, Changes
from trainer_node.roles.participant import Participant
from trainer_node.stake.gas_patience import Market
from trainer_node.stake.reserved_ether import Reserve
from trainer_node.storage.database import Database

from .member import ME, member

JOBS = 1000
MINE = ClaimView(0, ME, 10**18, 0, False, False, False, "")
GROUPS = (Group(0, b"\1" * 32, b"", 0, 0, 0, 0, (0,)),)
RUNS = job(1, phase=JobPhase.CHALLENGE, challenge_end=10**6, claims=(MINE,), groups=GROUPS)
WITHOUT_OURS = job(1, phase=JobPhase.CHALLENGE, challenge_end=10**6)
ENDED = job(1, phase=JobPhase.UNCLAIMED)


class Look:
    """A snapshot in which the first job is ``shown``, and all others have ended."""

    block, doubt, now = SimpleNamespace(number=1, base_fee=0), None, 10

    def __init__(self, shown: JobView, *, lies: bool) -> None:
        self._shown, self._lies = shown, lies
        self.looked: list[int] = []

    def confirm(self, **_: Any) -> None:
        if self._lies:
            raise Disagreement("two endpoints show another state", contradicted=True)

    def job_count(self) -> int:
        return JOBS

    def jobs_changed(self, _: Any) -> list[int]:
        return []

    def job(self, number: int) -> JobView:
        self.looked.append(number)
        return self._shown if number == 1 else job(number, phase=JobPhase.UNCLAIMED)


class Process:
    """A node's process with the database of those before it."""

    def __init__(self, folder: Path, over: Callable[[int], None]) -> None:
        database = Database(folder / "node.sqlite3")
        self.node = member(folder, database=database)
        self.node.reserve = Reserve(lambda: 1, list)
        self.node.market = lambda _: Market(0, 0)
        self.node.duties.staked, self.node.duties.knows = lambda *_: None, lambda _: True
        self.node.job_over = lambda one: over(one.id)
        self.node.notices = SimpleNamespace(see=lambda _: None)
        runner: Any = SimpleNamespace(
            works_at=lambda _: False,
            is_another=lambda _: False,
            forget=lambda _: None,
            found=lambda _: [],
            known=lambda _: None,
        )
        self.runner = runner
        role, self.clock = Participant(self.node, runner, lambda *_: ([], None)), Hand()
        role._losses = Changes("job.stake_not_confirmed", self.clock)
        self.queue = JobQueue(database)
        self._scheduler = Scheduler(self.queue, Problems(Metrics()), clock=self.clock)
        self._turns = JobTurns(self.node, role, None)

    def later(self) -> None:
        """Wait until others are asked again."""
        self.clock.on(CONFIRM_S)

    def looks(self, shown: JobView, *, lies: bool = False) -> bool:
        """Make a round, and return whether it has looked at the first job."""
        look: Any = Look(shown, lies=lies)
        self._scheduler.go(look, lambda one: self._turns.attend(look, one))
        return 1 in look.looked


@pytest.fixture
def over() -> list[int]:
    return []


@pytest.fixture
def begun(tmp_path: Path, over: list[int]) -> Callable[[], Process]:
    return lambda: Process(tmp_path, over.append)


@pytest.mark.parametrize("looked_before", [False, True])
def test_one_look_after_a_restart_ends_no_job(
    begun: Callable[[], Process], over: list[int], *, looked_before: bool
) -> None:
    process = begun()
    process.looks(RUNS)
    assert process.queue.ours(1)
    process = begun()
    if looked_before:
        process.looks(WITHOUT_OURS, lies=True)
    process.looks(ENDED, lies=True)
    assert process.queue.ours(1)
    assert begun().queue.ours(1), "on disk, too"
    assert 1 not in over
    assert process.looks(RUNS), "in the next round"
    assert process.node.reserve.kept(1) > 0


def test_a_look_without_our_stake_and_one_of_the_end_let_go_of_no_job(
    begun: Callable[[], Process], over: list[int]
) -> None:
    process = begun()
    process.looks(RUNS)
    for _ in range(2):
        process.looks(WITHOUT_OURS, lies=True)
        process.looks(ENDED, lies=True)
        assert process.queue.ours(1)
    assert 1 not in over
    assert process.looks(RUNS)


def test_a_job_is_let_go_of_once_others_confirm_its_end(
    begun: Callable[[], Process], over: list[int]
) -> None:
    begun().looks(RUNS)
    process = begun()
    process.looks(ENDED)
    assert not process.queue.ours(1)
    assert 1 in over
    assert any(process.looks(RUNS) for _ in range(JOBS)), "a reorganisation has brought it back"
    assert process.queue.ours(1)
