"""The chain takes blocks back: nodes read the new state, and go on from there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay_lab.faults import EXPECTED, Fault
from referee_py.game.state import Phase
from tests.conftest import Anvil
from trainer_node.chain import JobView
from trainer_node.local.bundle import Bundle

from .arena import Arena
from .test_disputes import expect_justice


def play_until(arena: Arena, reached: Callable[[JobView], bool]) -> None:
    """Tick every member until the job has reached that state."""
    for _ in range(2000):
        if reached(arena.client.snapshot().job(arena.job_id)):
            return
        before = arena.web3.eth.block_number
        for member in arena.members:
            member.loop.tick()
        if arena.web3.eth.block_number == before and not any(
            member.runner is not None and member.runner.busy for member in arena.members
        ):
            arena.skip(5)
    raise AssertionError("the job did not come so far")


def rpc(arena: Arena, method: str, *params: object) -> object:
    return arena.web3.provider.make_request(method, list(params))["result"]  # type: ignore[arg-type]


def test_claims_that_are_taken_back_are_made_again(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    """Everything since the posting is undone, nonces too, and nothing of it comes back by itself."""
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, Fault.STALE_WEIGHTS]) as arena:
        before = rpc(arena, "evm_snapshot")
        play_until(arena, lambda job: len(job.claims) == 2)
        assert rpc(arena, "evm_revert", before) is True
        assert not arena.client.snapshot().job(arena.job_id).trainers
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.matches == [(EXPECTED[Fault.STALE_WEIGHTS], {arena.address("trainer-1")})]


@pytest.mark.slow
def test_moves_that_are_taken_back_are_made_again(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    """The match is undone and opened again while the players are in the middle of it."""
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, Fault.WRONG_OP_OUTPUT]) as arena:
        play_until(arena, lambda job: job.commitments == 2)
        before = rpc(arena, "evm_snapshot")

        def panel_hears(job: JobView) -> bool:
            snapshot = arena.client.snapshot()
            return any(
                snapshot.match(job, match_id).state.phase is Phase.HEARING for match_id in job.match_ids()
            )

        play_until(arena, panel_hears)
        assert rpc(arena, "evm_revert", before) is True
        assert not arena.client.snapshot().job(arena.job_id).match_ids()
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.matches == [(EXPECTED[Fault.WRONG_OP_OUTPUT], {arena.address("trainer-1")})]
