"""The computing part of a node: unsound jobs are refused for good, all else is retried, no job harms another."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import repops
from repops.sums import SumMode

from referee_py.program.terms import Terms
from trainer_node.chain import JobPhase
from trainer_node.compute import packages, run_execution
from trainer_node.compute.processors import Share
from trainer_node.compute.run_execution import reports
from trainer_node.limits.waits import again_s
from trainer_node.run.cost_estimate import measure
from trainer_node.stake.deadlines import too_slow
from trainer_node.storage.database import Database

from ..desk import PROGRAM, TERMS, honest_run, job, rules, runner, serving, until
from ..held import Held
from ..slow import Hand

pytestmark = pytest.mark.usefixtures("impatient")

CLAIM = honest_run().commit_run().claim()


class Broken:
    """A backend that fails in an unforeseen way until it is repaired."""

    name, sums = "broken", SumMode.REPOPS_F32

    def __init__(self) -> None:
        self.repaired = False
        self.calls = 0

    def execute(self, *operator: Any) -> Any:
        self.calls += 1
        if not self.repaired:
            raise OSError("no space left on device")
        return repops.backend("cpu").execute(*operator)


def test_a_job_is_prepared_trained_and_forgotten(tmp_path: Path, database: Database) -> None:
    with serving(tmp_path / "client") as uri, runner(tmp_path / "node", database) as works:
        estimate = until(lambda: works.prepare(job(uri=uri)))
        assert estimate.train_s(TERMS) > 0
        assert until(lambda: works.train(job(uri=uri))) == CLAIM
        assert works.replay(1).step_tree(12).root == CLAIM.last
        works.forget(1)
        with pytest.raises(KeyError):
            works.replay(1)


@pytest.mark.parametrize(
    ("changes", "limits", "words"),
    [
        ({"program": replace(TERMS, opset=2)}, {}, "operator set 2"),
        ({"program": replace(TERMS, structure_root=bytes(32))}, {}, "structure_root"),
        ({"program": replace(TERMS, steps=1 << 62)}, {}, "leaves"),
        ({}, {"max_memory": 100}, "memory_bytes"),
    ],
)
def test_an_unsound_job_is_refused_for_good(
    tmp_path: Path, database: Database, changes: dict[str, Any], limits: dict[str, Any], words: str
) -> None:
    with serving(tmp_path / "client") as uri, runner(tmp_path / "node", database, **limits) as works:
        bad = job(uri=uri, **changes)
        until(lambda: works.prepare(bad) or works.refused(1))
        assert words in (works.refused(1) or "")
        assert works.train(bad) is None
        assert not works.busy, "nothing is tried again"
        # The next job is not affected.
        if not limits:
            assert until(lambda: works.train(job(2, uri=uri))) == CLAIM


def test_a_job_that_nobody_serves_is_tried_again(tmp_path: Path, database: Database) -> None:
    with runner(tmp_path / "node", database) as works:
        nowhere = job(uri="http://127.0.0.1:9")
        assert works.prepare(nowhere) is None
        until(lambda: not works.busy)
        works.prepare(nowhere)
        assert works.refused(1) is None
        with serving(tmp_path / "client"):
            # The package now comes from elsewhere: by hand, say.
            for kind in ("tensor", "blob"):
                (tmp_path / "client" / kind).rename(tmp_path / "node" / kind)
            assert until(lambda: works.train(nowhere)) == CLAIM


def test_a_truncated_program_file_is_not_the_jobs_fault(tmp_path: Path, database: Database) -> None:
    with serving(tmp_path / "client") as uri, runner(tmp_path / "node", database) as works:
        path = next((tmp_path / "client" / "blob").rglob(PROGRAM.file_hash().hex()))
        whole = path.read_bytes()
        path.write_bytes(whole[:100])
        works.prepare(job(uri=uri))
        until(lambda: not works.busy)
        assert works.prepare(job(uri=uri)) is None
        assert works.refused(1) is None
        path.write_bytes(whole)
        assert until(lambda: works.prepare(job(uri=uri)))


def test_an_unforeseen_error_is_contained_and_tried_again(tmp_path: Path, database: Database) -> None:
    backend = Broken()
    with (
        serving(tmp_path / "client") as uri,
        runner(tmp_path / "node", database, backend=backend) as works,
    ):
        until(lambda: works.train(job(uri=uri)) or backend.calls > 1)
        assert works.refused(1) is None
        backend.repaired = True
        assert until(lambda: works.train(job(uri=uri))) == CLAIM


def test_a_run_goes_on_after_a_restart(tmp_path: Path, database: Database) -> None:
    with serving(tmp_path / "client") as uri, runner(tmp_path / "node", database) as works:
        assert until(lambda: works.train(job(uri=uri))) == CLAIM
        # Nobody serves anything from here on.
    with runner(tmp_path / "node", database) as works:
        assert until(lambda: works.train(job(uri="http://127.0.0.1:9"))) == CLAIM


def test_a_finished_run_comes_back_while_another_job_is_at_work(tmp_path: Path, database: Database) -> None:
    """It may be in a dispute, and its clock does not wait for another client's job."""
    longer = Terms.of(PROGRAM, 11, (4, 2, 1))
    with serving(tmp_path / "client") as uri:
        with runner(tmp_path / "node", database) as works:
            assert until(lambda: works.train(job(uri=uri))) == CLAIM
        with runner(tmp_path / "node", database) as works:
            stranger, ours = job(2, uri=uri, program=longer), job(uri=uri)
            until(lambda: works.prepare(stranger))
            release = threading.Event()
            works._runs.submit(Share(), lambda _: release.wait(20))
            try:
                assert works.train(stranger) is None
                assert until(lambda: works.train(ours)) == CLAIM
                assert works.train(stranger) is None
            finally:
                release.set()
            assert until(lambda: works.train(stranger)) != CLAIM


def test_after_a_reorganisation_a_number_may_be_another_job(tmp_path: Path, database: Database) -> None:
    """SAFETY: nothing of the old program, checkpoints least of all, may get into the new job's claim."""
    with serving(tmp_path / "client") as uri, runner(tmp_path / "node", database) as works:
        old, new = job(uri=uri), job(uri=uri, program=Terms.of(PROGRAM, 9, (3, 1)))
        assert until(lambda: works.train(old)) == CLAIM
        claim = until(lambda: works.train(new))
        run = honest_run()
        interval = run.commit_interval(run.initial(), 9, 3)
        assert claim == interval.claim()
        assert claim != CLAIM
        assert until(lambda: works.train(old)) == CLAIM


def test_what_is_still_to_be_done_is_reckoned(tmp_path: Path, database: Database) -> None:
    with serving(tmp_path / "client") as uri, runner(tmp_path / "node", database) as works:
        assert works.ready_in_s(job(uri=uri)) is None
        alone = until(lambda: works.ready_in_s(job(uri=uri)))
        until(lambda: works.prepare(job(2, uri=uri)))
        release = threading.Event()
        works._runs.submit(Share(), lambda _: release.wait(20))
        try:
            works.train(job(2, uri=uri))
            assert works.ready_in_s(job(uri=uri)) > alone
            assert works.works_at(2)
            assert not works.works_at(1), "it is prepared, and nothing is done for it"
        finally:
            release.set()
        until(lambda: works.train(job(2, uri=uri)))
        assert works.ready_in_s(job(uri=uri)) == 0, "the same program is done already"
        other = works._works[2]
        other.claim = Future()  # as if another run were at work
        try:
            assert works.ready_in_s(job(uri=uri)) == 0, (
                "what is done comes back at once, whatever else is at work"
            )
        finally:
            other.claim.cancel()


def test_a_job_that_seemed_too_slow_is_measured_again(tmp_path: Path, database: Database) -> None:
    """The machine was busy when the job was measured; later it is not, and there is time to check the claim."""

    class Busy(Held):
        def execute(self, *operator: Any) -> Any:
            if not self.go.is_set():
                time.sleep(0.03)
            return repops.backend("cpu").execute(*operator)

    backend, clock = Busy(), Hand()
    claimed: dict[str, Any] = {"phase": JobPhase.CHALLENGE, "rules": rules(clock=8)}
    with (
        serving(tmp_path / "client") as uri,
        runner(tmp_path / "node", database, backend=backend, clock=clock) as works,
    ):
        of = job(uri=uri, **claimed)
        first = until(lambda: works.prepare(of))
        assert too_slow(of, first) is not None
        backend.go.set()
        assert works.prepare(of) == first, "not at once"
        clock.on(again_s(of, 0))
        lower = until(lambda: (found := works.prepare(of)) != first and found)
        assert too_slow(of, lower) is None
        for times in range(1, 9):
            clock.on(again_s(of, times))
            until(lambda: works.prepare(of) and works._works[1].again is None)
        assert works._works[1].measured == packages.MEASURED, "a few times"


def test_a_first_step_that_took_too_long_is_looked_at_again(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Hand()
    with serving(tmp_path / "client") as uri, runner(tmp_path / "node", database, clock=clock) as works:
        monkeypatch.setattr(packages, "DRY_RUNS_S", (-1.0, -1.0, -1.0))
        until(lambda: works.prepare(job(uri=uri)) or works.refused(1))
        assert "leave the job to faster machines" in (works.refused(1) or "")
        monkeypatch.setattr(packages, "DRY_RUNS_S", (60.0, 60.0, 60.0))
        assert works.prepare(job(uri=uri)) is None, "not at once"
        clock.on(again_s(job(), 0))
        assert until(lambda: works.prepare(job(uri=uri)))
        assert works.refused(1) is None


def test_quick_first_steps_are_measured_before_long_ones(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs whose first steps take long, one after the other, keep a quick one waiting for their first turns only."""
    limits = list[float]()

    def noted(*given: Any, limit_s: float, **options: Any) -> Any:
        limits.append(limit_s)
        return measure(*given, limit_s=limit_s, **options)

    monkeypatch.setattr(run_execution, "measure", noted)
    monkeypatch.setattr(packages, "DRY_RUNS_S", (-1.0, -2.0, 60.0))
    with serving(tmp_path / "client") as uri, runner(tmp_path / "node", database) as works:
        assert until(lambda: works.prepare(job(uri=uri)))
    assert limits == [-1.0, -2.0, 60.0]


def test_closing_does_not_wait_for_a_strangers_package(tmp_path: Path, database: Database) -> None:
    backend = Held()
    with serving(tmp_path / "client") as uri:
        with runner(tmp_path / "node", database, backend=backend) as works:
            works.prepare(job(uri=uri))
            until(lambda: backend.calls)
        assert backend.waited == 0, "its first operator is not done"
        backend.go.set()


def test_a_week_of_training_is_told_in_some_thousand_lines() -> None:
    """And the first seconds at once."""
    told, lines = 0.0, list[float]()
    for tick in range(7 * 24 * 3600):
        if reports(0.0, told, float(tick)):
            told = float(tick)
            lines.append(told)
    assert lines[:3] == [1.0, 2.0, 3.0]
    assert 500 < len(lines) < 2_000
