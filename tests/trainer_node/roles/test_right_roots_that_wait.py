"""Attacks on a right root that waits to be claimed, with nothing of ours at stake: an ally of the liar has claimed it
first, and gives it away once the client serves no more; or the account has not enough yet."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.trainer_node.desk import STRANGER, honest_run, job, keeper_of, new_runner, serving, until
from tests.trainer_node.slow import Hand
from tests.trainer_node.storage.test_considered import begins
from trainer_node.chain import ClaimView, Group, JobPhase, JobView
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.mending import MEND_S
from trainer_node.errors import RoomKept
from trainer_node.play.actions import JobAction
from trainer_node.roles.acceptance import Acceptance
from trainer_node.roles.participant import Participant
from trainer_node.roles.whole_runs import WholeRuns
from trainer_node.run.tensors import Takes
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.disk_estimate import Needs
from trainer_node.storage.disk_keeper import Keeper
from trainer_node.storage.resting_states import Found
from trainer_node.storage.store import Store

from .member import RICH, member

CLAIM = honest_run().commit_run().claim()
JOB, OTHER, END = 2, 3, 10**6
ALLY = "0x" + "dd" * 20
SILENT = "http://127.0.0.1:9"


def shown(uri: str, *, ally: bool = False, given_away: bool = False) -> JobView:
    """A job with a wrong root, and the right one where an ally of its author claims that."""
    claims = (
        ClaimView(0, STRANGER, 1, 0, True, False, False, uri),
        ClaimView(1, ALLY, 1, 1, False, given_away, False, uri),
    )
    dead = int(given_away)
    groups = (
        Group(0, b"\1" * 32, b"", 0, 0, 0, 0, (0,)),
        Group(1, CLAIM.root, b"", 0, dead, dead, END * dead, (1,)),
    )
    number = 2 if ally else 1
    return job(
        JOB,
        uri=uri,
        phase=JobPhase.CHALLENGE,
        challenge_end=END,
        challenge_period=END,
        reveals=1,
        stake=10**9,
        claims=claims[:number],
        groups=groups[:number],
    )


@dataclass
class Challenger:
    """One that has computed the right root, and waits."""

    node: Any
    works: JobRunner
    keeper: Keeper
    clock: Hand
    others: set[int]
    """Jobs at which it works, too."""

    def decide(self, of: JobView) -> list[JobAction]:
        return self.whole.decide(of, 0)[0]

    def __post_init__(self) -> None:
        self.whole = WholeRuns(self.node, self.works.train, Acceptance(self.node, self.works))

    def waits(self, of: JobView) -> None:
        """Compute the run; nothing is staked on it."""
        until(lambda: self.whole.decide(of, 0)[1] == CLAIM)
        assert self.decide(of) == []
        self.keeper.stake(JOB, False)
        self.keeper.finds(JOB, Found.DIFFERS)
        until(lambda: not self.works.busy)

    def later(self) -> None:
        for path in (path for path in self.keeper._store.root.rglob("*") if path.is_file()):
            os.utime(path, (path.stat().st_mtime - 3600,) * 2)

    def claims(self, of: JobView, seconds: float = 1.0) -> bool:
        """Return whether the right root is claimed in the end."""
        for _ in range(40):
            self.clock.on(MEND_S)
            self.keeper._tried = -math.inf
            if self.decide(of) == [JobAction.CHALLENGE]:
                return True
            if self.keeper._making is not None:
                self.keeper._making.join(30)
            with contextlib.suppress(AssertionError):
                until(lambda: not self.works.busy, seconds)
        return False

    def fills(self) -> None:
        """Let a stranger's run have filled the disk, so that what can be computed again goes."""
        self.later()
        self.keeper._urgent = -math.inf
        self.keeper._store_bytes = self.keeper._store.usage.total - 4096
        self.keeper.collect()
        self.keeper._store_bytes = 0


class Playing:
    """The rounds of a participant for a challenger."""

    def __init__(self, one: Challenger) -> None:
        self.one, self.acts, self.now = one, list[JobAction](), 0
        self.role = Participant(one.node, one.works, self._decide)

    def go(self, of: JobView) -> list[JobAction]:
        """Let a round pass; return what is due."""
        block = SimpleNamespace(number=1, base_fee=0)
        at: Any = SimpleNamespace(now=self.now, confirm=lambda **_: None, doubt=None, block=block)
        self.acts.clear()
        self.role.turns(at, of)
        return self.acts[:]

    def computes(self, folder: Path) -> None:
        """Compute the run, from which something differs; an ally of the liar has claimed the right root."""
        one = self.one
        one.keeper.considers(JOB, stakes=True)
        with serving(folder / "client") as uri:
            until(lambda: self.go(shown(uri, ally=True)) == [] and one.works.known(JOB) == CLAIM)
            until(lambda: not one.works.busy)
            self.go(shown(uri, ally=True))
        assert self.differing == {JOB}

    def claims(self, of: JobView) -> bool:
        """Return whether the right root is claimed in the end."""
        for _ in range(40):
            self.one.clock.on(MEND_S)
            self.one.keeper._tried = -math.inf
            if JobAction.CHALLENGE in self.go(of):
                return True
            with contextlib.suppress(AssertionError):
                until(lambda: not self.one.works.busy, 1.0)
        return False

    @property
    def differing(self) -> frozenset[int]:
        return self.one.keeper._resting_states.differing()

    def _decide(self, of: JobView, _: int) -> tuple[list[JobAction], Any]:
        found = self.one.whole.decide(of, self.now)
        self.acts[:] = found[0]
        return found


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Challenger]:
    database, clock, others = Database(None), Hand(), set[int]()
    node: Any = member(tmp_path, check="all")
    store = Store(tmp_path / "node", sync=False)
    keeper, problems = keeper_of(tmp_path, store, database)
    works = new_runner(JobRunner, store, database, keeper=keeper, problems=problems, clock=clock)
    keeper.gave_states, keeper.works_at = works.gave_states, lambda job: works.works_at(job) or job in others
    store.refuses, store.make_room = keeper.refuses, keeper.make_room
    node.keeper, node.wei = keeper, RICH
    yield Challenger(node, works, keeper, clock, others)
    works.close()
    database.close()


def test_a_full_disk_takes_no_package_of_it(one: Challenger, tmp_path: Path) -> None:
    with serving(tmp_path / "client") as uri:
        one.waits(shown(uri, ally=True))
    one.later()
    one.keeper.make_room(1 << 60)  # as the store does, when a stranger's run is refused a write
    one.works._tensors.of(OTHER, Takes(step=one.works._tensors.limit))
    with one.works._tensors.lent(OTHER, waits=False):
        pass
    assert one.keeper._held.of(JOB) > 0, "its package"
    assert one.claims(shown(SILENT, ally=True, given_away=True)), "its states are computed again"


def test_beside_a_lie_that_waits_a_write_takes_no_package_of_it(one: Challenger, tmp_path: Path) -> None:
    keeper = one.keeper
    with serving(tmp_path / "client") as uri:
        one.waits(shown(uri, ally=True))
    one.later()
    keeper.finds(OTHER, Found.LIE)
    begins(keeper._store, JOB, keeper._store.holders.began(JOB) - 3600)
    keeper._store_bytes = keeper._store.usage.total + 4096
    keeper._tried = -math.inf
    assert keeper.refuses(5, 8192) is not None
    keeper.close()
    keeper._store_bytes = 0
    one.works._tensors.of(OTHER, Takes(step=one.works._tensors.limit))
    with one.works._tensors.lent(OTHER, waits=False):
        pass
    assert one.claims(shown(SILENT, ally=True, given_away=True))


@pytest.mark.parametrize("other", ["nothing", "it is done", "it goes on"])
def test_room_for_its_disputes_is_kept(one: Challenger, tmp_path: Path, other: str) -> None:
    """The attack: the run of another posted job, which fitted when it began, goes on and takes that room."""
    keeper, store = one.keeper, one.keeper._store
    one.node.wei = 0  # until the run is done
    with serving(tmp_path / "client") as uri:
        one.waits(shown(uri))
        left = keeper._left(JOB)
        keeper._store_bytes = store.usage.total + 2 * left
        keeper.considers(OTHER, stakes=True)
        keeper.needs(OTHER, Needs(2 * left), [Name(Kind.BLOB, bytes(32))])
        if other.endswith("on"):
            one.others.add(OTHER)
        if other != "nothing":
            keeper.stake(OTHER, False)
            view, draw = store.held_by(OTHER), np.random.default_rng(1)
            with contextlib.suppress(RoomKept):
                while keeper.room(OTHER) > left // 2 - left:
                    view.put_tensor(draw.random(1000, np.float32))
        one.later()
        one.node.wei = RICH
        assert one.claims(shown(uri))


def test_what_differs_is_kept_while_our_run_comes_back(one: Challenger, tmp_path: Path) -> None:
    """The attack: a stranger's run has the memory for a moment, so that our run comes back later. Nothing was known of
    the job meanwhile; so nothing differed, which others confirmed of the look."""
    playing = Playing(one)
    playing.computes(tmp_path)
    one.keeper._at_rest._fitted.clear()  # more than FITTED_S have passed
    one.fills()
    tensors, given = one.works._tensors, shown(SILENT, ally=True, given_away=True)
    tensors.of(OTHER, Takes(step=tensors.limit))
    with tensors.lent(OTHER, waits=False):
        for _ in range(8):
            playing.go(given)
            until(lambda: not one.works.busy)
            one.clock.on(1.0)
            assert playing.differing == {JOB}
    one.fills()
    assert playing.claims(given)


@pytest.mark.parametrize("full", [False, True])
def test_a_restart_while_a_match_is_played_in_closing_forgets_nothing_that_differs(
    one: Challenger, tmp_path: Path, full: bool
) -> None:
    """The attack: the ally's match with the lie is played for days, then it gives the right root away. To begin with
    the whole run was too late by what the look said, so another process did not know of it."""
    Playing(one).computes(tmp_path)
    store, database = one.keeper._store, one.works._database
    node: Any = member(tmp_path, check="all", database=one.node.database)
    keeper, problems = keeper_of(tmp_path, store, database)
    works = new_runner(JobRunner, store, database, keeper=keeper, problems=problems, clock=one.clock)
    keeper.gave_states, keeper.works_at = works.gave_states, works.works_at
    node.keeper, node.wei = keeper, RICH
    after = Challenger(node, works, keeper, one.clock, set())
    playing = Playing(after)
    assert playing.differing == {JOB}, "before it was looked at"
    playing.now = END + 100
    of = replace(shown(SILENT, ally=True), phase=JobPhase.CLOSING, open_matches=1, reclaim_end=0)
    of = replace(of, groups=tuple(replace(group, match_id=7) for group in of.groups))
    until(lambda: playing.go(of) == [] and works.known(JOB) == CLAIM)
    assert playing.differing == {JOB}
    if full:
        keeper._at_rest._fitted.clear()
        after.fills()
    given = shown(SILENT, ally=True, given_away=True)
    groups = tuple(replace(group, until=3 * END) if group.dead else group for group in given.groups)
    given = replace(given, phase=JobPhase.CLOSING, reclaim_end=3 * END, groups=groups)
    assert playing.claims(given)
    works.close()
