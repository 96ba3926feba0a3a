"""Jobs in rounded-f64: other hardware agrees; a party that lies about values or logs loses."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog

from assay_lab.faults import EXPECTED, Fault
from referee_py.commit import Tag
from referee_py.execute import Run
from referee_py.program.modes import Bounds, Form, Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.log_source import MemoryLogs
from referee_py.rounding.step_log import NodeLog, StepLog
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from trainer_node.chain import JobPhase
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle
from trainer_node.rounded.evaluators import evaluator_of
from trainer_node.run.log_sources import OwnLogs
from trainer_node.storage.store import Store

from . import brink
from .arena import REWARD, STAKE, Arena, Outcome

ROUNDING = Rounding(32)
LIES = [
    fault if fault is Fault.FORGED_LOG else pytest.param(fault, marks=pytest.mark.slow) for fault in EXPECTED
]


@pytest.fixture(scope="session")
def rounded(bundle: Bundle) -> Bundle:
    return bundle.with_mode(ROUNDING.mode)


def logs_of(outcome: Outcome, bundle: Bundle, store: Store) -> MemoryLogs:
    """Return the logs that the trainer has committed to, from its own store."""
    terms, log_source = bundle.terms, MemoryLogs()
    roots = store.get_tree(Tag.LOG_RUN_TREE, outcome.job.logs, terms.steps).leaves
    for step, root in enumerate(roots, 1):
        log_source.put(step, store.get_log(root, terms.node_count))
    return log_source


def truth(outcome: Outcome, bundle: Bundle, store: Store) -> bytes:
    """Return the right run root, given the trainer's logs, computed here with a library that no party uses."""
    backend = Rounded(Rounding.of(bundle.terms.mode), logs_of(outcome, bundle, store), evaluator_of("numpy"))
    run = Run.of(bundle, backend)
    return run.commit_run().root


def expect_justice(arena: Arena, outcome: Outcome, bundle: Bundle) -> None:
    """Check that the truth is accepted, no honest party has lost, and the liar has lost its stake."""
    assert outcome.job.phase is JobPhase.ACCEPTED
    assert outcome.job.accepted_root == truth(outcome, bundle, arena.members[-2].node.store)
    for member in arena.members:
        if member.honest:
            assert outcome.profit[member.name] >= 0, f"{member.name} lost {outcome.profit[member.name]}"
        else:
            assert outcome.profit[member.name] == -STAKE, member.name


@pytest.mark.slow
@pytest.mark.parametrize(
    "rounding",
    [ROUNDING, Rounding(26, Bounds.PROBABLE, Form.DENSE)],
    ids=lambda rounding: f"{rounding.mode:#x}",
)
def test_other_hardware_agrees(anvil: Anvil, tmp_path: Path, bundle: Bundle, rounding: Rounding) -> None:
    job = bundle.with_mode(rounding.mode)
    with Arena(anvil, tmp_path, job, trainers=[Fault.NONE]) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, job)
        assert outcome.matches == []
        assert outcome.profit["trainer-0"] == REWARD
        log_source = logs_of(outcome, job, arena.members[-2].node.store)
        written = [log_source.get(step) for step in range(1, job.terms.steps + 1)]
        assert any(log is not None and log.nodes for log in written), "the logs are not all empty"


class Careful(Arena):
    """An arena whose trainer or challenger takes no jobs with probable bounds, which is a node's default."""

    careful = ""

    def _node(self, name: str, role: str, **settings: object) -> Daemon:
        return super()._node(name, role, **{**settings, "allow_probable_bounds": name != self.careful})


class CarefulTrainer(Careful):
    careful = "trainer-0"


class CarefulChallenger(Careful):
    careful = "challenger"


PROBABLE = Rounding(32, Bounds.PROBABLE)


def refusals(told: Sequence[MutableMapping[str, Any]]) -> list[str]:
    return [event["reason"] for event in told if event["event"] == "job.left_to_others"]


def test_a_trainer_leaves_jobs_with_probable_bounds_to_others(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    job = bundle.with_mode(PROBABLE.mode)
    with (
        CarefulTrainer(anvil, tmp_path, job, trainers=[Fault.NONE]) as arena,
        structlog.testing.capture_logs() as told,
    ):
        for _ in range(3):
            arena.members[-2].loop.tick()
        (reason,) = refusals(told)
        assert "allow_probable_bounds" in reason
        assert arena.client.snapshot().job(arena.job_id).trainers == ()


@pytest.mark.slow
def test_a_challenger_stakes_on_no_job_with_probable_bounds(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """Not even against a liar: its own result may be wrong by the definition."""
    job = bundle.with_mode(PROBABLE.mode)
    with (
        CarefulChallenger(anvil, tmp_path, job, trainers=[Fault.WRONG_OP_OUTPUT]) as arena,
        structlog.testing.capture_logs() as told,
    ):
        outcome = arena.play()
        assert (outcome.job.phase, outcome.matches) == (JobPhase.ACCEPTED, [])
        assert outcome.profit["challenger"] == 0
        (reason,) = refusals(told)
        assert "allow_probable_bounds" in reason


@pytest.mark.parametrize("fault", LIES)
def test_a_lying_trainer_loses(anvil: Anvil, tmp_path: Path, rounded: Bundle, fault: Fault) -> None:
    with Arena(anvil, tmp_path, rounded, trainers=[fault]) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, rounded)
        assert outcome.matches == [(EXPECTED[fault], {arena.address("trainer-0")})]
        assert outcome.profit["challenger"] >= REWARD


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        Fault.FORGED_LOG,
        Fault.WRONG_LOG,
        Fault.SKIP_STEPS,
    ],
)
def test_a_lying_challenger_loses(anvil: Anvil, tmp_path: Path, rounded: Bundle, fault: Fault) -> None:
    with Arena(anvil, tmp_path, rounded, trainers=[Fault.NONE], challenger=fault) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, rounded)
        assert outcome.matches == [(EXPECTED[fault], {arena.address("challenger")})]


@pytest.mark.slow
def test_the_court_goes_by_the_log_and_ignores_a_forged_entry(
    anvil: Anvil, tmp_path: Path, rounded: Bundle
) -> None:
    """The element's entry is shown on the chain, under the log that both sides agree on."""
    with Arena(anvil, tmp_path, rounded, trainers=[Fault.FORGED_LOG], verifiers=0) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, rounded)
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-0")})]


def flipped(log_source: MemoryLogs, step: int) -> StepLog:
    """Return the log of a step with one direction reversed: that of a sum on a midpoint, where both are admissible."""
    log = log_source.get(step)
    assert log is not None
    said = log.nodes[brink.Y].read()
    up = said.up.copy()
    up[np.flatnonzero(said.narrow == brink.at("tie"))] ^= True
    assert (up != said.up).sum() == 1, "a tie has an entry"
    return StepLog({**log.nodes, brink.Y: NodeLog.of(replace(said, up=up), ROUNDING.form)})


@pytest.mark.slow
def test_an_admissible_direction_is_no_fault(anvil: Anvil, tmp_path: Path) -> None:
    """The trainer follows an entry that its own library would not have written; everybody reaches the same values."""
    job, usual = brink.bundle(ROUNDING), MemoryLogs()
    terms, run = job.terms, run_of(job, usual, "torch")
    root = run.commit_run().root
    with Arena(anvil, tmp_path, job, trainers=[Fault.NONE]) as arena:
        node = arena.members[-2].node
        key = int.from_bytes(terms.hash(), "big")
        log_source = OwnLogs(node.database, key, node.store, terms.node_count, terms.steps)
        for step in range(1, 5):
            log = usual.get(step)
            assert log is not None
            log_source.put(step, log)
        log_source.put(5, flipped(usual, 5))
        log_source.keep()
        outcome = arena.play()
        expect_justice(arena, outcome, job)
        assert outcome.matches == []
        assert outcome.job.accepted_root != root, "one rounding in step 5 has changed what came of it"


def run_of(bundle: Bundle, log_source: MemoryLogs, evaluator: str) -> Run:
    terms = bundle.terms
    backend = Rounded(Rounding.of(terms.mode), log_source, evaluator_of(evaluator))
    return Run.of(bundle, backend)
