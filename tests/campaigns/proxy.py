"""An HTTP proxy in front of an RPC endpoint that breaks answers, at random or on command.

with FaultProxy(anvil.url, seed=7) as proxy:
    proxy.break_with({Trouble.STATUS: 0.1, Trouble.DROPPED: 0.05})     shares of all requests
    proxy.always = Trouble.STALE                                      every request, until it is None
"""

from __future__ import annotations

import gzip
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx

from tests.support.local_server import LocalServer

STALE_BLOCKS = 8
SILENCE_S = 3.0
"""Longer than the nodes of a campaign wait."""


class Trouble(StrEnum):
    """A way to break an answer."""

    SILENCE = "silence"  # nothing comes, then the socket closes
    STATUS = "status"  # HTTP 429, 500, 502, 503
    DROPPED = "dropped"  # the socket closes before the answer, or in the middle of it
    WRONG_ID = "wrong-id"  # the answer to another request
    NOTHING = "nothing"  # result null
    NONSENSE = "nonsense"  # another type than asked for, or no JSON
    TOO_LONG = "too-long"  # more bytes than the limit
    PACKED = "packed"  # a small answer that unpacks to a large one
    REFUSAL = "refusal"  # a JSON-RPC error of the endpoint
    STALE = "stale"  # the state some blocks ago, as if it were the newest
    SHUFFLED = "shuffled"  # logs in another order
    FORKED = "forked"  # blocks with other hashes: another chain
    LYING = "lying"  # right blocks, wrong values in them


TRANSIENT = (
    *(Trouble.SILENCE, Trouble.STATUS, Trouble.DROPPED, Trouble.WRONG_ID, Trouble.NOTHING, Trouble.NONSENSE),
    *(Trouble.TOO_LONG, Trouble.PACKED, Trouble.REFUSAL, Trouble.SHUFFLED),
)
"""What one answer may suffer and the next one not."""


class FaultProxy(LocalServer):
    """A real HTTP server. ``seed`` decides which requests are broken."""

    def __init__(self, upstream: str, seed: int = 0) -> None:
        self.upstream = upstream
        self.always: Trouble | None = None
        self.late_s = 0.0
        """Seconds that pass before each answer."""
        self.sleep: Callable[[float], None] = time.sleep
        """How they pass."""
        self.gate = threading.Event()
        """Answers wait until it is set, as it is at first."""
        self.gate.set()
        self.made: Counter[str] = Counter()
        """Broken answers, by trouble."""
        self.asked: Counter[str] = Counter()
        """Requests, by method."""
        self._shares: Mapping[Trouble, float] = {}
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._client = httpx.Client(timeout=120.0)
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    proxy.answer(self, json.loads(body))
                except (ConnectionError, httpx.HTTPError):
                    self.close_connection = True

        super().__init__(Handler)
        self.url = self.uri

    def close(self) -> None:
        self.gate.set()
        super().close()
        self._client.close()

    def break_with(self, shares: Mapping[Trouble, float]) -> None:
        """Break these shares of all answers from now on."""
        self._shares = shares

    # ------------------------------------------------------------------ inside

    def answer(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        """Answer one request, in a thread of its own."""
        method = request["method"]
        with self._lock:
            self.asked[method] += 1
            trouble, draw = self._drawn(), self._random.random()
        self.gate.wait()
        self.sleep(self.late_s)
        if trouble is Trouble.STALE:
            request = self._in_the_past(request)
        elif trouble is Trouble.SILENCE:
            self._note(trouble)
            time.sleep(SILENCE_S)
            handler.close_connection = True
            return
        answer = self._client.post(self.upstream, json=request).json()
        if trouble is None or trouble is Trouble.STALE:
            self._send(handler, 200, json.dumps(answer).encode())
        else:
            self._broken(handler, trouble, draw, method, answer)

    def _drawn(self) -> Trouble | None:
        if self.always is not None:
            return self.always
        draw = self._random.random()
        for trouble, share in self._shares.items():
            draw -= share
            if draw < 0:
                return trouble
        return None

    def _note(self, trouble: Trouble) -> None:
        with self._lock:
            self.made[trouble] += 1

    def _broken(
        self,
        handler: BaseHTTPRequestHandler,
        trouble: Trouble,
        draw: float,
        method: str,
        answer: dict[str, Any],
    ) -> None:
        number = answer["id"]
        match trouble:
            case Trouble.STATUS:
                body = (429, 500, 502, 503)[int(4 * draw)], b"<html>try again later</html>"
            case Trouble.DROPPED:
                self._note(trouble)
                text = json.dumps(answer).encode()
                if draw < 0.5:
                    self._send(handler, 200, text, cut=len(text) // 2)
                handler.close_connection = True
                return
            case Trouble.WRONG_ID:
                body = 200, json.dumps({**answer, "id": number + 1}).encode()
            case Trouble.NOTHING:
                body = 200, json.dumps({"jsonrpc": "2.0", "id": number, "result": None}).encode()
            case Trouble.NONSENSE:
                wrong: Any = (7, [], {"a": 1}, "0xzz", "latest", True, "0x" + "f" * 5000)[int(7 * draw)]
                whole = json.dumps({"jsonrpc": "2.0", "id": number, "result": wrong}).encode()
                body = 200, whole if draw < 0.9 else b"[" * 100_000
            case Trouble.TOO_LONG:
                body = 200, b" " * (1 << 20)
            case Trouble.PACKED:
                self._note(trouble)
                self._send(handler, 200, gzip.compress(bytes(1 << 24)), encoding="gzip")
                return
            case Trouble.REFUSAL:
                error = {"code": -32005, "message": "rate limit exceeded"}
                body = 200, json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode()
            case _:
                told = self._told(trouble, method, answer)
                if told == answer:
                    self._send(handler, 200, json.dumps(answer).encode())
                    return
                body = 200, json.dumps(told).encode()
        self._note(trouble)
        self._send(handler, *body)

    def _told(self, trouble: Trouble, method: str, answer: dict[str, Any]) -> dict[str, Any]:
        """Return a false answer that looks like a right one; the same answer if the trouble is about other requests."""
        result = answer.get("result")
        if trouble is Trouble.SHUFFLED and method == "eth_getLogs" and isinstance(result, list):
            return {**answer, "result": list(reversed(result))}
        if trouble is Trouble.FORKED and method.startswith("eth_getBlock") and isinstance(result, dict):
            return {**answer, "result": {**result, "hash": result["hash"][:-4] + "dead"}}
        if (
            trouble is Trouble.LYING
            and method == "eth_call"
            and isinstance(result, str)
            and len(result) > 2000
        ):
            # The terms of a job: another artifact hash, another root.
            return {**answer, "result": result[:1000] + "f" * 8 + result[1008:]}
        if trouble is Trouble.LYING and method in ("eth_getBalance", "eth_getTransactionCount"):
            return {**answer, "result": hex(int(str(result), 16) + 1000)}
        return answer

    def _in_the_past(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return a request about the newest state as one about the state some blocks ago."""
        head = self._client.post(
            self.upstream, json={"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}
        ).json()["result"]
        past = hex(max(int(head, 16) - STALE_BLOCKS, 0))
        self._note(Trouble.STALE)
        params = [past if item in ("latest", "pending") else item for item in request["params"]]
        return {**request, "params": params}

    def _send(
        self,
        handler: BaseHTTPRequestHandler,
        status: int,
        body: bytes,
        *,
        cut: int | None = None,
        encoding: str | None = None,
    ) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        if encoding is not None:
            handler.send_header("Content-Encoding", encoding)
        handler.end_headers()
        handler.wfile.write(body[:cut])
