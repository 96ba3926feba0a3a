"""A trainer whose settings name a calibration: its dense logs are small, and followers reach its claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from referee_py.errors import InvalidEncoding
from referee_py.execute import Interpreter, Run, RunClaim
from referee_py.rounding import Form, Rounding
from trainer_node.chain import ClaimView, JobPhase, JobView
from trainer_node.daemon.open_runner import open_runner
from trainer_node.daemon.service import open_keeper
from trainer_node.local.bundle import Bundle
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.network.fetcher import Fetcher
from trainer_node.observe.metrics import Metrics
from trainer_node.observe.problems import Problems
from trainer_node.observe.run_reports import Board
from trainer_node.rounded.divergence import Compared
from trainer_node.rounded.evaluators import evaluator_of
from trainer_node.settings.settings import load_settings
from trainer_node.storage.database import Database
from trainer_node.storage.disk import Ballast
from trainer_node.storage.store import Store

from ..desk import job, until

pytest.importorskip("torch", reason="capture needs the extra [capture]")
STEPS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a job with dense logs, and a calibration beside it."""
    from assay_capture.capture import build, load_recipe

    folder = tmp_path_factory.mktemp("job")
    bundle = build(load_recipe("digits-mlp", steps=STEPS)).with_mode(Rounding(form=Form.DENSE).mode)
    bundle.write(folder)
    compared = Compared(32, [evaluator_of(name) for name in ("torch", "halves", "numpy")])
    run = Run.of(bundle, compared, executor=Interpreter(bundle.program, bundle.constants, compared))
    run.advance(run.initial(), 2)
    compared.calibration(bundle.terms.hash(), 2).write(folder / "calibration.json")
    return folder


class Desk:
    """Nodes that work on the job, each in its own folder."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.bundle, self._folder, self._home = Bundle.read(folder), folder, home

    def store(self, name: str) -> Store:
        return Store(self._home / name, sync=False)

    def train(self, name: str, shown: JobView, *, follows: bool = False, **settings: Any) -> RunClaim:
        database = Database(None)
        store, metrics, set_up = self.store(name), Metrics(), load_settings(**settings)
        problems = Problems(metrics)
        node: Any = SimpleNamespace(
            board=Board(),
            settings=set_up,
            fetcher=Fetcher(store, timeout_s=60.0, attempts=1),
            database=database,
            metrics=metrics,
            problems=problems,
            keeper=open_keeper(set_up, store, database, metrics, problems, Ballast(store.root)),
        )
        with open_runner(node, follows=follows) as works:
            claim: RunClaim = until(lambda: works.train(shown), 120)
        database.close()
        return claim

    def shown(self, client: str) -> JobView:
        terms, program = self.bundle.terms, self.bundle.program
        return job(program=terms, program_file=program.file_hash(), uri=client)

    def logged(self, name: str, claim: RunClaim) -> int:
        """Return the compressed bytes of the logs that a trainer's claim commits to."""
        from referee_py.commit import Tag

        store, nodes = self.store(name), self.bundle.terms.node_count
        tree = store.get_tree(Tag.LOG_RUN_TREE, claim.logs, STEPS)
        return sum(len(store.get_log(root, nodes).encode()) for root in tree.leaves)


@pytest.fixture
def desk(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(folder, tmp_path)


@pytest.fixture
def client(folder: Path) -> Iterator[str]:
    with ArtifactServer(Store(folder / "artifacts")) as server:
        yield server.uri


def test_small_logs_that_others_follow(desk: Desk, folder: Path, client: str) -> None:
    shown = desk.shown(client)
    fixed = desk.train("fixed", shown)
    claim = desk.train("calibrated", shown, calibration=folder / "calibration.json")
    assert desk.logged("calibrated", claim) < desk.logged("fixed", fixed) / 4
    with ArtifactServer(desk.store("calibrated")) as server:
        there = ClaimView(0, "0x" + "aa" * 20, 1, 0, True, False, False, server.uri)
        revealed = job(
            program=shown.program,
            program_file=shown.program_file,
            uri=client,
            phase=JobPhase.CHALLENGE,
            logs=claim.logs,
            claims=(there,),
        )
        assert desk.train("challenger", revealed, follows=True, evaluator="halves") == claim


def test_a_trainer_does_not_start_with_a_file_that_is_none(desk: Desk, client: str, tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    file.write_text('{"format": 1}')
    with pytest.raises(InvalidEncoding, match="is not a calibration"):
        desk.train("trainer", desk.shown(client), calibration=file)
