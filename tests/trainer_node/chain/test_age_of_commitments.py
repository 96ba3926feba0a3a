"""Attack: the endpoint that serves answers the first question for the least age of a commitment with a lie. That was
kept as long as the process ran: no challenge would come in time, so none was made, and every lie was accepted."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Anvil
from tests.trainer_node.slow import Hand
from trainer_node.chain import ChainClient, connect
from trainer_node.chain.connection import ASKED_S
from trainer_node.errors import ChainError
from trainer_node.roles.acceptance import Acceptance
from trainer_node.roles.sampling.sampler import Samples

from .endpoint import DEPLOYMENT
from .liar import Liar
from .test_one_liar_of_three import blocks as blocks  # a fixture
from .test_one_liar_of_three import endpoints

LIE, TRUE = 2**31 - 1, 7


def lies(liar: Liar) -> None:
    liar.lies["eth_call"] = f"0x{LIE:064x}"


def of_a_challenger(client: ChainClient) -> int:
    made: Any = object.__new__(Acceptance)
    made._node = SimpleNamespace(client=client)
    return int(made._commit_age)


def of_a_sampler(client: ChainClient) -> float:
    made: Any = object.__new__(Samples)
    made._node = SimpleNamespace(client=client)
    made._settings = SimpleNamespace(latency_s=1.0, max_check_cpu_h=0, worker_threads=1)
    return float(made.means().commit_age)


@pytest.mark.parametrize("age", [of_a_challenger, of_a_sampler])
def test_of_three_one_lie_is_not_believed(
    module_anvil: Anvil, blocks: Callable[..., Any], age: Callable[[ChainClient], float]
) -> None:
    with endpoints(module_anvil) as (web3, (liar, *_)):
        client = ChainClient(web3, DEPLOYMENT)
        lies(liar)
        assert age(client) == TRUE
        liar.lies.clear()
        assert age(client) == TRUE


def test_of_two_one_lie_counts_for_a_while(module_anvil: Anvil, blocks: Callable[..., Any]) -> None:
    clock = Hand()
    with Liar(module_anvil.url) as liar:
        client = ChainClient(connect([liar.url, module_anvil.url], 31337, clock=clock), DEPLOYMENT)
        lies(liar)
        assert client.commit_age() == LIE, "nobody can tell"
        liar.lies.clear()
        before = liar.asked.total()
        assert client.commit_age() == LIE
        assert liar.asked.total() == before, "a round asks for it many times"
        clock.on(ASKED_S)
        assert client.commit_age() == TRUE
        lies(liar)
        clock.on(10 * ASKED_S)
        assert client.commit_age() == TRUE, "both have said so"


def test_where_nobody_answers_any_more_it_stays(module_anvil: Anvil, blocks: Callable[..., Any]) -> None:
    clock = Hand()
    with Liar(module_anvil.url) as one, Liar(module_anvil.url) as other:
        client = ChainClient(connect([one.url, other.url], 31337, clock=clock), DEPLOYMENT)
        one.lies["eth_call"] = other.lies["eth_call"] = "0x"
        with pytest.raises(ChainError):
            client.commit_age()
        one.lies.clear()
        assert client.commit_age() == TRUE
        one.lies["eth_call"] = "0x"
        clock.on(ASKED_S)
        assert client.commit_age() == TRUE


def test_one_endpoint_is_asked_once(module_anvil: Anvil, blocks: Callable[..., Any]) -> None:
    with Liar(module_anvil.url) as only:
        client = ChainClient(connect(only.url, 31337), DEPLOYMENT)
        assert client.commit_age() == TRUE
        before = only.asked.total()
        assert client.commit_age() == TRUE
        assert only.asked.total() == before
