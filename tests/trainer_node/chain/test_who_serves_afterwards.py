"""Attack: the endpoint that serves answers with lies, and then not at all, so that another one serves. Who serves
counted as one that agrees; but it was never asked for what had been read before, and the liar confirmed itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from eth_account import Account
from web3 import Web3

from tests.conftest import Anvil
from trainer_node.chain import ChainClient, ViewRule
from trainer_node.chain.agreement import Agreement
from trainer_node.chain.coders import event_coders
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.chain.events import EventCache, Query
from trainer_node.chain.recorded_reads import Notes
from trainer_node.errors import ChainError, Disagreement
from trainer_node.storage.database import Database

from .endpoint import ADDRESS, DEPLOYMENT
from .test_one_liar_of_three import SEVEN, Selective, endpoints
from .test_one_liar_of_three import blocks as blocks  # a fixture

ONE = "0x" + "00" * 31 + "01"
NOT_NOW: dict[str, Any] = {"result": None, "error": {"code": -32000, "message": "not now"}}


def refuses_once(liar: Selective, method: str) -> None:
    """Let the endpoint lie about this method, but for the next request, which it refuses."""
    lie, left = liar.lies[method], [1]

    def answer(true: dict[str, Any]) -> dict[str, Any]:
        if left:
            left.pop()
            return NOT_NOW
        found: dict[str, Any] = lie(true) if callable(lie) else {"result": lie}
        return found

    liar.lies[method] = answer


@pytest.mark.parametrize("first", [0, 1, 2])
def test_what_it_has_said_is_not_confirmed_by_who_takes_over(module_anvil: Anvil, first: int) -> None:
    with endpoints(module_anvil) as (web3, made):
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        snapshot, provider = client.snapshot(), endpoints_of(web3)
        liar = provider.serving = provider.every[first]
        made[first].lies["eth_call"] = ONE
        assert snapshot.job_count() == 1, "that is the lie"
        refuses_once(made[first], "eth_call")
        assert snapshot.commit_age() == 7
        assert provider.serving is not liar
        for _ in range(2):
            with pytest.raises(Disagreement):
                snapshot.confirm()
        made[first].lies.clear()
        with pytest.raises(Disagreement):
            snapshot.confirm()
        snapshot = client.snapshot()
        assert (snapshot.job_count(), snapshot.commit_age()) == (7, 7)
        snapshot.confirm(heeding_doubt=False)  # as in every round while they contradict each other
        client.snapshot().confirm()


def test_what_two_have_read_is_confirmed_if_most_say_the_same(module_anvil: Anvil) -> None:
    with endpoints(module_anvil) as (web3, made):
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        snapshot, provider = client.snapshot(), endpoints_of(web3)
        before = provider.serving
        assert snapshot.job_count() == 7
        made[provider.every.index(before)].lies["eth_call"] = "0x" + "00" * 31 + "07"
        refuses_once(made[provider.every.index(before)], "eth_call")
        assert snapshot.commit_age() == 7
        assert provider.serving is not before
        snapshot.confirm()


def test_who_has_given_all_is_not_asked_again(module_anvil: Anvil) -> None:
    with endpoints(module_anvil) as (web3, made):
        view, provider, notes = Agreement(endpoints_of(web3), ViewRule(agree=3)), endpoints_of(web3), Notes()
        look = view.look()
        with provider.noting(notes.add):
            web3.eth.get_balance(Web3.to_checksum_address(ADDRESS), look.block.number)
        view.confirm(look.block, notes.kept)
        assert [one.asked["eth_getBalance"] for one in made] == [1, 1, 1]


def test_events_that_two_have_read_are_not_kept_on_the_word_of_one(
    module_anvil: Anvil, blocks: Callable[..., Any]
) -> None:
    with endpoints(module_anvil) as (web3, made):
        cache = EventCache(Database(None), depth=8)
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2), cache=cache, log_range=30)
        query = Query(client.contracts.timekeeper, (), None)
        known = event_coders(client.contracts.timekeeper).items()
        topic, coder = next((topic, coder) for topic, coder in known if not coder._indexed)
        size = 32 * len(coder._types[1])
        blocks("anvil_setCode", ADDRESS, f"0x7f{topic.hex()}61{size:04x}5fa100")  # logs this event
        blocks("eth_sendTransaction", {"from": Account.from_key(module_anvil.keys[3]).address, "to": ADDRESS})
        blocks("anvil_setCode", ADDRESS, SEVEN)
        number = int(blocks("eth_blockNumber")["result"], 16)
        blocks("anvil_mine", hex(80), hex(12))
        snapshot, provider = client.snapshot(), endpoints_of(web3)
        liar, refused = made[provider.every.index(provider.serving)], list[int]()

        def hides(true: dict[str, Any]) -> dict[str, Any]:
            return {"result": []}

        def about(request: dict[str, Any]) -> bool:
            if request["method"] != "eth_getLogs":
                return False
            ends = int(request["params"][0]["toBlock"], 16)
            if ends > number + 30 and not refused:
                refused.append(ends)
                liar.lies["eth_getLogs"] = lambda _: NOT_NOW
                return True
            liar.lies["eth_getLogs"] = hides
            return ends <= number + 30

        liar.about = about
        liar.lies["eth_getLogs"] = hides
        snapshot._events(query)
        assert refused, "another one has taken over"
        liar.lies.clear()
        liar.about = lambda _: True
        assert len(client.snapshot()._events(query)) == 1, "nothing that one has hidden is kept"


def test_who_lies_once_a_look_and_says_the_truth_when_asked_again_serves_no_longer(
    module_anvil: Anvil, blocks: Callable[..., Any]
) -> None:
    """It knows the first request of a look from the repetition: the newest block is asked for before."""
    with endpoints(module_anvil) as (web3, made):
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        provider, liar, fresh = endpoints_of(web3), made[0], [True]
        honest = int(client.snapshot().job_count())
        liar.lies["eth_call"] = ONE

        def once(request: dict[str, Any]) -> bool:
            if request["method"] == "eth_getBlockByNumber" and request["params"][0] == "latest":
                fresh[:] = [True]
            return request["method"] == "eth_call" and bool(fresh) and fresh.pop()

        liar.about = once
        seen = list[int]()
        for _ in range(3):
            blocks("anvil_mine", hex(1), hex(12))
            snapshot = client.snapshot()
            seen.append(snapshot.job_count())
            with contextlib.suppress(ChainError):
                snapshot.confirm(heeding_doubt=False)
        assert honest != 1 == seen[0], "that is the lie"
        assert seen[1:] == [honest] * 2
        assert provider.serving.url != liar.url


@pytest.mark.parametrize("silent", [False, True])
def test_nobody_is_distrusted_for_what_a_liar_has_said(module_anvil: Anvil, *, silent: bool) -> None:
    """The attack: it fails one request after its lie, so that an honest one serves when the others contradict it; or it
    contradicts an honest one while the third is silent. From then on it says the truth, quicker than that one."""
    with endpoints(module_anvil) as (web3, made):
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        snapshot, provider = client.snapshot(), endpoints_of(web3)
        honest = provider.every[1]
        if silent:
            provider.serving = honest
            assert snapshot.job_count() == 7
            made[0].lies["eth_call"] = ONE
            made[2].lies["eth_call"] = lambda _: {"id": None}  # it answers something else
        else:
            made[0].lies["eth_call"] = ONE
            assert snapshot.job_count() == 1
            refuses_once(made[0], "eth_call")
            snapshot.commit_age()
        assert provider.serving is honest
        with pytest.raises(Disagreement) as refused:
            snapshot.confirm()
        assert refused.value.contradicted
        for one in made:
            one.lies.clear()
        hold = threading.Event()
        made[1].about, made[1].lies["eth_call"] = (lambda _: True), lambda true: true if hold.wait(60) else {}
        ended = False
        for _ in range(6):
            snapshot = client.snapshot()
            if provider.serving is not honest:
                snapshot.job_count()
                snapshot.confirm(heeding_doubt=False)
                ended = True
            assert honest not in client.agreement._odd
        hold.set()
        assert ended
        assert not client.agreement.conflict
