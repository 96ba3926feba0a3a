"""Attack: the guardian stops the clocks for some minutes, once. The contracts' time is behind the blocks' from then
on, the life of a transaction that takes a slot is over before it is sent: trainers take each of them back, pay for an
empty one each time, and never take a slot again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

from assay_lab.faults import Fault
from tests.conftest import Anvil
from trainer_node.chain import Call, TransactionManager
from trainer_node.chain.client import ChainClient
from trainer_node.chain.contracts import Deployment
from trainer_node.client.posting import Offer
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle
from trainer_node.operate.deploy import deploy
from trainer_node.storage.tables import Transaction

from ..trainer_node.desk import until
from .arena import PARAMETERS, Arena
from .test_last_moments import LONG

PAUSE_S = 600


class Paused(Arena):
    """A deployment whose clocks have been stopped once, before anything was posted; nodes expect blocks of 12 s."""

    def _place_contracts(self, client: TransactionManager) -> None:
        chosen = replace(PARAMETERS, guardian=client.address)
        deploy(self.web3, client, self._deployment, chosen, chain_id=self._anvil.chain_id)
        timekeeper = ChainClient(self.web3, Deployment.load(self._deployment)).contracts.timekeeper
        client.send(Call.of(timekeeper, "pause"))
        self.skip(PAUSE_S)
        client.send(Call.of(timekeeper, "resume"))

    def _node(self, name: str, role: str, **settings: Any) -> Daemon:
        return super()._node(name, role, block_s=12.0, confirmations=2, **settings)

    def _terms(self, slots: int, threshold: int) -> Offer:
        periods: dict[str, Any] = dict.fromkeys(LONG, 20_000)
        return replace(super()._terms(slots, threshold), **periods)


def test_a_slot_is_taken_after_the_clocks_have_stood_still_once(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    options: dict[str, Any] = {"challenger": None, "verifiers": 0, "threshold": 0}
    with Paused(anvil, tmp_path, bundle, trainers=[Fault.NONE], **options) as arena:
        (member,) = arena.members
        transactions: Any = member.node.transactions
        before = transactions.balance()
        # Blocks come by themselves from now on, as on any chain, and not with each transaction.
        rpc: Any = arena.web3.provider.make_request
        rpc("evm_setAutomine", [False])
        rpc("evm_setIntervalMining", [1])

        def sent() -> Counter[str]:
            with member.node.database.session() as session:
                return Counter(row.action for row in session.scalars(select(Transaction)))

        def taken() -> bool:
            member.loop.tick()
            return bool(arena.client.snapshot().job(1).trainers) or sent()["take back"] >= 3

        until(taken)
        lost = before - transactions.balance()
        job = arena.client.snapshot().job(1)
        assert job.trainers, f"no slot was taken: {dict(sent())}; {lost} wei were paid for that"
