"""Several RPC endpoints: who serves, who is believed, and what is said about it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from tests.campaigns.proxy import STALE_BLOCKS, FaultProxy, Trouble
from tests.conftest import Anvil
from tests.trainer_node.chain.endpoint import DEPLOYMENT
from tests.trainer_node.chain.endpoint_bench import WHO, Bench
from trainer_node.chain import Call, ChainClient, TransactionManager, ViewRule, connect
from trainer_node.chain.agreement import Agreement
from trainer_node.chain.endpoint import MAX_BACKOFF_S
from trainer_node.chain.endpoints import Endpoints
from trainer_node.daemon.access import open_client
from trainer_node.errors import ChainError, ConfigError, Disagreement, RpcUnavailable, WrongChain
from trainer_node.settings.settings import load_settings
from trainer_node.storage.database import Database


@pytest.fixture
def proxies(module_anvil: Anvil) -> Iterator[list[FaultProxy]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(FaultProxy(module_anvil.url, seed)) for seed in range(3)]


@pytest.fixture
def pair(module_anvil: Anvil, proxies: list[FaultProxy]) -> Bench:
    bench = Bench(module_anvil, proxies[:2])
    bench.mine(3 * STALE_BLOCKS)
    return bench


@pytest.fixture
def three(module_anvil: Anvil, proxies: list[FaultProxy]) -> Bench:
    bench = Bench(module_anvil, proxies)
    bench.mine(3 * STALE_BLOCKS)
    return bench


@pytest.mark.parametrize(
    "trouble",
    [
        *(Trouble.STATUS, Trouble.DROPPED, Trouble.WRONG_ID, Trouble.TOO_LONG, Trouble.PACKED),
        *(Trouble.NONSENSE, Trouble.SILENCE, Trouble.NOTHING, Trouble.REFUSAL),
    ],
)
def test_another_endpoint_takes_over(pair: Bench, trouble: Trouble) -> None:
    view = pair.view(agree=1)
    assert (view.look().doubt, view.problems) == (None, [])
    assert pair.endpoints.serving is pair.endpoints.every[0]
    pair.proxies[0].always = trouble
    for _ in range(3):
        assert view.look().block.number == pair.direct.eth.block_number
    if trouble not in (
        Trouble.NOTHING,
        Trouble.NONSENSE,
        Trouble.REFUSAL,
    ):  # well-formed answers to something else
        assert pair.metrics.value("rpc_failures", pair.endpoints.every[0].name) > 0
    assert pair.endpoints.serving is pair.endpoints.every[1]


def test_an_endpoint_that_has_been_away_for_days_is_asked_each_minute(pair: Bench) -> None:
    endpoint = pair.endpoints.every[0]
    for _ in range(2_000):
        endpoint.failed(RpcUnavailable("no answer"))
    assert endpoint.waits
    assert pair.view(agree=1).look().doubt is None, "the other one serves"
    pair.clock.now += MAX_BACKOFF_S
    assert not endpoint.waits


def test_without_enough_endpoints_nothing_is_staked_and_this_is_said(pair: Bench) -> None:
    view = pair.view(agree=2)
    pair.proxies[1].always = Trouble.STATUS
    look = view.look()
    assert look.doubt is not None
    assert "1 of 2 endpoints" in look.doubt
    with pytest.raises(Disagreement, match="agree = 2"):
        view.confirm(look.block, [], look.doubt)
    said = " ".join(view.problems)
    assert pair.endpoints.every[1].name in said
    assert "HTTP" in said
    assert pair.metrics.value("rpc_agreeing") == 1
    pair.proxies[1].always = None
    pair.clock.now += MAX_BACKOFF_S
    assert view.look().doubt is None
    assert view.problems == []
    assert pair.metrics.value("rpc_agreeing") == 2


def test_endpoints_that_contradict_each_other_serve_in_turns(pair: Bench) -> None:
    view = pair.view(agree=2)
    pair.proxies[1].always = Trouble.FORKED
    doubts, served = [], set()
    for _ in range(4):
        doubts.append(view.look().doubt or "")
        served.add(pair.endpoints.serving.name)
    assert all("endpoints disagree about block" in doubt for doubt in doubts), doubts
    assert len(served) == 2, "either may show the true chain"


def test_a_majority_decides_and_the_other_one_is_named(three: Bench) -> None:
    view = three.view(agree=2)
    three.proxies[0].always = Trouble.FORKED
    look = view.look()
    assert look.doubt is None
    assert look.block.hash == bytes(three.direct.eth.get_block(look.block.number)["hash"])
    assert three.endpoints.serving is not three.endpoints.every[0]
    assert "unlike the others" in " ".join(view.problems)
    assert three.metrics.value("rpc_disagreements", three.endpoints.every[0].name) > 0


def test_a_stuck_endpoint_neither_serves_nor_vouches(pair: Bench) -> None:
    view = pair.view(agree=2)
    pair.proxies[0].always = Trouble.STALE
    heads = [view.look() for _ in range(4)]
    assert all(look.doubt is not None for look in heads), "one of them is not at the head"
    assert max(look.block.number for look in heads) == pair.direct.eth.block_number


def test_a_value_that_another_endpoint_contradicts(pair: Bench) -> None:
    view = pair.view(agree=2)
    look = view.look()
    notes = pair.notes(look.block.number)
    view.confirm(look.block, notes.kept)
    pair.proxies[1].always = Trouble.LYING
    with pytest.raises(Disagreement, match="eth_getBalance"):
        view.confirm(look.block, notes.kept)
    assert view.conflict
    assert view.look().doubt is not None
    pair.proxies[1].always = None
    view.confirm(look.block, notes.kept)
    assert not view.conflict
    assert view.look().doubt is None


def test_a_liar_that_serves_is_found_out_by_two_others(three: Bench) -> None:
    view = three.view(agree=2)
    three.proxies[0].always = Trouble.LYING
    look = view.look()
    with pytest.raises(Disagreement):
        view.confirm(look.block, three.notes(look.block.number).kept)
    for _ in range(3):
        look = view.look()
        with contextlib.suppress(Disagreement):
            view.confirm(look.block, three.notes(look.block.number).kept)
    assert view.look().doubt is None
    assert three.endpoints.serving is not three.endpoints.every[0]
    assert "eth_getBalance" in " ".join(view.problems)


def test_a_liar_that_serves_and_is_late_when_asked_again_is_set_aside(three: Bench) -> None:
    view = three.view(agree=2)
    liar = three.proxies[0]
    liar.always = Trouble.LYING
    for _ in range(3):
        look = view.look()
        notes = three.notes(look.block.number).kept
        if three.endpoints.serving is not three.endpoints.every[0]:
            liar.gate.clear()  # the two others decide meanwhile
        with contextlib.suppress(Disagreement):
            view.confirm(look.block, notes)
        liar.gate.set()
    assert not view.conflict
    for _ in range(3):
        look = view.look()
        assert look.doubt is None
        assert three.endpoints.serving is not three.endpoints.every[0]
        view.confirm(look.block, three.notes(look.block.number).kept)
    assert "eth_getBalance" in " ".join(view.problems)


def test_an_old_head_is_a_doubt(pair: Bench) -> None:
    head = pair.direct.eth.get_block("latest")["timestamp"]
    policy = ViewRule(agree=1, max_head_age_s=240)
    late = Agreement(pair.endpoints, policy, wall_clock=lambda: head + 300.0)
    doubt = late.look().doubt
    assert doubt is not None
    assert "is 300 s old (max_head_age_s = 240)" in doubt
    assert pair.metrics.value("head_age_seconds") == 300
    assert Agreement(pair.endpoints, policy, wall_clock=lambda: head + 30.0).look().doubt is None
    ahead = Agreement(pair.endpoints, policy, wall_clock=lambda: head - 300.0).look().doubt
    assert ahead is not None
    assert "clock" in ahead


def test_tags_of_the_chain(pair: Bench) -> None:
    pair.mine(100)
    head = pair.direct.eth.block_number
    numbers = {
        finality: pair.view(finality=finality, depth=3).look().block.number
        for finality in ("confirmations", "safe", "finalized")
    }
    assert numbers == {"confirmations": head - 3, "safe": head - 32, "finalized": head - 64}


def test_a_chain_that_does_not_finalize_is_read_by_confirmations(pair: Bench) -> None:
    pair.mine(40)
    pair.direct.provider.make_request("evm_increaseTime", [4000])  # type: ignore[arg-type]
    pair.mine(1)
    look = pair.view(finality="safe", depth=1).look()
    assert look.block.number == pair.direct.eth.block_number - 1
    assert look.doubt is not None
    assert "the last safe block" in look.doubt


def test_a_transaction_goes_to_every_endpoint(pair: Bench) -> None:
    pair.proxies[0].always = Trouble.DROPPED
    manager = TransactionManager(
        pair.web3, Account.from_key(pair.anvil.keys[3]), Database(None), chain_id=31337, poll_s=0.02
    )
    for _ in range(5):  # the endpoint may take it and lose the answer; then it is mined under the first nonce
        before = pair.web3.eth.get_transaction_count(Account.from_key(pair.anvil.keys[3]).address)
        assert manager.send(Call("pay", WHO, b"", 5)).gas_used == 21000
        assert pair.web3.eth.get_transaction_count(Account.from_key(pair.anvil.keys[3]).address) == before + 1


def test_a_nonce_that_no_other_endpoint_has_reached_is_not_used(pair: Bench) -> None:
    pair.proxies[0].always = Trouble.LYING
    account = Account.from_key(pair.anvil.keys[4])
    manager = TransactionManager(pair.web3, account, Database(None), chain_id=31337, poll_s=0.02)
    assert manager.send(Call("pay", WHO, b"", 5), timeout_s=20).gas_used == 21000


def test_an_endpoint_of_another_chain_is_refused(module_anvil: Anvil, proxies: list[FaultProxy]) -> None:
    with pytest.raises(WrongChain, match=r"RPC .* serves chain 31337, not 1"):
        connect([proxies[0].url, proxies[1].url], 1)
    assert isinstance(connect([proxies[0].url, "http://127.0.0.1:9"], 31337).provider, Endpoints)


def test_the_wrong_chain_is_said_before_a_missing_file(module_anvil: Anvil, tmp_path: Path) -> None:
    settings = load_settings(rpc_url=module_anvil.url, chain_id=1, deployment=tmp_path / "missing.json")
    with pytest.raises(WrongChain, match="serves chain 31337, not 1"):
        open_client(settings)


def test_a_header_that_drips_is_given_up() -> None:
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not done.is_set():
                    caller = server.accept()[0]
                    caller.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                    while not done.is_set():
                        caller.sendall(b"a")
                        time.sleep(0.1)

        threading.Thread(target=drip, daemon=True).start()
        with pytest.raises(RpcUnavailable, match="not answered within"):
            connect(f"http://127.0.0.1:{server.getsockname()[1]}", 31337, timeout_s=0.5)
        done.set()


def test_one_endpoint_takes_as_many_requests_as_before(
    module_anvil: Anvil, proxies: list[FaultProxy]
) -> None:
    bench = Bench(module_anvil, proxies[:1])
    view, asked = bench.view(), proxies[0].asked
    asked.clear()
    view.look()
    assert dict(asked) == {"eth_getBlockByNumber": 1}


def test_each_further_endpoint_takes_a_request_for_a_look(three: Bench) -> None:
    view = three.view(agree=2)
    view.look()
    for proxy in three.proxies:
        proxy.asked.clear()
    view.look()
    assert [dict(proxy.asked) for proxy in three.proxies] == [{"eth_getBlockByNumber": 1}] * 3


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"rpc_url": "http://a,http://b", "agree": 3}, "agree = 3, but rpc_url names 2"),
        ({"rpc_url": "http://a,http://a"}, "named twice"),
        ({"rpc_url": "http://a ws://b"}, "only http"),
        ({"rpc_url": ""}, "0 endpoints"),
        ({"finality": "soon"}, "finality"),
    ],
)
def test_settings_that_make_no_sense(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_settings(**values)


def test_endpoints_in_file_variable_and_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assay.toml").write_text('rpc_url = ["http://a", "http://b", "http://c"]\nchain_id = 1\n')
    settings = load_settings()
    assert settings.rpc_url == ("http://a", "http://b", "http://c")
    assert (settings.view_policy.agree, settings.view_policy.max_head_age_s) == (2, 240)
    monkeypatch.setenv("ASSAY_RPC_URL", "http://d,http://e")
    assert load_settings().rpc_url == ("http://d", "http://e")
    assert load_settings(rpc_url="http://f", agree=1).view_policy.agree == 1


def test_an_answer_that_made_no_sense_is_not_held_against_others(pair: Bench) -> None:
    """The deployment is read again after a broken answer, and only what was understood is compared later."""
    client = ChainClient(pair.web3, DEPLOYMENT)
    for proxy in pair.proxies:
        proxy.always = Trouble.NONSENSE
    with pytest.raises(ChainError):
        client.verify()
    assert client.constants.kept == []
