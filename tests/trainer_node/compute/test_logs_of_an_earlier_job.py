"""Attack: a trainer in rounded-f64 uses a run, and its logs, for a second job, and serves nothing. A follower knows the
root of the run from the first job, so it never requests the logs, without which it cannot play a dispute about it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from referee_py.errors import Unavailable
from trainer_node.chain import JobView
from trainer_node.chain.codec.availability import Ledger
from trainer_node.compute import outcomes, run_execution
from trainer_node.compute.job_runner import JobRunner
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.play.data_requests import DataRequester
from trainer_node.storage.database import Database
from trainer_node.storage.retention import Policy, Retention
from trainer_node.storage.store import Store

from .. import near
from ..desk import Sent, runner, until
from ..run.test_slow_logs import Revealed
from ..sent import CONTRACTS

HOUR = 3600.0
NOWHERE = "http://127.0.0.1:9"
LAST = near.STEPS - near.STRIDES[0]


@pytest.fixture
def revealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Revealed]:
    monkeypatch.setattr(outcomes, "RETRY_S", 0.01)
    monkeypatch.setattr(run_execution, "retry_s", lambda _: 0.0)  # what is absent twice is withheld
    found = Revealed(tmp_path / "trainer")
    yield found
    found.trainer.database.close()


def collected(folder: Path, database: Database) -> None:
    """Let the first job be over for longer than its work stays, and its result not."""
    store = Store(folder, sync=False)
    for path in store.root.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - 100 * HOUR,) * 2)
    store.holders.end(1)
    Retention(store, database, Policy(HOUR, 1000 * HOUR), clock=lambda: time.time() + 2 * HOUR).collect()


def requests(works: JobRunner, view: JobView) -> bool:
    """Return whether a round of the loop requests logs of a job on the chain."""
    sent: Any = Sent()
    requester = DataRequester(CONTRACTS, sent, works, 10**18, spare=lambda _: 10**20)
    block = SimpleNamespace(number=5)
    snapshot: Any = SimpleNamespace(now=10, block=block, ledger=lambda *_: Ledger(), head=lambda: 5)
    return bool(requester.due(snapshot, view))


def moves(works: JobRunner, number: int) -> bool:
    try:
        works.replay(number).run_tree(1, LAST, near.STEPS)
    except Unavailable:
        return False
    return True


def second(revealed: Revealed, package: str, logs: str) -> JobView:
    """Return another job of the program, whose trainer has committed to the logs of the first, and is at ``logs``."""
    view = revealed.view(package, 2)
    claims = tuple(replace(claim, uri=logs) for claim in view.claims)
    return replace(view, claims=claims, challenge_end=10**9, base_fee=10**9)


def rounds(works: JobRunner, view: JobView, *, ours: bool = False) -> bool:
    """Return whether, within twenty seconds, the logs are requested, or the dispute can be played without."""
    for _ in range(200):
        works.train(view, ours=ours)
        if requests(works, view) or (works.known(2) is not None and moves(works, 2)):
            return True
        time.sleep(0.1)
    return False


def test_a_new_job_whose_logs_are_withheld_is_asked_for_them(revealed: Revealed, tmp_path: Path) -> None:
    """The control: the same job, by a node that has not seen the first."""
    database = Database(tmp_path / "node.sqlite3")
    client = near.client(tmp_path / "client")
    with ArtifactServer(client) as package, runner(tmp_path / "node", database, follows=True) as works:
        assert rounds(works, second(revealed, package.uri, NOWHERE))
    database.close()


@contextmanager
def after_the_first_job(
    revealed: Revealed, folder: Path
) -> Iterator[tuple[JobRunner, str, Callable[[], None]]]:
    """Yield a follower that has computed the first job's run, where packages are served, and what ends that job."""
    database, client = Database(folder / "node.sqlite3"), near.client(folder / "client")
    with (
        ArtifactServer(revealed.store) as trainer,
        ArtifactServer(client) as package,
        runner(folder / "node", database, follows=True) as works,
    ):
        assert until(lambda: works.train(revealed.view(trainer.uri))) == revealed.claim

        def end() -> None:
            works.forget(1)
            collected(folder / "node", database)

        yield works, package.uri, end
    database.close()


def test_logs_of_a_run_that_is_known_are_requested_where_they_are_gone(
    revealed: Revealed, tmp_path: Path
) -> None:
    """The first job was over some hours ago: its result is here, its logs are not."""
    with after_the_first_job(revealed, tmp_path) as (works, package, end):
        end()
        assert rounds(works, second(revealed, package, NOWHERE))


def test_logs_of_a_run_that_is_played_stay_when_the_first_job_is_over(
    revealed: Revealed, tmp_path: Path
) -> None:
    """The second job begins while the first lasts, so all is here; its dispute comes later."""
    with after_the_first_job(revealed, tmp_path) as (works, package, end):
        view = second(revealed, package, NOWHERE)
        assert until(lambda: works.train(view, ours=True)) == revealed.claim
        end()
        assert rounds(works, view, ours=True)
