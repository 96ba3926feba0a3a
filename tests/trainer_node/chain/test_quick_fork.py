"""One endpoint is quick; those that are right are slower than anybody is waited for once most have answered.

Time is moved by the tests: it passes while everybody waits for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.conftest import Anvil
from trainer_node.chain import ChainClient, ViewRule
from trainer_node.chain.agreement import Agreement
from trainer_node.chain.endpoint import MAX_BACKOFF_S
from trainer_node.chain.endpoints import PATIENCE_S
from trainer_node.chain.known_blocks import KEPT
from trainer_node.chain.majority import answers
from trainer_node.errors import RpcUnavailable
from trainer_node.storage.database import Database

from ...campaigns.proxy import FaultProxy, Trouble
from ..moved_time import MovedTime
from .endpoint import DEPLOYMENT
from .endpoint_bench import TIMEOUT_S, WHO, Bench
from .liar import Liar
from .test_slow_and_right import bench_of, is_right

SLOW_S = (PATIENCE_S + 1, 4 * PATIENCE_S, TIMEOUT_S / 2)
TWENTY_MINUTES_S = 1200


class Fork(Liar):
    """Leaves the chain after a block, if that is set. From then on it is so many blocks ahead, or behind."""

    after: int | None = None
    ahead = 0

    def answer(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        if self.after is None or request["method"] != "eth_getBlockByNumber":
            super().answer(handler, request)
            return
        newest = self._asked("latest", False)
        head = int(newest["number"], 16) + self.ahead
        number = head if request["params"][0] == "latest" else int(request["params"][0], 16)
        block = self._asked(hex(number), False) or {**newest, "number": hex(number)}
        if number > self.after:
            block = {**block, "hash": block["hash"][:-4] + "dead"}
        result = block if number <= head else None
        self._send(
            handler, 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
        )

    def _asked(self, *params: object) -> Any:
        request = {"jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByNumber", "params": params}
        return self._client.post(self.upstream, json=request).json()["result"]


@pytest.fixture
def proxies(module_anvil: Anvil) -> Iterator[list[FaultProxy]]:
    """The first one can leave our chain."""
    with ExitStack() as stack:
        yield [stack.enter_context(kind(module_anvil.url)) for kind in (Fork, Liar, Liar)]


@pytest.fixture
def moved() -> MovedTime:
    return MovedTime()


@pytest.fixture
def pair(module_anvil: Anvil, proxies: list[FaultProxy], moved: MovedTime) -> Bench:
    return bench_of(module_anvil, proxies[:2], moved)


@pytest.fixture
def three(module_anvil: Anvil, proxies: list[FaultProxy], moved: MovedTime) -> Bench:
    return bench_of(module_anvil, proxies, moved)


def slow_but_the_first(bench: Bench, *late_s: float) -> None:
    for proxy, seconds in zip(bench.proxies[1:], late_s, strict=True):
        proxy.late_s = seconds


def kept(view: Agreement, database: Database) -> Agreement:
    view.keep_in(database)
    return view


def stays_right(bench: Bench, view: Agreement, moved: MovedTime) -> None:
    """Check that a view is right and not in doubt, for four blocks and as many minutes."""
    for _ in range(4):
        bench.mine(1)
        assert is_right(bench, view)
        assert view.doubt is None
        moved.move(61)


# ---------------------------------------------------------------- looks


@pytest.mark.parametrize("slow_s", SLOW_S)
@pytest.mark.parametrize("ahead", [-1, 0, 1])
def test_a_fork_after_what_is_known_loses_to_two_that_are_slow(
    three: Bench, moved: MovedTime, slow_s: float, ahead: int
) -> None:
    """One that is a block behind may seem to share a view with the first slow one; the votes tell."""
    view = three.view(agree=2)
    fork: Any = three.proxies[0]
    fork.after, fork.ahead = view.look().block.number, ahead
    slow_but_the_first(three, slow_s, slow_s + PATIENCE_S + 1)
    three.mine(2)
    stays_right(three, view, moved)


@pytest.mark.parametrize("agree", [1, 2])
@pytest.mark.parametrize("slow_s", SLOW_S)
def test_a_fork_loses_at_the_start_of_a_daemon(three: Bench, agree: int, slow_s: float) -> None:
    view = three.view(agree=agree)
    three.proxies[0].always = Trouble.FORKED
    slow_but_the_first(three, slow_s, slow_s)
    for _ in range(4):
        assert is_right(three, view)
        assert view.doubt is None
        three.mine(1)


@pytest.mark.parametrize("slow_s", SLOW_S)
def test_two_that_are_slow_and_right_can_be_staked_on(three: Bench, moved: MovedTime, slow_s: float) -> None:
    view = three.view(agree=2)
    slow_but_the_first(three, slow_s, slow_s)
    for _ in range(4):
        three.mine(1)
        look = view.look()
        assert look.doubt is None
        view.confirm(look.block, three.notes(look.block.number).kept)
        moved.move(61)


@pytest.mark.parametrize("agree", [1, 2])
def test_who_leaves_our_chain_of_two_is_known_though_the_other_one_is_slow(
    pair: Bench, moved: MovedTime, agree: int
) -> None:
    view = pair.view(agree=agree)
    slow_but_the_first(pair, PATIENCE_S + 1)
    pair.mine(2)
    fork: Any = pair.proxies[0]
    fork.after = view.look().block.number - 1
    for _ in range(4):
        pair.mine(1)
        assert is_right(pair, view)
        moved.move(61)


@pytest.mark.parametrize("agree", [1, 2])
def test_of_two_that_part_after_what_is_known_nobody_can_tell_expect_doubt_and_turns(
    pair: Bench, moved: MovedTime, agree: int
) -> None:
    """Each has been right until now. Every other look is of our chain, and no stake is given on either."""
    view = pair.view(agree=agree)
    fork: Any = pair.proxies[0]
    fork.after = view.look().block.number
    slow_but_the_first(pair, PATIENCE_S + 1)
    seen = []
    for _ in range(6):
        pair.mine(1)
        seen.append(is_right(pair, view))
        assert "endpoints disagree about block" in (view.doubt or "")
        moved.move(61)
    assert seen.count(True) == 3


@pytest.mark.parametrize("agree", [1, 2])
def test_a_fork_that_is_far_ahead_loses_to_two_that_are_slow(
    three: Bench, moved: MovedTime, agree: int
) -> None:
    """Nobody else has its blocks, so that it has no vote against it, and none for it."""
    view = three.view(agree=agree)
    fork: Any = three.proxies[0]
    fork.after, fork.ahead = view.look().block.number, 50
    slow_but_the_first(three, PATIENCE_S + 1, PATIENCE_S + 1)
    three.mine(1)
    stays_right(three, view, moved)


# ---------------------------------------------------------------- the dead


@pytest.mark.parametrize("agree", [1, 2])
def test_a_dead_endpoint_slows_one_look_a_minute_at_most(pair: Bench, moved: MovedTime, agree: int) -> None:
    """Its requests are never answered; the first one is waited for in full: it might be slow and right."""
    view = pair.view(agree=agree)
    view.look()
    pair.proxies[1].always, pair.proxies[1].late_s = Trouble.DROPPED, 2 * TIMEOUT_S
    waited, ends = list[float](), moved.now + TWENTY_MINUTES_S
    while moved.now < ends:
        began = moved.now
        assert is_right(pair, view)
        waited += [moved.now - began] if moved.now > began else []
        moved.move(10)
    assert waited.pop(0) == 2 * TIMEOUT_S
    assert set(waited) == {PATIENCE_S}
    assert len(waited) <= TWENTY_MINUTES_S / MAX_BACKOFF_S + 8, "the first ones come sooner"


# ---------------------------------------------------------------- what is known


def test_a_daemon_that_starts_again_knows_its_chain(pair: Bench) -> None:
    """In a match, with one endpoint that answers: it is on another chain."""
    database = Database(None)
    kept(pair.view(agree=1), database).look()
    pair.proxies[0].always, pair.proxies[1].always = Trouble.FORKED, Trouble.STATUS
    again = kept(pair.view(agree=1), database)
    for _ in range(3):
        pair.mine(1)
        with pytest.raises(RpcUnavailable, match="another chain"):
            again.look()
    pair.proxies[1].always = None
    assert is_right(pair, again)
    assert is_right(pair, again)


def test_the_known_block_is_written_once_a_minute(pair: Bench, moved: MovedTime) -> None:
    database = Database(None)
    view = kept(pair.view(agree=2), database)
    first = view.look().block.number
    pair.mine(1)
    view.look()
    assert database.get(KEPT)[0] == first
    moved.move(61)
    pair.mine(1)
    assert view.look().block.number == first + 2 == database.get(KEPT)[0]


def test_a_kept_block_that_no_endpoint_has_is_forgotten(pair: Bench) -> None:
    database = Database(None)
    kept(pair.view(agree=2), database).look()
    for proxy in pair.proxies:
        proxy.always = Trouble.FORKED
    view = kept(pair.view(agree=2), database)
    assert view.look().doubt is None
    pair.mine(1)
    assert view.look().block.hash.hex().endswith("dead")


def test_endpoints_that_answer_one_after_the_other_make_a_block_known(three: Bench) -> None:
    """No two of them ever answer in the same look."""
    view, first = three.view(agree=2), three.direct.eth.block_number
    for place in (1, 2):
        for at, proxy in enumerate(three.proxies):
            proxy.always = None if at == place else Trouble.STATUS
        assert "1 of 3 endpoints" in (view.look().doubt or "")
        assert (view.known is not None) == (place == 2)
        three.mine(1)
    assert view.known is not None
    assert view.known.number == first
    assert view.known.hash == bytes(three.direct.eth.get_block(first)["hash"])
    three.proxies[0].always, three.proxies[2].always = Trouble.FORKED, Trouble.STATUS
    with pytest.raises(RpcUnavailable, match="another chain"):
        view.look()


def test_a_fork_that_answers_alone_first_is_not_learnt(three: Bench) -> None:
    view = three.view(agree=2)
    for place in (0, 1, 2, 1):
        for at, proxy in enumerate(three.proxies):
            proxy.always = None if at == place else Trouble.STATUS
        if place == 0:
            three.proxies[0].always = Trouble.FORKED
        view.look()
        three.mine(1)
    assert view.known is not None
    assert view.known.hash == bytes(three.direct.eth.get_block(view.known.number)["hash"])


# ---------------------------------------------------------------- the start


def client_of(bench: Bench) -> ChainClient:
    return ChainClient(bench.web3, DEPLOYMENT, policy=ViewRule(agree=1))


def test_the_first_block_is_that_of_most_however_slow_they_are(three: Bench) -> None:
    right = client_of(three).identity()
    three.proxies[0].always = Trouble.FORKED
    slow_but_the_first(three, 3 * PATIENCE_S, 6 * PATIENCE_S)
    assert client_of(three).identity() == right


def test_a_daemon_that_belongs_to_a_chain_comes_up_though_one_of_two_shows_another(pair: Bench) -> None:
    right = client_of(pair).identity()
    pair.proxies[0].always = Trouble.FORKED
    slow_but_the_first(pair, 3 * PATIENCE_S)
    assert client_of(pair).identity(right) == right
    with pytest.raises(RpcUnavailable, match="the chain's first block"):
        client_of(pair).identity()


# ---------------------------------------------------------------- what else one alone must not decide


def test_what_a_quick_one_says_of_our_account_does_not_count(three: Bench) -> None:
    three.view(agree=2).look()
    three.proxies[0].lies["eth_getBalance"] = hex(1)  # type: ignore[attr-defined]
    slow_but_the_first(three, 3 * PATIENCE_S, 6 * PATIENCE_S)
    found = answers(three.endpoints, lambda: three.web3.eth.get_balance(WHO))  # type: ignore[arg-type]
    assert sorted(found) == [0, 0, 1]


def test_a_quick_one_that_contradicts_keeps_a_slow_one_from_nothing(three: Bench) -> None:
    """A stake is confirmed by the slow one, though the liar has answered at once."""
    view = three.view(agree=2)
    three.proxies[1].always, three.proxies[2].late_s = Trouble.LYING, PATIENCE_S + 1
    look = view.look()
    assert three.endpoints.serving is three.endpoints.every[0]
    view.confirm(look.block, three.notes(look.block.number).kept * 8, look.doubt)
    assert not view.conflict
