"""The room on the disk that is kept for jobs with our stake: a stranger's run never takes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import structlog

from trainer_node.chain import ClaimView, JobPhase, JobView
from trainer_node.chain.codec.job import Group
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.mending import MEND_S
from trainer_node.compute.processors import Share
from trainer_node.daemon.remembered import Remembered
from trainer_node.errors import DiskFull, RoomKept
from trainer_node.observe.problems import Problems
from trainer_node.roles.acceptance import Acceptance
from trainer_node.roles.participant import Participant
from trainer_node.roles.whole_runs import WholeRuns
from trainer_node.settings.extent import Mode
from trainer_node.settings.settings import load_settings
from trainer_node.stake.reserved_ether import Reserve
from trainer_node.storage import disk_keeper
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.disk_estimate import Needs
from trainer_node.storage.disk_keeper import Keeper
from trainer_node.storage.store import Store

from ..desk import REFEREE, honest_run, job, keeper_of, runner, serving, until
from ..roles.member import member
from ..slow import Hand

CLAIM = honest_run().commit_run().claim()
OURS, STRANGERS = 1, 2
ALL = Needs(1 << 60)
"""More than any disk has."""


class Challenger:
    """A challenger's decisions about whole runs, with its own keeper, runner and judgement of jobs."""

    def __init__(self, folder: Path, works: JobRunner, keeper: Keeper, problems: Problems, uri: str) -> None:
        self.works, self.keeper, self.problems, self.uri = works, keeper, problems, uri
        node: Any = SimpleNamespace(
            settings=load_settings(chain_id=31337, data_dir=folder / "settings", mode=Mode.DEFEND),
            address="0x" + "aa" * 20,
            remembered=Remembered(),
            database=Database(None),
            keeper=keeper,
            duties=SimpleNamespace(moves_s=lambda _: 0.0, sends_s=lambda _: 0.0),
            client=SimpleNamespace(
                deployment=SimpleNamespace(referee=REFEREE),
                commit_age=lambda: 1,
            ),
        )
        self.worth = Acceptance(node, works)
        self.whole = WholeRuns(node, works.train, self.worth)
        until(lambda: works.prepare(self.job()))

    def job(self) -> JobView:
        """A stranger's job, in which somebody claims another root."""
        return job(
            STRANGERS,
            uri=self.uri,
            phase=JobPhase.CHALLENGE,
            challenge_end=10**6,
            challenge_period=10**6,
            reveals=1,
            claims=(ClaimView(0, "0x" + "bb" * 20, 1, 0, True, False, False, ""),),
            groups=(Group(0, b"\1" * 32, b"", 0, 0, 0, 0, (0,)),),
        )

    def files(self) -> set[Path]:
        """The artifacts on the disk."""
        root = self.works._fetcher.store.root
        return {path for path in root.rglob("*") if path.is_file() and path.parent.name != "jobs"}

    def all_is_kept(self) -> None:
        """We have a stake in a job that may take all that is free."""
        self.keeper.needs(OURS, ALL)
        self.keeper.stake(OURS, True)


@pytest.fixture
def challenger(tmp_path: Path, clock: Hand) -> Iterator[Challenger]:
    database, root = Database(None), tmp_path / "node"
    keeper, problems = keeper_of(tmp_path, Store(root, sync=False), database)
    with (
        serving(tmp_path / "client") as uri,
        runner(root, database, keeper=keeper, problems=problems, clock=clock) as works,
    ):
        works._fetcher.store.refuses = keeper.refuses  # as in a node, where both have one store
        yield Challenger(tmp_path, works, keeper, problems, uri)
    database.close()


def test_what_does_not_fit_beside_our_stakes_is_left_to_others(challenger: Challenger) -> None:
    """The attack: it was replayed all the same, and its states took the room of what we had staked on."""
    challenger.all_is_kept()
    with structlog.testing.capture_logs() as told:
        for _ in range(5):
            assert challenger.whole.decide(challenger.job(), 0) == ([], None)
    assert not challenger.works.works_at(STRANGERS)
    (event,) = [line for line in told if line["event"] == "job.left_to_others"]
    assert "0 are free and not kept for other jobs: make room" in event["reason"]
    challenger.keeper.over(OURS)
    assert until(lambda: challenger.whole.decide(challenger.job(), 0)[1]) == CLAIM


def test_a_run_that_goes_on_when_we_stake_on_another_keeps_its_roots_alone(
    challenger: Challenger, clock: Hand
) -> None:
    works = challenger.works
    held = works._runs.submit(Share(), lambda _: until(lambda: challenger.keeper.reserved))
    assert challenger.whole.decide(challenger.job(), 0) == ([], None)
    assert works.works_at(STRANGERS), "there is room for it"
    challenger.all_is_kept()
    held.result()
    before = challenger.files()
    assert until(lambda: works.train(challenger.job())) == CLAIM
    assert challenger.files() <= before
    assert "make room" in str(works.too_full(STRANGERS))
    assert challenger.problems.shown().ready, "anybody can post a job"
    # Once there is room again, it is made good, and may be staked on.
    challenger.keeper.over(OURS)
    clock.on(MEND_S)
    assert until(lambda: works.too_full(STRANGERS) is None and not works.busy)
    assert works.replay(STRANGERS).on_disk


def test_what_is_ours_takes_its_room_and_what_is_anothers_does_not(challenger: Challenger) -> None:
    store = challenger.works._fetcher.store
    challenger.all_is_kept()
    assert store.held_by(OURS).put_blob(b"ours")
    with pytest.raises(RoomKept, match="of job 2: it may take 4096 bytes more") as caught:
        store.held_by(STRANGERS).put_blob(b"theirs")
    assert isinstance(caught.value, DiskFull), "a run goes on without"
    store.held_by(STRANGERS).put_blob(b"ours")  # what is there takes no room
    challenger.keeper.stake(OURS, False)
    assert store.held_by(STRANGERS).put_blob(b"theirs")


def test_a_stake_that_was_sent_and_is_not_shown_yet_keeps_its_room_and_its_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: data of another posted job came once our claim was seen, and filled the disk; the looks of the next
    minutes, which are as old as `confirmations` says, called our job one in which nothing is at stake."""
    store, free, head = Store(tmp_path / "node", sync=False), [1 << 40], [20]
    keeper, _ = keeper_of(tmp_path, store, Database(None))
    monkeypatch.setattr(disk_keeper, "free_bytes", lambda _: free[0])
    node = member(tmp_path, keeper=keeper)
    node.reserve = Reserve(lambda: head[0], list, lambda of: keeper.stake(of, True))
    node.duties.staked, node.duties.knows = lambda *_: None, lambda _: True
    works: Any = SimpleNamespace(is_another=lambda _: False, found=lambda _: [], known=lambda _: None)
    role = Participant(node, works, lambda *_: ([], None))

    def look(block: int) -> None:
        shown = SimpleNamespace(number=block, base_fee=0)
        at: Any = SimpleNamespace(now=0, block=shown, confirm=lambda **_: None)
        role.turns(at, job(OURS, phase=JobPhase.CHALLENGE, challenge_end=10**6))

    def there() -> bool:
        """Return whether our state is still there when another job has filled the disk."""
        keeper._urgent, before = float("-inf"), free[0]
        free[0] = 0
        store.make_room(4096)
        free[0] = before
        return store.find(Name(Kind.TENSOR, state)) is not None

    state = store.held_by(OURS).put_tensor(np.ones(1000, np.float32))
    for path in (path for path in store.root.rglob("*") if path.is_file()):
        os.utime(path, (path.stat().st_mtime - 3600,) * 2)
    look(7)
    keeper.needs(OURS, Needs(1 << 30))
    unstaked = keeper.room(STRANGERS)
    node.reserve.staking(OURS, 5)
    assert keeper.room(STRANGERS) < unstaked, "at once: another job may be judged in this round"
    assert there()
    look(8)
    head[0] = 21
    look(9)
    assert keeper.room(STRANGERS) < unstaked
    assert there()
    look(21)
    look(22)
    assert keeper.room(STRANGERS) == unstaked, "it was refused"
    assert not there()
