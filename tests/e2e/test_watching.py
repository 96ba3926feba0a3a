"""Watching pays: a party that trained before any reveal gets a share of the bounty, even if all others were honest."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from web3.contract import Contract

from assay_lab.faults import Fault
from referee_py.errors import InvalidInput
from referee_py.program.modes import Rounding
from referee_py.watch import WatcherState
from tests.conftest import Anvil
from trainer_node.chain import JobPhase
from trainer_node.chain.fees import ETHER
from trainer_node.client.posting import Offer
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle
from trainer_node.roles.participant import Participant
from trainer_node.stake.funds import WATCH, kept, kept_to_watch

from .arena import REWARD, STAKE, Arena, transactions
from .test_disputes import expect_justice

BOUNTY, SHARES = 4 * ETHER // 10, 4
WATCH_S = 300


class WatchedArena(Arena):
    """The client funds a bounty; the challenger watches, if its limit on stakes allows it."""

    max_watch_eth = 2.0

    def _node(self, name: str, role: str, **settings: object) -> Daemon:
        if name == "challenger":
            settings["max_watch_eth"] = self.max_watch_eth
        return super()._node(name, role, **settings)

    def _terms(self, slots: int, threshold: int) -> Offer:
        offer = super()._terms(slots, threshold)
        return replace(offer, watch_period=WATCH_S, bounty=BOUNTY, bounty_shares=SHARES)

    def until_committed(self) -> None:
        """Tick all members until the challenger has committed."""
        while True:
            snapshot = self.client.snapshot()
            job = snapshot.job(self.job_id)
            if snapshot.watcher(job, self.address("challenger")).state is WatcherState.COMMITTED:
                return
            assert job.phase is JobPhase.TRAINING, "it is too late to watch"
            before = self.web3.eth.block_number
            for member in self.members:
                member.loop.tick()
            if self.web3.eth.block_number == before:
                time.sleep(0.02)

    def spent(self, contract: Contract) -> int:
        """Return the units of gas that the challenger has used for transactions to a contract."""
        gas = 0
        for number in range(self._posted_block, self.web3.eth.block_number + 1):
            for transaction in transactions(self.web3, number):
                if (transaction["from"], transaction["to"]) == (self.address("challenger"), contract.address):
                    gas += self.web3.eth.get_transaction_receipt(transaction["hash"])["gasUsed"]
        return gas

    def logged(self, contract: Contract, name: str) -> list[int]:
        """Return the blocks of an event."""
        return [log["blockNumber"] for log in contract.events[name]().get_logs(from_block=0)]


@pytest.mark.slow
def test_a_watcher_has_its_share_though_the_trainer_is_honest(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    with WatchedArena(anvil, tmp_path, bundle, trainers=[Fault.NONE]) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.matches == []
        assert outcome.profit["trainer-0"] == REWARD
        assert outcome.profit["challenger"] == BOUNTY // SHARES
        contracts, snapshot = arena.client.contracts, arena.client.snapshot()
        pool = snapshot.pool(outcome.job)
        assert (pool.watchers, pool.ended, pool.share) == (1, JobPhase.ACCEPTED, BOUNTY // SHARES)
        assert contracts.watch.functions.credit(outcome.job.client).call() == BOUNTY - BOUNTY // SHARES
        assert 0 < arena.spent(contracts.watch) <= WATCH.gas
        # Nobody can see that another party watches before committing himself.
        assert arena.logged(contracts.watch, "Watched") > arena.logged(contracts.jobs, "Committed")


@pytest.mark.parametrize(
    "fault", [Fault.POISON_DATA, pytest.param(Fault.WRONG_OP_OUTPUT, marks=pytest.mark.slow)]
)
def test_a_watcher_that_catches_a_liar_has_share_prize_and_reward(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, fault: Fault
) -> None:
    with WatchedArena(anvil, tmp_path, bundle, trainers=[fault]) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        verdict = 0 if fault is Fault.POISON_DATA else STAKE // 10
        assert outcome.profit["challenger"] == REWARD + STAKE // 2 - verdict + BOUNTY // SHARES
        assert outcome.profit["trainer-0"] == -STAKE


@pytest.mark.slow
def test_a_watcher_claims_what_it_has_found_whatever_that_costs_by_then(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """Its stake is placed, so it finishes what it would no longer begin, and keeps the funds that this may take."""
    with WatchedArena(anvil, tmp_path, bundle, trainers=[Fault.POISON_DATA]) as arena:
        arena.until_committed()
        watching, training = (
            next(m for m in arena.members if m.name == name) for name in ("challenger", "trainer-0")
        )
        for member in (watching, training):
            member.loop.tick()
        job, max_fee = arena.client.snapshot().job(arena.job_id), watching.node.settings.fees.max_fee
        assert watching.node.reserve.kept(job.id) == kept_to_watch(job, max_fee)
        assert training.node.reserve.kept(job.id) == kept(job, training.node.address or "", max_fee)
        limits = {"max_stake_eth": 0.01, "max_watch_eth": 0.01}
        stricter = watching.node.settings.model_copy(update=limits)
        watching.node.settings = stricter
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.profit["challenger"] == REWARD + STAKE // 2 + BOUNTY // SHARES
        assert watching.node.reserve.for_others() == training.node.reserve.for_others() == 0


@pytest.mark.slow
def test_a_watcher_looks_again_before_it_stakes(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    """Prices rise during training; before it has staked it is free to stop."""
    with WatchedArena(anvil, tmp_path, bundle, trainers=[Fault.NONE]) as arena:
        watching = arena.members[-1]
        assert isinstance(watching.part, Participant)
        watcher: Any = watching.part._watcher
        while not watcher._begun[arena.job_id]:
            for member in arena.members:
                member.loop.tick()
        watcher._acceptance._settings = watching.node.settings.model_copy(update={"max_watch_eth": 0.01})
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.ACCEPTED
        assert outcome.profit["challenger"] == 0
        assert arena.client.snapshot().pool(outcome.job).watchers == 0


@pytest.mark.slow
def test_a_watcher_ends_what_nobody_else_does(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    """The trainer reveals nothing: nobody has a claim, and the watcher's stake is locked until the job is over."""
    with WatchedArena(anvil, tmp_path, bundle, trainers=[Fault.NONE]) as arena:
        arena.until_committed()
        arena.members = [member for member in arena.members if member.name != "trainer-0"]
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.UNCLAIMED
        assert outcome.profit["challenger"] == 0


@pytest.mark.slow
def test_a_watcher_that_was_killed_shows_what_it_has_committed_to(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    with WatchedArena(anvil, tmp_path, bundle, trainers=[Fault.NONE]) as arena:
        arena.until_committed()
        arena.restart("challenger")
        outcome = arena.play()
        assert outcome.profit["challenger"] == BOUNTY // SHARES


@pytest.mark.slow
def test_who_may_stake_less_than_a_watcher_must_watches_nothing(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    class Stingy(WatchedArena):
        max_watch_eth = 0.5

    with Stingy(anvil, tmp_path, bundle, trainers=[Fault.NONE]) as arena:
        outcome = arena.play()
        expect_justice(arena, outcome, bundle)
        assert outcome.profit["challenger"] == 0
        assert arena.client.snapshot().pool(outcome.job).watchers == 0


def test_a_job_of_rounded_f64_has_no_bounty(anvil: Anvil, tmp_path: Path, bundle: Bundle) -> None:
    """Nobody but the trainer can know the root before its logs are revealed."""
    rounded = bundle.with_mode(Rounding().mode)
    with pytest.raises(InvalidInput, match="nobody but the trainer"):
        WatchedArena(anvil, tmp_path, rounded, trainers=[Fault.NONE])
