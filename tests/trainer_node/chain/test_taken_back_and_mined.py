"""Attack: blocks are full while a stake is on its way, until its life ends. The empty transaction in its place cannot
offer more than the stake does, which is at the limit of ``fees.max_fee``: endpoints refuse it, and the stake may be
mined later all the same. What was kept for it was let go, and could be staked on another job, or sent on."""

from __future__ import annotations

from dataclasses import replace

from trainer_node.chain.fees import FeeRule
from trainer_node.stake.reserved_ether import Reserve

from .outbox_bench import GWEI, OTHER, Bench

JOB, STAKE = 1, 10**18


def test_ether_for_a_stake_that_is_taken_back_is_kept_until_its_nonce_is_used(slow: Bench) -> None:
    manager = slow.manager(fees=FeeRule(max_fee=10 * GWEI))
    before = slow.web3.eth.get_balance(OTHER)
    reserve = Reserve(lambda: slow.web3.eth.block_number, manager.open)
    slow.rpc("anvil_setNextBlockBaseFeePerGas", hex(8 * GWEI))
    slow.mine()
    now = slow.web3.eth.get_block("latest")["timestamp"]
    reserve.staking(JOB, 2 * STAKE)
    stake = manager.submit(replace(slow.pay(STAKE), action="join", until=now + 60))
    assert manager._outbox.row(stake).attempts[-1].max_fee == 10 * GWEI

    def block() -> None:
        slow.rpc("anvil_setNextBlockBaseFeePerGas", hex(8 * GWEI))
        slow.rpc("evm_increaseTime", 40)
        slow.mine()
        manager.recover()
        reserve.seen(JOB, 0, slow.web3.eth.block_number)  # the job as that block shows it: without us

    slow.rpc("evm_setBlockGasLimit", hex(20_000))  # blocks are full
    block()
    assert reserve.kept(JOB) == 2 * STAKE
    for _ in range(4):  # its life is over
        block()
    kept, free, have = reserve.kept(JOB), manager.means.free(), manager.balance()
    slow.rpc("evm_setBlockGasLimit", hex(30_000_000))
    block()
    assert slow.web3.eth.get_balance(OTHER) - before == STAKE, "it was mined"
    assert kept == 2 * STAKE, f"{free} wei of {have} were to be had for others"
