"""Attack: the endpoint that serves lies in one look (a slot's training ends at once, say), and tells the truth once
the others have it asked again. Nobody contradicted it then, and what cannot wait went out on the lie: a slot was
given back, for a 32nd of its stake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Anvil
from trainer_node.chain import ChainClient, ViewRule
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.daemon.job_turns import JobTurns
from trainer_node.errors import Disagreement

from .endpoint import DEPLOYMENT
from .test_one_liar_of_three import blocks as blocks  # a fixture
from .test_one_liar_of_three import endpoints

ONE = "0x" + "00" * 31 + "01"
AGAIN: dict[str, object] = {
    "the truth": None,
    "an error": lambda _: {"result": None, "error": {"code": -32000, "message": "no"}},
    "the lie": ONE,
}


@pytest.mark.parametrize("again", AGAIN)
def test_an_act_that_cannot_wait_waits_while_two_of_three_say_otherwise(
    module_anvil: Anvil, blocks: Callable[..., Any], again: str
) -> None:
    blocks("anvil_mine", hex(1), hex(12))
    with endpoints(module_anvil) as (web3, (liar, *_)):
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        snapshot = client.snapshot()
        assert endpoints_of(web3).serving.url == liar.url
        liar.lies["eth_call"] = ONE
        assert snapshot.job_count() == 1, "that is the lie"
        liar.lies.clear()
        if AGAIN[again] is not None:
            liar.lies["eth_call"] = AGAIN[again]
        with pytest.raises(Disagreement) as refused:
            snapshot.confirm(heeding_doubt=False)
        assert refused.value.contradicted
        turns: Any = object.__new__(JobTurns)
        assert turns._unconfirmed(snapshot, urgent=True) is not None
        liar.lies.clear()
        snapshot = client.snapshot()
        assert snapshot.job_count() == 7
        assert turns._unconfirmed(snapshot, urgent=True) is None
