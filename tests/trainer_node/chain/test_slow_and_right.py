"""An endpoint of our chain that is slow wins against one of another chain that is quick.

Nothing here rests on how quick this machine is: endpoints are called slow, or are later than anybody waits for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from eth_account import Account

from tests.conftest import Anvil
from trainer_node.chain import ChainClient, ViewRule
from trainer_node.chain.agreement import Agreement
from trainer_node.chain.endpoint import Endpoint
from trainer_node.chain.endpoints import PATIENCE_S
from trainer_node.chain.majority import answers
from trainer_node.errors import Disagreement, RpcUnavailable

from ...campaigns.proxy import STALE_BLOCKS, FaultProxy, Trouble
from ..moved_time import MovedTime
from .endpoint import ADDRESS, DEPLOYMENT
from .endpoint_bench import WHO, Bench
from .liar import Liar

SEVEN = "0x60075f5260205ff3"
"""A contract whose views all answer 7."""


class Refuser(Liar):
    """Refuses transactions, if told to, without sending them on."""

    refusal: str | None = None

    def answer(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        if self.refusal is None or request["method"] != "eth_sendRawTransaction":
            super().answer(handler, request)
            return
        error = {"code": -32000, "message": self.refusal}
        self._send(handler, 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode())


@pytest.fixture
def liars(module_anvil: Anvil) -> Iterator[list[Refuser]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Refuser(module_anvil.url)) for _ in range(3)]


def bench_of(anvil: Anvil, liars: Sequence[FaultProxy], moved: MovedTime | None = None) -> Bench:
    bench = Bench(anvil, liars, moved)
    bench.direct.provider.make_request("anvil_setCode", [ADDRESS, SEVEN])  # type: ignore[arg-type]
    bench.mine(3 * STALE_BLOCKS)
    return bench


@pytest.fixture
def pair(module_anvil: Anvil, liars: list[Refuser]) -> Bench:
    """The first endpoint is right; the second one is quick."""
    return bench_of(module_anvil, liars[:2])


@pytest.fixture
def three(module_anvil: Anvil, liars: list[Refuser]) -> Bench:
    return bench_of(module_anvil, liars)


def slow_down(endpoint: Endpoint) -> None:
    """Let it have been late once: for a minute others are preferred."""
    endpoint.hung(RpcUnavailable("3 s later than another endpoint"))


def is_right(bench: Bench, view: Agreement) -> bool:
    look = view.look()
    return look.block.hash == bytes(bench.direct.eth.get_block(look.block.number)["hash"])


@pytest.mark.parametrize("depth", [0, 3])
def test_a_quick_fork_is_no_alternative_to_two_that_are_slow(three: Bench, depth: int) -> None:
    """The round was read through the fork, noticed at its block, and begun again, until the clock had run out."""
    client = ChainClient(three.web3, DEPLOYMENT, policy=ViewRule(depth=depth, agree=2))
    three.proxies[0].always = Trouble.FORKED
    assert client.snapshot().doubt is None
    for _ in range(5):
        three.mine(1)
        three.endpoints.every[1].latency_s = 5.0
        slow_down(three.endpoints.every[2])
        assert client.snapshot().job_count() == 7


@pytest.mark.parametrize("agree", [1, 2])
def test_who_was_late_once_is_still_the_one_of_our_chain(pair: Bench, agree: int) -> None:
    view = pair.view(agree=agree)
    view.look()
    right, quick = pair.endpoints.every
    pair.proxies[1].always = Trouble.FORKED
    for _ in range(3):
        pair.mine(1)
        slow_down(right)
        assert is_right(pair, view)
        assert pair.endpoints.serving is right
        assert pair.endpoints.apart == {quick}
        pair.web3.eth.get_balance(WHO)  # type: ignore[arg-type]
        assert pair.endpoints.source is right
    assert (view.doubt is None) == (agree == 1), "the fork is not a vote, for or against"
    assert quick.name in " ".join(view.problems)


@pytest.mark.slow
def test_an_endpoint_that_is_later_than_a_look_waits_for_is_waited_for(pair: Bench) -> None:
    view = pair.view(agree=1)
    view.look()
    pair.mine(1)
    pair.proxies[1].always = Trouble.FORKED
    pair.proxies[0].late_s = PATIENCE_S + 1
    for _ in range(2):
        assert is_right(pair, view)


def test_who_shows_our_chain_again_is_no_stranger(pair: Bench) -> None:
    view = pair.view(agree=2)
    view.look()
    pair.proxies[1].always = Trouble.FORKED
    assert "disagree" in (view.look().doubt or "")
    assert pair.endpoints.apart
    pair.proxies[1].always = None
    assert view.look().doubt is None
    assert not pair.endpoints.apart


def test_if_nobody_has_the_known_block_it_is_the_chain_that_has_changed(pair: Bench) -> None:
    view = pair.view(agree=2)
    view.look()
    for proxy in pair.proxies:
        proxy.always = Trouble.FORKED
    look = view.look()
    assert look.doubt is None
    assert look.block.hash.hex().endswith("dead")


def test_a_majority_of_all_decides_against_what_was_known(three: Bench) -> None:
    view = three.view(agree=2)
    view.look()
    for proxy in three.proxies[:2]:
        proxy.always = Trouble.FORKED
    look = view.look()
    assert look.doubt is None
    assert look.block.hash.hex().endswith("dead")
    assert three.endpoints.apart == {three.endpoints.every[2]}


@pytest.mark.parametrize("agree", [1, 2])
def test_another_chain_alone_is_not_served(pair: Bench, agree: int) -> None:
    """The one of our chain is asked at every look, so it is back as soon as it answers."""
    view = pair.view(agree=agree)
    view.look()
    pair.proxies[0].always, pair.proxies[1].always = Trouble.STATUS, Trouble.FORKED
    for _ in range(3):
        with pytest.raises(RpcUnavailable, match="another chain"):
            view.look()
    pair.proxies[0].always = None
    assert is_right(pair, view)


def test_what_one_shows_alone_is_not_known(pair: Bench) -> None:
    """Otherwise it could leave our chain while the other one is late, and that one would be the stranger."""
    view = pair.view(agree=1)
    known = view.look().block
    pair.proxies[0].always = Trouble.STATUS
    for _ in range(3):
        pair.mine(1)
        assert view.look().doubt is None
        assert view.known == known


def test_a_fork_after_what_is_known_is_decided_by_nobody(pair: Bench) -> None:
    """Then both serve in turns, each for a whole round."""
    view = pair.view(agree=2)
    known = view.look().block.number

    def fork(true: dict[str, Any]) -> dict[str, Any]:
        block = true["result"]
        late = int(block["number"], 16) > known
        return {"result": {**block, "hash": block["hash"][:-4] + "dead"} if late else block}

    pair.proxies[1].lies["eth_getBlockByNumber"] = fork  # type: ignore[attr-defined]
    pair.mine(2)
    served = set()
    for _ in range(4):
        slow_down(pair.endpoints.every[0])
        pair.clock.now += 1  # others are preferred, and it is asked
        assert "disagree" in (view.look().doubt or "")
        served.add(pair.endpoints.serving)
        pair.web3.eth.get_balance(WHO)  # type: ignore[arg-type]
        assert pair.endpoints.source is pair.endpoints.serving
    assert len(served) == 2


def test_what_another_chain_says_of_our_account_does_not_count(pair: Bench) -> None:
    view = pair.view(agree=1)
    view.look()
    pair.proxies[1].always = Trouble.FORKED
    view.look()
    pair.proxies[1].lies["eth_getBalance"] = hex(1)  # type: ignore[attr-defined]
    slow_down(pair.endpoints.every[0])
    assert answers(pair.endpoints, lambda: pair.web3.eth.get_balance(WHO)) == [0]  # type: ignore[arg-type]


def test_what_another_chain_refuses_is_not_refused(pair: Bench) -> None:
    """The right one takes the transaction, later than anybody waits for after a refusal."""
    view = pair.view(agree=1)
    view.look()
    pair.proxies[1].always = Trouble.FORKED
    view.look()
    pair.proxies[1].refusal = "nonce too low"  # type: ignore[attr-defined]
    pair.proxies[0].late_s = PATIENCE_S + 1
    account = Account.from_key(pair.anvil.keys[5])
    signed = account.sign_transaction(
        {
            "to": WHO,
            "value": 0,
            "gas": 30_000,
            "gasPrice": 10**10,
            "chainId": 31337,
            "nonce": pair.direct.eth.get_transaction_count(account.address),
        }
    )
    assert pair.web3.eth.send_raw_transaction(signed.raw_transaction) == signed.hash


def test_another_chain_neither_confirms_nor_contradicts(pair: Bench) -> None:
    for agree in (1, 2):
        pair.proxies[1].always = None
        view = pair.view(agree=agree)
        view.look()
        pair.proxies[1].always = Trouble.FORKED
        look = view.look()
        notes = pair.notes(look.block.number).kept
        if agree == 1:
            view.confirm(look.block, notes, look.doubt)
        else:
            with pytest.raises(Disagreement, match="shows another chain"):
                view.confirm(look.block, notes)
        assert not view.conflict


def test_a_source_with_another_block_is_left_for_the_others(pair: Bench) -> None:
    """In the middle of a round the one that serves fails, and the other one has left our chain since the look."""
    client = ChainClient(pair.web3, DEPLOYMENT, policy=ViewRule(agree=1))
    snapshot = client.snapshot()
    pair.proxies[0].always, pair.proxies[1].always = Trouble.STATUS, Trouble.FORKED
    with pytest.raises(RpcUnavailable, match="another block"):
        snapshot.job_count()
    assert pair.endpoints.serving is pair.endpoints.every[0]
    pair.proxies[0].always = None
    assert client.snapshot().job_count() == 7
