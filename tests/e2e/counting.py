"""RPC requests of a challenger's ticks on a chain of a given length."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from assay_lab.faults import Fault
from tests.conftest import Anvil
from trainer_node.bundle import Bundle
from trainer_node.chain import TransactionManager
from trainer_node.service import Daemon

from .arena import Arena

MINE_TIMEOUT_S = 1_800.0


class LongChain(Arena):
    """An arena whose contracts are older than its job by ``length`` blocks."""

    def __init__(self, anvil: Anvil, folder: Path, bundle: Bundle, length: int, log_range: int) -> None:
        self._length, self._log_range = length, log_range
        super().__init__(
            anvil, folder, bundle, trainers=[Fault.NONE, Fault.WRONG_OP_OUTPUT], serve=False, verifiers=0
        )

    def _node(self, name: str, role: str, **settings: object) -> Daemon:
        return super()._node(name, role, limits={"log_range": self._log_range}, **settings)

    def _post(self, client: TransactionManager, slots: int, threshold: int) -> None:  # noqa: ARG002
        request = {"jsonrpc": "2.0", "id": 1, "method": "anvil_mine", "params": [hex(self._length)]}
        httpx.post(self._anvil.url, json=request, timeout=MINE_TIMEOUT_S).raise_for_status()
        super()._post(client, slots, 0)


def requests_of(
    anvil: Anvil, folder: Path, bundle: Bundle, length: int, log_range: int
) -> dict[str, Counter[str]]:
    """Return the requests by method of the challenger's tick while the job waits for trainers, and in an open match:
    each time the second tick at a block, and the first at a new one. ``log_range``: blocks that the endpoint searches
    for events at once."""
    with LongChain(anvil, folder, bundle, length, log_range) as arena:
        challenger = arena.members[-1]
        provider: Any = challenger.node.web3.provider
        made: Counter[str] = Counter()
        make = provider.make_request

        def counted(method: str, params: Any) -> Any:
            made[method] += 1
            return make(method, params)

        def tick() -> Counter[str]:
            made.clear()
            challenger.loop.tick()
            return Counter(made)

        def ticks(state: str) -> dict[str, Counter[str]]:
            tick()
            again = tick()
            arena.skip(1)
            return {state: again, f"{state}, new block": tick()}

        provider.make_request = counted
        provider._request_func_cache = (None, None)  # web3 keeps the function of the first request
        found = ticks("idle")
        while not arena.client.snapshot().job(arena.job_id).open_matches:
            for member in arena.members:
                member.loop.tick()
            arena.skip(5)
        for _ in range(200):  # until it has a result of its own, and nothing more to send
            last = tick()
            if last["eth_getLogs"] and not last["eth_sendRawTransaction"]:
                break
            time.sleep(0.1)
        return found | ticks("open match")
