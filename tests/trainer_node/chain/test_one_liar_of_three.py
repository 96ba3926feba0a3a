"""The chain through three endpoints of which the first one lies about blocks, logs or code, or lets others wait."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import pytest
from eth_account import Account
from eth_utils.crypto import keccak
from web3 import Web3

from tests.campaigns.proxy import FaultProxy
from tests.conftest import Anvil
from trainer_node.chain import ChainClient, Deployment, ViewRule, connect
from trainer_node.chain.abi import load_artifact
from trainer_node.chain.agreement import Agreement
from trainer_node.chain.coders import event_coders
from trainer_node.chain.contracts import NAMES
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.chain.events import EventCache, Query
from trainer_node.chain.recorded_reads import Notes
from trainer_node.errors import ChainError, RpcCorrupt, RpcTooLong, RpcUnavailable
from trainer_node.storage.database import Database

from .endpoint import ADDRESS, DEPLOYMENT
from .liar import Liar

SEVEN = "0x60075f5260205ff3"
"""A contract whose views all answer 7."""
HELD = threading.Event()
"""Never set: who waits for it is later than anybody waits for."""
Lie = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture(autouse=True)
def blocks(module_anvil: Anvil) -> Callable[..., Any]:
    """Return what asks the chain itself; there are some blocks, and a contract."""
    direct = connect(module_anvil.url, 31337)
    ask: Callable[..., Any] = lambda method, *params: direct.provider.make_request(method, list(params))  # noqa: E731
    ask("anvil_setCode", ADDRESS, SEVEN)
    ask("anvil_mine", hex(40), hex(12))
    return ask


class Selective(Liar):
    """Lies only about requests for which ``about`` holds, and may wait before it answers."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.about: Callable[[dict[str, Any]], bool] = lambda _: True
        self.wait_s = 0.0

    def answer(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        time.sleep(self.wait_s)
        if self.about(request):
            super().answer(handler, request)
        else:
            FaultProxy.answer(self, handler, request)


@contextlib.contextmanager
def endpoints(anvil: Anvil, timeout_s: float = 5.0) -> Iterator[tuple[Web3, list[Selective]]]:
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(Selective(anvil.url)) for _ in range(3)]
        yield connect([one.url for one in made], 31337, timeout_s=timeout_s), made


def of_a_number(request: dict[str, Any]) -> bool:
    return request["method"] == "eth_getBlockByNumber" and request["params"][0] != "latest"


@pytest.mark.parametrize(
    "lie",
    [
        None,
        lambda _: {"error": {"code": -32000, "message": "header not found"}, "result": None},
        lambda _: {"result": {"number": "0x1"}},
        lambda true: {"result": HELD.wait(60) or true["result"]},
    ],
    ids=["nothing", "an error", "nonsense", "late"],
)
def test_who_shows_only_the_newest_block_keeps_nobody_from_the_chain(
    module_anvil: Anvil, lie: Lie | None
) -> None:
    with endpoints(module_anvil, timeout_s=2.5) as (web3, (liar, *_)):
        liar.about = of_a_number
        liar.lies["eth_getBlockByNumber"] = lie or (lambda _: {"result": None})
        view = Agreement(endpoints_of(web3), ViewRule(depth=3, agree=2))
        for _ in range(2):
            look = view.look()
            assert (look.doubt, endpoints_of(web3).serving.url != liar.url) == (None, True)
        assert any(endpoints_of(web3).every[0].name in problem for problem in view.problems)


def test_a_quick_wrong_answer_leaves_the_others_their_time(module_anvil: Anvil) -> None:
    with endpoints(module_anvil) as (web3, (_, liar, slow)):
        provider = endpoints_of(web3)
        view = Agreement(provider, ViewRule(agree=2))
        look, notes = view.look(), Notes()
        with provider.noting(notes.add):
            for number in range(10):
                web3.eth.get_balance(Web3.to_checksum_address(ADDRESS), number)
        liar.lies["eth_getBalance"] = "0x7"
        slow.wait_s = 0.1
        view.confirm(look.block, notes.kept)
        assert provider.every[2].failures == 0
        liar.lies.clear()
        slow.wait_s = 1.0
        view.confirm(look.block, notes.kept)  # two agree; nobody waits for the third one


def test_a_number_that_never_changes_is_read_again(module_anvil: Anvil) -> None:
    with endpoints(module_anvil) as (web3, (liar, *_)):
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        liar.lies["eth_call"] = "0x" + "00" * 31 + "01"
        assert int(client.contracts.notary.address, 16) == 7, "an address is kept, so most must give it"
        vars(client.contracts)["notary"] = web3.eth.contract(
            Web3.to_checksum_address(ADDRESS), abi=load_artifact("Notary").abi
        )
        snapshot = client.snapshot()
        assert snapshot.stake_gas == 1
        with pytest.raises(ChainError):
            snapshot.confirm()
        liar.lies.clear()
        snapshot = client.snapshot()
        assert snapshot.stake_gas == 7
        snapshot.confirm(heeding_doubt=False)  # as once a minute
        client.snapshot().confirm()


def test_what_others_have_confirmed_is_not_asked_for_again(module_anvil: Anvil) -> None:
    """The attack: whoever lets twenty slots end together has each resignation wait until all that was read for the
    earlier ones is confirmed once more."""
    with endpoints(module_anvil) as (web3, made):
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=3))
        snapshot, asked = client.snapshot(), list[int]()
        for number in range(8):
            for view in (snapshot.job_count, snapshot.commit_age):
                view()
            snapshot.base_fee(number)
            before = sum(one.asked.total() for one in made)
            snapshot.confirm()
            asked.append(sum(one.asked.total() for one in made) - before)
        assert max(asked) < 2 * asked[0], "as many as are new, however many came before"
        for one in made[1:]:
            one.lies["eth_call"] = "0x" + "00" * 31 + "01"
        snapshot.confirm()  # nothing is new
        snapshot.job_count()
        with pytest.raises(ChainError):
            snapshot.confirm()


def test_the_head_is_that_of_most(module_anvil: Anvil) -> None:
    """Attack: one number that is too high while a daemon starts, and it would take all that is to be done for older."""
    with endpoints(module_anvil) as (web3, (liar, *_)):
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        honest = client.head()
        liar.lies["eth_getBlockByNumber"] = lambda true: {"result": {**true["result"], "number": hex(10**9)}}
        assert client.block().number == 10**9, "that one serves"
        assert client.head() == honest


def test_the_first_block_of_a_job_is_that_of_most(module_anvil: Anvil, blocks: Callable[..., Any]) -> None:
    with endpoints(module_anvil) as (web3, (liar, *_)):
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        posted = int(blocks("eth_getBlockByNumber", "0x5", False)["result"]["timestamp"], 16)
        snapshot = client.snapshot()
        liar.lies["eth_getBlockByNumber"] = lambda true: {"result": {**true["result"], "timestamp": "0x1"}}
        jobs: list[Any] = [SimpleNamespace(id=number, posted=posted) for number in range(1, 4)]
        for _ in range(2):
            assert [client.first_block(job, snapshot.block) for job in jobs] == [5] * 3
        for job in jobs:
            client.forget(job.id)
        assert not client._first_blocks, "nothing is kept of jobs that are over"
        assert client.first_block(jobs[0], snapshot.block) == 5


def test_events_that_one_hides_are_not_kept(module_anvil: Anvil, blocks: Callable[..., Any]) -> None:
    with endpoints(module_anvil) as (web3, (liar, *_)):
        cache = EventCache(Database(None), depth=8)
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2), cache=cache)
        query = Query(client.contracts.timekeeper, (), None)
        known = event_coders(client.contracts.timekeeper).items()
        topic, coder = next((topic, coder) for topic, coder in known if not coder._indexed)
        size = 32 * len(coder._types[1])
        blocks("anvil_setCode", ADDRESS, f"0x7f{topic.hex()}61{size:04x}5fa100")  # logs this event
        blocks("eth_sendTransaction", {"from": Account.from_key(module_anvil.keys[3]).address, "to": ADDRESS})
        blocks("anvil_setCode", ADDRESS, SEVEN)
        blocks("anvil_mine", hex(40), hex(12))
        liar.lies["eth_getLogs"] = []
        snapshot = client.snapshot()
        with pytest.raises(RpcCorrupt, match="2 endpoints give something else"):
            snapshot._events(query)
        assert len(client.snapshot()._events(query)) == 1, "another one serves"
        liar.lies.clear()
        assert len(client.snapshot()._events(query)) == 1


def test_one_that_lies_at_the_start_keeps_no_daemon_from_it(module_anvil: Anvil) -> None:
    with endpoints(module_anvil) as (web3, (liar, *_)):
        code = "0x" + keccak(bytes.fromhex(SEVEN[2:])).hex()
        deployment = Deployment(31337, 0, dict.fromkeys(NAMES, ADDRESS), dict.fromkeys(NAMES, code))
        honest = ChainClient(connect(module_anvil.url, 31337), deployment).identity()
        liar.lies["eth_getCode"] = "0x00"
        liar.lies["eth_getBlockByNumber"] = lambda true: {
            "result": {**true["result"], "hash": "0x" + "11" * 32}
        }
        client = ChainClient(web3, deployment)
        client.verify()
        assert client.identity() == honest


def test_a_number_of_many_bytes_is_not_read(module_anvil: Anvil) -> None:
    with endpoints(module_anvil) as (web3, (liar, *_)):
        liar.lies["eth_getTransactionCount"] = ["0x0"] * (1 << 16)
        who = Account.from_key(module_anvil.keys[3]).address
        endpoint = endpoints_of(web3).every[0]
        with endpoints_of(web3).through(endpoint), pytest.raises(RpcTooLong, match="exceeds 4096 bytes"):
            web3.eth.get_transaction_count(who)


def test_who_lets_others_wait_serves_no_longer(module_anvil: Anvil) -> None:
    """Whatever it answers in between."""
    with endpoints(module_anvil, timeout_s=2.5) as (web3, (liar, *_)):
        provider = endpoints_of(web3)
        view = Agreement(provider, ViewRule(agree=2))
        liar.about = lambda request: request["method"] == "eth_call"
        liar.lies["eth_call"] = lambda _: {"result": threading.Event().wait(4) or "0x"}
        for round_ in range(3):
            view.look()
            assert (provider.serving.url == liar.url) is (round_ == 0)
            web3.eth.call({"to": Web3.to_checksum_address(ADDRESS)})
        assert provider.every[0].hangs


def test_a_strangers_transaction_of_megabytes_is_read(
    module_anvil: Anvil, blocks: Callable[..., Any]
) -> None:
    """It may hold a move, and the gas of a block allows it; anvil itself takes no request of this size."""
    sent = blocks(
        "eth_sendTransaction", {"from": Account.from_key(module_anvil.keys[3]).address, "to": ADDRESS}
    )
    with endpoints(module_anvil) as (web3, (one, *_)):
        long = "0x" + "00" * 3_000_000
        one.lies["eth_getTransactionByHash"] = lambda true: {"result": {**true["result"], "input": long}}
        assert len(bytes(web3.eth.get_transaction(sent["result"])["input"])) == 3_000_000


def test_who_hangs_is_not_asked_to_vouch(module_anvil: Anvil) -> None:
    """Or each look would wait for it as long as for a long range of logs."""
    with endpoints(module_anvil) as (web3, _):
        provider, asked = endpoints_of(web3), list[int]()
        view = Agreement(provider, ViewRule(agree=3))
        provider.every[2].hung(RpcUnavailable("late"))
        assert not view.vouches(lambda: asked.append(1), None, provider.serving)
        assert asked == []
