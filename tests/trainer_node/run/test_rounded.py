"""Runs in rounded-f64: the trainer's log is an input, and its followers reach the trainer's claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog

from referee_py.errors import Unavailable, UnknownVersion
from referee_py.rounding.backend import Evaluator, OnForged, Rounded
from referee_py.rounding.step_log import StepLog
from trainer_node.chain import ClaimView, JobPhase, JobView
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.rounded.evaluators import evaluator_of
from trainer_node.run.log_sources import OwnLogs, RunLogs
from trainer_node.run.replay import Interrupted, Replay
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .. import near
from ..desk import Remembered, job, runner, until
from ..near import PROGRAM, STEPS, TERMS

OWNER = "0x" + "aa" * 20


class Trainer:
    """A trainer's folder and database; objects made from them again are the trainer after a restart."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder, sync=False)
        self.database = Database(None)
        self.checkpoints = Remembered()
        self.forged: list[tuple[int, int, int]] = []

    @property
    def log_source(self) -> OwnLogs:
        return OwnLogs(self.database, 1, self.store, len(PROGRAM.nodes), STEPS)

    def replay(self, evaluator: str = "numpy") -> Replay:
        return replay_of(self.log_source, self.store, self.checkpoints, evaluator_of(evaluator))


def replay_of(
    log_source: RunLogs,
    store: Store,
    checkpoints: Remembered,
    evaluator: Evaluator,
    on_forged: OnForged | None = None,
) -> Replay:
    backend = Rounded(near.ROUNDING, log_source, evaluator, on_forged)
    return Replay(near.package(), backend, store, checkpoints, log_source=log_source)


@pytest.fixture(autouse=True)
def _every_level() -> None:
    """NOTE: a node opened by another test may have switched warnings off."""
    structlog.reset_defaults()


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[Trainer]:
    found = Trainer(tmp_path / "trainer")
    yield found
    found.database.close()


def flipped(trainer: Trainer, step: int, element: int) -> None:
    """Let the trainer's log say that one tie of a step not executed yet was rounded the other way."""
    other = Trainer(trainer.store.root.parent / "other")
    other.replay().train()
    log = other.log_source.get(step)
    assert log is not None
    said = near.entries(log)
    up = said.up.copy()
    up[np.flatnonzero(said.narrow == element)] ^= True
    keep(trainer, step, near.with_entries(replace(said, up=up)))


def keep(trainer: Trainer, step: int, log: StepLog) -> None:
    log_source = trainer.log_source
    log_source.put(step, log)
    log_source.keep()


class TestTheTrainer:
    def test_every_tie_is_logged_and_the_claim_commits_to_the_logs(self, trainer: Trainer) -> None:
        claim = trainer.replay().train()
        logs = [trainer.log_source.get(step) for step in range(1, STEPS + 1)]
        assert all(log is not None and near.entries(log).narrow.size == near.WIDTH for log in logs)
        assert claim.logs == trainer.log_source.tree.root != bytes(32)

    def test_the_logs_are_offered(self, trainer: Trainer) -> None:
        claim = trainer.replay().train()
        tree = trainer.store.get_tree(trainer.log_source.tree.tag, claim.logs, STEPS)
        for step, root in enumerate(tree.leaves, 1):
            assert trainer.store.get_log(root, len(PROGRAM.nodes)) == trainer.log_source.get(step)

    @pytest.mark.parametrize("stop_after", range(1, STEPS))
    def test_stopped_after_any_step_it_goes_on_to_the_identical_claim(
        self, trainer: Trainer, stop_after: int
    ) -> None:
        """The steps after the last checkpoint are executed again, with another library; their logs bind it."""
        flipped(trainer, stop_after, 3)
        steps: list[int] = []
        with pytest.raises(Interrupted):
            trainer.replay().train(steps.append, lambda: steps[-1] == stop_after)
        first = {step: trainer.log_source.get(step) for step in steps}
        claim = trainer.replay("halves").train()
        assert {step: trainer.log_source.get(step) for step in steps} == first
        assert trainer.replay().train() == claim
        whole = Trainer(trainer.store.root.parent / "whole")
        flipped(whole, stop_after, 3)
        assert whole.replay().train() == claim, "as if it had never been stopped"

    def test_a_log_that_the_disk_has_lost_is_written_again(self, trainer: Trainer) -> None:
        claim = trainer.replay().train()
        trainer.store.forget(Name(Kind.LOG, trainer.log_source.tree.leaves[6], count=len(PROGRAM.nodes)))
        assert trainer.replay().train() == claim
        assert trainer.log_source.missing() == []


class TestWhoeverFollows:
    @pytest.mark.parametrize("evaluator", ["numpy", "torch", "halves"])
    def test_comes_to_the_claim_of_the_log(self, trainer: Trainer, tmp_path: Path, evaluator: str) -> None:
        """Either admissible direction is correct: the value follows from it."""
        plain = Trainer(tmp_path / "plain").replay().train()
        flipped(trainer, 5, 3)
        claim = trainer.replay().train()
        assert (claim.root, claim.logs) != (plain.root, plain.logs)
        own = replay_of(
            trainer.log_source, Store(tmp_path / "own"), Remembered(), evaluator_of(evaluator), self.none
        )
        assert own.train() == claim

    def test_ignores_a_forged_entry_and_says_where_it_is(self, trainer: Trainer, tmp_path: Path) -> None:
        honest = Trainer(tmp_path / "plain")
        plain = honest.replay().train()
        keep(trainer, 7, forged(honest, 7, 2))
        told: list[tuple[int, int, int]] = []
        checkpoints = Remembered()
        own = replay_of(
            trainer.log_source,
            Store(tmp_path / "own"),
            checkpoints,
            evaluator_of("numpy"),
            lambda *where: told.append(where),
        )
        claim = own.train()
        assert (claim.root, claim.logs != plain.logs) == (plain.root, True), "step 7 is not a checkpoint"
        assert own.step_tree(7).root != honest.replay().step_tree(7).root, "its records name the log"
        assert set(told) == {(7, near.TIES, 2)}
        assert checkpoints.found[-1].slots == honest.checkpoints.found[-1].slots, (
            "the values are the right ones"
        )

    def test_cannot_go_on_without_the_log(self, trainer: Trainer, tmp_path: Path) -> None:
        class WithheldLogs(OwnLogs):
            def get(self, step: int) -> StepLog | None:
                if step == 6:
                    raise Unavailable("nobody serves it")
                return super().get(step)

        trainer.replay().train()
        log_source = WithheldLogs(trainer.database, 1, trainer.store, len(PROGRAM.nodes), STEPS)
        steps: list[int] = []
        with pytest.raises(Unavailable):
            replay_of(log_source, Store(tmp_path / "own"), Remembered(), evaluator_of("numpy")).train(
                steps.append
            )
        assert steps == [1, 2, 3, 4, 5]

    @staticmethod
    def none(step: int, node: int, element: int) -> None:
        pytest.fail(f"step {step}, node {node}, element {element} is not forged")


def forged(honest: Trainer, step: int, element: int) -> StepLog:
    """Return the honest log of a step, except that it gives one element the value 3."""
    log = honest.log_source.get(step)
    assert log is not None
    said = near.entries(log)
    kept = said.narrow != element
    wide, values = np.array([element]), np.array([3.0])
    return near.with_entries(
        replace(said, narrow=said.narrow[kept], up=said.up[kept], wide=wide, values=values)
    )


# --- in a runner ------------------------------------------------------------------------------------------------


class Posted:
    """The client's server, the trainer's runner, and the chain's data about both."""

    def __init__(self, folder: Path, client: str, trainer: ArtifactServer) -> None:
        self.folder, self.client, self.server = folder, client, trainer

    def view(self, logs: bytes | None = None, uri: str | None = None) -> JobView:
        """Return the job before the reveal, or with a trainer's claim and its logs."""
        at: dict[str, Any] = {"program": TERMS, "program_file": PROGRAM.file_hash(), "uri": self.client}
        if logs is None:
            return job(**at)
        claim = ClaimView(0, OWNER, 1, 0, True, False, False, uri or self.server.uri)
        return job(**at, phase=JobPhase.CHALLENGE, logs=logs, claims=(claim,))


@pytest.fixture
def posted(tmp_path: Path) -> Iterator[Posted]:
    with (
        ArtifactServer(near.client(tmp_path / "client")) as client,
        ArtifactServer(Store(tmp_path / "node")) as server,
    ):
        yield Posted(tmp_path, client.uri, server)


@pytest.fixture
def other_database() -> Iterator[Database]:
    found = Database(None)
    yield found
    found.close()


def test_a_challenger_follows_the_logs_that_were_revealed(
    posted: Posted, tmp_path: Path, database: Database, other_database: Database
) -> None:
    with runner(tmp_path / "node", database) as works:
        claim = until(lambda: works.train(posted.view()))
    with runner(
        tmp_path / "other", other_database, follows=True, evaluator=lambda: evaluator_of("halves")
    ) as other:
        assert other.train(posted.view()) is None
        assert not other._works, "nothing can be computed before the reveal"
        assert until(lambda: other.train(posted.view(claim.logs))) == claim
        replay = other.replay(1)
        tree, run = replay.log_tree(7), replay.run_log_tree()
        assert tree is not None
        assert run is not None
        assert (tree.root, run.root) == (run.leaves[6], claim.logs)


def test_another_log_is_another_run(
    posted: Posted, tmp_path: Path, database: Database, other_database: Database
) -> None:
    """SAFETY: in any reorganisation, no checkpoint of one run may get into the run of another log."""
    with runner(tmp_path / "node", database) as works:
        claim = until(lambda: works.train(posted.view()))
    liar = Trainer(tmp_path / "liar")
    flipped(liar, 5, 3)
    other = liar.replay().train()
    with (
        ArtifactServer(liar.store) as server,
        runner(tmp_path / "other", other_database, follows=True) as works,
    ):
        for claimed, uri in ((claim, None), (other, server.uri), (claim, None)):
            assert until(partial(lambda c, u: works.train(posted.view(c.logs, u)), claimed, uri)) == claimed


def test_whoever_has_claimed_since_may_serve_the_logs(
    posted: Posted,
    tmp_path: Path,
    database: Database,
    other_database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainer_node.compute.outcomes.RETRY_S", 0.01)
    with runner(tmp_path / "elsewhere", database) as works:
        claim = until(lambda: works.train(posted.view()))
    alone = posted.view(claim.logs, "http://127.0.0.1:9")
    with (
        ArtifactServer(Store(tmp_path / "elsewhere", sync=False)) as server,
        runner(tmp_path / "other", other_database, follows=True) as works,
        structlog.testing.capture_logs() as told,
    ):
        until(lambda: works.train(alone) or any(event["event"] == "job.unavailable" for event in told))
        another = ClaimView(1, "0x" + "bb" * 20, 1, 1, False, False, False, server.uri)
        joined = replace(alone, claims=(*alone.claims, another))
        assert until(lambda: works.train(joined)) == claim


def test_logs_that_nobody_serves_are_asked_for_again(
    posted: Posted,
    tmp_path: Path,
    database: Database,
    other_database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainer_node.compute.outcomes.RETRY_S", 0.01)
    with runner(tmp_path / "elsewhere", database) as works:
        claim = until(lambda: works.train(posted.view()))
    with (
        runner(tmp_path / "other", other_database, follows=True) as works,
        structlog.testing.capture_logs() as told,
    ):
        revealed = posted.view(claim.logs)
        until(lambda: works.train(revealed) or any(event["event"] == "job.unavailable" for event in told))
        assert works.refused(1) is None
        for kind in ("log", "tree"):
            (tmp_path / "elsewhere" / kind).rename(tmp_path / "node" / kind)
        assert until(lambda: works.train(revealed)) == claim


def test_without_what_evaluates_the_job_is_left_to_others(
    posted: Posted, tmp_path: Path, database: Database
) -> None:
    def none() -> Evaluator:
        raise UnknownVersion("rounded-f64 needs torch")

    with runner(tmp_path / "node", database, evaluator=none) as works:
        until(lambda: works.train(posted.view()) or works.refused(1))
        assert "needs torch" in (works.refused(1) or "")


def test_a_forged_entry_is_named_in_the_log_of_events(
    posted: Posted, tmp_path: Path, other_database: Database
) -> None:
    honest, liar = Trainer(tmp_path / "honest"), Trainer(tmp_path / "node")
    honest.replay().train()
    keep(liar, 7, forged(honest, 7, 2))
    claim = liar.replay().train()
    with (
        runner(tmp_path / "other", other_database, follows=True) as works,
        structlog.testing.capture_logs() as told,
    ):
        assert until(lambda: works.train(posted.view(claim.logs))) == claim, "he has not gone by it himself"
    places = [(e["step"], e["node"], e["element"]) for e in told if e["event"] == "log.forged"]
    assert places == [(7, near.TIES, 2)]


def test_a_flood_of_forged_entries_is_told_of_in_few_words(
    posted: Posted, tmp_path: Path, other_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_node.compute.run_execution.MAX_LOGGED", 3)
    honest, liar = Trainer(tmp_path / "honest"), Trainer(tmp_path / "node")
    honest.replay().train()
    for step in range(1, STEPS + 1):
        keep(liar, step, forged(honest, step, 2))
    claim = liar.replay().train()
    with (
        runner(tmp_path / "other", other_database, follows=True) as works,
        structlog.testing.capture_logs() as told,
    ):
        assert until(lambda: works.train(posted.view(claim.logs))) == claim
    steps = [(event["step"], event["last"]) for event in told if event["event"] == "log.forged"]
    assert steps == [(1, False), (2, False), (3, True)]
