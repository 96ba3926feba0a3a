"""Proxies that break answers, before one chain, and a view over them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait

from tests.campaigns.proxy import FaultProxy
from tests.conftest import Anvil
from tests.support.clock import Clock
from trainer_node.chain import ViewRule, connect
from trainer_node.chain.agreement import Agreement
from trainer_node.chain.endpoints import Endpoints, endpoints_of
from trainer_node.chain.recorded_reads import Notes
from trainer_node.observe.metrics import Metrics

from ..moved_time import MovedTime

TIMEOUT_S = 60.0
WHO = "0x000000000000000000000000000000000000dEaD"


class Bench:
    """Proxies before one chain, and a view over them."""

    def __init__(self, anvil: Anvil, proxies: Sequence[FaultProxy], moved: MovedTime | None = None) -> None:
        """``moved``: the time by which proxies are late and endpoints are waited for, if that is not the machine's."""
        self.anvil, self.proxies = anvil, proxies
        self.direct = connect(anvil.url, 31337)
        self.metrics = Metrics()
        self.clock: Clock | MovedTime = moved or Clock(1000.0)
        urls = [proxy.url for proxy in proxies]
        self.web3 = connect(
            urls,
            31337,
            timeout_s=TIMEOUT_S,
            max_bytes=1 << 19,
            metrics=self.metrics,
            clock=self.clock,
            wait=moved.wait if moved else wait,
        )
        if moved is not None:
            for proxy in proxies:
                proxy.sleep = moved.sleep
        self.endpoints: Endpoints = endpoints_of(self.web3)

    def view(self, **policy: object) -> Agreement:
        return Agreement(self.endpoints, ViewRule(**policy))  # type: ignore[arg-type]

    def mine(self, blocks: int) -> None:
        self.direct.provider.make_request("anvil_mine", [hex(blocks), hex(12)])  # type: ignore[arg-type]

    def notes(self, number: int) -> Notes:
        """Read a balance at a block, and return what was read."""
        notes = Notes()
        with self.endpoints.noting(notes.add):
            self.web3.eth.get_balance(WHO, number)  # type: ignore[arg-type]
        return notes
