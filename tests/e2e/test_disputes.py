"""Liars lose, honest parties keep everything. Each test is one job from posting to the last payment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import repops
from safetensors.numpy import load_file

from assay_lab.faults import EXPECTED, Fault, fits
from referee_py.errors import InvalidInput
from referee_py.execute import Run
from referee_py.program.modes import REPOPS_F32
from tests.conftest import Anvil
from trainer_node.chain import JobPhase
from trainer_node.client.result import fetch_result, save_result
from trainer_node.local.bundle import Bundle
from trainer_node.network.fetcher import Fetcher
from trainer_node.storage.store import Store

from .arena import REWARD, STAKE, Arena, Outcome

QUICK = (Fault.WRONG_OP_OUTPUT, Fault.WITHHOLD)
"""One that panel and court hear, and one that is walked on the chain because nothing is served."""
LIES = [
    pytest.param(fault, marks=[] if fault in QUICK else [pytest.mark.slow])
    for fault in EXPECTED
    if fits(fault, REPOPS_F32)
]


def honest_root(bundle: Bundle) -> bytes:
    """Compute the honest root here, apart from all parties."""
    run = Run.of(
        bundle,
        repops.backend("cpu"),
    )
    return run.commit_run().claim().root


def expect_justice(arena: Arena, outcome: Outcome, bundle: Bundle) -> None:
    """Check that the honest root is accepted, no honest party has lost, and every liar has lost its stake."""
    assert outcome.job.phase is JobPhase.ACCEPTED
    assert outcome.job.accepted_root == honest_root(bundle)
    for member in arena.members:
        if member.honest:
            assert outcome.profit[member.name] >= 0, f"{member.name} lost {outcome.profit[member.name]}"
        else:
            claim = outcome.job.claim_of(arena.address(member.name))
            assert claim is not None
            assert claim.lost
            # One liar may win a prize from another before it loses.
            assert outcome.profit[member.name] in (-STAKE, -STAKE // 2), member.name


@pytest.mark.slow
def test_without_a_lie_there_is_no_dispute(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, Fault.NONE]) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.matches == []
        assert outcome.profit["trainer-0"] == outcome.profit["trainer-1"] == REWARD // 2


@pytest.mark.parametrize("fault", LIES)
def test_a_lying_trainer_loses_to_an_honest_one(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, fault: Fault
) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, fault]) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.matches == [(EXPECTED[fault], {arena.address("trainer-1")})]
        assert outcome.moves <= 8 or fault is Fault.WITHHOLD


@pytest.mark.parametrize(
    "fault", [pytest.param(Fault.WRONG_OP_OUTPUT, marks=pytest.mark.slow), Fault.STALE_WEIGHTS]
)
def test_a_lone_liar_is_caught_by_the_challenger(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, fault: Fault
) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[fault]) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.matches == [(EXPECTED[fault], {arena.address("trainer-0")})]
        assert outcome.profit["challenger"] >= REWARD


@pytest.mark.parametrize(
    "fault", [Fault.POISON_DATA, pytest.param(Fault.WRONG_OP_OUTPUT, marks=pytest.mark.slow)]
)
def test_a_lying_challenger_loses_to_an_honest_trainer(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, fault: Fault
) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE], challenger=fault) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.matches == [(EXPECTED[fault], {arena.address("challenger")})]


@pytest.mark.slow
def test_two_different_liars_lose_to_one_honest_claim(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    trainers = [Fault.WRONG_INPUT, Fault.SKIP_STEPS, Fault.NONE]
    with Arena(anvil, tmp_path, bundle, trainers=trainers) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert len(outcome.matches) == 2


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.WRONG_INPUT, Fault.WRONG_STRUCTURE])
def test_withheld_trees_are_walked_on_chain(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, fault: Fault
) -> None:
    """Neither side serves anything: children and records are published as moves."""
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, fault], serve=False) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.matches == [(EXPECTED[fault], {arena.address("trainer-1")})]


def test_the_client_gets_what_was_accepted(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, Fault.STALE_WEIGHTS]) as arena:
        outcome = arena.play()
        terms = bundle.terms
        run = Run.of(
            bundle,
            repops.backend("cpu"),
        )
        trained = run.advance(run.initial(), terms.steps).arrays
        fetcher = Fetcher(Store(tmp_path / "result"))
        fetched = fetch_result(fetcher, outcome.job, bundle.program)
        save_result(fetched, bundle.labels["slots"], tmp_path / "state.safetensors", outcome.job)
        saved = load_file(tmp_path / "state.safetensors")
        assert set(saved) == set(bundle.labels["slots"])
        for name, array in zip(bundle.labels["slots"], trained, strict=True):
            assert saved[name].tobytes() == array.tobytes(), name
        forged = replace(outcome.job, accepted_last=b"\7" * 32)
        with pytest.raises(InvalidInput, match="names another last checkpoint than the accepted root has"):
            fetch_result(fetcher, forged, bundle.program)


def test_an_unfinished_job_has_no_result(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE]) as arena:
        job = arena.client.snapshot().job(arena.job_id)
        with pytest.raises(InvalidInput, match="it is training"):
            fetch_result(Fetcher(Store(tmp_path / "result")), job, bundle.program)
