"""A proxy in front of an endpoint that changes what views return, and what events say, as a test likes."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from eth_utils.abi import event_abi_to_log_topic, function_abi_to_4byte_selector
from web3.contract import Contract

from .proxy import FaultProxy

Words = list[int]


class ViewLiar(FaultProxy):
    """``on``: it lies, `lied` times so far. ``seen``: all calls that it was asked to simulate, as address and data."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.on, self.lied = True, 0
        self.seen: list[tuple[str, str]] = []
        self._views: dict[tuple[str, str], Callable[[Words], bool]] = {}
        self._events: dict[tuple[str, str], tuple[Contract, dict[str, Any], Callable[[list[Any]], None]]] = {}

    def view(self, contract: Contract, name: str, change: Callable[[Words], bool]) -> None:
        """Let ``change`` have the words that a view returns, and say whether it has changed them."""
        self._views[contract.address.lower(), _selector(contract, name)] = change

    def simulated(self, contract: Contract, name: str) -> list[dict[str, Any]]:
        """Return the arguments of all calls of a function that it was asked to simulate."""
        to, selector = contract.address.lower(), _selector(contract, name)
        calls = [data for at, data in self.seen if at == to and data.startswith(selector)]
        return [dict(contract.decode_function_input(data)[1]) for data in calls]

    def event(self, contract: Contract, name: str, change: Callable[[list[Any]], None]) -> None:
        """Let ``change`` have the values of an event that are not indexed."""
        (abi,) = (one for one in contract.abi if one["type"] == "event" and one["name"] == name)
        topic = "0x" + bytes(event_abi_to_log_topic(abi)).hex()
        self._events[contract.address.lower(), topic] = contract, dict(abi), change

    def answer(self, handler: BaseHTTPRequestHandler, request: Any) -> None:
        method, params = request["method"], request["params"]
        if method == "eth_call":
            to, data = str(params[0].get("to", "")).lower(), params[0].get("data") or params[0]["input"]
            self.seen.append((to, data))
            change = self._views.get((to, data[:10]))
            if self.on and change is not None:
                self._changed(handler, request, lambda result: self._view(result, change))
                return
        if method == "eth_getLogs" and self.on and self._events:
            self._changed(handler, request, lambda result: [self._log(log) for log in result])
            return
        super().answer(handler, request)

    def _changed(self, handler: BaseHTTPRequestHandler, request: Any, change: Callable[[Any], Any]) -> None:
        true = self._client.post(self.upstream, json=request).json()
        if true.get("result"):
            true["result"] = change(true["result"])
        self._send(handler, 200, json.dumps(true).encode())

    def _view(self, result: str, change: Callable[[Words], bool]) -> str:
        words = [int(result[k : k + 64], 16) for k in range(2, len(result), 64)]
        self.lied += change(words)
        return "0x" + "".join(f"{word:064x}" for word in words)

    def _log(self, log: dict[str, Any]) -> dict[str, Any]:
        known = self._events.get((log["address"].lower(), log["topics"][0]))
        if known is None:
            return log
        contract, abi, change = known
        types = [_type(one) for one in abi["inputs"] if not one["indexed"]]
        values = list(contract.w3.codec.decode(types, bytes.fromhex(log["data"][2:])))
        change(values)
        self.lied += 1
        return {**log, "data": "0x" + contract.w3.codec.encode(types, values).hex()}


def _selector(contract: Contract, name: str) -> str:
    abi: Any = contract.get_function_by_name(name).abi
    return "0x" + bytes(function_abi_to_4byte_selector(abi)).hex()


def _type(abi: Any) -> str:
    if not abi["type"].startswith("tuple"):
        return str(abi["type"])
    return f"({','.join(map(_type, abi['components']))}){abi['type'][5:]}"
