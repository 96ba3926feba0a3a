"""Kinds of quirks that an RPC endpoint may have, and a proxy that shows one of them.

A quirk may refuse a request before the chain sees it, or change the answer. `Quirk.told`: words that /readyz or the
log of a node must have shown; `Quirk.works`: whether a job can be done through such an endpoint at all.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.trainer_node.chain.pool import topic

from .proxy import FaultProxy

Request = dict[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """An HTTP answer in place of the usual one."""

    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class State:
    """What a proxy remembers for its quirk."""

    asked: Counter[str] = field(default_factory=Counter)
    first: dict[str, float] = field(default_factory=dict)
    recent: deque[float] = field(default_factory=deque)
    sent: Counter[str] = field(default_factory=Counter)
    draw: Callable[[], float] = field(default_factory=lambda: random.Random(5).random)


Before = Callable[[Request, State], "Reply | Request | None"]
After = Callable[[Request, Answer, State], "Reply | Answer"]


@dataclass(frozen=True)
class Quirk:
    """``before`` returns a reply, or the request to pass on, or None for the same; ``after`` changes the answer.
    ``seen``: the repository and number of a public thread on GitHub."""

    name: str
    seen: str
    before: Before | None = None
    after: After | None = None
    told: str = ""
    works: bool = True
    early: bool = False
    """It shows itself at a start alone."""


def error(request: Request, code: int, message: str, data: Any = None) -> Answer:
    told = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": request["id"], "error": told}


def blocks(request: Request) -> int:
    asked = request["params"][0]
    return int(asked["toBlock"], 16) - int(asked["fromBlock"], 16) + 1


def logs(most: int, refuse: Callable[[Request], Reply]) -> Before:
    """Refuse ranges of more blocks than that."""

    def before(request: Request, _state: State) -> Reply | None:
        return refuse(request) if request["method"] == "eth_getLogs" and blocks(request) > most else None

    return before


def refusing(
    status: int, code: int, message: str, data: Any = None, **headers: str
) -> Callable[[Request], Reply]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: Reply(status, error(request, code, message, data), named)


def sometimes(share: float, methods: tuple[str, ...], refuse: Callable[[Request], Reply]) -> Before:
    def before(request: Request, state: State) -> Reply | None:
        return refuse(request) if request["method"] in methods and state.draw() < share else None

    return before


def a_second(most: int) -> Before:
    """Take so many requests a second."""

    def before(request: Request, state: State) -> Reply | None:
        now = time.monotonic()
        while state.recent and now - state.recent[0] > 1:
            state.recent.popleft()
        if len(state.recent) < most:
            state.recent.append(now)
            return None
        words = "Your app has exceeded its compute units per second capacity."
        return Reply(429, error(request, 429, words), {"Retry-After": "1"})

    return before


def nth(method: str, number: int, refuse: Callable[[Request], Reply]) -> Before:
    def before(request: Request, state: State) -> Reply | None:
        return refuse(request) if request["method"] == method and state.asked[method] == number else None

    return before


def no_pending(refuse: Callable[[Request], Reply], methods: tuple[str, ...] = ()) -> Before:
    def before(request: Request, _state: State) -> Reply | None:
        concerned = not methods or request["method"] in methods
        return refuse(request) if concerned and "pending" in request["params"] else None

    return before


def one_argument(request: Request, _state: State) -> Reply | None:
    if request["method"] == "eth_estimateGas" and len(request["params"]) > 1:
        return Reply(200, error(request, -32602, "too many arguments, want at most 1"))
    return None


def late_receipts(seconds: float) -> After:
    def after(request: Request, answer: Answer, state: State) -> Answer:
        if request["method"] != "eth_getTransactionReceipt" or answer.get("result") is None:
            return answer
        first = state.first.setdefault(request["params"][0], time.monotonic())
        return {**answer, "result": None} if time.monotonic() - first < seconds else answer

    return after


def in_blocks(change: Callable[[dict[str, Any]], None]) -> After:
    def after(request: Request, answer: Answer, _state: State) -> Answer:
        if request["method"] == "eth_getBlockByNumber" and answer.get("result"):
            change(answer["result"])
        return answer

    return after


def empty(share: float) -> After:
    def after(request: Request, answer: Answer, state: State) -> Answer:
        numbered = request["method"] == "eth_call" and str(request["params"][1]).startswith("0x")
        return {**answer, "result": "0x"} if numbered and state.draw() < share else answer

    return after


def old_nonces(request: Request, answer: Answer, state: State) -> Answer:
    """Every third count is that of a machine that is behind by one transaction."""
    if (
        request["method"] == "eth_getTransactionCount"
        and state.asked[request["method"]] % 3 == 0
        and "result" in answer
    ):
        return {**answer, "result": hex(max(int(answer["result"], 16) - 1, 0))}
    return answer


def reverts(change: Callable[[Request, dict[str, Any], str], Any], status: int = 200) -> After:
    """Give the data of reverts in another form."""

    def after(request: Request, answer: Answer, _state: State) -> Reply | Answer:
        told = answer.get("error") or {}
        data = told.get("data")
        if request["method"] not in ("eth_call", "eth_estimateGas") or not isinstance(data, str):
            return answer
        changed = {**answer, "error": change(request, told, data)}
        return changed if status == 200 else Reply(status, changed)

    return after


def known(code: int, words: str) -> After:
    """Say that a transaction was there already, as a retry behind the provider leads to."""

    def after(request: Request, answer: Answer, _state: State) -> Answer:
        if request["method"] != "eth_sendRawTransaction" or "error" in answer:
            return answer
        return error(request, code, words)

    return after


def nested(request: Request, told: dict[str, Any], data: str) -> Any:
    del request
    return {
        **told,
        "code": -32603,
        "data": {"originalError": {"code": 3, "data": data, "message": told["message"]}},
    }


def lost_data(_request: Request, _told: dict[str, Any], _data: str) -> Any:
    return {"code": -32000, "message": "execution reverted"}


def lacking(event: str) -> After:
    """Leave out the logs of an event of the contract Jobs, as where old ones are pruned."""
    wanted = topic("Jobs", event)

    def after(request: Request, answer: Answer, _state: State) -> Answer:
        if request["method"] != "eth_getLogs" or "result" not in answer:
            return answer
        return {**answer, "result": [log for log in answer["result"] if log["topics"][0] != wanted]}

    return after


class QuirkProxy(FaultProxy):
    """A proxy with a quirk, from `quirk` on; without one at first."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.quirk: Quirk | None = None
        self.acted = 0
        """Times that the quirk has changed something."""
        self._state = State()
        self._quirky = threading.Lock()

    def answer(self, handler: BaseHTTPRequestHandler, request: Request) -> None:
        quirk = self.quirk
        if quirk is None:
            super().answer(handler, request)
            return
        with self._quirky:
            self.asked[request["method"]] += 1
            self._state.asked[request["method"]] += 1
            found = quirk.before(request, self._state) if quirk.before is not None else None
        if not isinstance(found, Reply):
            answer = self._client.post(self.upstream, json=found or request).json()
            before = json.dumps(answer)
            with self._quirky:
                found = quirk.after(request, answer, self._state) if quirk.after is not None else answer
            if not isinstance(found, Reply) and json.dumps(found) == before:
                self._send(handler, 200, before.encode())
                return
        self.acted += 1
        reply = found if isinstance(found, Reply) else Reply(200, found)
        handler.send_response(reply.status)
        body = json.dumps(reply.body).encode()
        for name, value in {**reply.headers, "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)
