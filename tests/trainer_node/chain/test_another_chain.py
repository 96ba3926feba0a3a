"""Endpoints that name another chain than the settings do: they are left alone, and keep nobody from starting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import Anvil
from trainer_node.chain import ViewRule, connect
from trainer_node.chain.agreement import Agreement
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.errors import RpcUnavailable, WrongChain

from .liar import Liar

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def others(module_anvil: Anvil) -> Iterator[list[Liar]]:
    """Two endpoints that name chain 1."""
    with ExitStack() as stack:
        made = [stack.enter_context(Liar(module_anvil.url)) for _ in range(2)]
        for one in made:
            one.lies["eth_chainId"] = "0x1"
        yield made


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_right_endpoint_is_enough_to_start(module_anvil: Anvil, others: list[Liar], place: int) -> None:
    """Wherever it stands, however many name another chain, it serves, and the others are told."""
    for wrong in (others[:1], others):
        if place > len(wrong):
            continue
        urls = [one.url for one in wrong]
        urls.insert(place, module_anvil.url)
        web3 = connect(urls, 31337)
        endpoints = endpoints_of(web3)
        assert endpoints.serving.url == module_anvil.url
        assert [endpoint.url for endpoint in endpoints.ours] == [module_anvil.url]
        for one in wrong:
            one.asked.clear()
        assert web3.eth.block_number >= 0
        assert not any(one.asked for one in wrong), "nobody asks them for what is read"
        view = Agreement(endpoints, ViewRule(agree=1))
        assert (view.look().doubt, endpoints.serving.url) == (None, module_anvil.url)
        assert sum("serves chain 1, not 31337" in told for told in view.problems) == len(wrong)


def test_of_two_the_other_one_is_missing_for_stakes(module_anvil: Anvil, others: list[Liar]) -> None:
    view = Agreement(endpoints_of(connect([others[0].url, module_anvil.url], 31337)), ViewRule(agree=2))
    for _ in range(3):
        assert "1 of 2 endpoints show block" in str(view.look().doubt)


def test_one_that_comes_to_our_chain_is_heard_again(module_anvil: Anvil, others: list[Liar]) -> None:
    endpoints = endpoints_of(connect([others[0].url, module_anvil.url], 31337))
    view = Agreement(endpoints, ViewRule(agree=2))
    assert view.look().doubt is not None
    others[0].lies.clear()
    assert (view.look().doubt, view.problems) == (None, [])
    assert len(endpoints.ours) == 2


def test_where_all_that_answer_name_another_chain_nobody_starts(others: list[Liar]) -> None:
    for wrong in (others[:1], others):
        with pytest.raises(WrongChain, match="serves chain 1, not 31337"):
            connect([one.url for one in wrong], 31337)
    # One that does not answer yet may be the right one: that is waited for.
    with pytest.raises(RpcUnavailable, match=r"127\.0\.0\.1:9.*serves chain 1, not 31337"):
        connect([others[0].url, NOBODY], 31337)
