"""Attack: a node whose database was lost reads all jobs before it sends ether on or stakes. It answers somebody
meanwhile, in a job that it has read, and is started again: its newest transaction is known now, so it takes all for
known, and sends on what jobs that it has not read yet may need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Anvil
from trainer_node.daemon.job_queue import PER_ROUND, JobQueue, Scheduler
from trainer_node.observe.problems import Problems
from trainer_node.storage.database import Database

from ..daemon.test_job_queue import Chain, go
from .outbox_bench import Bench


@pytest.fixture
def before(anvil: Anvil, tmp_path: Path) -> Bench:
    (tmp_path / "lost").mkdir()
    return Bench(anvil.url, anvil.keys[0], tmp_path / "lost")


def test_a_restart_does_not_make_unread_jobs_known(anvil: Anvil, before: Bench, tmp_path: Path) -> None:
    for _ in range(3):
        before.manager().send(before.pay())  # one of them was a stake
    (tmp_path / "new").mkdir()
    bench, database = Bench(anvil.url, anvil.keys[0], tmp_path / "new"), Database(None)
    chain, first = Chain(10 * PER_ROUND), bench.manager()
    node = Scheduler(JobQueue(database), Problems(), lost=first.means.lacks_sent)
    go(node, chain)
    assert node.unread
    first.send(bench.pay())  # an answer, say, or what the contracts owe
    again = bench.manager()
    node = Scheduler(JobQueue(database), Problems(), lost=again.means.lacks_sent)
    go(node, chain)
    assert node.unread, "most jobs were never read, and ether is sent on"
