"""Attack: of two endpoints the one that does not serve shows an old count of the account, and a newest block that is
far ahead, or long ago. What the one that serves shows as mined was open for ever, its ether counted as still to be
spent, and answers waited for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Anvil
from tests.support.clock import Clock
from trainer_node.chain import Call

from .liar import Liar
from .outbox_bench import OTHER, Bench

Number = Callable[[int], int]


@pytest.mark.parametrize("number", [lambda true: true + 10**6, lambda _: 0], ids=["ahead", "long ago"])
@pytest.mark.parametrize("count", ["0x0", None])
def test_what_the_one_that_serves_shows_as_mined_is_mined(
    anvil: Anvil, tmp_path: Path, number: Number, count: str | None
) -> None:
    def shows(true: dict[str, Any]) -> dict[str, Any]:
        shown = {**true["result"], "number": hex(number(int(true["result"]["number"], 16)))}
        return {"result": shown}

    with Liar(anvil.url) as liar:
        bench = Bench([anvil.url, liar.url], anvil.keys[0], tmp_path)  # type: ignore[arg-type]
        bench.rpc("anvil_mine", hex(500))
        clock = Clock()
        manager = bench.manager(clock=clock, sleep=clock.sleep)
        first = manager.submit(Call("stake", OTHER, b"", manager.balance() * 6 // 10))
        bench.mine()
        liar.lies["eth_getTransactionReceipt"] = lambda _: {"result": None}
        liar.lies["eth_getBlockByNumber"] = shows
        if count is not None:
            liar.lies["eth_getTransactionCount"] = count
        for _ in range(3):
            clock.sleep(60)
            manager.recover(int(bench.web3.eth.block_number))
        assert manager._outbox.row(first).status == "mined"
        assert len(manager.wait_all([manager.submit(Call("move", OTHER, b"\2", 0))], timeout_s=0.0)) <= 1
        assert manager.means.free() > 0
