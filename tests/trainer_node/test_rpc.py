"""An RPC endpoint that lies, stalls or breaks: every answer becomes one of our errors."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from trainer_node.chain import ChainClient, Deployment, connect, guarded
from trainer_node.chain.contracts import NAMES, load_artifact
from trainer_node.errors import ChainError, ConfigError, RpcCorrupt, RpcUnavailable, WrongChain

ADDRESS = "0x000000000000000000000000000000000000dEaD"
DEPLOYMENT = Deployment(31337, 0, dict.fromkeys(NAMES, ADDRESS), dict.fromkeys(NAMES, "0x00"))


class Endpoint:
    """Answers `eth_chainId` well, so that one can connect; everything else with `answer(request)`: status and body."""

    def __init__(self) -> None:
        self.answer: Callable[[dict], tuple[int, bytes]] = lambda _: (500, b"")
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, body = (200, result(request, "0x7a69"))
                if request["method"] != "eth_chainId":
                    status, body = endpoint.answer(request)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def result(request: dict, value: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": value}).encode()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()


@pytest.fixture
def client(endpoint: Endpoint) -> ChainClient:
    try:
        load_artifact("Jobs")
    except ConfigError:
        pytest.fail("the contracts are not built; run `make setup`")
    return ChainClient(connect(endpoint.url, 31337, timeout_s=0.5, max_bytes=1 << 20), DEPLOYMENT)


BODIES: dict[str, tuple[int, bytes, type[ChainError]]] = {
    "not json": (200, b"<html>", RpcCorrupt),
    "empty": (200, b"", RpcCorrupt),
    "a list": (200, b"[]", RpcCorrupt),
    "another request's": (200, b'{"jsonrpc": "2.0", "id": 999999, "result": "0x1"}', RpcCorrupt),
    "deep": (200, b"[" * 200_000, RpcCorrupt),
    "a huge number": (200, b'{"id": ' + b"9" * 100_000 + b"}", RpcCorrupt),
    "too long": (200, b" " * (2 << 20), RpcCorrupt),
    "server error": (503, b"", RpcUnavailable),
    "redirect": (302, b"", RpcUnavailable),
}


@pytest.mark.parametrize("case", BODIES)
def test_broken_answers(case: str, endpoint: Endpoint, client: ChainClient) -> None:
    status, body, error = BODIES[case]
    endpoint.answer = lambda _: (status, body)
    with pytest.raises(error):
        client.snapshot()


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        "0x",
        "latest",
        [],
        {},
        {"number": None},
        {"number": "0x" + "f" * 60, "hash": "0x" + "00" * 32, "timestamp": "0x1"},
        {"number": "0x1", "hash": "0x00", "timestamp": "0x1"},
        {"number": "0x1", "hash": 7, "timestamp": "0x1"},
        {"number": "-0x1", "hash": "0x" + "00" * 32, "timestamp": "0x1"},
    ],
    ids=str,
)
def test_blocks_that_are_none(value: object, endpoint: Endpoint, client: ChainClient) -> None:
    endpoint.answer = lambda request: (200, result(request, value))
    with pytest.raises(ChainError):
        client.snapshot()


@pytest.mark.parametrize(
    "value", [None, 5, "0x", "0xzz", "0x" + "ff" * 32, "0x" + "00" * 31, "0x" + "ff" * 4096, []], ids=str
)
def test_views_that_return_nonsense(value: object, endpoint: Endpoint, client: ChainClient) -> None:
    block = {"number": "0x1", "hash": "0x" + "11" * 32, "timestamp": "0x1"}

    def answer(request: dict) -> tuple[int, bytes]:
        return 200, result(request, block if request["method"] == "eth_getBlockByNumber" else value)

    endpoint.answer = answer
    with pytest.raises(RpcCorrupt):
        client.snapshot().job(1)


def test_logs_of_something_else_are_refused(endpoint: Endpoint, client: ChainClient) -> None:
    block = {"number": "0x5", "hash": "0x" + "11" * 32, "timestamp": "0x1"}
    log = {
        "address": ADDRESS,
        "topics": ["0x" + "22" * 32, "0x" + "00" * 31 + "07"],
        "data": "0x",
        "blockNumber": "0x1",
        "blockHash": "0x" + "11" * 32,
        "transactionHash": "0x" + "33" * 32,
        "transactionIndex": "0x0",
        "logIndex": "0x0",
        "removed": False,
    }
    for odd in ({}, {"address": "0x" + "11" * 20}, {"topics": []}, {"blockNumber": "0x99"}, {"data": 5}):
        endpoint.answer = lambda request, odd=odd: (
            200,
            result(request, block if request["method"] == "eth_getBlockByNumber" else [{**log, **odd}]),
        )
        with pytest.raises(RpcCorrupt):
            client.snapshot().events(7)


def test_silence_is_an_outage(endpoint: Endpoint, client: ChainClient) -> None:
    def answer(_request: dict) -> tuple[int, bytes]:
        time.sleep(1.0)
        return 200, b""

    endpoint.answer = answer
    with pytest.raises(RpcUnavailable):
        client.snapshot()


def test_errors_of_the_endpoint_are_outages(endpoint: Endpoint, client: ChainClient) -> None:
    def answer(request: dict) -> tuple[int, bytes]:
        error = {"code": -32005, "message": "rate limit"}
        return 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()

    endpoint.answer = answer
    with pytest.raises(RpcUnavailable, match="rate limit"):
        client.snapshot()
    endpoint.answer = lambda r: (200, json.dumps({"id": r["id"], "error": "text"}).encode())
    with pytest.raises(RpcCorrupt):
        client.snapshot()


def test_no_code_is_the_wrong_chain(endpoint: Endpoint, client: ChainClient) -> None:
    endpoint.answer = lambda request: (200, result(request, "0x"))
    with pytest.raises(WrongChain, match="no code"):
        client.verify()


def test_our_own_bugs_are_not_blamed_on_the_endpoint() -> None:
    with pytest.raises(AssertionError), guarded("test"):
        raise AssertionError
