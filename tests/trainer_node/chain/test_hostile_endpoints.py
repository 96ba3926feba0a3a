"""What one hostile RPC endpoint may cost: bounded memory and time, and no act of an honest node."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from eth_abi.exceptions import DecodingError
from eth_utils.abi import function_abi_to_4byte_selector
from web3 import Web3

from tests.campaigns.proxy import FaultProxy
from tests.conftest import Anvil
from trainer_node.chain import ChainClient, ViewRule, connect
from trainer_node.chain.abi import Codec, abi_entry, load_artifact
from trainer_node.chain.agreement import Agreement
from trainer_node.chain.codec.base import MAX_CALLS, calls_in
from trainer_node.chain.coders import event_coders, view_coder
from trainer_node.chain.endpoints import Endpoints, endpoints_of
from trainer_node.chain.events import Query, read_events
from trainer_node.chain.log_range import LogRange
from trainer_node.chain.rpc import BoundedProvider
from trainer_node.errors import Disagreement, RpcCorrupt, RpcUnavailable

from .endpoint import ADDRESS, DEPLOYMENT, Endpoint, result
from .liar import ENDLESS, Liar


def test_one_of_three_of_another_chain_is_left_out(module_anvil: Anvil, liar: Liar) -> None:
    liar.lies["eth_chainId"] = "0x1"
    with FaultProxy(module_anvil.url) as first, FaultProxy(module_anvil.url) as second:
        web3 = connect([liar.url, first.url, second.url], 31337)
        view = Agreement(endpoints_of(web3), ViewRule(agree=2))
        assert view.look().doubt is None
        assert any("serves chain 1" in problem for problem in view.problems)


def test_a_chain_id_without_end_is_no_id(liar: Liar, three: Web3) -> None:
    provider = endpoints_of(three)
    for endpoint in provider.every:
        endpoint._chain_is_right = False
    liar.lies["eth_chainId"] = ENDLESS
    assert three.eth.block_number >= 0
    found = provider.each(lambda endpoint: endpoint.request("eth_chainId", []))
    # NOTE: whoever is slow for once comes later.
    assert [one.url for one, answer in found.items() if isinstance(answer, RpcCorrupt)] == [liar.url]
    assert Agreement(provider, ViewRule(agree=2)).look().doubt is None


def test_whoever_makes_no_sense_serves_no_longer(liar: Liar, three: Web3) -> None:
    client = ChainClient(three, DEPLOYMENT, policy=ViewRule(agree=2))
    liar.lies["eth_call"] = "0x01"
    snapshot = client.snapshot()
    assert client.endpoints.serving.url == liar.url
    with pytest.raises(RpcCorrupt):
        snapshot.job_count()
    client.snapshot()
    assert client.endpoints.serving.url != liar.url
    name = next(one.name for one in client.endpoints.every if one.url == liar.url)
    assert any(name in problem and "makes no sense" in problem for problem in client.agreement.problems)
    assert client.endpoints.metrics.value("rpc_failures", name) > 0


@pytest.mark.parametrize("field", ["baseFeePerGas", "timestamp"])
def test_a_block_of_the_same_hash_and_another_price_or_time(
    module_anvil: Anvil, liar: Liar, field: str
) -> None:
    web3 = connect([liar.url, module_anvil.url], 31337)
    view = Agreement(endpoints_of(web3), ViewRule(agree=2))
    sound = view.look()
    assert sound.doubt is None
    liar.lies["eth_getBlockByNumber"] = lambda true: {
        "result": {**true["result"], field: hex(int(true["result"][field], 16) + 1)}
    }
    look = view.look()
    assert "disagree" in (look.doubt or "")
    with pytest.raises(Disagreement):
        view.confirm(look.block, [])


# ------------------------------------------------------------------ values


def contract_at(web3: Any, name: str) -> Any:
    return web3.eth.contract(address=ADDRESS, abi=load_artifact(name).abi)


def u(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_values_that_share_their_bytes_are_refused() -> None:
    """Offsets that all point to one long string: 1 MB that would be 1 GB."""
    text, count = bytes(1 << 20), 1000
    shared = u(32) + u(count) + u(32 * count) * count + u(len(text)) + text
    tracemalloc.start()
    try:
        with pytest.raises(DecodingError, match="share"):
            Codec().decode(["string[]"], shared)
        assert tracemalloc.get_traced_memory()[1] < 16 * len(shared)
    finally:
        tracemalloc.stop()
    alone = u(32) + u(1) + u(32) + u(len(text)) + text
    assert len(Codec().decode(["string[]"], alone)[0][0]) == len(text)


def test_honest_values_are_within_the_bound() -> None:
    rng, codec = Random(22), Codec()
    types = ["(bytes,string[],(uint8,bytes[])[])[]", "uint256[][][]", "bytes[2][]", "string"]
    for _ in range(200):
        some: Callable[[], int] = lambda: rng.randrange(5)  # noqa: E731
        text: Callable[[], bytes] = lambda: rng.randbytes(rng.choice([0, 1, 31, 32, 33, 900]))  # noqa: E731
        given = (
            tuple(
                (
                    text(),
                    tuple("x" * some() for _ in range(some())),
                    tuple((some(), tuple(text() for _ in range(some()))) for _ in range(some())),
                )
                for _ in range(some())
            ),
            tuple(tuple(tuple(some() for _ in range(some())) for _ in range(some())) for _ in range(some())),
            tuple((text(), text()) for _ in range(some())),
            "y" * some(),
        )
        assert codec.decode(types, codec.encode(types, given)) == given


@pytest.mark.parametrize("answer", ["00" * 31 + "05", "0x " + "00 " * 31 + " 05", "0x" + "0" * 63, 5, None])
def test_results_that_are_no_hexadecimal_data(answer: object) -> None:
    contract = contract_at(Web3(), "Jobs")
    view = view_coder(contract, "jobCount")
    assert view.result({"jsonrpc": "2.0", "id": 1, "result": "0x" + "00" * 31 + "05"}) == 5
    with pytest.raises((RpcCorrupt, ValueError, AttributeError, TypeError)):
        view.result({"jsonrpc": "2.0", "id": 1, "result": answer})


@pytest.mark.parametrize(
    ("changes", "right"),
    [
        ([{}], True),
        ([{}, {"logIndex": "0x1"}], True),
        ([{}, {}], False),
        ([{"blockNumber": True}], False),
        ([{"logIndex": "-0x1"}], False),
        ([{"logIndex": False}], False),
    ],
)
def test_logs_at_places_that_cannot_be(changes: list[dict[str, Any]], right: bool) -> None:
    endpoint = Endpoint()
    try:
        web3 = connect(endpoint.url, 31337)
        contract = contract_at(web3, "Referee")
        topic, coder = next((t, c) for t, c in event_coders(contract).items() if c.name == "Descended")
        indexed = [one for one in abi_entry("Referee", "event", "Descended")["inputs"] if one["indexed"]]
        log = {
            "address": ADDRESS,
            "topics": ["0x" + topic.hex(), *["0x" + u(7).hex()] * len(indexed)],
            "data": "0x" + bytes(32 * len(coder._others)).hex(),
            "blockNumber": "0x1",
            "logIndex": "0x0",
            "transactionIndex": "0x0",
            "transactionHash": "0x" + "ab" * 32,
            "blockHash": "0x" + "ab" * 32,
            "removed": False,
        }
        endpoint.answer = lambda request: (200, result(request, [{**log, **change} for change in changes]))
        read = lambda: list(read_events(web3, Query(contract, (7,)), 0, 5, LogRange(10)))  # noqa: E731
        if right:
            assert len(read()) == len(changes)
        else:
            with pytest.raises(RpcCorrupt):
                read()
    finally:
        endpoint.close()


def test_calls_that_hold_each_other_are_counted() -> None:
    """A multicall of multicalls that share their bytes: 5 KB of calldata are 10,000 calls."""
    contract = contract_at(Web3(), "Referee")
    entries = [entry for entry in contract.abi if entry["type"] == "function"]
    leaf = bytes(function_abi_to_4byte_selector(next(one for one in entries if not one["inputs"])))
    multicall = bytes(
        function_abi_to_4byte_selector(next(one for one in entries if one["name"] == "multicall"))
    )

    def shared(inner: bytes, count: int) -> bytes:
        padded = inner + bytes(-len(inner) % 32)
        return multicall + u(32) + u(count) + u(32 * count) * count + u(len(inner)) + padded

    data = leaf
    for _ in range(2):
        data = shared(data, 100)
    assert len(list(calls_in(contract, shared(leaf, 100)))) == 100
    with pytest.raises((ValueError, DecodingError)):
        list(calls_in(contract, data))
    assert MAX_CALLS < 10_000


# ------------------------------------------------------------------ connections


def test_a_reset_drops_only_the_connections_that_were_waited_for() -> None:
    endpoint = Endpoint()
    try:
        provider = BoundedProvider(endpoint.url)
        first = provider.client
        provider.reset(first)
        second = provider.client
        assert second is not first
        provider.reset(first)
        assert provider.client is second, "two requests that time out together make one new client"
        with pytest.raises(RpcUnavailable):
            provider.request(first, "eth_chainId", [])  # type: ignore[arg-type]
        assert provider.make_request("eth_chainId", [])["result"] == "0x7a69"  # type: ignore[arg-type]
    finally:
        endpoint.close()


def test_cookies_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, sent = Endpoint(), list[str | None]()
    handler: Any = endpoint._http.RequestHandlerClass
    plain = handler.end_headers

    def with_cookies(self: Any) -> None:
        sent.append(self.headers["Cookie"])
        for number in range(10):
            self.send_header("Set-Cookie", f"c{number}={'x' * 3000}; Path=/")
        plain(self)

    monkeypatch.setattr(handler, "end_headers", with_cookies)
    try:
        provider = BoundedProvider(endpoint.url)
        for _ in range(3):
            provider.make_request("eth_chainId", [])  # type: ignore[arg-type]
        assert sent == [None] * 3
        assert not list(provider.client.cookies.jar)
    finally:
        endpoint.close()


def test_processes_that_share_a_connection_number_their_requests_apart() -> None:
    provider = BoundedProvider("http://127.0.0.1:9")

    def numbers() -> list[int]:
        return [json.loads(provider.encode_rpc_request("eth_chainId", []))["id"] for _ in range(50)]  # type: ignore[arg-type]

    numbers()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, json.dumps(numbers()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as told:
        theirs = json.load(told)
    assert not set(theirs) & set(numbers())


def test_what_one_endpoint_makes_us_stumble_over_is_its_own_failure(three: Web3) -> None:
    provider: Endpoints = endpoints_of(three)

    def act(endpoint: object) -> int:
        return 1 // 0 if endpoint is provider.every[0] else 7

    found = list(provider.each(act).values())
    assert sorted(map(str, found))[:2] == ["7", "7"]
    assert "ZeroDivisionError" in "".join(map(str, found))
    assert provider.every[0].trouble
