"""Which block is final is said by most endpoints: one of three that lies about it alone decides nothing.

All else that the liars here say is right; what they show as final is mostly a block of our chain.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.conftest import Anvil
from trainer_node.chain import connect
from trainer_node.chain.agreement import Agreement
from trainer_node.chain.counted_blocks import FINALITY_S
from trainer_node.chain.endpoints import PATIENCE_S
from trainer_node.chain.tags import STALLED
from trainer_node.errors import Disagreement, RpcUnavailable

from ...campaigns.proxy import FaultProxy
from ..moved_time import MovedTime
from .endpoint_bench import TIMEOUT_S, Bench

BLOCK_S = 12
OLD = STALLED * FINALITY_S["finalized"] // BLOCK_S + 10
"""So many blocks below the newest, a final block is so old that the chain does not finalize."""
DEPTH = {"safe": 32, "finalized": 64}
"""The blocks by which the chain's own tags are behind its newest block."""
Ask = Callable[[Any], dict[str, Any]]
"""Asks the chain for a block, by number or tag."""


class Tags(FaultProxy):
    """Answers as it likes what it is asked of tags."""

    lie: Callable[[Ask], dict[str, Any]] | None = None
    tag_late_s = 0.0
    """Seconds that pass before it answers what it is asked of tags."""

    def answer(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        if request["method"] != "eth_getBlockByNumber" or request["params"][0] not in DEPTH:
            super().answer(handler, request)
            return

        def ask(at: Any) -> dict[str, Any]:
            asked: dict[str, Any] = self._client.post(
                self.upstream, json={**request, "params": [at, False]}
            ).json()
            return asked

        self.asked["tags"] += 1
        self.sleep(self.tag_late_s)
        answer = ask(request["params"][0]) if self.lie is None else self.lie(ask)
        self._send(handler, 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}).encode())


def below(blocks: int) -> Callable[[Ask], dict[str, Any]]:
    """Show a true block that is so many below the newest."""

    def lie(ask: Ask) -> dict[str, Any]:
        return {"result": ask(hex(int(ask("latest")["result"]["number"], 16) - blocks))["result"]}

    return lie


def made_up(ask: Ask) -> dict[str, Any]:
    """Show a block that is on no chain, of the right number, and very old."""
    return {"result": {**ask("finalized")["result"], "hash": "0x" + "ab" * 32, "timestamp": "0x1"}}


LIES: dict[str, Callable[[Ask], dict[str, Any]]] = {
    "the newest": below(0),
    "an old one": below(150),
    "a very old one": below(OLD),
    "one that is not there": made_up,
    "none": lambda _: {"result": None},
    "an error": lambda _: {"error": {"code": -32602, "message": "unknown block"}},
    "nonsense": lambda _: {"result": {"number": "0x1"}},
}


@pytest.fixture
def proxies(module_anvil: Anvil) -> Iterator[list[Tags]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Tags(module_anvil.url)) for _ in range(3)]


@pytest.fixture(scope="module", autouse=True)
def _long_chain(module_anvil: Anvil) -> None:
    """NOTE: once for all tests of this file, since a chain takes a while for so many blocks."""
    ask: Any = connect(module_anvil.url, 31337).provider
    ask.make_request("anvil_mine", [hex(OLD + 20), hex(BLOCK_S)])


@pytest.fixture
def three(module_anvil: Anvil, proxies: list[Tags]) -> Bench:
    return Bench(module_anvil, proxies)


@pytest.fixture
def pair(module_anvil: Anvil, proxies: list[Tags]) -> Bench:
    return Bench(module_anvil, proxies[:2])


def depths(bench: Bench, view: Agreement, looks: int = 4) -> list[int]:
    """Look some times, a minute and a block apart; return how far below the newest block each time."""
    found = []
    for _ in range(looks):
        bench.mine(1)
        bench.clock.now += 61
        found.append(bench.direct.eth.block_number - view.look().block.number)
    return found


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("lie", LIES)
def test_one_of_three_does_not_say_which_block_is_final(
    three: Bench, proxies: list[Tags], lie: str, place: int
) -> None:
    proxies[place].lie = LIES[lie]
    view = three.view(agree=2, finality="finalized")
    assert depths(three, view) == [DEPTH["finalized"]] * 4
    assert view.doubt is None
    assert three.endpoints.serving is not three.endpoints.every[place]
    assert three.endpoints.every[place].name in " ".join(view.problems)
    look = view.look()
    view.confirm(look.block, three.notes(look.block.number).kept, look.doubt)


@pytest.mark.parametrize("finality", DEPTH)
def test_right_endpoints_may_be_an_epoch_apart(three: Bench, proxies: list[Tags], finality: str) -> None:
    depth = DEPTH[finality]
    proxies[0].lie = below(depth + 32)
    view = three.view(agree=2, finality=finality)
    assert depths(three, view) == [depth] * 4
    assert (view.doubt, view.problems) == (None, [])
    proxies[1].lie = below(depth + 31)
    assert depths(three, view) == [depth + 31] * 4, "what at least two of them call final"


@pytest.mark.parametrize("agree", [1, 2])
@pytest.mark.parametrize("blocks", [0, 150])
def test_of_two_that_contradict_each_other_each_has_its_turn_and_nothing_is_staked(
    pair: Bench, proxies: list[Tags], agree: int, blocks: int
) -> None:
    proxies[0].lie = below(blocks)
    view = pair.view(agree=agree, finality="finalized")
    assert set(depths(pair, view)) == {blocks, DEPTH["finalized"]}
    assert "endpoints disagree about the last finalized block" in str(view.doubt)
    proxies[0].lie = None
    assert depths(pair, view) == [DEPTH["finalized"]] * 4
    assert view.doubt is None


def test_of_two_an_old_one_does_not_lead_to_an_old_look(pair: Bench, proxies: list[Tags]) -> None:
    """While it serves, what counts has confirmations instead."""
    proxies[0].lie = below(OLD)
    assert set(depths(pair, pair.view(agree=1, finality="finalized", depth=3))) == {3, DEPTH["finalized"]}


def test_one_alone_is_not_enough_for_stakes(three: Bench, proxies: list[Tags]) -> None:
    for proxy in proxies[1:]:
        proxy.lie = LIES["none"]
    view = three.view(agree=2, finality="finalized")
    assert depths(three, view) == [DEPTH["finalized"]] * 4
    assert view.doubt == "1 of 3 endpoints show the last finalized block; agree = 2"


def test_where_nobody_shows_a_final_block_the_setting_is_said(three: Bench, proxies: list[Tags]) -> None:
    for proxy in proxies:
        proxy.lie = LIES["none"]
    with pytest.raises(RpcUnavailable, match='does not have block finalized; set finality = "confirmations"'):
        three.view(agree=2, finality="finalized").look()


@pytest.mark.parametrize("right", [0, 1])
def test_a_chain_that_does_not_finalize_is_told_by_most(
    three: Bench, proxies: list[Tags], right: int
) -> None:
    """One that shows a new one alone, or an old one alone, is not believed."""
    for proxy in proxies[right:]:
        proxy.lie = below(OLD)
    view = three.view(agree=2, finality="finalized", depth=3)
    assert depths(three, view) == [3] * 4
    assert "the last finalized block" in str(view.doubt)
    assert "older than the newest" in str(view.doubt)
    look = view.look()
    with pytest.raises(Disagreement):
        view.confirm(look.block, [], look.doubt)
    for proxy in proxies[1:]:
        proxy.lie = None
    assert depths(three, view) == [DEPTH["finalized"]] * 4
    assert view.doubt is None


def test_a_look_takes_one_request_more_of_each_endpoint(three: Bench, proxies: list[Tags]) -> None:
    view = three.view(agree=2, finality="finalized")
    view.look()
    for proxy in proxies:
        proxy.asked.clear()
    view.look()
    assert [dict(proxy.asked) for proxy in proxies] == [{"eth_getBlockByNumber": 1, "tags": 1}] * 3


def test_who_never_says_what_is_final_is_waited_for_once_as_for_heads(
    module_anvil: Anvil, proxies: list[Tags]
) -> None:
    """By the time of the test, which passes while everybody waits: nothing here rests on this machine."""
    moved = MovedTime()
    bench = Bench(module_anvil, proxies, moved)
    view = bench.view(agree=2, finality="finalized")
    view.look()
    proxies[0].tag_late_s = TIMEOUT_S
    began = moved.now
    for _ in range(4):
        assert view.look().doubt is None
    assert moved.now - began <= PATIENCE_S
