"""RPC requests of a challenger's ticks on a chain of a given length."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from pathlib import Path
from typing import Any

from assay_lab.faults import Fault
from tests.conftest import Anvil
from trainer_node.chain import TransactionManager
from trainer_node.chain.events import MIN_DEPTH
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle

from .arena import Arena

NUMBERS = ("number", "blockNumber", "fromBlock", "toBlock")


class Gap:
    """An endpoint that shows ``length`` empty blocks more after the block ``after``, and counts requests by method.

    NOTE: anvil takes minutes to mine some thousands of blocks, and each more takes longer.
    """

    def __init__(self, provider: Any, after: int, length: int) -> None:
        self.made: Counter[str] = Counter()
        self._make, self._after, self._length = provider.make_request, after, length
        provider.make_request = self._request
        provider._request_func_cache = (None, None)  # web3 keeps the function of the first request

    def _request(self, method: str, params: Any) -> Any:
        self.made[method] += 1
        if method == "eth_getBlockByNumber" and params[0].startswith("0x"):
            number = int(params[0], 16)
            if self._after < number <= self._after + self._length:
                return self._empty(number)
        if method == "eth_getLogs":
            asked = params[0]
            first, last = self._real(asked["fromBlock"], 1), self._real(asked["toBlock"], 0)
            if first > last:
                return {"jsonrpc": "2.0", "id": 1, "result": []}
            params = [{**asked, "fromBlock": hex(first), "toBlock": hex(last)}]
        elif method in ("eth_call", "eth_getBlockByNumber"):
            at = 1 if method == "eth_call" else 0
            if params[at].startswith("0x"):
                params = [*params[:at], hex(self._real(params[at], 0)), *params[at + 1 :]]
        return self._shown(self._make(method, params))

    def _real(self, shown: str, beyond: int) -> int:
        """Return anvil's number of a block; of one in the gap, that of the last block before it, plus ``beyond``."""
        number = int(shown, 16)
        if number <= self._after:
            return number
        return max(number - self._length, self._after + beyond)

    def _shown(self, answer: Any) -> Any:
        """Return an answer with the numbers of the blocks as this endpoint shows them."""
        if isinstance(answer, list):
            return [self._shown(part) for part in answer]
        if not isinstance(answer, dict):
            return answer
        found = {name: self._shown(part) for name, part in answer.items()}
        for name in NUMBERS:
            if isinstance(found.get(name), str) and int(found[name], 16) > self._after:
                found[name] = hex(int(found[name], 16) + self._length)
        return found

    def _empty(self, number: int) -> Any:
        """Return a block of the gap, which is as old as the one before the gap."""
        answer = self._make("eth_getBlockByNumber", [hex(self._after), False])
        digest = "0x" + hashlib.sha256(b"%d" % number).hexdigest()
        return {**answer, "result": {**answer["result"], "number": hex(number), "hash": digest}}


class LongChain(Arena):
    """An arena whose contracts are older than its job by ``length`` blocks, in the eyes of the challenger."""

    def __init__(self, anvil: Anvil, folder: Path, bundle: Bundle, length: int, log_range: int) -> None:
        self._length, self._log_range = length, log_range
        super().__init__(
            anvil, folder, bundle, trainers=[Fault.NONE, Fault.WRONG_OP_OUTPUT], serve=False, verifiers=0
        )

    def _node(self, name: str, role: str, **settings: object) -> Daemon:
        # NOTE: without it a challenger that has no claim does not look at a match of others.
        helps = {"max_gas_loss_eth": 1.0}
        return super()._node(name, role, limits={"log_range": self._log_range}, policy=helps, **settings)

    def _post(self, client: TransactionManager, slots: int, threshold: int) -> None:  # noqa: ARG002
        provider = self.members[-1].node.web3.provider
        self.gap = Gap(provider, self.web3.eth.block_number, self._length)
        super()._post(client, slots, 0)


def requests_of(
    anvil: Anvil, folder: Path, bundle: Bundle, length: int, log_range: int
) -> dict[str, Counter[str]]:
    """Return the requests by method of the challenger's tick while the job waits for trainers, and in an open match:
    each time the second tick at a block, and the first at a new one. ``log_range``: blocks that the endpoint searches
    for events at once."""
    with LongChain(anvil, folder, bundle, length, log_range) as arena:
        challenger, made = arena.members[-1], arena.gap.made

        def tick() -> Counter[str]:
            made.clear()
            challenger.loop.tick()
            return Counter(made)

        def ticks(state: str) -> dict[str, Counter[str]]:
            tick()
            again = tick()
            arena.skip(1)
            return {state: again, f"{state}, new block": tick()}

        found = ticks("idle")
        while not arena.client.snapshot().job(arena.job_id).open_matches:
            for member in arena.members:
                member.loop.tick()
            arena.skip(5)
        tick()  # NOTE: at a new block it also looks for what has happened in all jobs
        quiet = 0
        for _ in range(200):  # until it has a result of its own, and nothing more to send
            last = tick()
            rests = not challenger.busy and last["eth_getLogs"] and not last["eth_sendRawTransaction"]
            # NOTE: twice, because a move may have been computed since the tick looked for it.
            quiet = quiet + 1 if rests else 0
            if quiet == 2:
                break
            time.sleep(0.1)
        # NOTE: events are kept once they are deep enough, and then each look compares a block's hash. However many
        # blocks the match has taken, they are deep enough now.
        arena.web3.provider.make_request("anvil_mine", [hex(2 * max(log_range // 2, MIN_DEPTH))])  # type: ignore[arg-type]
        return found | ticks("open match")
