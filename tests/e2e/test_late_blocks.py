"""Nodes that follow blocks with three on top, as on a chain that may replace the last ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from eth_utils.crypto import keccak
from web3.contract import Contract

from assay_lab.faults import Fault
from referee_py.watch import WatcherState
from tests.conftest import Anvil
from trainer_node.chain import JobPhase, Snapshot
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle

from .arena import REWARD, STAKE, transactions
from .test_disputes import expect_justice
from .test_watching import BOUNTY, SHARES, WatchedArena

CONFIRMATIONS = 3


class LateArena(WatchedArena):
    """Waiting for time to pass also waits for blocks."""

    def _node(self, name: str, role: str, **settings: object) -> Daemon:
        return super()._node(name, role, **{**settings, "confirmations": CONFIRMATIONS})

    def skip(self, seconds: int) -> None:
        super().skip(seconds)
        for _ in range(CONFIRMATIONS):
            self.web3.provider.make_request("evm_mine", [])  # type: ignore[arg-type]

    def _over(self, snapshot: Snapshot) -> bool:
        """NOTE: the members see the end late, and collect after it."""
        job = snapshot.job(self.job_id)
        watcher = snapshot.watcher(job, self.address("challenger"))
        held = [claim for claim in job.claims if not claim.lost and not claim.collected]
        return super()._over(snapshot) and not held and watcher.state is WatcherState.COLLECTED

    def sent(self, name: str, contract: Contract, function: str) -> int:
        """Return the number of transactions of a member that have called a function."""
        selector = keccak(text=contract.get_function_by_name(function).signature)[:4]
        return sum(
            (call["from"], call["to"], bytes(call["input"])[:4])
            == (self.address(name), contract.address, selector)
            for number in range(self._posted_block, self.web3.eth.block_number + 1)
            for call in transactions(self.web3, number)
        )


@pytest.mark.parametrize("fault", [Fault.NONE, pytest.param(Fault.WRONG_OP_OUTPUT, marks=pytest.mark.slow)])
def test_whoever_reads_late_does_nothing_twice_and_is_paid(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, fault: Fault
) -> None:
    """No commitment is renewed, and the funds kept for a job stay kept while blocks do not show our stake."""
    with LateArena(anvil, tmp_path, bundle, trainers=[fault]) as arena:
        kept: list[int] = []
        training = arena.members[-2].node
        tick = arena.members[-2].loop.tick

        def seen() -> None:
            tick()
            kept.append(training.reserve.kept(arena.job_id))

        arena.members[-2].loop.tick = seen  # type: ignore[method-assign]
        outcome = arena.play()
        jobs = arena.client.contracts.jobs
        assert outcome.job.phase is JobPhase.ACCEPTED
        assert arena.sent("trainer-0", jobs, "join") == arena.sent("trainer-0", jobs, "reveal") == 1
        assert arena.sent("challenger", jobs, "commitChallenge") == (fault is not Fault.NONE)
        from_join_on = kept[next(i for i, wei in enumerate(kept) if wei) :]
        while_it_ran = from_join_on[: len(from_join_on) // 2]
        assert all(while_it_ran), "never let go of between the stake and the block that shows it"
        nodes = [member.node for member in arena.members if member.runner is not None]
        for _ in range(10):
            arena.skip(1)
            for member in arena.members:
                member.loop.tick()
        assert [node.reserve.for_others() for node in nodes] == [0] * len(nodes), "and let go of in the end"
        if fault is Fault.NONE:
            assert outcome.profit["trainer-0"] == REWARD
            assert outcome.profit["challenger"] == BOUNTY // SHARES
        else:
            expect_justice(arena, outcome, bundle)
            assert outcome.profit["trainer-0"] == -STAKE
