"""Memory of a whole node: what waits or is declined holds none, what is staked on is kept, and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from referee_py.errors import Unavailable
from trainer_node.chain import JobPhase
from trainer_node.compute.job_runner import JobRunner
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.run.package import memory_needed
from trainer_node.storage.database import Database

from .. import wide
from ..desk import runner, until
from ..held import Held
from ..slow import Hand

pytestmark = pytest.mark.usefixtures("impatient")

ONE = memory_needed(wide.program(1), wide.terms(1))
"""What one of the jobs takes."""


@pytest.fixture
def arrays() -> Iterator[wide.Arrays]:
    found = wide.Arrays()
    yield found
    found.close()


@pytest.fixture
def measured(tmp_path: Path, database: Database) -> Iterator[JobRunner]:
    """A node that has measured two jobs, and has the memory for one of them."""
    client = wide.served(tmp_path / "client", 1, 2)
    with (
        ArtifactServer(client) as server,
        runner(tmp_path / "node", database, max_memory=ONE) as works,
    ):
        for number in (1, 2):
            until(lambda: works.prepare(wide.wide(number, number, uri=server.uri)))  # noqa: B023
        yield works


@pytest.mark.parametrize("same", [True, False], ids=["of one package", "each of its own"])
@pytest.mark.parametrize("jobs", [1, 30])
def test_jobs_that_were_measured_hold_no_memory(
    tmp_path: Path, database: Database, arrays: wide.Arrays, jobs: int, same: bool
) -> None:
    """The attack: one package that was posted 30 times was in memory 30 times, until the last of the jobs was over."""
    numbers = range(1, jobs + 1)
    client = wide.served(tmp_path / "client", *({1} if same else numbers))
    with (
        ArtifactServer(client) as server,
        runner(tmp_path / "node", database, max_memory=ONE) as works,
    ):
        before, known = arrays.bytes, {}
        for number in numbers:
            known[number] = wide.wide(number, 1 if same else number, uri=server.uri)
            until(lambda: works.prepare(known[number]))  # noqa: B023
        for of in known.values():  # and then, say, it is left to others for its stake
            assert works.prepare(of)
        until(lambda: arrays.bytes - before < ONE // 4)
        assert works._tensors.used == 0
        # A job that is worth it is loaded from the disk again.
        assert until(lambda: works.train(known[jobs]))
        assert arrays.bytes - before <= 2 * ONE


def test_a_finished_run_with_nothing_at_stake_gives_way_and_comes_back(
    tmp_path: Path, database: Database
) -> None:
    client = wide.served(tmp_path / "client", 1, 2)
    with (
        ArtifactServer(client) as server,
        runner(tmp_path / "node", database, max_memory=ONE) as works,
    ):
        jobs = [wide.wide(number, number, uri=server.uri) for number in (1, 2)]
        claims = [until(lambda: works.train(of)) for of in jobs]  # noqa: B023
        assert works.replay(2).step_tree(wide.STEPS).root == claims[1].last
        assert works.train(jobs[0]) == claims[0], "its result stays"
        with pytest.raises(Unavailable, match="comes back from the disk"):
            works.replay(1)

        def back() -> Any:
            try:
                return works.replay(1)
            except Unavailable:
                return None

        assert until(back).step_tree(wide.STEPS).root == claims[0].last
        with pytest.raises(Unavailable):
            works.replay(2)


def test_what_we_have_staked_on_keeps_its_memory_and_others_are_left(
    tmp_path: Path, database: Database
) -> None:
    client, clock = wide.served(tmp_path / "client", 1, 2), Hand()
    with (
        ArtifactServer(client) as server,
        runner(tmp_path / "node", database, max_memory=ONE, clock=clock) as works,
    ):
        ours, other = (wide.wide(number, number, uri=server.uri) for number in (1, 2))
        assert until(lambda: works.train(ours, ours=True))
        assert until(lambda: works.prepare(ours)), "it is measured beside its run, in the same memory"
        played = works.replay(1)
        until(lambda: works.prepare(other) or works.refused(2))
        reason = works.refused(2) or ""
        assert f"it takes {ONE} bytes" in reason
        assert f"limits.memory_bytes is {ONE}" in reason
        assert "raise it, or leave the job to others" in reason
        assert works.replay(1) is played
        # Nothing is lost: it is looked at again, and once our job is over it has its turn.
        works.forget(1)
        clock.on(other.train_period)
        assert until(lambda: works.prepare(other))
        assert works.refused(2) is None


def test_no_stake_is_given_on_two_jobs_that_fit_one_by_one(measured: JobRunner) -> None:
    """Both are judged in one round, before the chain shows the first stake."""
    assert measured.too_full(1) is None
    assert "bytes of memory" in str(measured.too_full(2))
    assert measured.too_full(1) is None, "asked again"
    measured.forget(1)
    assert measured.too_full(2) is None


def test_a_run_that_is_only_computed_keeps_no_room_for_a_stake(measured: JobRunner) -> None:
    """Strangers post jobs whose runs are computed to check them. Nothing is at stake in these."""
    assert measured.too_full(2, stakes=False) is None
    assert measured.too_full(1) is None


def test_a_restart_restores_all_that_was_staked_on(tmp_path: Path, database: Database) -> None:
    """Also beyond a limit that was lowered meanwhile: a stake is worth more than a limit."""
    client = wide.served(tmp_path / "client", 1, 2)
    with ArtifactServer(client) as server:
        jobs = [wide.wide(number, number, uri=server.uri) for number in (1, 2)]
        with runner(tmp_path / "node", database, max_memory=2 * ONE) as works:
            claims = [until(lambda: works.train(of, ours=True)) for of in jobs]  # noqa: B023
        with runner(tmp_path / "node", database, max_memory=ONE) as works:
            assert [until(lambda: works.train(of, ours=True)) for of in jobs] == claims  # noqa: B023
            for number, claim in zip((1, 2), claims, strict=True):
                assert works.replay(number).step_tree(wide.STEPS).root == claim.last


def test_what_the_disk_has_lost_is_fetched_again(tmp_path: Path, database: Database) -> None:
    client = wide.served(tmp_path / "client", 1)
    with ArtifactServer(client) as server, runner(tmp_path / "node", database) as works:
        of = wide.wide(1, 1, uri=server.uri)
        until(lambda: works.prepare(of))
        damaged = next(path for path in (tmp_path / "node" / "tensor").rglob("*") if path.is_file())
        damaged.chmod(0o600)
        damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
        assert until(lambda: works.train(of))


def test_what_waits_for_a_run_has_its_turn_after_it(tmp_path: Path, database: Database) -> None:
    client, held = wide.served(tmp_path / "client", 1, 2), Held()
    with (
        ArtifactServer(client) as server,
        runner(tmp_path / "node", database, max_memory=ONE, backend=held) as works,
    ):
        first, second = (
            wide.wide(n, n, uri=server.uri, phase=JobPhase.CHALLENGE, challenge_period=10**6) for n in (1, 2)
        )
        held.go.set()
        until(lambda: works.prepare(first))
        held.go.clear()
        held.begun.clear()
        works.train(first)
        assert held.begun.wait(60)
        until(lambda: works.prepare(second) or (2, True) in works._tensors._waiting)
        assert works.refused(2) is None, "it waits, and is not declined"
        held.go.set()
        assert until(lambda: works.train(first))
        assert until(lambda: works.prepare(second))
        assert not works._tensors._waiting
