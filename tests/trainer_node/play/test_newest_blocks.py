"""Attack: the endpoint that serves shows all blocks that count as they are, and lies about the newest one alone, which
nobody confirms: that a commitment, a refutation or an answer of ours is there already. So it would never be sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Anvil
from trainer_node.chain import Call, ChainClient, Snapshot, ViewRule
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.chain.events import Query
from trainer_node.daemon.due import Due
from trainer_node.errors import RpcRefused
from trainer_node.play.jobs import JobPlayer

from ..chain.endpoint import ADDRESS, DEPLOYMENT
from ..chain.test_one_liar_of_three import endpoints

NOTHING = "0x5f5f5260205ff3"
"""A contract whose views all answer 0."""


def test_a_commitment_that_one_endpoint_has_made_up_is_made(module_anvil: Anvil) -> None:
    with endpoints(module_anvil) as (web3, (liar, *_)):
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(depth=3, agree=2))
        ask: Callable[..., Any] = lambda method, *params: web3.provider.make_request(method, list(params))  # noqa: E731
        ask("anvil_setCode", ADDRESS, NOTHING)
        ask("anvil_mine", hex(10), hex(12))
        snapshot = client.snapshot()
        head = hex(snapshot.block.number + 3)
        liar.about = lambda request: request["method"] == "eth_call" and request["params"][1] == head
        liar.lies["eth_call"] = "0x" + "00" * 31 + "09"
        assert endpoints_of(web3).serving.url == liar.url
        assert client.at_head().committed_at(1, b"\1" * 32) == 9, "that is the lie"
        player: Any = object.__new__(JobPlayer)
        player._node = SimpleNamespace(client=client)
        player._jobs, player._committed = client.contracts.jobs, defaultdict(dict)
        claim, job = Due(Call("challenge", None, b"")), SimpleNamespace(id=1)
        (due,) = player._opened(job, b"\1" * 32, claim, None)
        assert due.call.action == "commitChallenge"
        snapshot.confirm()


@pytest.mark.parametrize("able", [0, 2])
def test_who_alone_gives_logs_decides_where_the_others_refuse_them(module_anvil: Anvil, able: int) -> None:
    """Quotas for logs end in the midst of a match. An answer is due all the same; what may cost a price twice waits."""
    with endpoints(module_anvil) as (web3, made):
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        query = Query(client.contracts.timekeeper, (), None)
        for one, endpoint in zip(made, endpoints_of(web3).every, strict=True):
            endpoint._sleep = lambda _: None
            if one is not made[able]:
                words = {"code": -32601, "message": "method not available on this plan"}
                one.lies["eth_getLogs"] = lambda _, error=words: {"result": None, "error": error}
        snapshot = client.snapshot()
        made[able].wait_s = 0.2  # the refusals come first

        def events(head: Snapshot) -> int:
            return len(head._events(query))

        assert client.newest(events, alone=True) == events(snapshot)
        with pytest.raises(RpcRefused):
            client.newest(events)
