"""One meaning for each form of refusal, and a budget of requests that an endpoint does not refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from trainer_node.chain import connect
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.chain.refusals import Meaning, as_geth, busy, meaning_of, without_pending
from trainer_node.chain.request_pace import HINT_S, LEAST, MOST, Pace
from trainer_node.errors import ChainError, RpcBusy, RpcCorrupt, RpcRefused, RpcUnavailable

from .endpoint import Endpoint, result

CUSTOM = "0x" + "12" * 4 + "00" * 32


@pytest.mark.parametrize(
    ("method", "error", "means"),
    [
        ("eth_call", {"code": 3, "message": "execution reverted", "data": "0x"}, Meaning.REVERT),
        (
            "eth_call",
            {"code": -32015, "message": "VM execution error.", "data": "Reverted 0x"},
            Meaning.REVERT,
        ),
        ("eth_call", {"code": -32000, "message": "execution reverted"}, Meaning.REVERT),
        ("eth_call", {"code": -32005, "message": "Limit exceeded"}, Meaning.BUSY),
        ("eth_call", {"code": -32029, "message": "no"}, Meaning.BUSY),
        ("eth_getLogs", {"code": -32005, "message": "query returned more than 10000 results"}, Meaning.OTHER),
        ("eth_getLogs", {"code": -32005, "message": "project ID request rate exceeded"}, Meaning.BUSY),
        ("eth_getLogs", {"code": -32000, "message": "exceeded 25/second request limit"}, Meaning.BUSY),
        ("eth_call", {"code": -32000, "message": "header not found"}, Meaning.LATER),
        ("eth_call", {"code": -39001, "message": "Unknown block"}, Meaning.LATER),
        ("eth_call", {"code": -32603, "message": "Internal JSON-RPC error."}, Meaning.OTHER),
        ("eth_estimateGas", {"code": -32000, "message": "gas required exceeds allowance (0)"}, Meaning.OTHER),
        ("eth_call", {"code": -32000}, Meaning.OTHER),
    ],
)
def test_what_an_error_means(method: str, error: dict[str, Any], means: Meaning) -> None:
    assert meaning_of(method, [{}, "0x1"], error) is means


def test_who_has_no_final_block_has_none_a_moment_later() -> None:
    error = {"code": -39001, "message": "Unknown block"}
    assert meaning_of("eth_getBlockByNumber", ["finalized", False], error) is Meaning.OTHER


@pytest.mark.parametrize(
    "error",
    [
        {"code": 3, "message": "execution reverted", "data": CUSTOM},
        {"code": -32015, "message": "VM execution error.", "data": "Reverted " + CUSTOM},
        {"code": -32603, "message": "no", "data": {"originalError": {"code": 3, "data": CUSTOM}}},
        {"code": -32603, "message": "no", "data": {"message": "no", "txHash": None, "data": CUSTOM}},
        {"code": -32603, "message": f"execution reverted: {CUSTOM} at 0x1234"},
    ],
)
def test_data_of_a_revert_are_found_wherever_they_stand(error: dict[str, Any]) -> None:
    found = as_geth(error)
    assert (found["code"], found["data"]) == (3, CUSTOM)


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32000, "message": "execution reverted"},
        {"code": 3, "message": "execution reverted", "data": 7},
        {
            "code": 3,
            "message": "execution reverted",
            "data": {"data": {"data": {"data": {"data": {"data": CUSTOM}}}}},
        },
        {"code": 3, "message": "execution reverted by 0xzz and 0x123"},
    ],
)
def test_a_revert_without_data_that_make_sense_has_none(error: dict[str, Any]) -> None:
    assert as_geth(error)["data"] == "0x"


def test_what_is_no_revert_stays_as_it_is() -> None:
    error = {"code": -32000, "message": "header not found"}
    assert as_geth(error) == error


@pytest.mark.parametrize(
    ("headers", "error", "hint_s"),
    [
        ({"Retry-After": "2"}, {}, 2.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"}, {}, 40.0),
        ({"Retry-After": "soon"}, {}, 0.0),
        ({"Retry-After": "-5"}, {}, 0.0),
        ({}, {"data": {"rate": {"backoff_seconds": 1}}}, 1.0),
        ({}, {"data": {"backoff_seconds": 30.0}}, 30.0),
        ({}, {"data": {"rate": {"backoff_seconds": "x"}}}, 0.0),
        ({}, {"data": "0x"}, 0.0),
    ],
)
def test_hints_of_when_to_come_again(headers: dict[str, str], error: dict[str, Any], hint_s: float) -> None:
    assert busy(error, headers, "busy", now_s=60.0).retry_s == hint_s


def test_without_the_pending_block_estimates_take_one_argument() -> None:
    assert without_pending("eth_estimateGas", [{"to": "x"}, "pending"]) == [{"to": "x"}]
    assert without_pending("eth_call", [{"to": "x"}, "pending"]) == [{"to": "x"}, "latest"]


# ------------------------------------------------------------------ the budget


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def served(pace: Pace, clock: Clock, takes: int, seconds: float) -> tuple[int, int]:
    """Let requests go one after the other for a while to an endpoint that ``takes`` so many a second. Returns how many
    were answered and refused."""
    end, answered, refused, window = clock.now + seconds, 0, 0, list[float]()
    while clock.now < end:
        wait_s = pace.wait_s(60.0)
        assert wait_s is not None
        clock.now += wait_s + 0.001
        window = [at for at in window if clock.now - at < 1]
        if len(window) < takes:
            window.append(clock.now)
            pace.answered()
            answered += 1
        else:
            pace.refused(1.0)
            refused += 1
    return answered, refused


@pytest.mark.parametrize("takes", [5, 8, 100])
def test_the_budget_comes_near_to_what_an_endpoint_takes(takes: int) -> None:
    clock = Clock()
    pace = Pace(clock)
    served(pace, clock, takes, 10.0)
    answered, refused = served(pace, clock, takes, 300.0)
    assert answered > 0.5 * takes * 300
    assert refused < 0.1 * answered + 10


def test_there_is_no_budget_until_a_request_is_refused() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert [pace.wait_s(0.0) for _ in range(1000)] == [0.0] * 1000
    assert pace.rate is None


def test_an_endpoint_does_not_decide_how_long_a_request_waits() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.refused(3600.0)
    assert pace.wait_s(HINT_S) == HINT_S
    assert pace.wait_s(1.0) is None, "and whoever cannot wait is told at once"
    assert pace.rate == LEAST


def test_a_transaction_does_not_wait_behind_reads() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.refused(1.0)
    clock.now += 1.0
    reads = [pace.wait_s(60.0) for _ in range(40)]
    assert reads[-1] is not None
    assert reads[-1] > 5.0
    assert pace.wait_s(60.0, urgent=True) == 0.0
    assert pace.wait_s(60.0) > reads[-1], "the reads make room for it"  # type: ignore[operator]


def test_a_budget_that_is_never_refused_ends() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.refused(0.0)
    for _ in range(int(MOST) * 4):
        clock.now += 100.0
        assert pace.wait_s(10.0) is not None
    assert pace.rate is None


# ------------------------------------------------------------------ one endpoint


def asking(endpoint: Endpoint, answer: Callable[[dict, int], tuple[int, bytes]]) -> Any:
    """Return the provider of a connection to one endpoint whose n-th answer is ``answer(request, n)``."""
    count = iter(range(1000))
    endpoint.answer = lambda request: answer(request, next(count))
    return endpoints_of(connect(endpoint.url, 31337, sleep=lambda _: None))


def refusal(request: dict, code: int, message: str) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}}
    ).encode()


@pytest.mark.parametrize(
    "failure",
    [
        lambda _: (429, b""),
        lambda _: (503, b"<html><h1>Service Unavailable</h1></html>"),
        lambda _: (200, b"<html>Just a moment...</html>"),
        lambda request: (200, refusal(request, -32000, "header not found")),
        lambda request: (200, refusal(request, -32029, "slow down")),
        lambda request: (200, result(request, "0x")),
    ],
)
def test_a_failure_that_passes_is_not_seen(
    endpoint: Endpoint, failure: Callable[[dict], tuple[int, bytes]]
) -> None:
    asked = asking(endpoint, lambda request, n: failure(request) if n < 3 else (200, result(request, "0x07")))
    assert asked.make_request("eth_call", [{}, "0x1"])["result"] == "0x07"
    assert asked.serving.limits is not None, "but told"
    assert asked.serving.trouble is None


def test_the_words_of_a_provider_are_told(endpoint: Endpoint) -> None:
    page = b"<html><style>x{}</style><h1>Your plan\n has ended</h1></html>"
    asked = asking(endpoint, lambda _r, _n: (402, page))
    with pytest.raises(RpcUnavailable, match="HTTP 402, Your plan has ended"):
        asked.make_request("eth_call", [{}, "0x1"])


def test_a_redirect_is_not_followed_and_named(endpoint: Endpoint) -> None:
    asked = asking(endpoint, lambda _r, _n: (307, b""))
    with pytest.raises(
        RpcUnavailable, match="HTTP 307; it sends us to elsewhere: name the right address in rpc_url"
    ):
        asked.make_request("eth_call", [{}, "0x1"])


def test_a_transaction_that_may_have_arrived_is_not_sent_again_here(endpoint: Endpoint) -> None:
    count = [0]

    def answer(_request: dict, _n: int) -> tuple[int, bytes]:
        count[0] += 1
        return 502, b""

    asked = asking(endpoint, answer)
    with pytest.raises(RpcUnavailable):
        asked.make_request("eth_sendRawTransaction", ["0x02"])
    assert count == [1]


@pytest.mark.parametrize("status", [400, 500])
def test_a_revert_with_an_http_error_is_a_revert(endpoint: Endpoint, status: int) -> None:
    def answer(request: dict, _n: int) -> tuple[int, bytes]:
        error = {"code": -32015, "message": "VM execution error.", "data": "Reverted " + CUSTOM}
        return status, json.dumps(
            {"jsonrpc": "2.0", "id": None if status == 400 else request["id"], "error": error}
        ).encode()

    assert asking(endpoint, answer).make_request("eth_call", [{}, "pending"])["error"]["data"] == CUSTOM


@pytest.mark.parametrize(
    ("body", "raised"),
    [
        (b"[" * 200_000, RpcUnavailable),
        (b'{"id": 5, "error": 7}', RpcUnavailable),
        (b"\xff" * 5000, RpcUnavailable),
    ],
)
def test_an_http_error_with_a_hostile_body_is_an_outage(
    endpoint: Endpoint, body: bytes, raised: type[ChainError]
) -> None:
    with pytest.raises(raised) as caught:
        asking(endpoint, lambda _r, _n: (500, body)).make_request("eth_call", [{}, "0x1"])
    assert len(str(caught.value)) < 500
    assert not isinstance(caught.value, RpcBusy | RpcCorrupt | RpcRefused)


def test_an_endpoint_without_a_pending_block_is_asked_for_the_newest(endpoint: Endpoint) -> None:
    seen = list[Any]()

    def answer(request: dict, _n: int) -> tuple[int, bytes]:
        seen.append(request["params"])
        if "pending" in request["params"]:
            return 200, refusal(request, -32000, "pending block number is not supported")
        return 200, result(request, "0x5")

    asked = asking(endpoint, answer)
    for _ in range(3):
        assert asked.make_request("eth_getTransactionCount", ["0x00", "pending"])["result"] == "0x5"
    assert [params[1] for params in seen] == ["pending", "latest", "latest", "latest"]
    assert "knows no pending block" in asked.serving.limits
