"""An endpoint whose logs are incomplete for a while: one machine of several is behind, or logs are indexed late."""

from __future__ import annotations

from typing import Any

from eth_utils.abi import event_abi_to_log_topic
from web3 import Web3

from trainer_node.chain.abi import load_artifact


def topic(contract: str, name: str) -> str:
    """Return the first topic of a contract's event."""
    abi = next(i for i in load_artifact(contract).abi if i["type"] == "event" and i["name"] == name)
    return "0x" + event_abi_to_log_topic(abi).hex()  # type: ignore[arg-type]


class Pool:
    """Stands between a node and its endpoint. ``lag``: each ``every``-th request for logs, the first one included, goes
    to a machine whose newest block is so many blocks older. ``late``: topics whose logs are missing from the first
    answer that should have had them."""

    def __init__(self, web3: Web3, *, lag: int = 0, every: int = 1, late: tuple[str, ...] = ()) -> None:
        provider: Any = web3.provider
        self._make, self._lag, self._every, self._late = provider.make_request, lag, every, late
        self._requests = 0
        self._seen: set[tuple[str, str]] = set()
        self.hidden = 0
        """Number of logs that were not shown."""
        provider.make_request = self._request
        provider._request_func_cache = (None, None)  # web3 keeps the function of the first request

    def _request(self, method: str, params: Any) -> Any:
        answer = self._make(method, params)
        if method != "eth_getLogs" or "result" not in answer:
            return answer
        shown, self._requests = [], self._requests + 1
        lags = self._lag and self._requests % self._every == 1 % self._every
        head = int(self._make("eth_blockNumber", [])["result"], 16) - self._lag if lags else None
        for log in answer["result"]:
            key = log["transactionHash"], log["logIndex"]
            late = log["topics"][0] in self._late and key not in self._seen
            self._seen.add(key)
            if late or (head is not None and int(log["blockNumber"], 16) > head):
                self.hidden += 1
            else:
                shown.append(log)
        return {**answer, "result": shown}
