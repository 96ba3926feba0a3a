"""Attack: a client posts a program again some hours after the first job is over. The run's last state is still here, as
a result, so the trainer takes the slot and commits at once, and is disputed at once: all other states are gone, and its
first move takes the whole run, though the clock was found to be long enough for an interval."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer_node.chain import JobPhase
from trainer_node.compute.mending import Mending
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.storage.database import Database

from .. import near
from ..desk import STRIDES, TERMS, job, runner, serving, until
from .test_logs_of_an_earlier_job import collected
from .test_one_program_in_two_jobs import counting


@pytest.mark.parametrize("hours_later", [False, True])
def test_a_run_is_not_staked_on_before_its_states_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours_later: bool
) -> None:
    """What makes the states good has just begun, and takes as long as the run; a move does not wait for it."""
    steps, last = list[int](), TERMS.steps - STRIDES[0]
    database, folder = Database(tmp_path / "node.sqlite3"), tmp_path / "node"
    with serving(tmp_path / "client") as uri, runner(folder, database, replay=counting(steps.append)) as node:
        first, second = job(1, uri=uri), job(2, uri=uri)
        until(lambda: node.train(first, ours=True))
        node.forget(1)
        if hours_later:
            collected(folder, database)
        monkeypatch.setattr(Mending, "_begin", lambda *_: None)
        assert until(lambda: node.prepare(second))
        if node.too_full(2) is not None:
            return  # no slot is taken
        assert node.ready_in_s(second) is not None
        until(lambda: node.train(second, ours=True))
        assert second.phase is JobPhase.TRAINING, "it commits to this, and reveals it"
        steps.clear()
        node.replay(2).run_tree(1, last, TERMS.steps)
        assert steps == list(range(last + 1, TERMS.steps + 1)), "an interval, and not the run"
    database.close()


def test_logs_that_are_gone_are_written_again_in_the_time_of_a_run(tmp_path: Path) -> None:
    """In rounded-f64 the logs have gone, too, and the claim waits for them: each lacking one was computed from the
    start of its interval, so that a slot for which nothing seemed left to do takes many times the run."""
    steps, folder = list[int](), tmp_path / "node"
    database, client = Database(tmp_path / "node.sqlite3"), near.client(tmp_path / "client")
    about = {"program": near.TERMS, "program_file": near.PROGRAM.file_hash()}
    with (
        ArtifactServer(client) as server,
        runner(folder, database, replay=counting(steps.append)) as node,
    ):
        first, second = (job(number, uri=server.uri, **about) for number in (1, 2))
        claim = until(lambda: node.train(first, ours=True))
        assert len(steps) == near.STEPS
        node.forget(1)
        collected(folder, database)
        assert until(lambda: node.prepare(second))
        steps.clear()
        assert until(lambda: node.train(second, ours=True)) == claim
        assert len(steps) <= near.STEPS, f"{len(steps)} steps, with intervals of {near.STRIDES[0]}"
    database.close()
