"""Ranges of events that are too large, for the endpoint or for us, are read in halves; what is no log is an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import httpx
import pytest

from trainer_node.chain import ChainClient, Contracts
from trainer_node.chain.events import Event, Query, packed, read_events, unpacked
from trainer_node.chain.log_range import LogRange
from trainer_node.errors import RpcCorrupt, RpcRefused, RpcTooLong, RpcUnavailable

from .endpoint import ADDRESS, Endpoint, result

MATCH = 7
LAST = 99
BLOCKS = (0, 12, 12, 12, 13, 50, 98, 99)
"""Blocks of the chain's logs."""


class Logs:
    """The logs of a chain, and the ranges requested. ``refuse`` refuses an answer by its number of logs."""

    def __init__(
        self, client: ChainClient, refuse: Callable[[dict, int], tuple[int, bytes] | None], data: int = 0
    ) -> None:
        contract = Contracts(client.web3, client.deployment).data_availability
        self.query = Query(contract, (MATCH,), ("Withdrawn",))
        self._web3, self._refuse, self._data = client.web3, refuse, data
        self.asked: list[tuple[int, int]] = []

    def answer(self, request: dict) -> tuple[int, bytes]:
        asked = request["params"][0]
        first, last = int(asked["fromBlock"], 16), int(asked["toBlock"], 16)
        self.asked.append((first, last))
        logs = [self._log(asked, i, block) for i, block in enumerate(BLOCKS) if first <= block <= last]
        return self._refuse(request, len(logs)) or (200, result(request, logs))

    def read(self, span: int = 64) -> list[Event]:
        return self.read_by(LogRange(span))

    def read_by(self, span: LogRange) -> list[Event]:
        return list(read_events(self._web3, self.query, 0, LAST, span))

    def _log(self, asked: dict, index: int, block: int) -> dict:
        return {
            "address": ADDRESS,
            "topics": [asked["topics"][0][0], "0x" + MATCH.to_bytes(32, "big").hex()],
            "data": "0x" + (5).to_bytes(32, "big").hex() + "00" * self._data,
            "blockNumber": hex(block),
            "blockHash": "0x" + "11" * 32,
            "transactionHash": "0x" + "33" * 32,
            "transactionIndex": "0x0",
            "logIndex": hex(index),
            "removed": False,
        }


def taken(_request: dict, _count: int) -> None:
    """Refuse nothing."""


def error(request: dict, code: int, message: str) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}}
    ).encode()


def more_than(most: int, status: int = 200) -> Callable[[dict, int], tuple[int, bytes] | None]:
    """Return an endpoint's refusal of answers with more logs than that."""

    def refuse(request: dict, count: int) -> tuple[int, bytes] | None:
        said = f"query returned more than {most} results"
        return (status, error(request, -32005, said)) if count > most else None

    return refuse


@pytest.mark.parametrize("status", [200, 413])
def test_a_range_that_is_refused_is_read_in_halves(endpoint: Endpoint, status: int) -> None:
    logs = Logs(endpoint.client(), more_than(3, status))
    endpoint.answer = logs.answer
    assert [event.block for event in logs.read()] == list(BLOCKS)
    assert [event.index for event in logs.read()] == list(range(len(BLOCKS)))
    halves = [(0, 63), (0, 31), (0, 15), (0, 7), (8, 15), (8, 11), (12, 15), (12, 13), (12, 12), (13, 13)]
    assert logs.asked == 2 * [*halves, (14, 15), (16, 31), (32, 63), (64, 99)]


def test_a_range_that_is_not_refused_is_read_at_once(endpoint: Endpoint) -> None:
    logs = Logs(endpoint.client(), taken)
    endpoint.answer = logs.answer
    assert [event.block for event in logs.read()] == list(BLOCKS)
    assert logs.asked == [(0, 63), (64, 99)]


def test_a_range_of_more_bytes_than_we_take_is_read_in_halves(endpoint: Endpoint) -> None:
    logs = Logs(endpoint.client(), taken, data=100_000)  # 200,000 digits each; the limit is a mebibyte
    endpoint.answer = logs.answer
    assert [event.block for event in logs.read()] == list(BLOCKS)
    assert logs.asked[:2] == [(0, 63), (0, 31)]


def test_an_answer_that_comes_too_slowly_is_read_in_halves(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seconds for each log, within ten seconds for an answer."""
    client, clock = endpoint.client(timeout_s=5.0), [0]
    logs = Logs(client, taken)

    def slowly(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)
        _, body = logs.answer(asked)
        pieces = body.split(b'"address"')

        def drip() -> Iterator[bytes]:
            yield pieces[0]
            for piece in pieces[1:]:
                clock[0] += 2
                yield b'"address"' + piece

        return httpx.Response(200, content=drip())

    provider = client.endpoints.serving._provider
    monkeypatch.setattr(provider, "client", httpx.Client(transport=httpx.MockTransport(slowly)))
    monkeypatch.setattr("trainer_node.chain.rpc.time", SimpleNamespace(monotonic=lambda: clock[0]))
    assert [event.block for event in logs.read()] == list(BLOCKS)
    assert logs.asked == [(0, 63), (0, 31), (32, 63), (64, 95), (96, 99)]


def test_one_block_that_is_too_long_names_the_limit_and_the_remedy(endpoint: Endpoint) -> None:
    logs = Logs(endpoint.client(), taken, data=400_000)
    endpoint.answer = logs.answer
    said = r"exceeds 1048576 bytes \(limits.rpc_bytes\), for block 12 alone; raise limits.rpc_bytes"
    with pytest.raises(RpcTooLong, match=said):
        logs.read()


def test_one_block_that_is_refused_names_the_limit_and_the_remedy(endpoint: Endpoint) -> None:
    logs = Logs(endpoint.client(), more_than(2))
    endpoint.answer = logs.answer
    said = "query returned more than 2 results.*, for block 12 alone; set another rpc_url"
    with pytest.raises(RpcRefused, match=said):
        logs.read()


def test_an_endpoint_that_refuses_everything_is_asked_a_few_times(endpoint: Endpoint) -> None:
    logs = Logs(endpoint.client(), lambda request, _: (200, error(request, -32000, "no logs here")))
    endpoint.answer = logs.answer
    with pytest.raises(RpcUnavailable, match="no logs here"):
        logs.read()
    assert [last - first + 1 for first, last in logs.asked] == [64, 32, 16, 8, 4, 2, 1]


def test_an_endpoint_that_is_out_is_not_asked_for_less(endpoint: Endpoint) -> None:
    logs = Logs(endpoint.client(), lambda *_: (503, b""))
    endpoint.answer = logs.answer
    with pytest.raises(RpcUnavailable, match="HTTP 503"):
        logs.read()
    assert set(logs.asked) == {(0, 63)}


def longer_than(most: int, status: int) -> Callable[[dict, int], tuple[int, bytes] | None]:
    """Return an endpoint's refusal of ranges of more blocks than that."""

    def refuse(request: dict, _count: int) -> tuple[int, bytes] | None:
        asked = request["params"][0]
        said = f"requests of up to a {most} block range only"
        longer = int(asked["toBlock"], 16) - int(asked["fromBlock"], 16) >= most
        return (status, error(request, -32600, said)) if longer else None

    return refuse


@pytest.mark.parametrize("status", [200, 400, 403, 413, 500])
def test_the_length_that_an_endpoint_takes_is_remembered(endpoint: Endpoint, status: int) -> None:
    logs = Logs(endpoint.client(), longer_than(10, status))
    endpoint.answer = logs.answer
    span = LogRange(64)
    assert [event.block for event in logs.read_by(span)] == list(BLOCKS)
    refused = [one for one in logs.asked if one[1] - one[0] >= 10]
    assert refused[:3] == [(0, 63), (0, 31), (0, 15)]
    assert len(refused) <= 5, "longer ranges are tried again, and not often"
    assert span.length(endpoint) == 64, "of others nothing is known"


def test_a_length_that_was_refused_once_grows_again() -> None:
    span = LogRange(10_000)
    span.refused("x", 10_000)
    assert span.length("x") == 5_000
    tries = 0
    while span.length("x") < 10_000:
        span.worked("x", span.length("x"))
        tries += 1
        assert tries < 10


def test_an_endpoint_with_a_limit_is_seldom_asked_for_more() -> None:
    span, refused = LogRange(10_000), 0
    for _ in range(2_000):
        length = span.length("x")
        if length > 10:
            span.refused("x", length)
            refused += 1
        else:
            span.worked("x", length)
    assert span.length("x") in range(5, 20)
    assert refused < 30


NONSENSE: dict[str, dict[str, object]] = {
    "a topic of 33 bytes": {"topics": ["0x" + MATCH.to_bytes(32, "big").hex() + "00"]},
    "a topic that is a number": {"topics": [5]},
    "no topics": {"topics": None},
    "data that are no digits": {"data": "0x5g"},
    "data with a space": {"data": "0x" + "00" * 31 + " 05"},
    "half a byte": {"data": "0x5"},
    "no block": {"blockNumber": None},
    "a block that is no number": {"blockNumber": "five"},
    "a place before the first": {"logIndex": "-0x1"},
    "no hash": {"transactionHash": None},
    "a short hash": {"blockHash": "0x11"},
    "another contract": {"address": "0x" + "22" * 20},
}


@pytest.mark.parametrize("case", NONSENSE)
def test_a_log_that_makes_no_sense_is_an_error_of_ours(endpoint: Endpoint, case: str) -> None:
    logs = Logs(endpoint.client(), taken)

    def answer(request: dict) -> tuple[int, bytes]:
        found = [logs._log(request["params"][0], 0, 12) | NONSENSE[case]]
        if "33" in case:
            found[0]["topics"] = [request["params"][0]["topics"][0][0], *found[0]["topics"]]
        return 200, result(request, found)

    endpoint.answer = answer
    with pytest.raises(RpcCorrupt):
        logs.read()


@pytest.mark.parametrize("answer", [None, {}, "0x", [None], ["0x"]])
def test_what_is_no_list_of_logs_is_an_error_of_ours(endpoint: Endpoint, answer: object) -> None:
    logs = Logs(endpoint.client(), taken)
    endpoint.answer = lambda request: (200, result(request, answer))
    with pytest.raises(RpcCorrupt):
        logs.read()


def test_an_error_that_names_a_revert_is_a_refusal(endpoint: Endpoint) -> None:
    """No contract runs for logs, so it is not the contract's answer."""
    logs = Logs(endpoint.client(), taken)
    endpoint.answer = lambda request: (200, error(request, 3, "execution reverted"))
    with pytest.raises(RpcRefused):
        logs.read()


def test_a_log_that_was_kept_is_the_same_log(endpoint: Endpoint) -> None:
    logs = Logs(endpoint.client(), taken)
    endpoint.answer = logs.answer
    for event in logs.read():
        again = unpacked(logs.query.contract, packed(event))
        assert again == event
        assert again.raw == event.raw
