"""What goes for a job that is considered and could be staked on: states of runs in which nothing of ours is at stake,
in order, and only where the job fits then."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from referee_py.commit import Tag, Tree
from tests.trainer_node.audit.runs import opened, publish
from tests.trainer_node.desk import challenged, keeper_of, new_runner, rules, until
from tests.trainer_node.roles.member import member
from tests.trainer_node.slow import Hand, SlowServer
from trainer_node.chain import JobView
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.mending import MEND_S
from trainer_node.roles.acceptance import Acceptance
from trainer_node.roles.whole_runs import WholeRuns
from trainer_node.run.checkpoints import StoredCheckpoints
from trainer_node.settings.extent import Mode
from trainer_node.storage import resting_states
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.at_rest import FITTED_S
from trainer_node.storage.database import Database
from trainer_node.storage.disk import on_disk
from trainer_node.storage.disk_estimate import Needs
from trainer_node.storage.resting_states import Found
from trainer_node.storage.retention import URGENT_GRACE_S
from trainer_node.storage.store import Store

from .test_considered import ASKED, Disk, disk  # noqa: F401

DAY = 24 * 3600
FLOATS = 2_000
QUOTA = 1_500_000
"""Room for some finished runs of a node's jobs, whose disputes take as much as two of them."""


class Runs:
    """Finished runs on a disk: each has a package and two states, of as many bytes as a state of the disk's jobs."""

    def __init__(self, disk: Disk) -> None:  # noqa: F811
        self.disk, self.keeper = disk, disk.keeper
        self.states: dict[int, list[Name]] = {}
        self.packages: dict[int, Name] = {}

    def put(self, job: int, found: Found | None = Found.NOTHING, *, stakes: bool = True) -> None:
        """Let a job have a run; jobs that are put later begin later."""
        view = self.disk.store.held_by(job)

        def tensor(number: int) -> Name:
            return Name(Kind.TENSOR, view.put_tensor(np.full(FLOATS, 10 * job + number, np.float32)))

        self.packages[job] = tensor(0)
        self.states[job] = [tensor(1), tensor(2)]
        self.keeper.needs(job, Needs(0), [self.packages[job]])
        self.keeper.considers(job, stakes=stakes)
        if found is not None:
            self.keeper.finds(job, found)
        self.keeper.stake(job, False)
        self.disk.passes()

    def ask(self, lacks: int, job: int = ASKED, *, stakes: bool | None = True) -> bool:
        """Ask whether a job fits that needs so many bytes more than there are; and once more after that."""
        if stakes is not None:
            self.keeper.considers(job, stakes=stakes)
        self.keeper.needs(job, Needs(self.keeper.room(job) + self.keeper._held.of(job) + lacks))
        assert self.disk.ask(job) == [False]
        return self.disk.ask(job) == [True]

    @property
    def whole(self) -> set[int]:
        """The jobs whose states are all there."""
        return {job for job, names in self.states.items() if all(self.disk.has(*names))}


@pytest.fixture
def runs(disk: Disk) -> Runs:  # noqa: F811
    return Runs(disk)


ONE = on_disk(4 * FLOATS + 10)
"""A state on the disk."""


def test_states_go_and_packages_stay_for_a_job_that_could_be_staked_on(runs: Runs) -> None:
    """The attack: finished runs of posted jobs filled the disk, and every later job was left to others for years."""
    runs.put(11)
    assert runs.ask(2 * ONE)
    assert runs.whole == set()
    assert runs.disk.has(runs.packages[11]) == [True], "the client need not serve it again"
    assert runs.keeper._held.of(11) == ONE


@pytest.mark.parametrize("stakes", [True, False])
def test_of_a_run_from_which_something_differs_states_go_and_no_package(runs: Runs, stakes: bool) -> None:
    """Also on a full disk, and whatever a look says of stakes: the client need not serve it again."""
    runs.put(11, Found.DIFFERS, stakes=stakes)
    runs.put(12, Found.DIFFERS)
    assert not runs.ask(ONE), "what is new has nothing that differs"
    assert runs.whole == {11, 12}
    resting = runs.keeper._resting(states=True)
    assert runs.keeper._resting_states.yields(1 << 40, resting).jobs == (), (
        "nothing, where that is not enough"
    )
    given = runs.keeper._resting_states.yields(ONE, resting)
    assert (given.jobs, runs.whole) == ((11,), {12}), "the oldest, and no more than it takes"
    runs.keeper.make_room(1 << 60)
    assert runs.whole == {12}
    assert runs.disk.has(*runs.packages.values()) == [True, True]


@pytest.mark.parametrize("stakes", [False, None])
def test_nothing_goes_for_a_job_in_which_we_could_not_stake(runs: Runs, stakes: bool | None) -> None:
    runs.put(11)
    assert not runs.ask(ONE, stakes=stakes)
    assert runs.whole == {11}


def test_nothing_goes_unless_the_job_fits_then_and_no_file_is_looked_at_again_for_it(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: a job that never fits took all finished runs of a node, and each question a look at them."""
    runs.put(11)
    runs.put(12)
    assert not runs.ask(4 * ONE + 1)
    looked = list[str]()
    size = resting_states.RestingStates._size

    def noted(self: Any, path: str, before: float) -> int:
        looked.append(path)
        return size(self, path, before)

    monkeypatch.setattr(resting_states.RestingStates, "_size", noted)
    for _ in range(3):
        assert not runs.ask(4 * ONE + 1)
    assert looked == []
    assert runs.whole == {11, 12}
    assert runs.ask(4 * ONE)


def test_what_cannot_be_staked_on_goes_first_then_what_agrees_and_the_oldest_of_these(runs: Runs) -> None:
    runs.put(11, Found.DIFFERS)
    runs.put(12)
    runs.put(13)
    runs.put(14, stakes=False)
    assert runs.ask(ONE)
    assert runs.whole == {11, 12, 13}
    assert runs.disk.has(runs.packages[14]) == [False], "nobody will ask us for it"
    assert runs.ask(ONE, 6)
    assert runs.whole == {11, 13}


def test_what_differs_stays_before_a_new_job_and_goes_for_one_that_is_about_to_be_staked_on(
    runs: Runs,
) -> None:
    """The attack: posted jobs with right claims took the states of the run with which a lie was about to be met."""
    runs.put(11, Found.DIFFERS)
    assert not runs.ask(ONE)
    assert runs.whole == {11}
    runs.put(12, Found.DIFFERS)
    runs.keeper.needs(12, Needs(0))
    assert not runs.ask(ONE, 11), "it is older itself"
    assert runs.ask(ONE, 12)
    assert runs.whole == {12}


def test_what_a_lie_rests_on_stays(runs: Runs) -> None:
    """It is the claimant's, who need not serve it again."""
    runs.put(11, Found.LIE)
    runs.put(12, Found.DIFFERS)
    runs.put(13)
    assert not runs.ask(3 * ONE, 12)
    assert runs.whole == {11, 12, 13}


def test_what_is_ours_or_worked_at_or_of_a_package_that_is_not_known_stays(runs: Runs) -> None:
    runs.put(11)
    runs.put(12)
    runs.put(13)
    runs.keeper.stake(11, True)
    runs.keeper.works_at = lambda job: job == 12
    runs.keeper._resting_states._packages.pop(13)
    runs.keeper.needs(11, Needs(0))
    assert not runs.ask(ONE)
    assert runs.whole == {11, 12, 13}


def test_what_another_job_holds_is_not_counted_and_stays(runs: Runs) -> None:
    runs.put(11)
    runs.disk.store.held_by(3).hold(*runs.states[11])
    runs.disk.passes()
    assert not runs.ask(ONE)
    assert runs.whole == {11}
    runs.put(12)
    assert runs.ask(2 * ONE)
    assert runs.whole == {11}


def test_what_a_stake_is_about_to_be_given_on_stays(runs: Runs) -> None:
    runs.put(11)
    assert runs.keeper.too_full(11) is None
    assert not runs.ask(ONE)
    runs.keeper._at_rest._fitted[11] -= FITTED_S
    assert runs.ask(ONE)


def test_what_was_used_just_now_stays_for_a_while(runs: Runs) -> None:
    runs.put(11)
    for name in runs.states[11]:
        runs.disk.store.has(name)
    assert not runs.ask(ONE)
    runs.disk.passes(URGENT_GRACE_S)
    runs.keeper._resting_states._clock = lambda: time.time() + URGENT_GRACE_S
    assert runs.ask(ONE)


def test_rounding_logs_and_files_stay(runs: Runs) -> None:
    runs.put(11)
    view = runs.disk.store.held_by(11)
    stays = [
        Name(Kind.BLOB, view.put_blob(b"an example")),
        Name(Kind.TREE, view.put_tree(Tree(Tag.LOG_RUN_TREE, [bytes(32)] * 2)), Tag.LOG_RUN_TREE, 2),
    ]
    tree = Name(Kind.TREE, view.put_tree(Tree(Tag.STEP_TREE, [bytes(32)] * 2)), Tag.STEP_TREE, 2)
    runs.disk.passes()
    assert runs.ask(ONE)
    assert runs.disk.has(*stays, tree) == [True, True, False]


# ---------------------------------------------------------------------------------------- of a whole node


class Node:
    """A challenger with a small disk, and jobs whose claims are right."""

    def __init__(self, folder: Path, store_bytes: int) -> None:
        self.folder, self.clock, self.database = folder, Hand(), Database(None)
        self.store = Store(folder / "node", sync=False)
        self.keeper, problems = keeper_of(folder, self.store, self.database, store_bytes=store_bytes)
        self.works = new_runner(
            JobRunner,
            self.store,
            self.database,
            keeper=self.keeper,
            problems=problems,
            clock=self.clock,
            follows=True,
        )
        self.keeper.works_at, self.keeper.gave_states = self.works.works_at, self.works.gave_states
        node = member(folder, keeper=self.keeper, mode=Mode.DEFEND)
        self.whole = WholeRuns(node, self.works.train, Acceptance(node, self.works))

    @contextlib.contextmanager
    def posted(self, number: int) -> Iterator[JobView]:
        """Let a job be served meanwhile."""
        folder = self.folder / f"run{number}"
        run = opened(publish(folder, 24, 1), self.folder / f"seen{number}")
        with SlowServer(Store(folder / "artifacts", sync=False), self.clock) as client:
            yield challenged(
                number,
                [(run.root, "")],
                DAY,
                uri=client.uri,
                program=run.terms,
                program_file=run._program_file,
                rules=rules(clock=DAY),
            )

    def delayed(self, job_id: int) -> bool:
        """Return whether something of a job is tried again later."""
        work, now = self.works._works[job_id], self.clock()
        tries = work.package_tries, work.measure_tries, work.run_tries, work.return_tries
        return any(one.retry_at > now for one in tries)

    def computed(self, of: JobView) -> bool:
        """Let rounds pass until the job's run is known, or has been left to others some times."""
        for _ in range(6):
            until(lambda: self.works.prepare(of) or self.delayed(of.id))
            self.keeper._tried = float("-inf")
            self.keeper.stake(of.id, False)
            known = self.whole.decide(of, int(self.clock()))[1]
            until(lambda: not self.works.works_at(of.id))
            self.keeper.close()
            if known is not None:
                self.keeper.finds(of.id, Found.NOTHING)  # as in each round
                return True
            self.passes()
            self.clock.on(60.0)
        return False

    def passes(self) -> None:
        """Let minutes pass in which nothing on the disk is used."""
        Disk.passes(self)  # type: ignore[arg-type]
        self.keeper._at_rest._fitted.clear()

    looked, sweepers = 0, set[int]()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, QUOTA)
    yield made
    made.works.close()
    made.database.close()


def test_a_job_is_replayed_whatever_was_posted_before_and_what_gave_way_is_made_good_before_a_stake(
    node: Node,
) -> None:
    jobs = dict[int, JobView]()
    for number in range(1, 6):
        with node.posted(number) as jobs[number]:
            assert node.computed(jobs[number]), f"job {number}"
    assert node.store.usage.total <= QUOTA
    first = jobs[1]
    run = StoredCheckpoints(node.database, node.works._key(first))
    assert run.kept < 24
    assert len(run.all()) == 24, "roots stay"
    assert node.works.known(1) is not None
    # A lie comes, and a stake is due: nobody serves the package any more.
    node.keeper.finds(1, Found.DIFFERS)

    def staked() -> bool:
        node.keeper._tried = float("-inf")
        reason = node.works.too_full(1)
        node.keeper.close()
        until(lambda: not node.works.busy)
        if reason is not None:
            node.passes()
            node.clock.on(MEND_S)
        return reason is None

    assert any(staked() for _ in range(12))
    assert run.kept == 24
    assert node.works.replay(1).on_disk
