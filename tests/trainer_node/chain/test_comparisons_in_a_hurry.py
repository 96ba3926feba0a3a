"""Attack: strangers open matches or pay for requests, so that what was read is compared before moves are made, and the
other endpoint answers each request as late as it may."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Anvil
from tests.support.clock import Clock
from trainer_node.chain import ChainClient, Snapshot, ViewRule, connect
from trainer_node.chain.differences import SHARE, SHORT_S, WITHIN_S
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.errors import NotAsked, RpcUnavailable

from .endpoint import DEPLOYMENT
from .test_one_liar_of_three import Selective
from .test_one_liar_of_three import blocks as blocks  # a fixture


@pytest.fixture
def slow(module_anvil: Anvil) -> Any:
    """Return a client of two endpoints, the clock, and the second endpoint, each of whose views takes ``wait_s``."""
    with Selective(module_anvil.url) as one, Selective(module_anvil.url) as other:
        web3 = connect([one.url, other.url], 31337)
        clock, takes = Clock(), [9.0]
        endpoints_of(web3).clock = clock

        def late(true: dict[str, Any]) -> dict[str, Any]:
            clock.sleep(takes[0])
            return true

        other.lies["eth_call"] = late
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        yield client, clock, takes


def look(client: ChainClient, notes: int) -> Snapshot:
    snapshot = client.snapshot()
    assert endpoints_of(client.web3).serving is endpoints_of(client.web3).every[0]
    for number in range(notes):
        snapshot.committed_at(number, b"\1" * 32)
    return snapshot


def test_one_is_given_up_and_others_wait(slow: Any) -> None:
    client, clock, takes = slow
    snapshot, began = look(client, 200), clock()
    with pytest.raises(RpcUnavailable):
        snapshot.confirm(hurried=True)
    took = clock() - began
    assert WITHIN_S <= took <= WITHIN_S + takes[0]
    for _ in range(3):
        with pytest.raises(NotAsked):
            snapshot.confirm(hurried=True)
    assert clock() - began == took, "nobody asks again yet"
    clock.sleep((SHARE - 1) * took)
    again = clock()
    with pytest.raises(RpcUnavailable):
        snapshot.confirm(hurried=True)
    assert clock() - again > took, "an honest one may be slow: there is more time then"


def test_what_stakes_money_has_all_the_time_that_it_takes(slow: Any) -> None:
    client, clock, takes = slow
    snapshot, began = look(client, 20), clock()
    snapshot.confirm()
    assert clock() - began >= 20 * takes[0]


def test_short_ones_wait_for_nothing(slow: Any) -> None:
    client, _, takes = slow
    takes[0] = SHORT_S / 10
    for _ in range(3):
        look(client, 5).confirm(hurried=True)
