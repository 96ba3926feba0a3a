"""Attack: an endpoint lies in the looks that it serves, stands by that, and confirms the truth in all others, so that a
contradiction ended with a look in which nobody saw it lie, and it served again at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from tests.conftest import Anvil
from tests.support.clock import Clock
from trainer_node.chain import ChainClient, ViewRule, connect
from trainer_node.chain.agreement import DISTRUST_S
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.errors import ChainError

from .endpoint import DEPLOYMENT
from .test_one_liar_of_three import Selective
from .test_one_liar_of_three import blocks as blocks  # a fixture

ONE = "0x" + "00" * 31 + "01"
COMPARE_S, POLL_S = 60.0, 2.0


def test_whom_two_others_contradict_serves_no_longer(module_anvil: Anvil, blocks: Callable[..., Any]) -> None:
    with ExitStack() as stack:
        made = [stack.enter_context(Selective(module_anvil.url)) for _ in range(3)]
        clock = Clock()
        web3 = connect([one.url for one in made], 31337, clock=clock, sleep=clock.sleep)
        client = ChainClient(web3, DEPLOYMENT, policy=ViewRule(agree=2))
        provider, seen, compare_at = endpoints_of(web3), list[int](), 0.0
        rounds = int(4 * DISTRUST_S / POLL_S)
        for _ in range(rounds):
            clock.sleep(POLL_S)
            blocks("anvil_mine", hex(1), hex(12))
            snapshot = client.snapshot()
            # NOTE: it knows, since a comparison begins with the block, by its number.
            made[0].lies = {"eth_call": ONE} if provider.serving.url == made[0].url else {}
            seen.append(snapshot.job_count())
            if client.agreement.conflict or (snapshot.doubt is None and clock() >= compare_at):
                compare_at = clock() + COMPARE_S
                with suppress(ChainError):
                    snapshot.confirm(heeding_doubt=False)
        assert seen[0] == 1, "that is the lie"
        # NOTE: once it is distrusted no longer, what it serves is compared in that look or the next one.
        assert seen.count(1) <= 2 * rounds * POLL_S / DISTRUST_S
