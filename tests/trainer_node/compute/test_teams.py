"""Runs of a daemon with workers: all that one process gives, also when workers die, and nobody is left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from referee_py.execute import Run, RunClaim, State
from referee_py.pauses import between_operators
from trainer_node.chain import JobView
from trainer_node.compute import run_execution
from trainer_node.errors import WorkerLost
from trainer_node.local.bundle import Bundle
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.observe.run_reports import Board, told_outputs
from trainer_node.rounded.evaluators import evaluator_of
from trainer_node.run.checkpoints import Checkpoint, StoredCheckpoints
from trainer_node.run.cost_estimate import CostEstimate
from trainer_node.run.modes import backend_here
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store
from trainer_node.workers.team import Team, TeamRule

from ..desk import PROGRAM, runner, until
from ..desk import job as job_view
from ..slow import Hand
from ..workers.jobs import job
from ..workers.processes import workers_of

RULE = TeamRule(2, 1, "cpu", "torch", None, timeout_s=120.0, checks=1)
STEPS = 12


class Outcome(NamedTuple):
    claim: RunClaim
    checkpoints: list[tuple[Checkpoint, tuple[bytes, ...]]]
    numbers: list[list[float]]


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    yield
    assert not workers_of()


@pytest.fixture(autouse=True)
def tells_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_execution, "reports", lambda *_: True)


def bundle_of(mode: str, steps: int = STEPS) -> Bundle:
    small = job("mlp", mode)
    return replace(small, terms=type(small.terms).of(small.program, steps, (3, 1), small.terms.mode))


def trained(
    folder: Path,
    bundle: Bundle,
    rule: TeamRule | None,
    while_it_runs: Callable[[Board], None] = lambda _: None,
    **options: Any,
) -> Outcome:
    """Return what a node gives for a job that a client serves."""
    client, database, board = Store(folder / "client"), Database(folder / "node.sqlite3"), Board()
    file_hash = bundle.put(client)
    options |= {"team": rule, "board": board, "evaluator": partial(evaluator_of, "torch")}
    with ArtifactServer(client) as server, runner(folder / "node", database, **options) as node:
        view: JobView = job_view(uri=server.uri, program=bundle.terms, program_file=file_hash)
        until(lambda: node.prepare(view))
        node.train(view, ours=True)
        while_it_runs(board)
        claim = until(lambda: node.train(view, ours=True))
        kept = StoredCheckpoints(database, node._key(view))
        found = [(known, kept.slots(known.step)) for known in kept.all()]
        report = board.get(1)
        assert report is not None
        return Outcome(claim, found, [point.numbers for point in report.history])


@pytest.mark.parametrize("mode", ["repops-f32", "rounded-f64"])
def test_a_node_with_workers_gives_what_one_process_gives(tmp_path: Path, mode: str) -> None:
    bundle = bundle_of(mode)
    with capture_logs() as said:
        found = trained(tmp_path / "two", bundle, RULE)
    assert [entry["workers"] for entry in said if entry["event"] == "workers.start"] == [2]
    assert not [entry for entry in said if entry["event"] == "worker.lost"]
    assert found == trained(tmp_path / "one", bundle, None)
    assert len(found.numbers) == STEPS


def test_a_run_whose_worker_dies_goes_on(tmp_path: Path) -> None:
    bundle = bundle_of("repops-f32", 400)

    def kill(board: Board) -> None:
        until(lambda: (report := board.get(1)) is not None and report.step > 10)
        os.kill(workers_of()[1], signal.SIGKILL)

    with capture_logs() as said:
        found = trained(tmp_path / "two", bundle, RULE, kill)
    (lost,) = [entry for entry in said if entry["event"] == "worker.lost"]
    assert lost["worker"] == 1
    assert "SIGKILL" in lost["reason"]
    run = Run.of(bundle, backend_here(bundle.terms.mode, "cpu", "torch"))
    assert found.claim == run.commit_run().claim()


def test_a_run_whose_workers_do_not_start_needs_none(tmp_path: Path) -> None:
    bundle = bundle_of("repops-f32")
    with capture_logs() as said:
        found = trained(tmp_path / "two", bundle, replace(RULE, threads=0))
    (lost,) = [entry for entry in said if entry["event"] == "worker.lost"]
    assert "has ended with exit code 2" in lost["reason"]
    assert found == trained(tmp_path / "one", bundle, None)


def test_no_program_has_more_workers_than_parts() -> None:
    assert RULE.size(PROGRAM) == 1
    assert RULE.size(job("mlp").program) == 2
    assert replace(RULE, workers=64).size(job("mlp").program) == 4


def test_losses_count_in_what_a_run_may_take() -> None:
    """A twentieth of the time, and once a worker that hangs, one that does not come, and an interval again."""
    estimate, terms = CostEstimate(2.0, 5.0, NO_TRIAL), bundle_of("repops-f32").terms
    assert RULE.with_losses(950.0, terms, estimate) == pytest.approx(1000.0 + 2 * 120.0 + 3 * 2.0)
    slow = replace(estimate, commit_s=400.0)
    assert RULE.with_losses(950.0, terms, slow) == pytest.approx(1000.0 + 800.0 + 300.0 + 3 * 2.0)
    assert not RULE.with_losses(0.0, terms, estimate), "a run that is done is only restored"


def team_of(bundle: Bundle, folder: Path, **options: Any) -> Team:
    store = Store(folder)
    return Team(
        bundle,
        told_outputs(bundle.program),
        RULE,
        RULE.command(store.root, bundle.put(store), bundle.terms),
        partial(backend_here, bundle.terms.mode, "cpu", "torch"),
        None,
        **options,
    )


def test_after_a_loss_it_goes_on_alone_for_long(tmp_path: Path) -> None:
    """A loss of ten seconds is a twentieth of the time after 190 more."""
    bundle, clock, beside, unmeasured = bundle_of("repops-f32"), Hand(), list[float](), list[float]()
    team = team_of(
        bundle,
        tmp_path / "node",
        beside=beside.append,
        unmeasured=lambda: unmeasured.append(clock()),
        clock=clock,
    )
    run = Run.of(bundle, backend_here(bundle.terms.mode, "cpu", "torch"), executor=team)
    kept = list[State]()

    def lose() -> None:
        kept.append(run.commit_step(run.initial())[0].copy())
        clock.on(10.0)
        os.kill(workers_of()[1], signal.SIGKILL)
        run.advance(kept[0], 2)

    with pytest.raises(WorkerLost, match="SIGKILL"), team.working():
        lose()
    assert not workers_of()
    with team.working():
        clock.on(189.0)
        state = run.advance(kept[0], 2)
        assert not workers_of()
        clock.on(1.0)
        state = run.advance(state, 3)
        assert list(workers_of()) == [1]
        trace = run.commit_step(state)[1]
    assert len(beside) == 3, "steps with workers that were done"
    assert min(beside) > 0
    assert unmeasured == [0.0, 10.0, 200.0], "starts, and the loss"
    right = Run.of(bundle, backend_here(bundle.terms.mode, "cpu", "torch"))
    assert trace.root == right.commit_step(right.advance(right.initial(), 3))[1].root
    assert run.commit_step(state.copy())[1].root == trace.root, "alone, outside"


def test_a_step_that_is_ended_in_its_midst_ends_the_workers(tmp_path: Path) -> None:
    def stop() -> None:
        raise KeyError("somebody else is due")

    bundle = bundle_of("repops-f32")
    team = team_of(bundle, tmp_path / "node", beside=lambda _: None, unmeasured=lambda: None)
    run = Run.of(bundle, backend_here(bundle.terms.mode, "cpu", "torch"), executor=team)
    for commit in (True, False):
        with pytest.raises(KeyError), between_operators(stop), team.working():
            team.step(run.initial(), commit)
        assert not workers_of()
    with team.working():
        assert run.commit_step(run.initial())[1].records
