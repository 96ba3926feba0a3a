"""Attack: the endpoint that serves lies in a look and, once others are asked to confirm it, does not say again what it
has said. That counted as their failure, so nobody contradicted it, and it served for good."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from tests.conftest import Anvil
from tests.support.clock import Clock
from trainer_node.chain import ChainClient, ViewRule, connect
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.errors import ChainError, Disagreement

from .endpoint import DEPLOYMENT
from .test_one_liar_of_three import Selective
from .test_one_liar_of_three import blocks as blocks  # a fixture

ONE = "0x" + "00" * 31 + "01"
POLL_S = 2.0


class Refusing(Selective):
    """Gives each view once in a look as `ONE`, and is asked for it again in the way that ``how`` says."""

    def __init__(self, upstream: str, how: str) -> None:
        super().__init__(upstream)
        self.how, self.said = how, set[str]()

    def answer(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        method, params = request["method"], request["params"]
        if method == "eth_getBlockByNumber" and params[0] == "latest":
            self.said.clear()  # a look begins
        elif method == "eth_getBlockByNumber" and self.how == "replaced" and self.said:
            self._gives(handler, request, None)
            return
        if method != "eth_call" or (self.how == "replaced" and str(params) in self.said):
            super().answer(handler, request)
        elif str(params) not in self.said:
            self.said.add(str(params))
            self._gives(handler, request, ONE)
        elif self.how == "closed":
            handler.close_connection = True
        else:
            self._send(handler, int(self.how), b"no")

    def _gives(self, handler: BaseHTTPRequestHandler, request: dict[str, Any], result: object) -> None:
        self._send(
            handler, 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
        )


@pytest.mark.parametrize("how", ["413", "500", "closed", "replaced"])
def test_who_does_not_say_its_lie_again_is_contradicted(
    module_anvil: Anvil, blocks: Callable[..., Any], how: str
) -> None:
    with ExitStack() as stack:
        made = [stack.enter_context(Refusing(module_anvil.url, how))]
        made += [stack.enter_context(Selective(module_anvil.url)) for _ in range(2)]  # type: ignore[misc]
        clock = Clock()
        web3 = connect([one.url for one in made], 31337, clock=clock, sleep=clock.sleep)
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        seen, refused = list[int](), list[tuple[int, Any]]()
        for _ in range(6):
            blocks("anvil_mine", hex(1), hex(12))
            snapshot = client.snapshot()
            seen.append(snapshot.job_count())
            try:
                snapshot.confirm(heeding_doubt=False)
            except ChainError as error:
                refused.append((seen[-1], error.contradicted if isinstance(error, Disagreement) else error))
            clock.sleep(POLL_S)
        assert seen[0] == 1, "that is the lie"
        assert set(refused) == {(1, True)}, "each lie is contradicted, and nothing else is"
        assert seen[-2:] == [7, 7]
        client.snapshot().confirm()
        assert any(endpoints_of(web3).every[0].name in told for told in client.agreement.problems)


def test_what_who_asks_has_no_more_contradicts_nobody(
    module_anvil: Anvil, blocks: Callable[..., Any]
) -> None:
    """A block is replaced while it is compared: the others may have read either chain."""
    with ExitStack() as stack:
        made = [stack.enter_context(Selective(module_anvil.url)) for _ in range(2)]
        clock = Clock()
        web3 = connect([one.url for one in made], 31337, clock=clock, sleep=clock.sleep)
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        snapshot, other = client.snapshot(), made[1]
        assert snapshot.job_count() == 7

        def replaced(true: dict[str, Any]) -> dict[str, Any]:
            other.lies["eth_getBlockByNumber"] = lambda now: {
                "result": {**now["result"], "hash": "0x" + "11" * 32}
            }
            return {"result": ONE}

        other.lies["eth_call"] = replaced
        with pytest.raises(Disagreement) as refused:
            snapshot.confirm()
        assert not refused.value.contradicted
        assert not client.agreement.conflict
