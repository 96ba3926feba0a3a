"""RPC requests of a challenger's ticks on a chain of a given length: one that is idle, one with an open match."""

from __future__ import annotations

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

LOG_RANGE = 100
"""Blocks that the endpoint searches for events at once."""
MINE_TIMEOUT_S = 1_800.0


class LongChain(Arena):
    """An arena whose contracts are older than its job by ``length`` blocks."""

    def __init__(self, anvil: Anvil, folder: Path, bundle: Bundle, length: int) -> None:
        self._length = length
        super().__init__(
            anvil, folder, bundle, trainers=[Fault.NONE, Fault.WRONG_OP_OUTPUT], serve=False, verifiers=0
        )

    def _node(self, name: str, role: str, **settings: object) -> Daemon:
        return super()._node(name, role, limits={"log_range": LOG_RANGE}, **settings)

    def _post(self, client: TransactionManager, slots: int, threshold: int) -> None:  # noqa: ARG002
        request = {"jsonrpc": "2.0", "id": 1, "method": "anvil_mine", "params": [hex(self._length)]}
        httpx.post(self._anvil.url, json=request, timeout=MINE_TIMEOUT_S).raise_for_status()
        super()._post(client, slots, 0)


def requests_of(anvil: Anvil, folder: Path, bundle: Bundle, length: int) -> dict[str, Counter[str]]:
    """Return the requests by method of the challenger's tick while the job waits for trainers, and in an open match."""
    with LongChain(anvil, folder, bundle, length) as arena:
        challenger = arena.members[-1]
        provider: Any = challenger.node.web3.provider
        made: Counter[str] = Counter()
        make = provider.make_request

        def counted(method: str, params: Any) -> Any:
            made[method] += 1
            return make(method, params)

        def tick() -> Counter[str]:
            """NOTE: the second tick in one state counts, as most ticks find what the last one has found."""
            for _ in range(2):
                made.clear()
                challenger.loop.tick()
            return Counter(made)

        provider.make_request = counted
        found = {"idle": tick()}
        while not arena.client.snapshot().job(arena.job_id).open_matches:
            for member in arena.members:
                member.loop.tick()
            arena.skip(5)
        while challenger.runner is not None and challenger.runner.busy:
            challenger.loop.tick()
        found["open match"] = tick()
        return found
