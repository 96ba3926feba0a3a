"""An RPC endpoint that lies, stalls or breaks: every answer becomes one of our errors."""

from __future__ import annotations

import json
import threading
from functools import partial

import pytest

from trainer_node.chain import ChainClient, guarded
from trainer_node.errors import ChainError, RpcCorrupt, RpcUnavailable, WrongChain

from .endpoint import ADDRESS, Endpoint, result


@pytest.fixture
def client(endpoint: Endpoint) -> ChainClient:
    return endpoint.client()


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
    ("body", "told"),
    [
        (b"", "the answer is empty"),
        (b"<html><head><style>p {}</style></head><h1>It works!</h1>", "not JSON, but 'It works!'"),
        (b"go away\x1b[2J" * 99, "not JSON, but 'go away [2Jgo away"),
    ],
)
def test_what_is_no_endpoint_is_quoted_with_a_remedy(
    body: bytes, told: str, endpoint: Endpoint, client: ChainClient
) -> None:
    endpoint.answer = lambda _: (200, body)
    with pytest.raises(RpcCorrupt) as caught:
        client.snapshot()
    assert told in str(caught.value)
    assert len(str(caught.value)) < 200
    assert caught.value.advice.startswith("correct the address in rpc_url")


def test_a_remedy_is_told_once(endpoint: Endpoint, client: ChainClient) -> None:
    endpoint.answer = lambda _: (302, b"")
    with pytest.raises(RpcUnavailable, match="name the right address in rpc_url") as caught:
        client.snapshot()
    assert caught.value.advice == ""


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


def test_a_stake_that_is_worth_no_gas_is_nonsense(endpoint: Endpoint, client: ChainClient) -> None:
    """By it a price would be divided by zero, in all jobs of a round."""
    test_views_that_return_nonsense("0x" + "00" * 32, endpoint, client)
    with pytest.raises(RpcCorrupt, match="0 units of gas"):
        assert client.snapshot().stake_gas


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
    odd_logs: tuple[dict[str, object], ...] = (
        {},
        {"address": "0x" + "11" * 20},
        {"topics": []},
        {"blockNumber": "0x99"},
        {"data": 5},
    )
    for odd in odd_logs:
        endpoint.answer = partial(
            lambda odd, request: (
                200,
                result(request, block if request["method"] == "eth_getBlockByNumber" else [{**log, **odd}]),
            ),
            odd,
        )
        with pytest.raises(RpcCorrupt):
            client.snapshot().events(7)


def test_silence_is_an_outage(endpoint: Endpoint) -> None:
    silent, given_up = endpoint.client(timeout_s=2.0), threading.Event()

    def answer(_request: dict) -> tuple[int, bytes]:
        given_up.wait()
        return 200, b""

    endpoint.answer = answer
    with pytest.raises(RpcUnavailable):
        silent.snapshot()
    given_up.set()


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
