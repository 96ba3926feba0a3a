"""Challengers that check a part win disputes about it, and lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay_lab.faults import Fault
from referee_py.program.modes import EXACT, REPOPS_F32, Rounding
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from trainer_node.chain import Group, JobPhase, JobView
from trainer_node.local.bundle import Bundle
from trainer_node.roles.sampling.checks import Plan
from trainer_node.roles.sampling.draw import drawn, public_seed
from trainer_node.roles.sampling.runner import SampleRunner
from trainer_node.roles.sampling.sampler import Samples

from .arena import REWARD, STAKE, Arena, in_intervals
from .test_disputes import honest_root


@pytest.mark.usefixtures("parts_alone")
@pytest.mark.parametrize("verifiers", [2, pytest.param(0, marks=pytest.mark.slow)], ids=["verdict", "court"])
def test_a_sampler_refutes_the_only_claim(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, verifiers: int
) -> None:
    with Arena.sampled(anvil, tmp_path, bundle, verifiers=verifiers, threshold=min(1, verifiers)) as arena:
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.UNCLAIMED
        assert outcome.job.reopened > 0
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-0")})]
        assert outcome.profit["trainer-0"] == -STAKE
        assert outcome.profit["challenger"] == STAKE // 2 - (STAKE // 10 if verifiers else 0)


def test_a_sampler_that_finds_the_only_claim_wrong_claims_the_right_root_as_well(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """It has the prize of its refutation, and the reward, which pays for the replay of the whole run."""
    with Arena.sampled(anvil, tmp_path, bundle) as arena:
        outcome = arena.play()
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-0")})]
        assert outcome.profit["trainer-0"] == -STAKE
        assert outcome.profit["challenger"] == REWARD + STAKE // 2


def test_a_draw_from_the_chain_is_that_of_the_block_after_the_claim(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    with Arena(
        anvil, tmp_path, bundle, trainers=[Fault.WRONG_OP_OUTPUT], check="share", verifiers=0
    ) as arena:
        while not arena.client.snapshot().job(arena.job_id).claims:
            arena.turn()
        arena.skip(1)
        snapshot, samples = arena.client.snapshot(), Samples(arena.members[-1].node)
        job = snapshot.job(arena.job_id)
        (claimed,) = (e for e in snapshot.job_events(job.id) if e.name == "Claimed")
        after, group = arena.client.block(claimed.block + 1).hash, job.groups[0]
        plan, intervals = samples.plan(job, group), -(-bundle.terms.steps // bundle.terms.strides[0])
        assert plan is not None
        seed = public_seed(after, arena.address("challenger"), group.root)
        assert plan.intervals == drawn(seed, intervals, len(plan.intervals))


@pytest.mark.slow
def test_a_sampler_has_nothing_against_an_honest_run(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE], check="sample:0.5") as arena:
        outcome = arena.play()
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.matches == []
        assert outcome.profit["challenger"] == 0


@pytest.mark.slow
def test_a_sampler_that_restarts_in_its_match_plays_on(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    with Arena.sampled(anvil, tmp_path, bundle) as arena:
        while not (job := arena.client.snapshot().job(arena.job_id)).open_matches:
            arena.turn()
            assert not job.phase.ended
        arena.restart("challenger")
        outcome = arena.play()
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-0")})]
        assert outcome.profit["challenger"] == REWARD + STAKE // 2, "it claims the right root as well"


@pytest.mark.slow
def test_a_sampler_whom_nobody_serves_replays_the_whole_job(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claimant who serves nothing would never be found out by parts. The sampler claims the right root, and is not
    confused by a restart."""
    monkeypatch.setattr("trainer_node.compute.outcomes.RETRY_S", 0.001)
    with Arena.sampled(anvil, tmp_path, bundle, serve=False, check="sample:0.5") as arena:
        while not (job := arena.client.snapshot().job(arena.job_id)).open_matches:
            arena.turn()
            assert not job.phase.ended
        arena.restart("challenger")
        outcome = arena.play()
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-0")})]


# ------------------------------------------------------------------------------------------------ one of a hundred

INTERVALS, WRONG_STEP = 100, 147
MODES = {"f32": REPOPS_F32.byte, "exact": EXACT.byte, "rounded": Rounding(32).mode}


@pytest.mark.usefixtures("parts_alone")
@pytest.mark.parametrize("verifiers", [2, pytest.param(0, marks=pytest.mark.slow)], ids=["verdict", "court"])
@pytest.mark.parametrize(
    "mode", ["f32", *(pytest.param(m, marks=pytest.mark.slow) for m in ("exact", "rounded"))]
)
def test_one_of_a_hundred_intervals_is_enough(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, verifiers: int
) -> None:
    wrong = (WRONG_STEP + 1) // 2

    def plan(_: Samples, __: JobView, ___: Group) -> Plan:
        return Plan((wrong,))

    monkeypatch.setattr(Samples, "plan", plan)
    bundle = in_intervals(INTERVALS).with_mode(MODES[mode])
    with Arena.sampled(
        anvil,
        tmp_path,
        bundle,
        fault_step=WRONG_STEP,
        check="sample:0.01",
        verifiers=verifiers,
        threshold=min(1, verifiers),
    ) as arena:
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.UNCLAIMED
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-0")})]
        assert outcome.profit["challenger"] == STAKE // 2 - (STAKE // 10 if verifiers else 0)
        runner = next(member.runner for member in arena.members if member.name == "challenger")
        assert isinstance(runner, SampleRunner)
        cpu_s, fetched = runner.spent(arena.job_id)
        print(f"{mode}: {cpu_s:.3f} s of processors, {fetched:,} bytes, {outcome.moves} moves")
