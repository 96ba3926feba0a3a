"""An endpoint counts our number at once and has its block, but shows no receipt for hours: it indexes, or refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Anvil
from tests.support.clock import Clock
from trainer_node.chain import Call
from trainer_node.chain.endpoints import endpoints_of

from .liar import Liar
from .outbox_bench import OTHER, Bench

LATE = {
    "none": lambda _: {"result": None},
    "refused": lambda _: {
        "result": None,
        "error": {"code": -32000, "message": "transaction indexing is in progress"},
    },
}


@pytest.mark.parametrize("how", LATE)
def test_what_has_used_its_number_is_not_waited_for(anvil: Anvil, tmp_path: Path, how: str) -> None:
    with Liar(anvil.url) as late:
        bench = Bench(late.url, anvil.keys[0], tmp_path)
        bench.rpc("evm_setAutomine", False)
        clock = Clock()
        manager = bench.manager(clock=clock, sleep=clock.sleep)
        for endpoint in endpoints_of(bench.web3).every:
            endpoint._sleep = clock.sleep
        late.lies["eth_getTransactionReceipt"] = LATE[how]
        first = manager.submit(Call("answer", OTHER, b"\1", 0))
        assert manager.means.waiting() == [first]
        bench.mine()
        for _ in range(20):
            clock.sleep(360)
            manager.recover(int(bench.web3.eth.block_number))
        assert manager._outbox.row(first).status == "open"
        assert manager.means.waiting() == []
        mined = int(bench.web3.eth.block_number)
        assert [manager.counts_at(first, block) for block in (mined - 1, mined)] == [False, True]
        late.lies.clear()
        manager.recover(mined)
        assert manager._outbox.row(first).status == "mined"
        assert [manager.counts_at(first, block) for block in (mined - 1, mined)] == [False, True]
