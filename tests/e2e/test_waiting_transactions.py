"""An ally's refutation waits in the pools whenever a sampler looks, and is taken back before each block.

It doubles the price of the next refutation of that root, so on top of the pending block the sampler's is refused.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from eth_account import Account

from referee_py.jobs import JobPhase
from tests.conftest import Anvil
from trainer_node.chain import Call
from trainer_node.chain.fees import GWEI
from trainer_node.daemon import job_turns
from trainer_node.local.bundle import Bundle

from .arena import STAKE, TIME_STEP_S, Arena
from .test_lone_samplers import Ally, LongClocks


class Waiting:
    """A call of an account's that waits in the pools of a chain which mines when it is told."""

    def __init__(self, arena: Arena, key: str, call: Call) -> None:
        self._web3, self._account, self._call = arena.web3, Account.from_key(key), call
        self._nonce = int(self._web3.eth.get_transaction_count(self._account.address))
        self._before = self._web3.eth.get_balance(self._account.address)

    @property
    def paid(self) -> int:
        """Wei."""
        return self._before - self._web3.eth.get_balance(self._account.address)

    def put(self) -> None:
        assert self._call.to is not None
        self._send(self._web3.to_checksum_address(self._call.to), self._call.data, self._call.value, 1)

    def take_back(self) -> None:
        self._send(self._account.address, b"", 0, 10)
        self._nonce += 1

    def _send(self, to: str, data: bytes, value: int, tip: int) -> None:
        base = int(self._web3.eth.get_block("latest")["baseFeePerGas"])
        fields = {"type": 2, "chainId": self._web3.eth.chain_id, "nonce": self._nonce, "to": to, "data": data}
        fields |= {"value": value, "gas": 3_000_000, "maxPriorityFeePerGas": tip * GWEI}
        signed = self._account.sign_transaction({**fields, "maxFeePerGas": 2 * base + tip * GWEI})
        self._web3.eth.send_raw_transaction(signed.raw_transaction)


def tick(arena: Arena) -> None:
    """Have everybody look, compute, and look again."""
    for _ in range(2):
        for member in arena.members:
            member.loop.tick()
        while any(member.busy for member in arena.members):
            time.sleep(0.01)


@pytest.mark.usefixtures("parts_alone")
def test_a_lie_is_refuted_whatever_waits_in_the_pools(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lie was accepted, for 0.004 ether of gas."""
    monkeypatch.setattr(job_turns, "MINED_S", 0.0)  # nothing is mined within a round
    with LongClocks.sampled(anvil, tmp_path, bundle) as arena:
        while not arena.client.snapshot().job(arena.job_id).commitments:
            arena.turn()
        ally = Ally(arena, bundle)
        ally.commit()
        arena.skip(2)
        while arena.client.snapshot().job(arena.job_id).phase is not JobPhase.CHALLENGE:
            arena.turn()
        rpc = arena.web3.provider.make_request
        rpc("evm_setAutomine", [False])  # type: ignore[arg-type]
        waiting = Waiting(arena, ally.key, ally.refutation(STAKE))
        for _ in range(60):
            challenged = arena.client.snapshot().job(arena.job_id).phase is JobPhase.CHALLENGE
            if challenged:
                waiting.put()
            tick(arena)
            if challenged:
                waiting.take_back()
            arena.skip(TIME_STEP_S)
            job = arena.client.snapshot().job(arena.job_id)
            if job.phase.ended:
                break
        assert (job.phase, job.accepted_root == ally.theirs.root) == (JobPhase.UNCLAIMED, False)
        assert waiting.paid > 0
