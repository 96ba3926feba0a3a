"""Attack: one receipt of an old block, for what waits in the pools. It counted as mined for good, also when all told
the truth again: nobody raised its fee any more, and all that was sent later waited behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Anvil
from tests.support.clock import Clock
from trainer_node.chain import Call
from trainer_node.chain.account import REPLACED

from .liar import Liar
from .outbox_bench import GWEI, OTHER, Bench


@pytest.mark.parametrize(
    ("age", "status", "low_head"), [(400, 1, False), (400, 0, True), (400, 1, True), (REPLACED, 1, False)]
)
def test_one_lie_keeps_no_fee_from_being_raised(
    anvil: Anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: int, status: int, *, low_head: bool
) -> None:
    """It is mined in the end: no later one waits behind it."""
    with Liar(anvil.url) as liar:
        bench = Bench([liar.url, anvil.url], anvil.keys[0], tmp_path)  # type: ignore[arg-type]
        bench.rpc("evm_setAutomine", False)
        bench.rpc("anvil_mine", hex(500))
        clock = Clock()

        def fee(gwei: int) -> None:
            bench.rpc("anvil_setNextBlockBaseFeePerGas", hex(gwei * GWEI))
            bench.mine()

        def passes(seconds: float) -> None:
            clock.sleep(seconds)
            fee(20)

        fee(1)
        manager = bench.manager(replace_after_s=45.0, poll_s=20.0, clock=clock, sleep=passes)
        first = manager.submit(Call("move", OTHER, b"\1", 0))
        fee(20)
        head = int(bench.web3.eth.block_number)
        liar.lies["eth_getTransactionReceipt"] = {
            **_receipt(bench, head - age),
            "transactionHash": "0x" + manager._outbox.row(first).attempts[0].hash.hex(),
            "status": hex(status),
        }
        if low_head:
            liar.lies["eth_getBlockByNumber"] = lambda true: {
                "result": {**true["result"], "number": hex(head - age)}
            }
        manager.recover(head)
        liar.lies.clear()  # all tell the truth from now on
        count = manager._reader._nonce
        # the pools have it, as no other chain of blocks than anvil's would drop it
        monkeypatch.setattr(
            manager._reader, "_nonce", lambda block: max(count(block), int(block == "pending"))
        )
        for _ in range(8):
            passes(30)
            manager.recover(int(bench.web3.eth.block_number))
        assert manager._outbox.row(first).status == "mined"
        assert bench.chain_nonce() == 1


def _receipt(bench: Bench, block: int) -> dict[str, Any]:
    return {
        "blockNumber": hex(block),
        "blockHash": "0x" + bytes(bench.web3.eth.get_block(block)["hash"]).hex(),
        "gasUsed": hex(30000),
        "effectiveGasPrice": hex(GWEI),
        "contractAddress": None,
        "logs": [],
        "logsBloom": "0x" + "0" * 512,
        "transactionIndex": "0x0",
        "cumulativeGasUsed": "0x1",
        "from": bench.address,
        "to": OTHER,
        "type": "0x2",
    }
