"""Attack: a trainer in rounded-f64 shows its logs on the chain alone, one of which no file can hold, or whose tree
has something beyond its last leaf. A follower that is restarted in its dispute never reads the chain for these logs
again: it cannot compute the disputed interval, or has no claim at all, and its clock runs out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from referee_py.availability import Place, Response
from referee_py.availability.solver import response_of
from referee_py.commit import NO_LOG, Tag, Tree
from referee_py.errors import Unavailable
from referee_py.rounding.blocks import LogTree
from referee_py.rounding.entries import Log
from trainer_node.chain import ClaimView, JobPhase, JobView
from trainer_node.chain.codec.availability import Ledger
from trainer_node.compute import outcomes, run_execution
from trainer_node.compute.job_runner import JobRunner
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.play.data_requests import DataRequester
from trainer_node.run.onchain_logs import Shown
from trainer_node.storage.database import Database

from .. import near
from ..desk import Sent, job, runner, until
from ..sent import CONTRACTS
from .test_onchain_logs import Tampered, Withholder
from .test_rounded import OWNER, Trainer

NODES = len(near.PROGRAM.nodes)
NOWHERE = "http://127.0.0.1:9"
LAST = near.STEPS - near.STRIDES[0]
JUNK = Log(1 << 50, np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0, np.int64), np.zeros(0))
"""A log of an output that is never rounded: it has no effect, and no file can hold it."""


@dataclass
class Liar(Withholder):
    """Has the logs of an honest run, and in the step ``junk`` one more, of a node that needs none."""

    honest: Any = None
    junk: int = 0

    def _of(self, step: int) -> dict[int, Log]:
        found = {node: log.read() for node, log in self.honest.get(step).nodes.items()}
        return found | ({0: JUNK} if step == self.junk else {})

    def run_log_tree(self) -> Tree:
        roots = [self.log_tree(step).root for step in range(1, near.STEPS + 1)]
        return self.tree_of(Tag.LOG_RUN_TREE, roots)

    def log_tree(self, step: int) -> Tree:
        logs = self._of(step)
        return Tree(Tag.LOG_TREE, [LogTree(logs[n]).digest if n in logs else NO_LOG for n in range(NODES)])

    def log(self, step: int, node: int) -> Log | None:
        return self._of(step).get(node)


@dataclass
class Case:
    """A follower's folder and database, a client that serves the package, and a trainer that serves nothing."""

    folder: Path
    database: Database
    view: JobView
    liar: Liar

    @contextmanager
    def opened(self) -> Iterator[tuple[JobRunner, DataRequester]]:
        with runner(self.folder, self.database, follows=True) as works:
            yield works, DataRequester(CONTRACTS, Sent(), works, 10**18, spare=lambda _: 10**20)  # type: ignore[arg-type]

    def round(self, works: JobRunner, requester: DataRequester, *, ours: bool) -> Any:
        """One round of the loop. The chain shows all logs."""
        claim = works.train(self.view, ours=ours)
        ledger = Ledger(answers=self.answers())
        snapshot: Any = SimpleNamespace(
            now=10, block=SimpleNamespace(number=5), ledger=lambda *_: ledger, head=lambda: 5
        )
        requester.due(snapshot, self.view)
        return claim

    def answers(self) -> dict[tuple[bytes, Place], Response]:
        found, root = dict[tuple[bytes, Place], Response](), self.view.logs
        while missing := list(Shown(near.TERMS, near.PROGRAM, root, found).missing()):
            for place in missing:
                found[root, place] = response_of(near.TERMS, place, self.liar)
        return found


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Case]:
    monkeypatch.setattr(outcomes, "RETRY_S", 0.01)
    monkeypatch.setattr(run_execution, "retry_s", lambda _: 0.0)  # what is absent twice is withheld
    trainer, database = Trainer(tmp_path / "trainer"), Database(tmp_path / "node.sqlite3")
    trainer.replay().train()
    liar = Liar({}, terms=near.TERMS, honest=trainer.log_source, **request.param)
    client = near.client(tmp_path / "client")
    with ExitStack() as stack:
        uri = stack.enter_context(ArtifactServer(client)).uri
        view = job(
            1,
            uri=uri,
            program=near.TERMS,
            program_file=near.PROGRAM.file_hash(),
            phase=JobPhase.CHALLENGE,
            challenge_period=3600,
            challenge_end=10**9,
            logs=liar.run_log_tree().root,
            claims=(ClaimView(0, OWNER, 1, 0, True, False, False, NOWHERE),),
        )
        yield Case(tmp_path / "node", database, view, liar)
    trainer.database.close()
    database.close()


def moves(works: JobRunner) -> bool:
    """Return whether the disputed interval, the last one, can be computed at a finer stride."""
    try:
        works.replay(1).run_tree(1, LAST, near.STEPS)
    except Unavailable:
        return False
    return True


CASES = {
    "plain": {},
    "a log that no file holds": {"junk": near.STEPS - 1},
    "a tree that no file holds": {"tree_of": Tampered},
}


@pytest.mark.parametrize("case", list(CASES.values()), indirect=True, ids=list(CASES))
def test_a_follower_of_shown_logs_plays_its_dispute_after_a_restart(case: Case) -> None:
    with case.opened() as (works, requester):
        claim = until(lambda: case.round(works, requester, ours=False))
        assert moves(works), "it could, before"
    with case.opened() as (works, requester):
        for _ in range(200):
            if case.round(works, requester, ours=True) is not None and moves(works):
                assert works.known(1) == claim
                return
            time.sleep(0.05)
        raise AssertionError("all logs are shown on the chain, and its clock runs out")
