"""A follower that makes good the states of a run needs its logs for that, in the turn of an answer: while it waited for
a server, no move of any other job was computed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainer_node.chain import JobPhase
from trainer_node.compute import outcomes
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.storage.artifacts import Kind
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .. import near
from ..desk import TERMS, job, runner, serving, until
from ..run.test_slow_logs import Revealed
from ..slow import Hand, SlowServer
from .test_logs_of_an_earlier_job import collected, second


@pytest.mark.parametrize("stalls", [False, True], ids=["served", "stalled"])
def test_a_move_of_another_job_does_not_wait_for_a_strangers_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stalls: bool
) -> None:
    monkeypatch.setattr(outcomes, "RETRY_S", 0.01)
    revealed, folder = Revealed(tmp_path / "trainer"), tmp_path / "node"
    database, client = Database(tmp_path / "node.sqlite3"), near.client(tmp_path / "client")
    with (
        SlowServer(revealed.store, Hand()) as trainer,
        ArtifactServer(client) as package,
        serving(tmp_path / "another client") as uri,
        runner(folder, database, follows=True) as works,
        ThreadPoolExecutor(1) as mover,
    ):
        assert until(lambda: works.train(revealed.view(trainer.uri))) == revealed.claim
        works.forget(1)
        collected(folder, database)

        other = job(3, uri=uri, phase=JobPhase.CHALLENGE)
        assert until(lambda: works.train(other, ours=True))
        view = second(revealed, package.uri, trainer.uri)
        assert until(lambda: works.train(view)) == revealed.claim, "its root is known, and its tree is served"
        for path in filter(Path.is_file, (Store(folder, sync=False).root / Kind.LOG).rglob("*")):
            path.unlink()  # the disk has lost them, which the states are made good by
        trainer.seen.clear()
        if stalls:
            trainer.release.clear()
        try:
            until(lambda: works.too_full(2) and any(name.kind is Kind.LOG for _, name in trainer.seen))
            move = mover.submit(works.replay(3).run_tree, 1, 0, TERMS.strides[0])
            assert move.result(timeout=20.0) is not None
        finally:
            trainer.release.set()
    revealed.trainer.database.close()
    database.close()
