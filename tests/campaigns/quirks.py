"""What providers and clients of Ethereum really answer, each as a proxy shows it, with the thread where it was seen.

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


def _one_argument(request: Request, _state: State) -> Reply | None:
    if request["method"] == "eth_estimateGas" and len(request["params"]) > 1:
        return Reply(200, error(request, -32602, "too many arguments, want at most 1"))
    return None


def _late_receipts(seconds: float) -> After:
    def after(request: Request, answer: Answer, state: State) -> Answer:
        if request["method"] != "eth_getTransactionReceipt" or answer.get("result") is None:
            return answer
        first = state.first.setdefault(request["params"][0], time.monotonic())
        return {**answer, "result": None} if time.monotonic() - first < seconds else answer

    return after


def _in_blocks(change: Callable[[dict[str, Any]], None]) -> After:
    def after(request: Request, answer: Answer, _state: State) -> Answer:
        if request["method"] == "eth_getBlockByNumber" and answer.get("result"):
            change(answer["result"])
        return answer

    return after


def _empty(share: float) -> After:
    def after(request: Request, answer: Answer, state: State) -> Answer:
        numbered = request["method"] == "eth_call" and str(request["params"][1]).startswith("0x")
        return {**answer, "result": "0x"} if numbered and state.draw() < share else answer

    return after


def _old_nonces(request: Request, answer: Answer, state: State) -> Answer:
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


def _nested(request: Request, told: dict[str, Any], data: str) -> Any:
    del request
    return {
        **told,
        "code": -32603,
        "data": {"originalError": {"code": 3, "data": data, "message": told["message"]}},
    }


def _lost_data(_request: Request, _told: dict[str, Any], _data: str) -> Any:
    return {"code": -32000, "message": "execution reverted"}


WORDS = {
    "alchemy": "Under the Free tier plan, you can make eth_getLogs requests with up to a 5 block range.",
    "infura": "project ID request rate exceeded",
    "pending": "pending block number is not supported: method not implemented",
}
QUIRKS = (
    Quirk("logs: HTTP 400", "boundless-xyz/boundless#838", logs(5, refusing(400, -32600, WORDS["alchemy"]))),
    Quirk(
        "logs: HTTP 413",
        "OffchainLabs/arbitrum-sdk#609",
        logs(5, refusing(413, -32614, "eth_getLogs is limited to a 5 range")),
    ),
    Quirk(
        "logs: -32602",
        "INFURA/infura#237",
        logs(5, refusing(200, -32602, "range 1000000 exceeds limit of 5")),
    ),
    Quirk(
        "logs: the words in data",
        "bobanetwork/boba_legacy#827",
        logs(
            5,
            refusing(
                200,
                -32602,
                "invalid params",
                {"error_id": "4ed9", "payload": "range 9009594 is bigger than range limit 5"},
            ),
        ),
    ),
    Quirk(
        "logs: -32005, range",
        "0xPolygon/cdk-erigon#1706",
        logs(5, refusing(200, -32005, "block range too large, max range: 5")),
    ),
    Quirk(
        "logs: HTTP 500",
        "scroll-tech/go-ethereum#529",
        logs(5, refusing(500, -32000, "block range is bigger than maxBlockRange")),
    ),
    Quirk(
        "logs: HTTP 403",
        "llamanodes/web3-proxy#231",
        logs(5, refusing(403, -32701, "Please specify an address in your request")),
    ),
    Quirk(
        "pending refused",
        "iotexproject/iotex-core#4640",
        no_pending(refusing(200, -32000, WORDS["pending"])),
        told="knows no pending block",
    ),
    Quirk(
        "pending nonces: internal error",
        "mybucks-online/app#63",
        no_pending(refusing(200, -32603, "Internal error"), ("eth_getTransactionCount",)),
        told="knows no pending block",
    ),
    Quirk("8 requests a second", "INFURA/infura#201", a_second(8), told="compute units per second capacity"),
    Quirk(
        "429: over rate limit",
        "foundry-rs/foundry#10938",
        sometimes(0.05, ("eth_call", "eth_getLogs"), refusing(429, -32016, "over rate limit")),
        told="over rate limit",
    ),
    Quirk(
        "rate in HTTP 200",
        "reown-com/blockchain-api#1102",
        sometimes(0.1, ("eth_call",), refusing(200, -32029, "limit")),
        told="limit",
    ),
    Quirk(
        "rate with a back-off",
        "ethers-io/ethers.js#640",
        sometimes(
            0.05,
            ("eth_call",),
            refusing(200, -32005, WORDS["infura"], {"allowed_rps": 10.0, "backoff_seconds": 1.0}),
        ),
        told=WORDS["infura"],
    ),
    Quirk(
        "a month's capacity used",
        "ethers-io/ethers.js#5071",
        sometimes(
            1.0, ("eth_call", "eth_getLogs"), refusing(429, -32000, "Monthly capacity limit exceeded.")
        ),
        told="Monthly capacity limit exceeded",
        works=False,
    ),
    Quirk(
        "second chain id refused",
        "ethers-io/ethers.js#1260",
        nth("eth_chainId", 2, refusing(200, -32005, WORDS["infura"])),
        early=True,
    ),
    Quirk(
        "extraData of 97 bytes",
        "ApeWorX/web3.py#3464",
        after=_in_blocks(lambda block: block.update(extraData="0x" + "ab" * 97)),
    ),
    Quirk(
        "no base fee",
        "ethereum/EIPs#1559",
        after=_in_blocks(lambda block: block.pop("baseFeePerGas", None)),
        told="base fee",
        works=False,
    ),
    Quirk("receipts 6 s late", "NethermindEth/nethermind#2424", after=_late_receipts(6.0)),
    Quirk("empty results", "erigontech/erigon#7356", after=_empty(0.2), told="no result at block"),
    Quirk(
        "header not found",
        "erigontech/erigon#7356",
        sometimes(0.3, ("eth_call", "eth_getLogs"), refusing(200, -32000, "header not found")),
        told="header not found",
    ),
    Quirk(
        "missing trie nodes",
        "0xPolygon/bor#109",
        sometimes(
            0.3,
            ("eth_call",),
            refusing(200, -32000, "missing trie node 90bb0d5f (path ) state 0x90bb is not available"),
        ),
        told="missing trie node",
    ),
    Quirk(
        "estimates of one argument",
        "hiero-ledger/hiero-json-rpc-relay#493",
        _one_argument,
        told="too many arguments",
    ),
    Quirk("nonces from a machine behind", "cowprotocol/services#64", after=_old_nonces),
    Quirk("reverts: nested", "hiero-ledger/hiero-json-rpc-relay#493", after=reverts(_nested)),
    Quirk(
        "reverts: HTTP 400",
        "hiero-ledger/hiero-json-rpc-relay#2830",
        after=reverts(lambda _r, told, _d: told, 400),
    ),
    Quirk(
        "reverts: HTTP 500",
        "safe-global/safe-eth-py#225",
        after=reverts(
            lambda _r, _t, data: {
                "code": -32015,
                "message": "VM execution error.",
                "data": "Reverted " + data,
            },
            500,
        ),
    ),
    Quirk(
        "reverts: in the message",
        "ConsenSys-archive/ganache#480",
        after=reverts(lambda _r, _t, data: {"code": -32603, "message": f"execution reverted: {data}"}),
    ),
    Quirk("reverts: no data", "0xPolygon/zkevm-node#2026", after=reverts(_lost_data)),
    Quirk("AlreadyKnown", "NethermindEth/nethermind#4148", after=known(-32010, "AlreadyKnown")),
    Quirk("ALREADY_EXISTS", "xclud/web3dart#100", after=known(-32000, "ALREADY_EXISTS: already known")),
)


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
